"""Bases, and bases made of bases: sums, products and restrictions to some variables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cindy import _check
from cindy._arrays import Floats, Space
from cindy.basis.expression import Expression
from cindy.basis.plan import Plan
from cindy.basis.term import Parameter, Term, merged, product, renamed, term_parameters
from cindy.errors import DataError

Functions = Mapping[str, Callable[..., Any]]

MOST_TERMS = 200_000
"""A triangle of so many columns would take 320 GB; a larger basis is a mistake in its degree."""
DEEPEST = 40
"""Levels of a description in a file: nobody nests bases so deeply, and reading them is recursive."""
MOST_OUTSIDE = 0.05
"""Largest share of samples that noise may push out of the domain of a term; for more, a parameter does."""
GRID_VALUES = 5
"""Values of an unknown parameter, from end to end of its range, at which its terms are evaluated."""
_COMPOSED = ("Sum", "Product", "Subset", "Without")


class Basis(ABC):
    """A family of terms over any variables (states, then inputs).

    A family defines its `terms`; names, values, derivatives and renamings follow from these. A basis never
    changes, and two bases are equal if they are written in the same way.

    >>> from cindy.basis import Fourier, Polynomial
    >>> basis = Polynomial(1) + Fourier(1)
    >>> basis.names(("x",))
    ('1', 'x', 'sin(x)', 'cos(x)')
    >>> (Polynomial(1) * Fourier(1)).names(("x",))
    ('sin(x)', 'cos(x)', 'x sin(x)', 'x cos(x)')
    """

    kinds: ClassVar[dict[str, type[Basis]]] = {}

    def __init_subclass__(cls, *, abstract: bool = False) -> None:
        if abstract:
            return
        # A class of the user may not replace the classes that +, * and `on` make.
        if cls.__name__ not in _COMPOSED or cls.__name__ not in Basis.kinds:
            Basis.kinds[cls.__name__] = cls

    @abstractmethod
    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        """The terms in these variables, distinct and in order; the caller has checked the names."""

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready description, read back by `from_dict`: by default the fields of the dataclass."""
        name = type(self).__name__
        if not is_dataclass(type(self)):
            raise DataError(f"basis: {name} cannot be saved. Make it a dataclass, or give it a `to_dict`.")
        return {"basis": name} | {name: _plain(value) for name, value in _settings(self).items()}

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        """The inverse of `to_dict` for one family; `data` comes without its "basis" key.

        functions: the Python functions of terms, by name
        depth: how many bases contain this one, for `from_dict`
        """

        def read(value: Any) -> Any:
            described = isinstance(value, Mapping) and "basis" in value
            return from_dict(value, functions, depth + 1) if described else value

        lists = {name: tuple(map(read, value)) for name, value in data.items() if isinstance(value, list)}
        return cls(**({name: read(value) for name, value in data.items()} | lists))

    @property
    def _parts(self) -> tuple[Basis, ...]:
        """The bases that this one is made of, in order: the fields that are bases."""
        several = [v if isinstance(v, tuple) else (v,) for v in _settings(self).values()]
        return tuple(part for parts in several for part in parts if isinstance(part, Basis))

    def _with(self, change: Callable[[Basis], Basis]) -> Self:
        """The same composition of other parts."""
        if not self._parts:
            return self

        def changed(value: Any) -> Any:
            return change(value) if isinstance(value, Basis) else value

        settings = _settings(self)
        for name, value in settings.items():
            settings[name] = tuple(map(changed, value)) if isinstance(value, tuple) else changed(value)
        return type(self)(**settings)

    def plan(self, variables: tuple[str, ...]) -> Plan:
        """The terms and how they are evaluated, which is made once for the same basis and variables."""
        return _planned(self, tuple(variables))

    def names(self, variables: tuple[str, ...]) -> tuple[str, ...]:
        """The terms as a user writes them; no data are needed."""
        return _planned(self, _check.unique_names(variables, "names: variables")).names

    def evaluate(
        self, x: ArrayLike, variables: tuple[str, ...] | None = None, *, out: Floats | None = None
    ) -> Floats:
        """The terms at the rows of x (n, variables): (n, terms), stored column by column.

        variables: names of the columns of x, by default x1, x2, …
        out: an array (n, terms) in any memory order, to which the values are written
        """
        values, plan = self._opened(x, variables)
        shape = (len(values), len(plan.terms))
        if out is None:
            # Columns are written, and later factorised, one after the other.
            out = np.empty(shape, order="F")
        elif not isinstance(out, np.ndarray) or out.shape != shape or out.dtype != np.float64:
            raise DataError(
                f"evaluate: `out` must be a float array of shape {shape}, but is {_check.short(out)}."
            )
        plan.run(values, out)
        return out

    def on_device(self, x: Any, variables: tuple[str, ...], space: Space) -> Any:
        """(terms, n): the terms at the columns of x (variables, n), in a space of arrays."""
        plan = self.plan(variables)
        _within_floating_point(float(space.xp.max(space.xp.abs(x))), plan)
        return plan.on_device(x, space)

    def derivative(self, x: ArrayLike, variables: tuple[str, ...] | None = None) -> Floats:
        """The derivative of every term by every variable at the rows of x: (n, terms, variables).

        Exact, except for Python functions in `Custom`, where it comes from central differences.
        """
        values, plan = self._opened(x, variables)
        # The slopes of many terms share factors, so that one plan evaluates all before they are summed.
        parts, slopes = plan.slopes
        table = np.empty((len(values), len(parts.terms)), order="F")
        parts.run(values, table)
        result = np.zeros((len(values), len(plan.terms), values.shape[1]))
        for term, variable, coefficient, column in slopes:
            result[:, term, variable] += coefficient * table[:, column]
        return result

    def renamed(self, variables: tuple[str, ...], mapping: Mapping[str, str]) -> NDArray[np.intp]:
        """(terms,): for each term the index of the term that it becomes when variables are renamed, or -1.

        mapping: old name to new name, applied at once: {"x": "y", "y": "x"} exchanges x and y

        >>> from cindy.basis import Polynomial
        >>> Polynomial(2).renamed(("x", "y"), {"x": "y", "y": "x"})
        array([0, 2, 1, 5, 4, 3])
        """
        _check.unique_names(variables, "renamed: `variables`")
        _check.instance(mapping, Mapping, "renamed: `mapping`", 'a mapping such as {"x": "y", "y": "x"}')
        for name in (*mapping, *mapping.values()):
            if name not in variables:
                raise DataError(
                    f"renamed: {name!r} is not a variable. {_check.did_you_mean(name, variables)}"
                )
        terms = self.plan(variables).terms
        # Terms are canonical and hashable, so that the image of a term can be looked up.
        index = {term: i for i, term in enumerate(terms)}
        return np.array([index.get(renamed(term, mapping, variables), -1) for term in terms], dtype=np.intp)

    def on_axes(self, axes: tuple[str, ...]) -> Basis:
        """The basis for data with these axes of space; it is unchanged if no term has a derivative."""
        return self._with(lambda part: part.on_axes(axes))

    def on(self, *variables: str) -> Basis:
        """The same family in these variables only."""
        return Subset(self, _check.unique_names(variables, "on"))

    def asks_for(self, name: str) -> bool:
        """Whether some part of the basis names a variable that need not be measured: the time, or the run."""
        return False

    def apart_from(self, hidden: tuple[str, ...]) -> Basis:
        """The basis in which only those parts use hidden variables that name them."""
        return Without(self, hidden)

    def unknowns(self) -> tuple[Parameter, ...]:
        """The parameters inside terms that have no value yet, each listed once."""
        return merged([part.unknowns() for part in self._parts], repr(self))

    def parameter_names(self) -> frozenset[str]:
        """The names of all parameters inside terms, with and without a value."""
        return frozenset().union(*(part.parameter_names() for part in self._parts))

    def at(self, values: Mapping[str, float]) -> Basis:
        """The same basis with values for some parameters, by name, which are then no longer unknown."""
        parameters = self.parameter_names()
        _check.instance(values, Mapping, "at: `values`", 'a mapping such as {"K": 0.5}')
        for name in values:
            # A misspelt name would otherwise leave a parameter in the middle of its range.
            if name not in parameters:
                hint = (
                    _check.did_you_mean(name, sorted(parameters)) if parameters else "It has no parameters."
                )
                raise DataError(f"at: {_check.short(name)} is no parameter of {self!r}. {hint}")
            _check.number(values[name], f"at: the value of {name!r}")
        return self._at(values)

    def _at(self, values: Mapping[str, float]) -> Basis:
        """As `at`, for one family; `values` may hold parameters of other families."""
        return self._with(lambda part: part._at(values))

    def outside_domain(self, variables: tuple[str, ...], points: Floats) -> NDArray[np.bool_]:
        """(n,) points at which a term with parameters has no value although every variable was measured."""
        columns = dict(zip(variables, points.T, strict=True))
        outside = np.zeros(len(points), dtype=bool)
        measured = np.isfinite(points).all(axis=1)
        for placed in self._placed():
            undefined = np.zeros(len(points), dtype=bool)
            with np.errstate(all="ignore"):
                for term in placed.terms(variables):
                    for factor in term if term_parameters(term) else ():
                        if factor.expression is not None:
                            undefined |= measured & ~np.isfinite(factor.expression.evaluate(columns))
            if undefined.mean() <= MOST_OUTSIDE:
                outside |= undefined
        return outside

    def _placed(self) -> Iterator[Basis]:
        """The basis itself, or with each unknown parameter at a few values and the others in mid-range."""
        unknown = self.unknowns()
        middle = {parameter.name: parameter.middle for parameter in unknown}
        if not unknown:
            yield self
        for parameter in unknown:
            for value in parameter.grid(GRID_VALUES):
                yield self.at({**middle, parameter.name: float(value)})

    def _summands(self) -> tuple[Basis, ...]:
        return (self,)

    def __add__(self, other: Basis) -> Basis:
        """The terms of both bases; a common term occurs once."""
        if not isinstance(other, Basis):
            return NotImplemented
        return Sum((*self._summands(), *other._summands()))

    def __mul__(self, other: Basis) -> Basis:
        """Every product of a term of one basis and a term of the other; equal products occur once."""
        return Product(self, other) if isinstance(other, Basis) else NotImplemented

    @staticmethod
    def from_dict(data: Mapping[str, Any], functions: Functions | None = None) -> Basis:
        """The basis that `to_dict` described. Nothing in the description is executed.

        functions: the Python functions of `Custom` by name, which a file cannot hold
        """
        if functions is not None:
            _check.instance(functions, Mapping, "basis: `functions`", "a mapping from names to functions")
        return from_dict(data, functions or {}, 0)

    def _opened(self, x: ArrayLike, variables: tuple[str, ...] | None) -> tuple[Floats, Plan]:
        """The checked samples, and the plan of the terms in their variables."""
        values = _check.floats(x, "evaluate: x", ndim=2)
        if variables is None:
            variables = tuple(f"x{i + 1}" for i in range(values.shape[1]))
        variables = _check.unique_names(variables, "evaluate: variables")
        if len(variables) != values.shape[1]:
            raise DataError(
                f"evaluate: x must have one column for each of the {len(variables)} variables "
                f"{', '.join(variables)}, but has shape {values.shape}."
            )
        plan = _planned(self, variables)
        # np.abs(values).max() would make a copy of all samples.
        _within_floating_point(max(values.max(initial=0.0), -values.min(initial=0.0)), plan)
        return values, plan


