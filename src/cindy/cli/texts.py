"""What a user types, turned into objects: bases, formulations, selections, times and numbers."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

import cindy
from cindy._check import did_you_mean
from cindy._types import Floats
from cindy.basis import Basis
from cindy.errors import DataError
from cindy.formulation import Formulation

__all__ = [
    "basis",
    "correction",
    "formulation",
    "names",
    "number",
    "selection",
    "start",
    "times",
    "weights",
    "whole",
]

Made = TypeVar("Made")


def number(text: str, where: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise DataError(f'{where}: "{text.strip()}" is not a number.')
    return value


def whole(text: str, where: str) -> int:
    """A whole number."""
    value = number(text, where)
    if value != int(value):
        raise DataError(f'{where}: "{text.strip()}" is not a whole number.')
    return int(value)


def names(text: str, where: str) -> tuple[str, ...]:
    """Names separated by commas."""
    found = tuple(part.strip() for part in text.split(","))
    if not all(found):
        raise DataError(f'{where}: "{text}" must be names separated by commas.')
    return found


def basis(text: str, terms: Mapping[str, str] | None = None) -> Basis:
    """A basis as in "poly:3", "trig:2@x,y + poly:1", "fourier:1,2 * poly:1"; * binds before +.

    terms: further terms, by name, as formulas

    >>> basis("poly:2 + trig:1@x")
    Polynomial(degree=2) + Trigonometric(degree=1).on('x')
    """
    parts = [_product(part) for part in text.split("+")] if text.strip() else []
    if terms:
        parts.append(cindy.Custom(dict(terms)))
    if not parts:
        raise DataError('--basis: expected a basis such as "poly:3", but got nothing.')
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _product(text: str) -> Basis:
    factors = [_family(part.strip()) for part in text.split("*")]
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def _family(text: str) -> Basis:
    head, restricted, variables = text.partition("@")
    kind, _, argument = head.strip().partition(":")
    where = f'--basis "{text}"'
    made = _choose(kind, _FAMILIES, where)(argument.strip(), where)
    return made.on(*names(variables, where)) if restricted else made


def _polynomial(argument: str, where: str) -> Basis:
    degree, _, option = argument.partition(":")
    if option not in ("", "nobias", "nointeraction"):
        raise DataError(f'{where}: after the degree may come "nobias" or "nointeraction", not "{option}".')
    return cindy.Polynomial(
        whole(degree or "2", where), bias=option != "nobias", interaction=option != "nointeraction"
    )


_FAMILIES: dict[str, Callable[[str, str], Basis]] = {
    "poly": _polynomial,
    "trig": lambda argument, where: cindy.Trigonometric(whole(argument or "1", where)),
    "fourier": lambda argument, where: cindy.Fourier(
        [number(f, where) for f in (argument or "1").split(",")]
    ),
}


def formulation(
    text: str, *, order: int | None = None, window: int | None = None, initial: str | None = None
) -> Formulation:
    """A formulation by name, with the settings that it takes.

    >>> formulation("integral", order=2) == cindy.Integral(order=2)
    True
    """
    where = "--formulation"
    kind = _choose(text, {name: name for name in ("integral", "differential", "discrete")}, where)
    given = {"--order": order, "--window": window, "--initial": initial}
    takes = {"integral": ("--order", "--window", "--initial"), "differential": ("--order",), "discrete": ()}[
        kind
    ]
    for name, value in given.items():
        if value is not None and name not in takes:
            raise DataError(f"{name} is not a setting of the {kind} formulation.")
    if kind == "discrete":
        return cindy.Discrete()
    if kind == "differential":
        return cindy.Differential(order=order or 1)
    return cindy.Integral(order=order or 1, window=window, initial=initial or "free")  # type: ignore[arg-type]


def selection(text: str) -> Any:
    """A rule of selection as in "significance:0.05", "cv:5", "bic", "bic:plain", "gap:1e-6", "terms:7"."""
    kind, _, argument = (part.strip() for part in text.partition(":"))
    return _choose(kind, _SELECTIONS, "--selection")(argument)


def _optional(make: Callable[..., Made], read: Callable[[str, str], Any]) -> Callable[[str], Made]:
    return lambda argument: make(read(argument, "--selection")) if argument else make()


def _needed(
    make: Callable[..., Made], read: Callable[[str, str], Any], example: str
) -> Callable[[str], Made]:
    def made(argument: str) -> Made:
        if not argument:
            raise DataError(f'--selection: a number must follow, as in "{example}".')
        return make(read(argument, "--selection"))

    return made


def _bic(argument: str) -> Any:
    if argument not in ("", "plain", "extended"):
        raise DataError(f'--selection: "bic" may be followed by ":plain" or ":extended", not ":{argument}".')
    return cindy.BIC(extended=argument != "plain")


_SELECTIONS: dict[str, Callable[[str], Any]] = {
    "significance": lambda a: _optional(cindy.Significance, number)(a),
    "cv": lambda a: _optional(cindy.CrossValidation, whole)(a),
    "gap": lambda a: _needed(cindy.Gap, number, "gap:1e-6")(a),
    "discrepancy": lambda a: _optional(cindy.Discrepancy, number)(a),
    "bic": _bic,
    "terms": lambda a: _needed(cindy.Terms, whole, "terms:7")(a),
}


def correction(text: str) -> Any:
    """A correction by name: direct, blended, fully-corrective, plain."""
    kinds = {
        "direct": cindy.Direct,
        "blended": cindy.Blended,
        "fully-corrective": cindy.FullyCorrective,
        "plain": cindy.Plain,
    }
    return _choose(text, kinds, "--correction")()


def weights(text: str) -> Any:
    """Weights by name: adaptive or uniform."""
    return _choose(text, {"adaptive": cindy.Adaptive, "uniform": cindy.Uniform}, "--weights")()


def times(text: str) -> Floats:
    """Times as "start:stop:step", the stop included where a step meets it, or as numbers with commas.

    >>> times("0:1:0.25")
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    if ":" not in text:
        return np.array([number(part, "--t") for part in text.split(",")])
    parts = [number(part, "--t") for part in text.split(":")]
    if len(parts) != 3 or parts[2] <= 0 or parts[1] <= parts[0]:
        raise DataError(f'--t: expected "start:stop:step" with start < stop and step > 0, but got "{text}".')
    begin, end, step = parts
    if (end - begin) / step > 1e8:
        raise DataError(f'--t: "{text}" asks for more than 100 million samples.')
    # A hair more than the quotient, so that 0:1:0.1 has its 1.0 in spite of rounding.
    return np.asarray(begin + step * np.arange(int((end - begin) / step * (1 + 1e-12)) + 1), dtype=np.float64)


def start(text: str, states: tuple[str, ...], where: str) -> Floats:
    """A state as "1,0,25" in the order of the states, or as "x=1,y=0,z=25" in any order."""
    parts = text.split(",")
    if "=" not in text:
        return np.array([number(part, where) for part in parts])
    given: dict[str, float] = {}
    for part in parts:
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in states:
            raise DataError(f'{where}: the model has no state "{name}". {did_you_mean(name, states)}')
        given[name] = number(value, where)
    missing = [name for name in states if name not in given]
    if missing:
        raise DataError(f"{where}: no value for {', '.join(missing)}.")
    return np.array([given[name] for name in states])


def _choose(name: str, known: Mapping[str, Made], where: str) -> Made:
    key = name.strip().lower()
    if key not in known:
        raise DataError(f'{where}: there is no "{name.strip()}". {did_you_mean(key, known)}')
    return known[key]
