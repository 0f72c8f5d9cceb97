"""The evaluation of many terms with one multiplication each.

Terms share factors: x, x y and x y² are one chain of products. A plan is such a chain for all terms of a
dictionary:

1. Every term becomes a sorted tuple of base factors, in which a power repeats its factor: x y² is (x, y, y).
2. From short to long tuples, a term becomes the product of an earlier term and one factor. If there is no
   such earlier term, auxiliary steps compute the missing product.
3. Rows are evaluated in blocks that fit in the cache; each step writes its values directly to a column.

So n terms cost about n multiplications per sample and one evaluation of each function, whatever their degree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from cindy._arrays import Floats, Space
from cindy.basis.term import Factor, Term, differentiate, term_name
from cindy.errors import DataError

BLOCK = 4096
"""Rows that are evaluated at a time: a few hundred columns of so many rows fit in the cache."""


@dataclass(frozen=True, slots=True)
class _Operation:
    """One value: a factor, the product of two earlier values (`left` ≥ 0), or otherwise the number 1."""

    factor: Factor | None = None
    left: int = -1
    right: int = -1


@dataclass(frozen=True, eq=False)
class Plan:
    """The steps that evaluate `terms`, each using earlier ones.

    steps: in order of computation; step k makes value k
    slots: for each term, the step whose value it is
    """

    terms: tuple[Term, ...]
    variables: tuple[str, ...]
    steps: tuple[_Operation, ...]
    slots: tuple[int, ...]

    @classmethod
    def of(cls, terms: Sequence[Term], variables: Sequence[str]) -> Plan:
        """The plan of these terms, by steps 1 and 2."""
        # Step 1. Numbers stand for factors, because the tuples are hashed often.
        bases: dict[Factor, int] = {}
        units = []
        for term in terms:
            powers = [(bases.setdefault(factor.base, len(bases)), factor.power) for factor in term]
            units.append(tuple(number for number, power in powers for _ in range(power)))
        factors = list(bases)
        steps: list[_Operation] = []
        known: dict[tuple[int, ...], int] = {}

        def slot(unit: tuple[int, ...]) -> int:
            if unit not in known:
                if len(unit) < 2:
                    step = _Operation(factors[unit[0]] if unit else None)
                else:
                    # The last factor is dropped first: by degree, what remains is then a recent term.
                    drops = range(len(unit) - 1, -1, -1)
                    drop = next((i for i in drops if unit[:i] + unit[i + 1 :] in known), len(unit) - 1)
                    earlier = slot(unit[:drop] + unit[drop + 1 :])
                    step = _Operation(None, earlier, slot((unit[drop],)))
                known[unit] = len(steps)
                steps.append(step)
            return known[unit]

        # Step 2. Shorter tuples come first, so that the factors of a term are known before it.
        for unit in sorted(dict.fromkeys(units), key=len):
            slot(unit)
        return cls(tuple(terms), tuple(variables), tuple(steps), tuple(known[unit] for unit in units))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The terms as a user writes them."""
        return tuple(term_name(term) for term in self.terms)

    @cached_property
    def degree(self) -> int:
        """The largest degree of a term in all variables together."""
        return max(sum(factor.power for factor in term if factor.kind == "variable") for term in self.terms)

    @cached_property
    def slopes(self) -> tuple[Plan, tuple[_Slope, ...]]:
        """A plan for the terms of which derivatives consist, and every derivative as a sum of those terms."""
        columns: dict[Term, int] = {}
        entries = []
        for i, term in enumerate(self.terms):
            for j, variable in enumerate(self.variables):
                for coefficient, slope in differentiate(term, variable, self.variables):
                    entries.append(_Slope(i, j, coefficient, columns.setdefault(slope, len(columns))))
        return Plan.of(tuple(columns), self.variables), tuple(entries)

    def run(self, x: Floats, out: Floats) -> None:
        """Write the terms at the rows of x (n, variables) into out (n, terms)."""
        column = dict(zip(self.slots, range(len(self.slots)), strict=True))
        place = {name: i for i, name in enumerate(self.variables)}
        # Auxiliary steps have no column in the output; all blocks write them to the same memory.
        spare = np.empty((len(self.steps) - len(column), min(BLOCK, len(x))))
        for start in range(0, len(x), BLOCK):
            rows = slice(start, min(start + BLOCK, len(x)))
            # Contiguous, because a strided column is read from memory again by every term that uses it.
            inputs = x[rows].T.copy()
            values: list[Floats] = []
            unused = 0
            for k, step in enumerate(self.steps):
                if k in column:
                    target = out[rows, column[k]]
                else:
                    target = spare[unused, : inputs.shape[1]]
                    unused += 1
                if step.left >= 0:
                    np.multiply(values[step.left], values[step.right], out=target)
                elif step.factor is None:
                    target.fill(1.0)
                else:
                    _write(step.factor, [inputs[place[v]] for v in step.factor.variables], target, start)
                values.append(target)

    def on_device(self, x: Any, space: Space) -> Any:
        """(terms, n): the terms at the columns of x (variables, n), in a space of arrays."""
        xp = space.xp
        samples = int(x.shape[1])
        out = xp.empty((len(self.terms), samples), dtype=xp.float64, device=space.device)
        column = dict(zip(self.slots, range(len(self.slots)), strict=True))
        given = {name: x[i, :] for i, name in enumerate(self.variables)}
        values: list[Any] = []
        for k, step in enumerate(self.steps):
            if step.left >= 0:
                value = values[step.left] * values[step.right]
            elif step.factor is None:
                value = xp.ones((samples,), dtype=xp.float64, device=space.device)
            else:
                value = _on_device(step.factor, [given[v] for v in step.factor.variables], space)
            if k in column:
                out[column[k], :] = value
                value = out[column[k], :]
            values.append(value)
        return out


