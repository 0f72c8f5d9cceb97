"""What a user types, turned into objects: bases, formulations, selections, times and numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np

import cindy
from cindy._check import did_you_mean
from cindy._types import Floats
from cindy.basis import Basis
from cindy.errors import DataError
from cindy.formulation import Formulation
from cindy.pipeline import (
    basis_from_text,
    choose,
    correction_from_text,
    formulation_from_text,
    number,
    selection_from_text,
    weights_from_text,
    whole,
)
from cindy.pipeline import name_list as names
from cindy.problem import Weights
from cindy.selection import Selection
from cindy.solver import Correction

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


def basis(
    text: str, terms: Mapping[str, str] | None = None, parameters: Mapping[str, Any] | None = None
) -> Basis:
    """A basis as in "poly:3", and further terms, by name, as formulas with numbers to be found."""
    return basis_from_text(text, terms, parameters, where="--basis")


def formulation(
    text: str, *, order: int | None = None, window: int | None = None, initial: str | None = None
) -> Formulation:
    """A formulation by name, with the settings that it takes; "integral:2:rates" as in `identify`.

    >>> formulation("integral", order=2) == cindy.Integral(order=2)
    True
    """
    where = "--formulation"
    text, colon, rest = text.partition(":")
    if colon:
        if any(setting is not None for setting in (order, window, initial)):
            raise DataError(f'{where}: "{text}:{rest}" says the order; leave --order and the others out.')
        return formulation_from_text(f"{text}:{rest}", where=where)
    kind = choose(text, {name: name for name in ("integral", "differential", "discrete", "weak")}, where)
    given = {"--order": order, "--window": window, "--initial": initial}
    takes = {
        "integral": ("--order", "--window", "--initial"),
        "differential": ("--order",),
        "discrete": (),
        "weak": ("--order",),
    }[kind]
    for name, value in given.items():
        if value is not None and name not in takes:
            raise DataError(f"{name} is not a setting of the {kind} formulation.")
    if kind == "discrete":
        return cindy.Discrete()
    if kind == "differential":
        return cindy.Differential(order=order or 1)
    if kind == "weak":
        return cindy.Weak(order=order or 1)
    return cindy.Integral(order=order or 1, window=window, initial=initial or "free")  # type: ignore[arg-type]


def selection(text: str) -> Selection:
    """A rule of selection as in "significance:0.05", "cv:5", "bic", "bic:plain", "gap:1e-6", "terms:7"."""
    return selection_from_text(text, where="--selection")


def correction(text: str) -> Correction:
    """A correction by name: direct, blended, fully-corrective, plain."""
    return correction_from_text(text, where="--correction")


def weights(text: str) -> Weights:
    """Weights by name: adaptive or uniform."""
    return weights_from_text(text, where="--weights")


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
