"""Texts of the command line as objects: formulations, times, starts and constraints."""

import re
from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np

import cindy
from cindy._arrays import Floats
from cindy._check import did_you_mean
from cindy.errors import ConstraintError, DataError
from cindy.formulation import Formulation
from cindy.identification import choose, formulation_from_text, name_list, number


def formulation(
    text: str, *, order: int | None = None, window: int | None = None, initial: str | None = None
) -> Formulation:
    """A formulation by name, with its settings; or as for `identify`, such as "integral:2:rates".

    >>> formulation("integral", order=2) == cindy.Integral(order=2)
    True
    """
    where = "--formulation"
    text, colon, rest = text.partition(":")
    if colon:
        if any(setting is not None for setting in (order, window, initial)):
            raise DataError(f'{where}: "{text}:{rest}" says the order; leave --order and the others out.')
        return formulation_from_text(f"{text}:{rest}", where=where)
    form = choose(text, Formulation.kinds, where)
    options = {"order": order, "window": window, "initial": initial}
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in signature(form).parameters:
            raise DataError(f"--{name} is not a setting of the {text.strip().lower()} formulation.")
    return form(**given)


def times(text: str) -> Floats:
    """Times from "start:stop:step", with the stop if a step ends there, or from numbers with commas.

    >>> times("0:1:0.25")
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    where = '--t: times are "start:stop:step", such as 0:20:0.1, or numbers with commas'
    if "," in text:
        return np.array([number(part, where) for part in text.split(",")])
    parts = [number(part, where) for part in text.split(":")]
    if len(parts) != 3 or parts[2] <= 0 or parts[1] <= parts[0]:
        raise DataError(f'--t: expected "start:stop:step" with start < stop and step > 0, but got "{text}".')
    begin, end, step = parts
    if (end - begin) / step > 1e8:
        raise DataError(f'--t: "{text}" asks for more than 100 million samples.')
    # Slightly more than the quotient, so that rounding does not remove the 1.0 of 0:1:0.1.
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
        if name in given:
            raise DataError(f'{where}: "{name}" has two values, {given[name]:g} and {value}. Give it one.')
        given[name] = number(value, where)
    missing = [name for name in states if name not in given]
    if missing:
        raise DataError(f"{where}: no value for {', '.join(missing)}.")
    return np.array([given[name] for name in states])


_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RELATION = re.compile(r"(<=|>=|=)")


def conserve(text: str) -> Any:
    """ "S + ES + P", "2 A + B = 0.5" for a rate, "S + P = 0 ± 0.01" for a tolerance."""
    where = f'--conserve "{text}"'
    left, _, right = text.partition("=")
    rate, _, tolerance = right.replace("+-", "±").partition("±")
    if "±" in left.replace("+-", "±"):
        raise ConstraintError(f'{where}: a tolerance follows the rate, as in "S + P = 0 ± 0.01".')
    weights: dict[str, float] = {}
    for weight, name in _sum(left, where):
        weights[name] = weights.get(name, 0.0) + weight
    return cindy.conserve(
        weights,
        rate=number(rate, where) if rate.strip() else 0.0,
        tolerance=number(tolerance, where) if tolerance.strip() else None,
    )


def exchange(text: str) -> Any:
    """ "x1,x2", or "x1,x2:all" for the symmetry of every term."""
    where = f'--exchange "{text}"'
    pair, _, scope = text.partition(":")
    states = name_list(pair, where)
    if len(states) != 2 or scope.strip() not in ("", "pair", "all"):
        raise ConstraintError(f'{where}: expected two states, as in "x1,x2" or "x1,x2:all".')
    return cindy.exchange(states[0], states[1], scope="all" if scope.strip() == "all" else "pair")


def fix(text: str) -> Any:
    """ "x:y=0.5": the coefficient of y in the equation of x."""
    where = f'--fix "{text}"'
    sides = _RELATION.split(text)
    if len(sides) != 3 or sides[1] != "=":
        raise ConstraintError(f'{where}: expected "state:term=value", as in "x:y=0.5".')
    return cindy.fix(*_coefficient(sides[0], where), number(sides[2], where))


def bound(text: str) -> Any:
    """ "x:y>=0", "x:y<=3" or "0<=x:y<=3"."""
    where = f'--bound "{text}"'
    sides = [side.strip() for side in _RELATION.split(text)]
    if len(sides) == 5 and sides[1] == sides[3] == "<=":
        low, high = number(sides[0], where), number(sides[4], where)
        return cindy.bound(*_coefficient(sides[2], where), lower=low, upper=high)
    if len(sides) == 3 and sides[1] in ("<=", ">="):
        limit = number(sides[2], where)
        low, high = (limit, np.inf) if sides[1] == ">=" else (-np.inf, limit)
        return cindy.bound(*_coefficient(sides[0], where), lower=low, upper=high)
    raise ConstraintError(
        f'{where}: expected "state:term>=value", "state:term<=value" or "0<=state:term<=1".'
    )


def tie(text: str) -> Any:
    """ "x:y = 2 y:x": one coefficient is a multiple of another."""
    where = f'--tie "{text}"'
    left, _, right = text.partition("=")
    others = _sum(right, where) if right.strip() else []
    if len(others) != 1:
        raise ConstraintError(f'{where}: expected "state:term = ratio state:term", as in "x:y = -1 y:x".')
    ((ratio, other),) = others
    return cindy.tie(_coefficient(left, where), _coefficient(other, where), ratio=ratio)


def linear(text: str) -> Any:
    """ "x:y + 2 y:x <= 3", with <=, >= or =."""
    where = f'--linear "{text}"'
    sides = _RELATION.split(text)
    if len(sides) != 3:
        raise ConstraintError(f'{where}: expected a sum and a limit, as in "x:y + 2 y:x <= 3".')
    weights: dict[tuple[str, str], float] = {}
    for weight, name in _sum(sides[0], where):
        place = _coefficient(name, where)
        weights[place] = weights.get(place, 0.0) + weight
    limit = number(sides[2], where)
    lower = -np.inf if sides[1] == "<=" else limit
    upper = np.inf if sides[1] == ">=" else limit
    return cindy.linear(weights, lower, upper)


def energy(text: str) -> Any:
    """ "x,y,z", or "all": the states whose energy the quadratic terms preserve."""
    where = f'--energy "{text}"'
    return cindy.preserve_energy(None if text.strip() == "all" else name_list(text, where))


KINDS: dict[str, Callable[[str], Any]] = {
    kind.__name__: kind for kind in (conserve, exchange, fix, bound, tie, linear, energy)
}
"""The reader of each kind of constraint, by the name of its option."""


def _coefficient(text: str, where: str) -> tuple[str, str]:
    state, colon, term = text.partition(":")
    if not (state.strip() and colon and term.strip()):
        raise ConstraintError(
            f'{where}: "{text.strip()}" must name a coefficient as state:term, as in "x:y^2".'
        )
    return state.strip(), term.strip()


def _sum(text: str, where: str) -> list[tuple[float, str]]:
    """ "S + 2 ES - P" as [(1, "S"), (2, "ES"), (-1, "P")]; a star after a number is allowed."""
    # Signs between blanks separate summands, since a name may contain a sign (Ca2+). Without blanks all signs
    # do, if the rest are plain words.
    spaced = re.split(r"\s+([+-])\s+", text.strip())
    if len(spaced) == 1 and re.fullmatch(r"[\s\w.*]+([+-][\s\w.*]+)+", text.strip()):
        spaced = [piece for piece in re.split(r"(?<![eE])([+-])", text.strip()) if piece]
    summands = []
    for sign, piece in zip(["+", *spaced[1::2]], spaced[0::2], strict=True):
        match = re.fullmatch(rf"\s*([+-]?)\s*(?:({_NUMBER})\s*\*?\s*)?([^\W\d].*?)\s*", piece)
        if match is None:
            raise ConstraintError(f'{where}: "{piece.strip()}" is not a name with a number before it.')
        negative = (sign == "-") != (match[1] == "-")
        summands.append((-float(match[2] or 1.0) if negative else float(match[2] or 1.0), match[3]))
    return summands