class _Slope(NamedTuple):
    """A summand of d term / d variable: `coefficient` times the slope term `column`."""

    term: int
    variable: int
    coefficient: float
    column: int


def _write(factor: Factor, columns: list[Floats], target: Floats, start: int) -> None:
    """Write the values of a factor without its power to `target`."""
    if factor.kind == "variable":
        target[:] = columns[0]
    elif factor.kind == "call":
        target[:] = call(factor, columns, start)
    elif factor.kind == "derivative":
        raise DataError(
            f'evaluate: the term "{term_name((factor,))}" is a derivative in space, which rows of values '
            "cannot give. Terms with derivatives need a Field."
        )
    else:
        if factor.frequency == 1.0:
            argument = columns[0]
        else:
            np.multiply(columns[0], factor.frequency, out=target)
            argument = target
        (np.sin if factor.kind == "sin" else np.cos)(argument, out=target)


def _on_device(factor: Factor, columns: list[Any], space: Space) -> Any:
    if factor.kind == "variable":
        return columns[0]
    if factor.kind in ("sin", "cos"):
        argument = columns[0] if factor.frequency == 1.0 else columns[0] * factor.frequency
        return space.xp.sin(argument) if factor.kind == "sin" else space.xp.cos(argument)
    # Functions of the user are written for numpy.
    return space.put(call(factor, [space.get(column) for column in columns]))


def call(factor: Factor, columns: Sequence[Floats], start: int = 0, *, finite: bool = True) -> Floats:
    """The n values of a custom factor at columns of length n, or an error that names the function.

    start: number of the first sample, for the message
    finite: whether nan and inf are errors
    """
    n = len(columns[0])
    where = f"Custom: the function {factor.name!r}"
    # A function that changes its argument in place would change the data for all later terms.
    views = [values.view() for values in columns]
    for view in views:
        view.flags.writeable = False
    try:
        with np.errstate(all="ignore"):
            if factor.expression is not None:
                result = factor.expression.evaluate(dict(zip(factor.variables, views, strict=True)))
            else:
                assert factor.function is not None
                result = factor.function(*views)
        array = np.asarray(result)
    except Exception as error:
        raise DataError(
            f"{where} raised {type(error).__name__}: {error}. "
            f"It is called with arrays of shape ({n},) and must work on them element by element."
        ) from error
    if array.shape != (n,):
        raise DataError(
            f"{where} must return one number per sample, an array of shape ({n},), "
            f"but returned shape {array.shape}."
        )
    if array.dtype.kind not in "fiub":
        raise DataError(f"{where} must return real numbers, but returned {array.dtype}.")
    if finite and not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array)))
        arguments = ", ".join(
            f"{name} = {values[row]:.6g}" for name, values in zip(factor.variables, columns, strict=True)
        )
        raise DataError(
            f"{where} must return finite numbers, but gave {array[row]} at sample {start + row} "
            f"({arguments}). Change the function or leave those samples out."
        )
    return np.asarray(array, dtype=np.float64)
