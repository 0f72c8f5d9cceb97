"""From trajectories to a summary: in chunks, over any executor, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from itertools import chain
from typing import Any

from cindy._check import integer, short
from cindy.basis import Basis
from cindy.data import Source, Trajectory, as_fields, as_source, is_fields, same_variables
from cindy.errors import DataError
from cindy.evidence import WeakRows
from cindy.formulation import Formulation, Integral, Weak
from cindy.summary.backends.executor import map_in_order, workers
from cindy.summary.factoring import Factored, Factoring, Gathering, Glimpse
from cindy.summary.pieces import Load, Task, tasks
from cindy.summary.summary import Summary

__all__ = ["accumulate", "summary_of_fields"]

Progress = Callable[[int, int | None], None]

_BLOCK_MEMORY = 256e6
"""Bytes that all blocks together may take: fewer blocks when terms are many."""


def accumulate(
    trajectories: Any,
    basis: Basis,
    *,
    formulation: Formulation | None = None,
    blocks: int = 50,
    processes: int = 1,
    executor: Executor | None = None,
    device: Any = None,
    chunk: int = 4096,
    progress: Progress | None = None,
) -> Summary:
    """The summary of the trajectories, in one pass over them.

    trajectories: one trajectory, a pair (t, x), a list of these, or any iterable of
        them, which is then read once and never held in memory; files by read(paths, lazy=True), a Dask
        bag of trajectories and the like, whose parts are loaded by whoever works on them; fields
    formulation: by default Integral(), and Weak() for fields
    blocks: how many blocks to aim for; fewer when the data or the memory ask for it
    processes: how many processes share the work; the result does not depend on it
    executor: any concurrent.futures.Executor, or a Dask client, that does the work instead;
        the result is the same, bit for bit
    device: "cuda", or another device of PyTorch or CuPy, where terms are evaluated, integrated
        and factorised; None for numpy
    chunk: samples whose terms are held in memory at a time; nor on this
    progress: called with the samples done so far and their total (None where it is not known)

    >>> import numpy as np
    >>> from cindy.basis import Polynomial
    >>> t = np.linspace(0, 5, 200)
    >>> decay = Trajectory(t, np.exp(-2 * t), states=("x",))
    >>> total = accumulate(decay, Polynomial(1)).total
    >>> np.abs(np.linalg.lstsq(total.design, total.target)[0]).round(6).tolist()
    [[0.0], [2.0]]
    """
    if formulation is None:
        formulation = Weak() if is_fields(trajectories) else Integral()
    _check_arguments(basis, formulation)
    integer(chunk, "accumulate: `chunk`", least=1)
    if is_fields(trajectories):
        return summary_of_fields(WeakRows.of(as_fields(trajectories), basis, formulation), blocks, progress)
    integer(blocks, "accumulate: `blocks`", least=1)
    source = as_source(trajectories)
    with workers(executor, processes, (basis,), where="accumulate") as hands:
        look = _look(source, hands)
        first = look[0]
        terms = len(basis.names(formulation.variables(first.states, first.inputs)))
        aim = max(1, min(blocks, int(_BLOCK_MEMORY / (8 * (terms + first.dimension) ** 2))))
        fitted = formulation.fit_to(look)
        factoring = Factoring(basis, fitted, chunk, device)
        gathering = Gathering(aim, terms, stream=source.whole is None)
        total = None if source.whole is None else sum(map(len, source.whole))
        done = 0
        for _, made in map_in_order(factoring, _work(source, fitted, aim, factoring.portion), hands):
            _check_same(first, made)
            gathering.add(made)
            done += made.read
            if progress is not None:
                progress(done, total)
    return gathering.summary(first, basis, fitted)


def summary_of_fields(evidence: WeakRows, blocks: int = 50, progress: Progress | None = None) -> Summary:
    """The summary of fields in the weak form, in one pass over their values."""
    gathered = evidence.gathered(integer(blocks, "accumulate: `blocks`", least=1), progress)
    first = evidence.fields[0]
    return Summary(
        gathered.blocks,
        gathered.labels,
        first.states,
        first.inputs,
        evidence.basis,
        evidence.form,
        gathered.samples,
        0,
        gathered.spurious,
    )


def _check_arguments(basis: Basis, formulation: Formulation) -> None:
    if not isinstance(basis, Basis):
        raise DataError(f"accumulate: `basis` must be a basis such as Polynomial(3), but is {short(basis)}.")
    if not isinstance(formulation, Formulation):
        raise DataError(
            "accumulate: `formulation` must be Integral(), Differential() or Discrete(), "
            f"but is {formulation!r}."
        )
    if basis.unknowns():
        names = ", ".join(one.name for one in basis.unknowns())
        raise DataError(
            f"accumulate: the terms of {basis!r} hold {names}, whose value is not known. `identify` finds "
            "such parameters; or give them values with basis.at({…})."
        )


def _look(source: Source, executor: Executor | None) -> list[Trajectory]:
    """Trajectories to choose the settings by: all of a list, some of anything else."""
    if source.whole is not None:
        return source.whole
    parts = source.first_parts()
    hands = executor if source.apart else None
    look = list(same_variables(chain.from_iterable(few for _, few in map_in_order(Glimpse(), parts, hands))))
    if not look:
        raise DataError("accumulate: no trajectories: the iterable is empty.")
    return look


def _work(source: Source, formulation: Formulation, aim: int, portion: int) -> Iterator[Task | Load]:
    if source.apart:
        parts = tuple(source.parts)
        return (Load(part, k, -(-aim // len(parts)), portion) for k, part in enumerate(parts))
    sizes = None if source.whole is None else [len(one) for one in source.whole]
    return tasks(iter(source), formulation, aim, sizes, portion)


def _check_same(first: Trajectory, made: Factored) -> None:
    """Parts that were loaded elsewhere must have the variables of the first."""
    if made.variables is not None and made.variables != (first.states, first.inputs):
        states, inputs = made.variables
        raise DataError(
            f"All trajectories must have the same variables, but the first has {', '.join(first.variables)} "
            f"and {made.where} has {', '.join(states + inputs)}. Give all the same names in the same order."
        )