def _settings(basis: Any) -> dict[str, Any]:
    """The fields of a basis by name; none if it is no dataclass."""
    return {field.name: getattr(basis, field.name) for field in fields(basis)} if is_dataclass(basis) else {}


def _plain(value: Any) -> Any:
    """A field of a basis as JSON can hold it."""
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    return value.to_dict() if isinstance(value, Basis) else value


def _within_floating_point(largest: float, plan: Plan) -> None:
    """Raise if the powers of the largest value are beyond floating point."""
    if largest > 1.0 and plan.degree * np.log10(largest) > 300:
        raise DataError(
            f"evaluate: x holds values of size {largest:.3g}, whose power {plan.degree} is beyond "
            "floating point. Use other units for the states."
        )


@lru_cache(maxsize=64)
def _planned(basis: Basis, variables: tuple[str, ...]) -> Plan:
    """The plan of the terms of a basis; there must be at least one, and their names must differ."""
    plan = Plan.of(basis.terms(variables), variables)
    if not plan.terms:
        raise DataError(f"{basis!r} has no terms in the variables {', '.join(variables)}.")
    if len(set(plan.names)) < len(plan.names):
        twice = next(name for name in plan.names if plan.names.count(name) > 1)
        raise DataError(
            f"{basis!r} has two terms called {twice!r}. "
            "Rename the custom function or the state that causes this."
        )
    return plan


