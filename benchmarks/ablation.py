"""What each move of the search is worth: one of them is taken away, and data that can fail are fitted again.

A move is a way from one support to another, a start, or a look at the data that begins the search anew. The
library has no switches for them. Here the function that makes a move is replaced by one that makes none:

    exchange      a term added for the sake of those that can then go (`Supports.settle`)
    merge         one term in the place of several that add up to it (`Supports.settle`)
    combinations  fits of other combinations of the terms of one equation (`starts.search`)
    clearer       a law without terms that only noise tells apart (`Search.following`)
    extra starts  models smaller and larger than the best of the first path
    shortest      the shortest equations met as one more start (`starts.shortest_equations`)
    apart         a start by the best support of each equation for itself (`starts.first_starts`)
    second look   outliers, unequal noise, noise with memory, smooth errors
    elimination   a start by backward elimination of each equation alone
    regrowth      supports begun anew with other terms where starts disagree
    all           all of these at once

The kinds of data are those on which a move can matter: each move was once chosen by one of these benchmarks.
Where a move makes nothing of its own in a fit, the fit without it is the same and is not repeated; `acts`
counts the data sets in which it makes something.

`python -m benchmarks ablation --methods "chaotic 40 %" --size 20 --names exchange,merge --seeds 0` takes some
kinds of data, so many data sets of each (spread over all of them), and some moves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pkgutil import resolve_name
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.integrate import solve_ivp

import cindy
from benchmarks import (
    chaotic_systems,
    constants,
    damage,
    hard_data,
    hidden,
    honesty,
    lorenz_map,
    oddities,
    parameters,
    short_clean,
    solver_made,
    wrong_noise,
)
from benchmarks.attempt import truth_of
from benchmarks.cells import Row, Subset, measured
from benchmarks.constants import Case
from benchmarks.table import write
from cindy import systems
from cindy.selection import trying

__all__ = ["KINDS", "MOVES", "run"]

NONE = "none"
SEEDS = (0,)

_PASSES, _CANDIDATES = "cindy.search.starts", "cindy.selection.candidates"


def _least(supports: Any, fits: Any) -> Any:
    return min(fits, key=supports.criterion)


MOVES: dict[str, dict[str, Any]] = {
    NONE: {},
    "exchange": {"cindy.selection.supports.Supports._exchanged": lambda self, fit: None},
    "merge": {"cindy.selection.supports.Supports._merged": lambda self, fit: None},
    "combinations": {f"{_PASSES}.recombined": lambda supports, own, groups, within, most: []},
    "clearer": {"cindy.search.loop.Search.clearer": lambda self, met: None},
    "extra starts": {"starts_shares": (1.0,)},
    "shortest": {f"{_PASSES}.shortest_equations": lambda state, best: None},
    "apart": {f"{_PASSES}.equation_by_equation": lambda supports, parts, path: None},
    "second look": {"cindy.identification.fitted.look_again": lambda look, variance: look},
    "elimination": {
        "cindy.selection.orders.eliminated": lambda supports, first=(): None,
        f"{_PASSES}.eliminated": lambda supports, first=(): None,
    },
    "regrowth": {"cindy.selection.orders.regrown": _least, f"{_CANDIDATES}.regrown": _least},
}
"""What is replaced to take each move away: functions by their place, numbers by their name in `Effort`."""
MOVES["all"] = {place: instead for move in MOVES.values() for place, instead in move.items()}

Cell = Callable[[], Row]
Kind = Callable[[Subset, int], Iterator[Cell]]


@dataclass(frozen=True)
class Told(Case):
    """A data set with further arguments of `identify`."""

    settings: dict[str, Any] = field(default_factory=dict)


def _cases(*kinds: Callable[[Subset, int], Iterator[Callable[[], Case]]]) -> Kind:
    """Cells of the data sets that other benchmarks make."""

    def cells(subset: Subset, seed: int) -> Iterator[Cell]:
        for kind in kinds:
            for make in kind(subset, seed):
                yield partial(_fitted, make)

    return cells


def _rows(measure: Callable[..., Row], *settings: Row) -> Kind:
    """Cells that other benchmarks measure themselves, a cell for each of some settings."""

    def cells(subset: Subset, seed: int) -> Iterator[Cell]:
        for setting in settings:
            yield partial(_scored, measure, {**setting, "seed": seed})

    return cells


def _scored(measure: Callable[..., Row], cell: Row) -> Row:
    began = time.process_time()
    row = measure(**cell)
    # States far from zero are judged by their rates: the terms of a shifted law are others.
    right = row["right"] if "right" in row else int(row["rates"] < 0.1)
    name = " ".join(str(value) for key, value in cell.items() if key not in ("method", "seed"))
    return {
        "case": name,
        "right": int(right),
        "extra": row.get("extra", 0),
        "missing": row.get("missing", 0),
        "seconds": row.get("seconds", time.process_time() - began),
    }


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


def _few(**settings: Any) -> Callable[[Subset, int], Iterator[Callable[[], Case]]]:
    """Few samples of nearly dependent terms, as in `hard_data`."""

    def cases(subset: Subset, seed: int) -> Iterator[Callable[[], Case]]:
        for system, basis, size in hard_data.FEW:

            def case(system: systems.System = system, basis: cindy.Basis = basis, size: Any = size) -> Case:
                truth = hard_data.truth_in(system, basis).astype(np.float64)
                form = cindy.Integral(order=system.order)
                return Told(system.name, system.simulate(seed, **size), basis, truth, form, settings)

            yield case

    return cases


def _repeated(subset: Subset, seed: int) -> Iterator[Callable[[], Case]]:
    """A dictionary with sin², cos² and 1, which depend on each other; states measured or denoised."""
    system = systems.kuramoto(3)
    basis = cindy.Trigonometric(1) * cindy.Trigonometric(1) + cindy.Polynomial(0)
    for passes, noise in ((None, 1e-4), (1, 1e-4), (None, 1e-2)):

        def case(passes: int | None = passes, noise: float = noise) -> Case:
            data = system.simulate(seed, noise=noise)[::4]
            truth = hard_data.truth_in(system, basis).astype(np.float64)
            return Told(f"kuramoto3 {noise:g} {passes}", data, basis, truth, settings={"passes": passes})

        yield case


Reaction = tuple[dict[tuple[str, str], float], tuple[float, ...], float, list[dict[str, float]]]
REACTIONS: dict[str, Reaction] = {
    "enzyme": (
        {
            ("E", "ES"): 1.2, ("E", "E S"): -1.0, ("S", "ES"): 0.5, ("S", "E S"): -1.0,
            ("ES", "ES"): -1.2, ("ES", "E S"): 1.0, ("P", "ES"): 0.7,
        },
        (1.0, 2.0, 0.1, 0.0),
        5.0,
        [{"S": 1, "ES": 1, "P": 1}, {"E": 1, "ES": 1}],
    ),
    "epidemic": (
        {("S", "S I"): -1.5, ("I", "S I"): 1.5, ("I", "I"): -0.4, ("R", "I"): 0.4},
        (0.99, 0.01, 0.0),
        20.0,
        [{"S": 1, "I": 1, "R": 1}],
    ),
}  # fmt: skip
"""Reactions whose totals are conserved: coefficients by state and term, start, horizon, and the totals."""


def _conserved(subset: Subset, seed: int) -> Iterator[Callable[[], Case]]:
    """Single runs with conserved totals as constraints: along each, terms are the same but for a factor."""
    basis = cindy.Polynomial(2)
    for name, (equations, start, horizon, totals) in REACTIONS.items():
        for passes in (None, 1):

            def case(name: str = name, passes: int | None = passes, law: Any = REACTIONS[name]) -> Case:
                equations, start, horizon, totals = law
                states = tuple(dict.fromkeys(state for state, _ in equations))
                truth = truth_of(basis, states, equations)
                t = np.linspace(0, horizon, 400)

                def slope(_: float, x: Any) -> Any:
                    return (basis.evaluate(x[None], states) @ truth)[0]

                exact = solve_ivp(slope, (0, horizon), start, t_eval=t, rtol=1e-10, atol=1e-12).y.T
                rng = np.random.default_rng([seed, 15])
                noisy = exact + 0.01 * exact.std(axis=0) * rng.standard_normal(exact.shape)
                settings = {"passes": passes, "constraints": [cindy.conserve(total) for total in totals]}
                data = cindy.Trajectory(t, noisy, states)
                return Told(f"{name} {passes}", data, basis, truth, settings=settings)

            yield case


def _physics(subset: Subset, seed: int) -> Iterator[Callable[[], Case]]:
    """Systems with all that is known of them as constraints."""
    for system, noise in (
        (systems.kuramoto(5), 1e-2),
        (systems.fput(5), 1e-4),
        (systems.fput(5, amplitude=1.0), 1e-2),
        (systems.michaelis_menten(), 1e-3),
    ):
        for passes in (None, 1):

            def case(system: systems.System = system, noise: float = noise, passes: Any = passes) -> Case:
                data = system.simulate(seed, noise=noise, points=2000)
                form = cindy.Integral(order=system.order)
                settings = {"passes": passes, "constraints": system.constraints()}
                return Told(f"{system.name} {passes}", data, system.basis, system.coef, form, settings)

            yield case


def _lawless(subset: Subset, seed: int) -> Iterator[Callable[[], Case]]:
    """Random walks and smoothed noise: no terms is right."""
    for name in ("random walk", "smoothed noise"):

        def case(name: str = name) -> Case:
            x = honesty.LAWLESS[name](np.random.default_rng([seed, 6]))
            data = cindy.Trajectory(0.05 * np.arange(len(x)), x, ("x", "y"))
            return Case(name, data, cindy.Polynomial(honesty.DEGREE), np.zeros((10, 2)))

        yield case


STATES = {"method": "fitted states"}
INSTRUMENTS = ("multiplicative", "autoregressive 0.9", "quantised", "running mean of 5")


def _instruments(*laws: str) -> Kind:
    return _rows(
        wrong_noise._measure,
        *({**STATES, "noise": 0.1, "kind": kind, "law": law} for law in laws for kind in INSTRUMENTS),
    )


KINDS: dict[str, Kind] = {
    "chaotic 40 %": _cases(_chaotic(0.4)),
    "chaotic 20 %": _cases(_chaotic(0.2)),
    "chaotic 10 %": _cases(_chaotic(0.1)),
    "textbook 5 %": _cases(_textbook),
    "closed orbit": _cases(constants.KINDS["closed orbit"]),
    "short": _cases(constants.KINDS["short"]),
    "nearly clean": _cases(constants.KINDS["nearly clean"]),
    "competition": _instruments("competition"),
    "instruments": _instruments("Brusselator", "FitzHugh-Nagumo"),
    "few samples": _cases(_few()),
    "few at measured states": _cases(_few(passes=1)),
    "damage": _rows(
        damage._measure,
        *(
            {**STATES, "case": case}
            for case in ("lotka-volterra 26 years", "lorenz 1 % outliers", "lorenz unequal noise")
        ),
    ),
    "lorenz map": _rows(lorenz_map._measure, {"horizon": 4.0, "noise": 0.2}, {"horizon": 10.0, "noise": 0.3}),
    "short clean": _rows(short_clean._measure, *({**STATES, "case": case} for case in short_clean.CASES)),
    "clean at measured states": _rows(
        short_clean._measure, *({"method": "one pass", "case": case} for case in short_clean.CASES)
    ),
    "dependent": _cases(_repeated),
    "offset": _rows(
        oddities._shifted,
        *(
            {"kind": "curved", "data": name, "offset": offset, "noise": 0.01}
            for name in oddities.CURVED
            for offset in (10, 30)
        ),
    ),
    "conserved": _cases(_conserved),
    "physics": _cases(_physics),
    "honesty": _rows(honesty._covered, *({**STATES, "data": name} for name in honesty.HARD)),
    "lawless": _cases(_lawless),
    "parameters 5 %": _rows(
        parameters._measure,
        *({"law": law, "noise": 0.05} for law in ("Hill", "dry friction", "genetic switch")),
    ),
    "hidden 5 %": _rows(
        hidden._measure,
        *(
            {"system": name, "noise": 0.05}
            for name in ("Lorenz without x", "SEIR without E", "chain of masses by one")
        ),
    ),
    "fields 100 %": _cases(constants.KINDS["fields 100 %"]),
}


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """One cell a kind of data, data set, draw and move; a table of what each move changes."""
    moves = [NONE, *(move for move in subset.pick("names", tuple(MOVES)) if move != NONE)]
    planned: dict[tuple[str, int, int], Cell] = {}
    for kind in subset.pick("methods", tuple(KINDS)):
        for seed in subset.pick("seeds", SEEDS):
            for place, cell in _spread(list(KINDS[kind](subset, seed)), subset.size):
                planned[kind, seed, place] = cell
    cells = [
        {"kind": kind, "seed": seed, "place": place, "without": move}
        for kind, seed, place in planned
        for move in moves
    ]
    # What the search as it is did on a data set: its row, and which moves made something.
    whole: dict[tuple[str, int, int], tuple[Row, set[str]]] = {}

    def work(kind: str, seed: int, place: int, without: str) -> Row:
        data = kind, seed, place
        if without == NONE:
            with watched() as active:
                row = planned[data]()
            whole[data] = row, active
            return {**row, "acts": ""}
        row, active = whole.get(data, ({}, {without}))
        if row and without not in active:
            return {**row, "acts": 0}
        with taken_away(without):
            return {**planned[data](), "acts": 1}

    rows = measured("ablation_cells", cells, work, subset)
    write(
        "ablation",
        "The search without each of its moves",
        _table(rows),
        "Each move of the search is taken away, and data sets are fitted again. `acts`: on how many the move "
        "makes anything at all; `gained` and `lost`: on how many the terms are then exactly right, or no "
        "longer; `extra` and `missing`: by how many terms the fits differ in all; `time`: in units of the "
        "whole search; `where`: the kinds of data with gains and losses, in the first line how many laws are "
        "right. Moves were taken away on other data sets each, most on those that they were chosen on. "
        "Some are gone since: fits of supports one or two moves from the best (`near models`), and "
        "elimination of the whole dictionary where greedy growth serves now (`at measured states`). "
        "Elimination of all equations together (`under constraints`) decides nothing here, but hidden states "
        "are lost without it (`pytest tests/test_hidden.py`): constraints pin their gauge. "
        "Without `extra starts` there is no model where a user limits the "
        "path, which is no kind of data. Not every draw is a fresh one: seeds 0 and 1 of HyperRossler at 10 "
        "and 20 % noise are those on which `clearer` was chosen, seed 7 is that of the table before; and for "
        "`merge` draws were added where the first ones (3 of 21 lost) could be chance (then 8 of 30).",
        folder=subset.out,
    )


def _spread(cells: list[Cell], size: int) -> list[tuple[int, Cell]]:
    """So many of the cells, evenly over all of them, each with its place; all of them for 0."""
    count = min(size or len(cells), len(cells))
    places = np.unique(np.linspace(0, len(cells) - 1, count).round().astype(int))
    return [(int(place), cells[place]) for place in places]


@contextmanager
def taken_away(move: str) -> Iterator[None]:
    """The library without a move."""
    with ExitStack() as stack:
        for place, instead in MOVES[move].items():
            stack.enter_context(patch(place, instead) if "." in place else trying(**{place: instead}))
        yield


@contextmanager
def watched() -> Iterator[set[str]]:
    """The moves that make something else than what would stand in their place, as they do."""
    # Numbers are not watched.
    active = {move for move, places in MOVES.items() if any("." not in place for place in places)}
    with ExitStack() as stack:
        for place, instead in MOVES["all"].items():
            if "." not in place:
                continue
            owners = {move for move, places in MOVES.items() if place in places}
            stack.enter_context(patch(place, _watching(resolve_name(place), instead, active, owners)))
        yield active


def _watching(function: Any, instead: Any, active: set[str], owners: set[str]) -> Any:
    """The function, which notes its moves where it returns another object than the one in its place."""

    def watching(*given: Any, **named: Any) -> Any:
        returned = function(*given, **named)
        if not owners <= active:
            other = instead(*given, **named)
            if returned is not other and not (isinstance(returned, list) and returned == other):
                active.update(owners)
        return returned

    return watching


def _fitted(make: Callable[[], Case]) -> Row:
    case = make()
    settings = case.settings if isinstance(case, Told) else {}
    began = time.process_time()
    try:
        coef = np.asarray(cindy.identify(case.data, case.basis, formulation=case.form, **settings).coef)
    except cindy.CindyError:
        coef = np.zeros_like(case.coef)
    there, true = coef != 0, case.coef != 0
    return {
        "case": case.name,
        "right": int(np.array_equal(there, true)),
        "extra": int(np.sum(there & ~true)),
        "missing": int(np.sum(~there & true)),
        "seconds": time.process_time() - began,
    }


def _table(rows: Sequence[Row]) -> list[Row]:
    """A line a move: what changes on the data sets it was taken away on, in all and by kind."""
    whole = {_data(row): row for row in rows if row["without"] == NONE}
    kinds = dict.fromkeys(row["kind"] for row in whole.values())
    table: list[Row] = []
    for move in dict.fromkeys(row["without"] for row in rows):
        pairs = [(row, whole[_data(row)]) for row in rows if row["without"] == move and _data(row) in whole]
        changes = [(row["kind"], int(row["right"]) - int(old["right"])) for row, old in pairs]
        where = {kind: _signed([change for name, change in changes if name == kind]) for kind in kinds}
        if move == NONE:
            where = {kind: _right([row for row, _ in pairs if row["kind"] == kind]) for kind in kinds}
        line = {
            "without": move,
            "data sets": len(pairs),
            "acts": sum(row["acts"] == 1 for row, _ in pairs),
            "gained": sum(change > 0 for _, change in changes),
            "lost": sum(change < 0 for _, change in changes),
        }
        for name in ("extra", "missing"):
            line[name] = sum(int(row[name]) - int(old[name]) for row, old in pairs)
        seconds = [sum(float(row["seconds"]) for row in side) for side in zip(*pairs, strict=True)]
        line["time"] = round(seconds[0] / max(seconds[1], 1e-9), 2) if pairs else ""
        line["where"] = ", ".join(f"{kind} {text}" for kind, text in where.items() if text)
        table.append(line)
    return table


def _data(row: Row) -> tuple[Any, ...]:
    return row["kind"], row["seed"], row["place"]


def _right(rows: Sequence[Row]) -> str:
    return f"{sum(int(row['right']) for row in rows)} of {len(rows)}"


def _signed(changes: Sequence[int]) -> str:
    """Gains and losses of some data sets; empty where there are none."""
    gained, lost = sum(change > 0 for change in changes), sum(change < 0 for change in changes)
    return " ".join(f"{sign}{count}" for sign, count in (("+", gained), ("−", lost)) if count)
