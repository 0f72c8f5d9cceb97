"""Families of terms: monomials, sines and cosines, their derivatives in space, and terms of single runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, combinations_with_replacement
from math import comb
from typing import Any

from cindy import _check
from cindy.basis.base import Basis, Composed, Functions, check_basis, check_size, from_dict
from cindy.basis.term import Factor, Term, product, shortest, spatial, term_variables
from cindy.errors import DataError

HIGHEST = 100
"""Higher powers of a state of a thousand are beyond floating point."""


@dataclass(frozen=True)
class Polynomial(Basis):
    """The monomials up to a degree, by degree and then in the order of the variables.

    bias: whether the constant 1 is among them
    interaction: whether products of different variables are among them; if not, only pure powers

    >>> Polynomial(2).names(("x", "y"))
    ('1', 'x', 'y', 'x^2', 'x y', 'y^2')
    """

    degree: int
    bias: bool = True
    interaction: bool = True

    def __post_init__(self) -> None:
        _check.integer(self.degree, "Polynomial: degree", least=0, most=HIGHEST)
        for name in ("bias", "interaction"):
            _check.instance(getattr(self, name), bool, f"Polynomial: {name}", "True or False")

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        d = len(variables)
        # Terms are counted before they are made: a degree of 30 in ten variables would fill the memory.
        check_size(comb(d + self.degree, d) if self.interaction else d * self.degree, self)
        factors = [Factor("variable", (name,)) for name in variables]
        result: list[Term] = [()] if self.bias else []
        for degree in range(1, self.degree + 1):
            pure = [(factor,) * degree for factor in factors]
            choices = combinations_with_replacement(factors, degree) if self.interaction else pure
            result.extend(product(choice, variables) for choice in choices)
        return tuple(result)

    def __repr__(self) -> str:
        options = [f"{name}=False" for name in ("bias", "interaction") if not getattr(self, name)]
        return f"Polynomial({', '.join([f'degree={self.degree}', *options])})"


@dataclass(frozen=True)
class Trigonometric(Basis):
    """The products of at most `degree` distinct factors out of sin s, cos s for every variable s.

    The constant 1 (no factor) and sin(x) cos(x) of one variable are among them, sin(x)^2 is not;
    Trigonometric(1) * Trigonometric(1) has all three.

    >>> Trigonometric(2).names(("x",))
    ('1', 'sin(x)', 'cos(x)', 'sin(x) cos(x)')
    """

    degree: int = 1

    def __post_init__(self) -> None:
        _check.integer(self.degree, "Trigonometric: degree", least=1)

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        waves = [factor for name in variables for factor in (Factor("sin", (name,)), Factor("cos", (name,)))]
        # A product of distinct factors has at most as many factors as there are waves.
        highest = min(self.degree, len(waves))
        check_size(sum(comb(len(waves), k) for k in range(highest + 1)), self)
        return tuple(choice for k in range(highest + 1) for choice in combinations(waves, k))


@dataclass(frozen=True)
class Fourier(Basis):
    """sin(k s) and cos(k s) for every variable s and frequency k; without the constant 1.

    frequencies: positive numbers, or a whole number n for 1, 2, …, n

    >>> Fourier([1, 2]).names(("x",))
    ('sin(x)', 'cos(x)', 'sin(2 x)', 'cos(2 x)')
    """

    frequencies: Sequence[float] | int

    def __post_init__(self) -> None:
        given = self.frequencies
        if isinstance(given, int):
            count = _check.integer(given, "Fourier: frequencies", least=1)
            check_size(count, self)
            given = range(1, count + 1)
        try:
            values = tuple(given)
        except TypeError as error:
            raise DataError(
                f"Fourier: frequencies must be a list of numbers, but is {_check.short(given)}."
            ) from error
        values = tuple(_check.positive(k, f"Fourier: frequencies[{i}]") for i, k in enumerate(values))
        if not values or len(set(values)) < len(values):
            raise DataError(f"Fourier: frequencies must be some distinct numbers, but are {list(values)}.")
        object.__setattr__(self, "frequencies", values)

    @property
    def _values(self) -> tuple[float, ...]:
        assert isinstance(self.frequencies, tuple)
        return self.frequencies

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        check_size(2 * len(variables) * len(self._values), self)
        return tuple(
            (factor,)
            for name in variables
            for k in self._values
            for factor in (Factor("sin", (name,), frequency=k), Factor("cos", (name,), frequency=k))
        )

    def __repr__(self) -> str:
        given = self.frequencies
        listed = [shortest(k) for k in given] if isinstance(given, tuple) else [str(given)]
        return f"Fourier([{', '.join(listed)}])"


HIGHEST_ORDER = 8
"""Higher orders need smoother test functions, and their terms are lost in noise."""


@dataclass(frozen=True)
class Derivatives(Basis):
    """Derivatives up to an order of the monomials up to a degree, in the fields and the inputs.

    A term is D^a g(u): "u_xx", "(u^2)_x", "u"; products such as u u_x stand here as (u^2)_x.

    degree: highest degree of the monomials; 0: no monomials, only the functions in `of`
    order: highest order of the derivatives, over all axes together
    of: more functions whose derivatives are terms, such as Trigonometric(1) or Custom({"decay": "exp(-u)"})
    products: whether products that are not the derivative of a function are terms too: u_x^2, u_x v_x, u v_x.
        Their derivatives are estimated at the samples, so that they tolerate much less noise than the others
    bias: whether the constant 1 is among the terms
    axes: names of the axes of space, by default those of the data

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
        _check.integer(self.order, "Derivatives: order", least=0, most=HIGHEST_ORDER)
        if self.of is not None:
            check_basis(self.of, "Derivatives: `of`")
        if self.degree == 0 and self.of is None:
            raise DataError(
                "Derivatives: a degree of 0 leaves only the constant. Give a degree of at least 1."
            )
        axes = _check.unique_names(() if self.axes is None else self.axes, "Derivatives: axes")
        object.__setattr__(self, "axes", axes)

    def on_axes(self, axes: tuple[str, ...]) -> Derivatives:
        """The basis for data with these axes of space."""
        if any(axis not in axes for axis in self.axes):
            raise DataError(
                f"{self!r} names the axes {', '.join(self.axes)}, but the data have {', '.join(axes)}."
            )
        return self if self.axes else replace(self, axes=axes)

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        axes = self.axes or ("x",)
        # The constant, whose derivatives vanish, is left out here and added once by `bias`.
        inner = [term for term in Polynomial(self.degree).terms(variables) if term]
        if self.of is not None:
            inner += [term for term in self.of.terms(variables) if term]
        inner = list(dict.fromkeys(inner))
        # Derivatives commute: u_xy and u_yx are one term.
        orders = [by for order in range(self.order + 1) for by in combinations_with_replacement(axes, order)]
        check_size(len(inner) * len(orders), self)
        result: list[Term] = [()] if self.bias else []
        for by in orders:
            # The derivative of a function of the coordinates alone is a constant, or a term that is there.
            result += [
                (spatial(term, by),) if by else term
                for term in inner
                if not by or term_variables(term) - set(axes)
            ]
        if self.products:
            result += self._products(variables, axes)
        return tuple(dict.fromkeys(result))

    def _products(self, variables: tuple[str, ...], axes: tuple[str, ...]) -> list[Term]:
        """Products of two first derivatives, and of a field and the first derivative of another field."""
        fields = [Factor("variable", (name,)) for name in variables if name not in axes]
        slopes = [spatial((field,), (axis,)) for field in fields for axis in axes]
        pairs = [product(pair, variables) for pair in combinations_with_replacement(slopes, 2)]
        # u v_x is enough, because v u_x = (u v)_x − u v_x.
        mixed = [
            product((field, spatial((other,), (axis,))), variables)
            for field, other in combinations(fields, 2)
            for axis in axes
        ]
        return [*mixed, *pairs]

    def __repr__(self) -> str:
        options = [f"of={self.of!r}"] if self.of is not None else []
        options += ["products=True"] if self.products else []
        options += [] if self.bias else ["bias=False"]
        options += [f"axes={self.axes!r}"] if self.axes else []
        return f"Derivatives({', '.join([f'degree={self.degree}', f'order={self.order}', *options])})"