def from_dict(data: Any, functions: Functions, depth: int) -> Basis:
    """As `Basis.from_dict`; `depth` is the number of bases that contain this one."""
    if not isinstance(data, Mapping) or not isinstance(data.get("basis"), str) or depth > DEEPEST:
        raise DataError(f'basis: expected a mapping with a "basis" entry, but got {_check.short(data)}.')
    kind = Basis.kinds.get(data["basis"])
    if kind is None:
        raise DataError(
            f"basis: unknown kind {data['basis']!r}. {_check.did_you_mean(data['basis'], Basis.kinds)}"
        )
    settings = {key: value for key, value in data.items() if key != "basis"}
    try:
        return kind._read(settings, functions, depth)
    except (KeyError, TypeError) as error:
        raise DataError(f"basis: the description of a {data['basis']} is damaged ({error}).") from error


def check_size(count: int, basis: Basis) -> None:
    """Raise if a basis has more terms than any memory holds."""
    if count > MOST_TERMS:
        raise DataError(f"{basis!r} would have {count} terms here; at most {MOST_TERMS} are allowed.")


class Composed(Basis, abstract=True):
    """A basis made of other bases; its answers are those of its parts."""

    def asks_for(self, name: str) -> bool:
        return any(part.asks_for(name) for part in self._parts)

    def apart_from(self, hidden: tuple[str, ...]) -> Basis:
        return self._with(lambda part: part.apart_from(hidden))


