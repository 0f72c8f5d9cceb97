"""What each move of the search is worth: one of them is taken away, and data that can fail are fitted again.

A move is a way from one support to another, a start, or a look at the data that begins the search anew. The
library has no switches for them. Here the function that makes a move is replaced by one that makes none:

    exchange      a term added for the sake of those that can then go (`Supports.settle`)
    merge         one term in the place of several that add up to it (`Supports.settle`)
    rivals        fits of what explains the rows of the best model almost as well (`passes.search`)
    clearer       a law without terms that only noise tells apart (`Search.follow`)
    extra starts  models smaller and larger than the best of the first path
    combinations  other combinations of the terms of one equation (`passes.recombined`)
    second look   outliers, unequal noise, noise with memory, smooth errors
    elimination   a start by backward elimination of the whole dictionary
    regrowth      supports begun anew with other terms where starts disagree
    all           all of these at once

`python -m benchmarks ablation --methods "chaotic 40 %" --size 20 --names exchange,merge --seeds 0` takes some
kinds of data, so many data sets of each (spread over all of them), and some moves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.integrate import solve_ivp

import cindy
from benchmarks import chaotic_systems, constants, solver_made
from benchmarks.cells import Row, Subset, measured
from benchmarks.constants import Case
from benchmarks.table import write
from cindy.selection import trying

__all__ = ["KINDS", "MOVES", "run"]

NONE = "none"
SEEDS = (0,)

_PASSES, _CANDIDATES = "cindy.pipeline.passes", "cindy.selection.candidates"
MOVES: dict[str, dict[str, Any]] = {
    NONE: {},
    "exchange": {"cindy.selection.supports.Supports._exchanged": lambda self, fit: None},
    "merge": {"cindy.selection.supports.Supports._merged": lambda self, fit: None},
    "rivals": {f"{_PASSES}._with_rivals": lambda state, best: None},
    "clearer": {"cindy.pipeline.models_met.Search.clearer": lambda self, met: None},
    "extra starts": {"passes_shares": (1.0,)},
    "combinations": {f"{_PASSES}.recombined": lambda supports, own, groups, within, most: []},
    "second look": {"cindy.pipeline.fitted.second_look": lambda look, variance: look},
    "elimination": {
        f"{_PASSES}.eliminated": lambda supports, first=(): None,
        f"{_CANDIDATES}.eliminated": lambda supports, first=(): None,
    },
    "regrowth": {
        "cindy.selection.orders.regrown": lambda supports, fits: min(fits, key=supports.criterion),
        f"{_CANDIDATES}.regrown": lambda supports, fits: min(fits, key=supports.criterion),
    },
}
"""What is replaced to take each move away: functions by their place, numbers by their name in `Effort`."""
MOVES["all"] = {place: instead for move in MOVES.values() for place, instead in move.items()}


def _chaotic(noise: float) -> Callable[[Subset, int], Iterator[Callable[[], Case]]]:
    """The seventy chaotic systems at one level of noise."""

    def cases(subset: Subset, seed: int) -> Iterator[Callable[[], Case]]:
        for system in chaotic_systems.systems().values():

            def case(system: chaotic_systems.Chaotic = system) -> Case:
                t, x = chaotic_systems.clean(system, subset.cache)
                data = chaotic_systems.measured_with(system, t, x, noise, seed)
                return Case(system.name, data, system.basis, system.coef)

            yield case

    return cases


def _textbook(subset: Subset, seed: int) -> Iterator[Callable[[], Case]]:
    """Twelve textbook systems, one trajectory of 512 samples each with 5 % noise."""
    for place, (name, system) in enumerate(solver_made.SYSTEMS.items()):

        def case(place: int = place, name: str = name, system: solver_made.Textbook = system) -> Case:
            t = np.linspace(0.0, system.horizon, 512)
            run = solve_ivp(
                lambda _, x: system.slope(x),
                (0, t[-1]),
                system.start,
                t_eval=t,
                method="DOP853",
                rtol=1e-10,
                atol=1e-12,
            )
            x, rng = run.y.T, np.random.default_rng([seed, place])
            noisy = x + 0.05 * x.std(axis=0) * rng.standard_normal(x.shape)
            data = cindy.Trajectory(t, noisy, system.states)
            return Case(name, data, cindy.Polynomial(solver_made.DEGREE), system.truth)

        yield case


KINDS: dict[str, Callable[[Subset, int], Iterator[Callable[[], Case]]]] = {
    "chaotic 40 %": _chaotic(0.4),
    "chaotic 10 %": _chaotic(0.1),
    "textbook 5 %": _textbook,
    "closed orbit": constants.KINDS["closed orbit"],
    "short": constants.KINDS["short"],
    "nearly clean": constants.KINDS["nearly clean"],
}


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """One cell a kind of data, data set, draw and move; a table of how many laws are right."""
    moves = [NONE, *(move for move in subset.pick("names", tuple(MOVES)) if move != NONE)]
    planned: dict[tuple[str, int, int], Callable[[], Case]] = {}
    for kind in subset.pick("methods", tuple(KINDS)):
        for seed in subset.pick("seeds", SEEDS):
            for place, make in _spread(list(KINDS[kind](subset, seed)), subset.size):
                planned[kind, seed, place] = make
    cells = [
        {"kind": kind, "seed": seed, "place": place, "without": move}
        for kind, seed, place in planned
        for move in moves
    ]

    def work(kind: str, seed: int, place: int, without: str) -> Row:
        case = planned[kind, seed, place]()
        with taken_away(without):
            return {"case": case.name, **_fitted(case)}

    rows = measured("ablation_cells", cells, work, subset)
    write(
        "ablation",
        "The search without each of its moves",
        _table(rows),
        "How many laws have exactly the true terms when one move of the search is taken away; in brackets, "
        "how many data sets it then gains and loses. Seconds are the sum over all data sets. There are 70 "
        "chaotic systems, 12 textbook systems (one trajectory each), 4 closed orbits, 6 short and 3 nearly "
        "clean records; a column tells how many of them were run, spread evenly over all. A move that "
        "changes nothing on a few of them may decide on others: only a run of all may take one away.",
        folder=subset.out,
    )


def _spread(cases: list[Callable[[], Case]], size: int) -> list[tuple[int, Callable[[], Case]]]:
    """So many of the cases, evenly over all of them, each with its place; all of them for 0."""
    count = min(size or len(cases), len(cases))
    places = np.unique(np.linspace(0, len(cases) - 1, count).round().astype(int))
    return [(int(place), cases[place]) for place in places]


@contextmanager
def taken_away(move: str) -> Iterator[None]:
    """The library without a move."""
    with ExitStack() as stack:
        for place, instead in MOVES[move].items():
            stack.enter_context(patch(place, instead) if "." in place else trying(**{place: instead}))
        yield


def _fitted(case: Case) -> Row:
    began = time.process_time()
    try:
        coef = np.asarray(cindy.identify(case.data, case.basis, formulation=case.form).coef)
    except cindy.CindyError:
        coef = np.zeros_like(case.coef)
    there, true = coef != 0, case.coef != 0
    return {
        "right": int(np.array_equal(there, true)),
        "extra": int(np.sum(there & ~true)),
        "missing": int(np.sum(~there & true)),
        "seconds": time.process_time() - began,
    }


def _table(rows: Sequence[Row]) -> list[Row]:
    """A line a move, a column a kind."""
    right = {(r["without"], r["kind"], r["seed"], r["place"]): int(r["right"]) for r in rows}
    kinds = dict.fromkeys(row["kind"] for row in rows)
    table = []
    for move in dict.fromkeys(row["without"] for row in rows):
        line: Row = {"without": move}
        for kind in kinds:
            here = [row for row in rows if (row["without"], row["kind"]) == (move, kind)]
            line[kind] = f"{sum(int(row['right']) for row in here)} of {len(here)}"
            keys = [(kind, row["seed"], row["place"]) for row in here]
            gained = sum(right[(move, *key)] > right.get((NONE, *key), 1) for key in keys)
            lost = sum(right[(move, *key)] < right.get((NONE, *key), 0) for key in keys)
            if gained or lost:
                line[kind] += f" (+{gained} −{lost})"
        mine = [row for row in rows if row["without"] == move]
        line["extra"] = sum(int(row["extra"]) for row in mine)
        line["missing"] = sum(int(row["missing"]) for row in mine)
        line["seconds"] = round(sum(float(row["seconds"]) for row in mine), 1)
        table.append(line)
    return table
