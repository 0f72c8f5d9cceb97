"""What every exporter starts from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cindy._check import floats, unique_names
from cindy._types import Floats
from cindy.basis import Term
from cindy.errors import DataError

__all__ = ["RightHandSides"]


@dataclass(frozen=True, eq=False)
class RightHandSides:
    """Terms with coefficients (terms, states), checked.

    errors: of the shape of coef; nan where unknown
    """

    terms: tuple[Term, ...]
    coef: Floats
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    errors: Floats
    order: int
    discrete: bool

    @classmethod
    def of(
        cls,
        terms: Sequence[Term],
        coef: Floats,
        states: Sequence[str],
        inputs: Sequence[str] = (),
        *,
        errors: Floats | None = None,
        order: int = 1,
        discrete: bool = False,
    ) -> RightHandSides:
        values = floats(coef, "export: coef", ndim=2)
        names = unique_names((*states, *inputs), "export: states and inputs")
        if values.shape != (len(terms), len(states)):
            raise DataError(
                f"export: coef must have shape ({len(terms)}, {len(states)}), terms by states, "
                f"but has {values.shape}."
            )
        spread = np.full(values.shape, np.nan) if errors is None else np.asarray(errors, dtype=np.float64)
        if spread.shape != values.shape:
            raise DataError(f"export: errors must have shape {values.shape}, but have {spread.shape}.")
        if order not in (1, 2):
            raise DataError(f"export: order must be 1 or 2, but is {order!r}.")
        d = len(states)
        return cls(tuple(terms), values, names[:d], names[d:], spread, order, discrete)

    @property
    def variables(self) -> tuple[str, ...]:
        return self.states + self.inputs

    def summands(self, equation: int) -> Iterator[tuple[float, float, Term]]:
        """(coefficient, its error, term) of one equation, where the coefficient is not zero."""
        for i in np.flatnonzero(self.coef[:, equation]):
            yield float(self.coef[i, equation]), float(self.errors[i, equation]), self.terms[int(i)]