RUN = "[]"
"""The name of the variable that `asks_for` is called with to learn whether a basis needs to know the run."""


def is_run(name: str) -> bool:
    """Whether a variable is the indicator of a run: 1 for its samples, 0 for all others."""
    return name.startswith("[") and name.endswith("]")


@dataclass(frozen=True)
class PerRun(Composed):
    """The terms of a basis with a coefficient of its own for every trajectory; all others are shared.

    For eleven balls that fall with the same g, but each with its own drag, write `Polynomial(0) +
    PerRun(Custom({"v": "v"}))`. The term v of the run called "golf" is "v [golf]". Only `identify` knows the
    runs; a simulation gets one by its argument `run`.

    >>> from cindy.basis import Polynomial
    >>> PerRun(Polynomial(1)).names(("v", "[a]", "[b]"))
    ('[a]', '[b]', 'v [a]', 'v [b]')
    """

    basis: Basis

    def __post_init__(self) -> None:
        check_basis(self.basis, "PerRun: `basis`")

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        runs = [name for name in variables if is_run(name)]
        if not runs:
            raise DataError(f"{self!r} needs to know the runs. Use it with `identify`, which does.")
        inner = self.basis.terms(tuple(name for name in variables if not is_run(name)))
        check_size(len(inner) * len(runs), self)
        return tuple(
            product((*term, Factor("variable", (run,))), variables) for term in inner for run in runs
        )

    def asks_for(self, name: str) -> bool:
        return name == RUN or self.basis.asks_for(name)

    def apart_from(self, hidden: tuple[str, ...]) -> Basis:
        return PerRun(self.basis.apart_from(tuple(name for name in hidden if not is_run(name))))

    def to_dict(self) -> dict[str, Any]:
        return {"basis": "PerRun", "of": self.basis.to_dict()}

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        return cls(from_dict(data["of"], functions, depth + 1))

    def __repr__(self) -> str:
        return f"PerRun({self.basis!r})"


@dataclass(frozen=True)
class Listed(Basis, abstract=True):
    """Exactly the given terms, for exactly the variables that they name; it cannot be saved."""

    given: tuple[Term, ...]

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        return self.given

    def to_dict(self) -> dict[str, Any]:
        raise DataError("basis: terms listed one by one cannot be saved. Save the basis they came from.")

    def __repr__(self) -> str:
        return f"<{len(self.given)} terms>"
