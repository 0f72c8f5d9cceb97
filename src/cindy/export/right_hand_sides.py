"""Right-hand sides: what every exporter starts from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cindy._check import floats, unique_names
from cindy._types import Floats
from cindy.basis import Term, spatial, term_variables
from cindy.errors import DataError

__all__ = ["RightHandSides"]


@dataclass(frozen=True, eq=False)
class RightHandSides:
    """Terms with coefficients (terms, states), checked.

    errors: of the shape of coef; nan where unknown; with_errors: whether they are to be written
    order: 1 for x' = F, 2 for x'' = F
    discrete: whether F gives the next state instead of a derivative
    """

    terms: tuple[Term, ...]
    coef: Floats
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    errors: Floats
    with_errors: bool
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
        """errors: (terms, states), standard errors of the coefficients, for exporters that write them."""
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
        return cls(tuple(terms), values, names[:d], names[d:], spread, errors is not None, order, discrete)

    @property
    def rates(self) -> tuple[str, ...]:
        """Of all states where a term of x'' = F(x, x') holds one; none otherwise."""
        named = tuple(f"{state}'" for state in self.states)
        used = frozenset().union(*map(term_variables, self.terms)) - set(self.inputs)
        return named if self.order == 2 and used & set(named) else ()

    @property
    def variables(self) -> tuple[str, ...]:
        return self.states + self.rates + self.inputs

    def summands(self, equation: int) -> Iterator[tuple[float, float, Term]]:
        """(coefficient, its error, term) of one equation, where the coefficient is not zero."""
        for i in np.flatnonzero(self.coef[:, equation]):
            times, term = _shorter(self.terms[int(i)])
            yield times * float(self.coef[i, equation]), times * float(self.errors[i, equation]), term

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of space by which terms have derivatives; none for ordinary equations."""
        return tuple(dict.fromkeys(axis for term in self.terms for f in term for axis in f.by))


def _shorter(term: Term) -> tuple[float, Term]:
    """2 u u_x for (u^2)_x, which is longer to read; other terms as they are."""
    whole = term[0] if len(term) == 1 and term[0].power == 1 else None
    if whole is not None and whole.kind == "derivative" and len(whole.by) == 1 and len(whole.of) == 1:
        inner = whole.of[0]
        if inner.kind == "variable" and inner.power == 2:
            return 2.0, (inner.base, spatial((inner.base,), whole.by))
    return 1.0, term
