"""Terms of one's own: formulas or Python functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cindy import _check
from cindy.basis.base import Basis, Functions, Parameter, read_parameters
from cindy.basis.composed import Without
from cindy.basis.expression import CONSTANTS, check_finite, number, parse
from cindy.basis.term import Factor, Term
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

    A Python function gets the variables its parameters are named after, as arrays of one number per sample;
    with a single parameter of another name it gets all of them, as one array (samples, variables). It
    returns one number per sample and treats samples one by one. A file keeps only its name.

    parameters: for each name in the formulas that is a number to be found, the range (lower, upper) to look
        in, or a start, which stands for a tenth of it to ten times it; several formulas may share one
    found: values of parameters that are known, as `at` gives them and `identify` finds them

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
        given_values = self.found.items() if isinstance(self.found, Mapping) else self.found
        pairs = isinstance(self.found, Mapping) or (
            isinstance(self.found, tuple) and all(isinstance(p, tuple) and len(p) == 2 for p in self.found)
        )
        if not pairs:
            raise DataError(f"Custom: `found` must be values by name, but is {_check.short(self.found)}.")
        names = {parameter.name for parameter in unknown}
        # A basis is handed the values of all parameters of a model; this one keeps its own.
        placed = tuple((name, float(value)) for name, value in given_values if name in names)
        object.__setattr__(self, "found", placed)

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
        current = {parameter.name: parameter.middle for parameter in self._ranges()} | self._found()
        for name in current:
            if name in variables:
                raise DataError(f"Custom: {name!r} is a variable of the data, and cannot be a parameter too.")
        for name, what in self._items():
            if isinstance(what, str):
                factor = _from_formula(name, what, variables, current)
            else:
                factor = _from_function(name, what, variables)
            if factor in names:
                raise DataError(f"Custom: {names[factor]!r} and {name!r} are the same function. Keep one.")
            names[factor] = name
        return tuple((factor,) for factor in names)

    def asks_for(self, name: str) -> bool:
        return name not in self.parameter_names() and any(_asks(what, name) for _, what in self._items())

    def apart_from(self, hidden: tuple[str, ...]) -> Basis:
        return Without(self, tuple(name for name in hidden if not self.asks_for(name)))

    def to_dict(self) -> dict[str, Any]:
        formulas = {name: what if isinstance(what, str) else None for name, what in self._items()}
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
        for name, what in given.items():
            if what is None and name not in functions:
                raise DataError(
                    f"basis: the term {name!r} is a Python function, which a file cannot hold. "
                    f"Pass it along: functions={{{name!r}: …}}."
                )
        # Nothing in a file is executed: formulas are parsed, functions come from whoever loads it.
        entries = {name: functions[name] if what is None else what for name, what in given.items()}
        parameters, values = data.get("parameters", {}), data.get("found", {})
        if not isinstance(values, Mapping) or not all(isinstance(v, (int, float)) for v in values.values()):
            raise DataError(f"basis: the values of parameters must be numbers by name, but are {values!r}.")
        return cls(entries, parameters, values)

    def __repr__(self) -> str:
        shown = (f"{n!r}: {w!r}" if isinstance(w, str) else f"{n!r}: <function>" for n, w in self._items())
        if not self.parameters:
            return f"Custom({{{', '.join(shown)}}})"
        ranges = (f"{p.name!r}: ({p.lower:g}, {p.upper:g})" for p in self._ranges())
        return f"Custom({{{', '.join(shown)}}}, parameters={{{', '.join(ranges)}}})"


def _check_entry(name: str, what: str | Callable[..., Any]) -> None:
    if not isinstance(name, str) or not name.isprintable() or name != name.strip() or name in ("", "1"):
        raise DataError(f"Custom: a name must be a printable word or formula, but is {name!r}.")
    if isinstance(what, str):
        parse(what, f"Custom: the formula {name!r}")
    elif not callable(what):
        raise DataError(f"Custom: {name!r} must be a function or a formula as text, but is {what!r}.")
    else:
        try:
            hash(what)
        except TypeError as error:
            raise DataError(
                f"Custom: the function {name!r} must be hashable. Wrap it in a def or lambda."
            ) from error


def _asks(what: str | Callable[..., Any], name: str) -> bool:
    if isinstance(what, str):
        return name in parse(what, "Custom").symbols()
    return any(parameter == name for parameter, _ in _parameters(what) or ())


def _check_used(items: tuple[tuple[str, Any], ...], unknown: tuple[Parameter, ...]) -> None:
    """Refuse a parameter that no formula holds, and a formula of parameters alone."""
    symbols = [parse(what, "Custom").symbols() for _, what in items if isinstance(what, str)]
    named = sorted(frozenset().union(*symbols))
    for parameter in unknown:
        if parameter.name not in named:
            hint = _check.did_you_mean(parameter.name, named)
            raise DataError(f"Custom: no formula holds the parameter {parameter.name!r}. {hint}")


def _from_formula(name: str, text: str, variables: tuple[str, ...], current: Mapping[str, float]) -> Factor:
    where = f"Custom: the formula {name!r}"
    # A state called e or pi is that state, and no constant.
    constants = {c: number(value) for c, value in CONSTANTS.items() if c not in variables}
    # Names that are neither variables, constants nor parameters are refused, with what was probably meant.
    formula = parse(text, where).replaced(constants)
    check_finite(formula, where)
    symbols = formula.symbols()
    for symbol in sorted(symbols - set(current)):
        if symbol not in variables:
            known = (*variables, *current)
            raise DataError(
                f"{where} names {symbol!r}, which is no variable. {_check.did_you_mean(symbol, known)} "
                f'If it is a number to be found, give its range: parameters={{"{symbol}": (lower, upper)}}.'
            )
    used = tuple(v for v in variables if v in symbols)
    if not used:
        raise DataError(f"{where} depends on no variable. The constant is the term 1 of Polynomial.")
    if formula.operation == "symbol" and formula.symbol == name:
        # The variable itself, so that it is the same term as in other bases.
        return Factor("variable", used)
    values = tuple((p, value) for p, value in current.items() if p in symbols)
    if not values:
        return Factor("call", used, expression=formula, name=name)
    placed = formula.replaced({p: number(value) for p, value in values})
    return Factor("call", used, expression=placed, symbolic=formula, values=values, name=name)


def _from_function(name: str, function: Callable[..., Any], variables: tuple[str, ...]) -> Factor:
    wanted = _parameters(function)
    if wanted is None:
        return Factor("call", variables, function=function, name=name)
    known = [p for p, required in wanted if p in variables]
    missing = [p for p, required in wanted if required and p not in variables]
    # a default is kept unless everything before it is handed over, for arguments go by position
    leading = [p for p, _ in wanted[: len(known)]]
    if known and not missing and leading == known:
        return Factor("call", tuple(known), function=function, name=name)
    if not known and len(missing) == 1:
        return Factor("call", variables, function=_Stacked(function), name=name)
    taken = ", ".join(p for p, _ in wanted)
    raise DataError(
        f"Custom: the function {name!r} takes ({taken}), which are not all variables. "
        f"Name its parameters after the variables {', '.join(variables)}, or let it take one array of all."
    )


def _parameters(function: Callable[..., Any]) -> list[tuple[str, bool]] | None:
    """(name, whether required) of the positional parameters; None for a function of any number of them."""
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