@dataclass(frozen=True)
class Sum(Composed):
    """The terms of several bases, each term once, in order of first occurrence; usually written a + b."""

    parts: tuple[Basis, ...]

    def __post_init__(self) -> None:
        if not (isinstance(self.parts, tuple) and self.parts):
            raise DataError(f"Sum: `parts` must be a tuple of bases, but is {_check.short(self.parts)}.")
        for part in self.parts:
            check_basis(part, "Sum: a part")

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        # A term that two families share would make the design singular.
        return tuple(dict.fromkeys(term for part in self.parts for term in part.terms(variables)))

    def _summands(self) -> tuple[Basis, ...]:
        return self.parts

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


@dataclass(frozen=True)
class Product(Composed):
    """Every product of a term of `left` and a term of `right`; equal ones once; usually written a * b."""

    left: Basis
    right: Basis

    def __post_init__(self) -> None:
        check_basis(self.left, "Product: `left`")
        check_basis(self.right, "Product: `right`")

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        left, right = self.left.terms(variables), self.right.terms(variables)
        check_size(len(left) * len(right), self)
        # x · x y and x² · y are the same product, written once.
        return tuple(dict.fromkeys(product((*a, *b), variables) for a in left for b in right))

    def __repr__(self) -> str:
        return " * ".join(
            f"({part!r})"
            if isinstance(part, Sum) or (isinstance(part, Product) and part is self.right)
            else repr(part)
            for part in (self.left, self.right)
        )


@dataclass(frozen=True)
class _Wrapped(Composed, abstract=True):
    """A composition of one basis."""

    of: Basis

    def __post_init__(self) -> None:
        check_basis(self.of, f"{type(self).__name__}: `of`")


@dataclass(frozen=True)
class Subset(_Wrapped):
    """A basis in some of the variables, in the order given; usually written basis.on("x", "y")."""

    variables: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.unique_names(self.variables, "Subset: `variables`")

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        for name in self.variables:
            if name not in variables:
                raise DataError(
                    f"{self!r}: {name!r} is not a variable. {_check.did_you_mean(name, variables)}"
                )
        # The inner basis orders factors as the variables were given to `on`; they are put in the order of the
        # data, so that the terms equal those of other bases.
        inner = self.of.terms(self.variables)
        return tuple(product(term, variables) for term in inner)

    def asks_for(self, name: str) -> bool:
        return name in self.variables or self.of.asks_for(name)

    def apart_from(self, hidden: tuple[str, ...]) -> Basis:
        return self

    def __repr__(self) -> str:
        inner = f"({self.of!r})" if isinstance(self.of, (Sum, Product)) else repr(self.of)
        return f"{inner}.on({', '.join(map(repr, self.variables))})"


@dataclass(frozen=True)
class Without(_Wrapped):
    """A basis in all variables but some."""

    hidden: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.unique_names(self.hidden, "Without: `hidden`")

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        return self.of.terms(tuple(name for name in variables if name not in self.hidden))

    def asks_for(self, name: str) -> bool:
        return name not in self.hidden and self.of.asks_for(name)

    def __repr__(self) -> str:
        return repr(self.of)


@dataclass(frozen=True)
class Averaged(_Wrapped, abstract=True):
    """The terms of a basis with their jumps spread over two time steps; it serves rows and is not saved.

    widths: switching functions, and by how much each changes within the step in which it changes its sign
    """

    widths: tuple[tuple[Expression, float], ...]

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        widths = dict(self.widths)
        return tuple(
            tuple(
                factor
                if factor.expression is None or factor.symbolic is not None
                else replace(factor, expression=factor.expression.averaged(widths))
                for factor in term
            )
            for term in self.of.terms(variables)
        )

    def to_dict(self) -> dict[str, Any]:
        return self.of.to_dict()


def check_basis(value: object, where: str) -> None:
    _check.instance(value, Basis, where, "a basis, such as Polynomial(1)")
