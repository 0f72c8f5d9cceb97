"""Terms that the user defines: formulas or Python functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cindy import _check
from cindy.basis.base import Basis, Functions, Without
from cindy.basis.expression import CONSTANTS, check_finite, number, parse
from cindy.basis.term import Factor, Parameter, Term, read_parameters
from cindy.errors import DataError


@dataclass(frozen=True)
class Custom(Basis):
    """Terms by name, each a formula or a Python function.

    A formula is text such as "x*exp(-y)" in the names of the variables, with + - * / ** (or ^), the
    comparisons < <= > >= == != (1 where they hold, 0 elsewhere), pi, e, and the functions sin, cos, tan,
    asin, acos, atan, sinh, cosh, tanh, exp, log, sqrt, abs, sign, max, min and
    where(condition, value, otherwise).
    It can be saved, differentiated exactly and exported; prefer it. Where no variable is called t, t is the
    time.

    A Python function gets the variables after which its parameters are named, as arrays of one number per
    sample. If it has a single parameter with another name, it gets all variables as one array (samples,
    variables). It returns one number per sample, which may depend on this sample only. A file keeps its name.

    parameters: for each unknown number in the formulas, by name, the range (lower, upper) in which to search,
        or a start, which stands for a tenth of it to ten times it; several formulas may share a parameter
    found: values of parameters that are known, set by `at` and by `identify`

    >>> Custom({"decay": "x*exp(-y)", "step": lambda x: 1.0 * (x > 0)}).names(("x", "y"))
    ('decay', 'step')
    >>> Custom({"uptake": "S/(K + S)"}, parameters={"K": (0.01, 10)}).at({"K": 0.5}).evaluate([[1.5]], ("S",))
    array([[0.75]])
    """

    functions: Mapping[str, str | Callable[..., Any]] | tuple[tuple[str, str | Callable[..., Any]], ...]
    parameters: Mapping[str, tuple[float, float] | float] | tuple[Parameter, ...] = ()
    found: Mapping[str, float] | tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        given = self.functions
        items = tuple(given.items()) if isinstance(given, Mapping) else given
        if not isinstance(items, tuple) or not items:
            raise DataError(f'Custom: expected a mapping such as {{"name": function}}, but got {given!r}.')
        for item in items:
            if not isinstance(item, tuple) or len(item) != 2:
                raise DataError(
                    f"Custom: expected pairs of a name and a function, but got {_check.short(item)}."
                )
            _check_entry(*item)
        object.__setattr__(self, "functions", items)
        unknown = read_parameters(self.parameters, "Custom")
        object.__setattr__(self, "parameters", unknown)
        _check_used(items, unknown)
        values = tuple(self.found.items()) if isinstance(self.found, Mapping) else self.found
        if not isinstance(values, tuple) or not all(isinstance(v, tuple) and len(v) == 2 for v in values):
            raise DataError(f"Custom: `found` must be values by name, but is {_check.short(self.found)}.")
        # The values of all parameters of a model are passed to each of its bases, which keeps its own.
        own = self.parameter_names()
        object.__setattr__(
            self, "found", tuple((name, float(value)) for name, value in values if name in own)
        )

    def unknowns(self) -> tuple[Parameter, ...]:
        known = self._found()
        return tuple(parameter for parameter in self._ranges() if parameter.name not in known)

    def _ranges(self) -> tuple[Parameter, ...]:
        assert isinstance(self.parameters, tuple)
        return self.parameters

    def parameter_names(self) -> frozenset[str]:
        return frozenset(parameter.name for parameter in self._ranges())

    def _at(self, values: Mapping[str, float]) -> Basis:
        if not self.parameters:
            return self
        return Custom(self.functions, self.parameters, {**self._found(), **values})

    def _found(self) -> dict[str, float]:
        assert isinstance(self.found, tuple)
        return dict(self.found)

    def _items(self) -> tuple[tuple[str, str | Callable[..., Any]], ...]:
        assert isinstance(self.functions, tuple)
        return self.functions

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        names: dict[Factor, str] = {}
        values = {parameter.name: parameter.middle for parameter in self._ranges()} | self._found()
        for name in values:
            if name in variables:
                raise DataError(f"Custom: {name!r} is a variable of the data, and cannot be a parameter too.")
        for name, source in self._items():
            if isinstance(source, str):
                factor = _from_formula(name, source, variables, values)
            else:
                factor = _from_function(name, source, variables)
            if factor in names:
                raise DataError(f"Custom: {names[factor]!r} and {name!r} are the same function. Keep one.")
            names[factor] = name
        return tuple((factor,) for factor in names)

    def asks_for(self, name: str) -> bool:
        return name not in self.parameter_names() and any(_asks(source, name) for _, source in self._items())

    def apart_from(self, hidden: tuple[str, ...]) -> Basis:
        return Without(self, tuple(name for name in hidden if not self.asks_for(name)))

    def to_dict(self) -> dict[str, Any]:
        formulas = {name: source if isinstance(source, str) else None for name, source in self._items()}
        plain: dict[str, Any] = {"basis": "Custom", "functions": formulas}
        if self.parameters:
            plain["parameters"] = {p.name: [p.lower, p.upper] for p in self._ranges()}
            plain["found"] = self._found()
        return plain

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        given = data["functions"]
        if not isinstance(given, Mapping):
            raise DataError(f"basis: the functions of a Custom must be a mapping, but are {given!r}.")
        for name, source in given.items():
            if source is None and name not in functions:
                raise DataError(
                    f"basis: the term {name!r} is a Python function, which a file cannot hold. "
                    f"Pass it along: functions={{{name!r}: …}}."
                )
        # Nothing in a file is executed: formulas are parsed, and functions are passed by the caller.
        entries = {name: functions[name] if source is None else source for name, source in given.items()}
        parameters, values = data.get("parameters", {}), data.get("found", {})
        if not isinstance(values, Mapping) or not all(isinstance(v, (int, float)) for v in values.values()):
            raise DataError(f"basis: the values of parameters must be numbers by name, but are {values!r}.")
        return cls(entries, parameters, values)

    def __repr__(self) -> str:
        entries = ", ".join(
            f"{name!r}: {source!r}" if isinstance(source, str) else f"{name!r}: <function>"
            for name, source in self._items()
        )
        ranges = ", ".join(f"{p.name!r}: ({p.lower:g}, {p.upper:g})" for p in self._ranges())
        return f"Custom({{{entries}}}" + (f", parameters={{{ranges}}})" if ranges else ")")


def _check_entry(name: str, source: str | Callable[..., Any]) -> None:
    """Raise unless a term has a printable name, and a formula that can be read or a hashable function."""
    if not isinstance(name, str) or not name.isprintable() or name != name.strip() or name in ("", "1"):
        raise DataError(f"Custom: a name must be a printable word or formula, but is {name!r}.")
    if isinstance(source, str):
        parse(source, f"Custom: the formula {name!r}")
    elif not callable(source):
        raise DataError(f"Custom: {name!r} must be a function or a formula as text, but is {source!r}.")
    else:
        try:
            hash(source)
        except TypeError as error:
            raise DataError(
                f"Custom: the function {name!r} must be hashable. Wrap it in a def or lambda."
            ) from error


def _asks(source: str | Callable[..., Any], name: str) -> bool:
    """Whether a formula or a function names a variable."""
    if isinstance(source, str):
        return name in parse(source, "Custom").symbols()
    return any(parameter == name for parameter, _ in _parameters(source) or ())


def _check_used(items: tuple[tuple[str, Any], ...], unknown: tuple[Parameter, ...]) -> None:
    """Raise if a parameter occurs in no formula."""
    symbols = [parse(source, "Custom").symbols() for _, source in items if isinstance(source, str)]
    named = sorted(frozenset().union(*symbols))
    for parameter in unknown:
        if parameter.name not in named:
            hint = _check.did_you_mean(parameter.name, named)
            raise DataError(f"Custom: no formula holds the parameter {parameter.name!r}. {hint}")


def _from_formula(
    name: str, text: str, variables: tuple[str, ...], parameters: Mapping[str, float]
) -> Factor:
    """The factor of a formula, with the current values of its parameters."""
    where = f"Custom: the formula {name!r}"
    # A state that is called e or pi is that state and not the constant.
    constants = {c: number(value) for c, value in CONSTANTS.items() if c not in variables}
    formula = parse(text, where).replaced(constants)
    check_finite(formula, where)
    symbols = formula.symbols()
    for symbol in sorted(symbols - set(parameters)):
        if symbol not in variables:
            hint = _check.did_you_mean(symbol, (*variables, *parameters))
            raise DataError(
                f"{where} names {symbol!r}, which is no variable. {hint} "
                f'If it is a number to be found, give its range: parameters={{"{symbol}": (lower, upper)}}.'
            )
    used = tuple(variable for variable in variables if variable in symbols)
    if not used:
        raise DataError(f"{where} depends on no variable. The constant is the term 1 of Polynomial.")
    if formula.operation == "symbol" and formula.symbol == name:
        # A formula that is one variable becomes the same term as in other bases.
        return Factor("variable", used)
    values = tuple((parameter, value) for parameter, value in parameters.items() if parameter in symbols)
    if not values:
        return Factor("call", used, expression=formula, name=name)
    placed = formula.replaced({parameter: number(value) for parameter, value in values})
    return Factor("call", used, expression=placed, symbolic=formula, values=values, name=name)


def _from_function(name: str, function: Callable[..., Any], variables: tuple[str, ...]) -> Factor:
    """The factor of a Python function, which gets the variables that its parameters name."""
    parameters = _parameters(function)
    if parameters is None:
        return Factor("call", variables, function=function, name=name)
    named = [parameter for parameter, _ in parameters if parameter in variables]
    missing = [parameter for parameter, required in parameters if required and parameter not in variables]
    # Arguments are passed by position, so that variables must come before parameters with a default.
    leading = [parameter for parameter, _ in parameters[: len(named)]]
    if named and not missing and leading == named:
        return Factor("call", tuple(named), function=function, name=name)
    if not named and len(missing) == 1:
        return Factor("call", variables, function=_Stacked(function), name=name)
    arguments = ", ".join(parameter for parameter, _ in parameters)
    raise DataError(
        f"Custom: the function {name!r} takes ({arguments}), which are not all variables. "
        f"Name its parameters after the variables {', '.join(variables)}, or let it take one array of all."
    )


def _parameters(function: Callable[..., Any]) -> list[tuple[str, bool]] | None:
    """(name, whether required) of the positional parameters; None if there may be any number of them."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [("x, of unknown signature", True)]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [(p.name, p.default is p.empty) for p in positional]


@dataclass(frozen=True)
class _Stacked:
    """A function of one array (samples, variables), as a function of its columns."""

    function: Callable[..., Any]

    def __call__(self, *columns: Any) -> Any:
        return self.function(np.column_stack(columns))
