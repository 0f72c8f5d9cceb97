"""Terms of partial differential equations: derivatives in space of functions of the fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any

from cindy import _check
from cindy.basis.base import Basis, Functions, check_size
from cindy.basis.parameter import Parameter
from cindy.basis.polynomial import Polynomial
from cindy.basis.term import Factor, Term, product, spatial, term_variables
from cindy.errors import DataError

__all__ = ["Derivatives"]

HIGHEST_ORDER = 8
"""Each order takes a smoother test function, and noise drowns what lies beyond."""


@dataclass(frozen=True)
class Derivatives(Basis):
    """Derivatives up to an order of the monomials up to a degree, in the fields and the inputs.

    A term is D^a g(u): "u_xx", "(u^2)_x", "u"; products such as u u_x stand here as (u^2)_x.

    degree: of the monomials; 0: none, where `of` says it all
    order: of the derivatives, over all axes together
    of: further functions to take derivatives of, such as Trigonometric(1) or Custom({"decay": "exp(-u)"})
    products: also the products that are no derivative of a function: u_x^2, u_x v_x, u v_x. Their
        derivatives are estimated at the samples, so they bear much less noise than the others
    bias: whether the constant 1 is among the terms
    axes: names of the axes of space; those of the data if not given

    >>> Derivatives(2, 2).on_axes(("x",)).names(("u",))
    ('1', 'u', 'u^2', 'u_x', '(u^2)_x', 'u_xx', '(u^2)_xx')
    """

    degree: int
    order: int
    of: Basis | None = None
    products: bool = False
    bias: bool = True
    axes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check.integer(self.degree, "Derivatives: degree", least=0)
        _check.integer(self.order, "Derivatives: order", least=0)
        if self.order > HIGHEST_ORDER:
            raise DataError(f"Derivatives: order must be at most {HIGHEST_ORDER}, but is {self.order}.")
        if self.of is not None and not isinstance(self.of, Basis):
            raise DataError(
                f"Derivatives: `of` must be a basis such as Trigonometric(1), but is {self.of!r}."
            )
        if self.degree == 0 and self.of is None:
            raise DataError(
                "Derivatives: a degree of 0 leaves only the constant. Give a degree of at least 1."
            )
        object.__setattr__(
            self, "axes", _check.unique_names(self.axes, "Derivatives: axes") if self.axes else ()
        )

    def on_axes(self, axes: tuple[str, ...]) -> Derivatives:
        """The basis on data with these axes of space."""
        if any(axis not in axes for axis in self.axes):
            raise DataError(
                f"{self!r} speaks of the axes {', '.join(self.axes)}, but the data have {', '.join(axes)}."
            )
        return self if self.axes else replace(self, axes=axes)

    def unknowns(self) -> tuple[Parameter, ...]:
        return () if self.of is None else self.of.unknowns()

    def parameter_names(self) -> frozenset[str]:
        return frozenset() if self.of is None else self.of.parameter_names()

    def _at(self, values: Mapping[str, float]) -> Basis:
        return self if self.of is None else replace(self, of=self.of._at(values))

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        axes = self.axes or ("x",)
        inner = [g for g in Polynomial(self.degree).terms(variables) if g]
        if self.of is not None:
            inner += [g for g in self.of.terms(variables) if g]
        inner = list(dict.fromkeys(inner))
        orders = [by for order in range(self.order + 1) for by in combinations_with_replacement(axes, order)]
        check_size(len(inner) * len(orders), self)
        found: list[Term] = [()] if self.bias else []
        for by in orders:
            # A derivative of coordinates alone is a constant, or a power that is there already.
            found += [
                (spatial(g, by),) if by else g for g in inner if not by or term_variables(g) - set(axes)
            ]
        if self.products:
            found += self._products(variables, axes)
        return tuple(dict.fromkeys(found))

    def _products(self, variables: tuple[str, ...], axes: tuple[str, ...]) -> list[Term]:
        """Products of first derivatives, and of a field and another's first derivative."""
        fields = [Factor("variable", (name,)) for name in variables if name not in axes]
        slopes = [spatial((f,), (axis,)) for f in fields for axis in axes]
        pairs = [product(pair, variables) for pair in combinations_with_replacement(slopes, 2)]
        # u v_x + v u_x is (u v)_x, so one of the two is enough.
        mixed = [
            product((f, spatial((g,), (axis,))), variables)
            for i, f in enumerate(fields)
            for g in fields[i + 1 :]
            for axis in axes
        ]
        return [*mixed, *pairs]

    def to_dict(self) -> dict[str, Any]:
        return {
            "basis": "Derivatives",
            "degree": self.degree,
            "order": self.order,
            "of": None if self.of is None else self.of.to_dict(),
            "products": self.products,
            "bias": self.bias,
            "axes": list(self.axes),
        }

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        of = data["of"]
        inner = None if of is None else cls.from_dict(of, functions)
        rest = {key: data[key] for key in ("degree", "order", "products", "bias")}
        return cls(**rest, of=inner, axes=tuple(data["axes"]))

    def __repr__(self) -> str:
        options = [f"of={self.of!r}"] if self.of is not None else []
        options += ["products=True"] if self.products else []
        options += [] if self.bias else ["bias=False"]
        options += [f"axes={self.axes!r}"] if self.axes else []
        return f"Derivatives({', '.join([f'degree={self.degree}', f'order={self.order}', *options])})"
