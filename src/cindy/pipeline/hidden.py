"""Hidden states: a state that nobody measured, found together with the law.

The states are (x, w), w missing at every sample, and the search is the usual one with the law held exact.
Data do not fix w: for any numbers a, b, c the state a w + b + c·x has the same x. And the start decides where
the search ends. Both are settled by saying what w is, in the equation of one seen state:

    x_j' = φ w + (terms that are not φ, φ x_1, φ x_2, …),      φ = 1 or a seen state

The coefficient of φ w is 1, and those of φ and φ x_i are zero: this leaves no freedom to w. For a pendulum
seen by its angle w is the rate, q' = w; for Lorenz without z it is 28 − z, y' = x w − y.

1. Rates of the seen states: slopes of smoothed samples.
2. For each equation j and factor φ, the part of x_j' that is linear in x, without what is said to be zero, is
   taken away by least squares; what is left, over φ, is a first w. Where φ is near zero it is interpolated.
3. Starts are ranked by how much of w' the library leaves unexplained at these first values: a state of a law
   has an equation, others have none.
4. The search from the best few, each with its own gauge; −2 log p and the prices of terms decide.
5. The model must be worth more than the one without a hidden state, whose model error is free.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array, vstack

from cindy._check import short
from cindy._types import Floats, Ints
from cindy.basis import listed
from cindy.data import Trajectory, noise_variance
from cindy.errors import DataError
from cindy.findings import Finding
from cindy.least_squares import lengths
from cindy.model import Model
from cindy.pipeline.inference import LastPass
from cindy.pipeline.options import Options
from cindy.pipeline.passes import NEAR, Found, search
from cindy.pipeline.request import Request
from cindy.problem import Problem
from cindy.rows import Rows
from cindy.states import Motion, smoothed

__all__ = ["Discovery", "hidden_names", "identify_with_hidden", "not_needed", "with_hidden"]

_STARTS = 4
"""Starts from which the search is made: a bound on work (benchmark: hidden)."""
_AS_NOISE = 1.5
"""Of the variance of the noise, as the roughness of the data tells it: a law that leaves no more is the last
that is looked for. Right laws leave 0.95 to 1.07 of it (benchmark: hidden)."""
_HELD = 0.3
"""Of the spread of the first w: the root of the variance that its entries have, before `MISSING`."""
_NEAR_ZERO = 0.2
"""Of the spread of a factor: values below are not divided by."""
_SAME = 0.05
"""Of the spread of a start: one that another and the seen states leave less of is no other."""


_DEPENDENT = 1e-6
"""Of the largest singular value of the unit columns of a law: below, data do not tell its terms apart."""


@dataclass(frozen=True, eq=False)
class Discovery:
    """A law with a hidden state.

    data: the trajectories with the values that were found for it; gain: what it is worth beyond its price
    """

    model: Model
    data: list[Trajectory]
    gain: float

    @property
    def needed(self) -> bool:
        return self.gain > NEAR


@dataclass(frozen=True, eq=False)
class Start:
    """First values of a hidden state, and what is said of it.

    equation: the seen state in whose equation it stands; factor: what it is multiplied by there
    one: the flat index of the coefficient that is 1; zero: those that are zero
    values: for each record (stretches, samples); left: the share of its rate that the library leaves
    """

    equation: str
    factor: str
    one: int
    zero: Ints
    values: tuple[Floats, ...]
    left: float


def hidden_names(hidden: Any, like: Trajectory) -> tuple[str, ...]:
    """The names of the hidden states that a user asks for; an error says what cannot be."""
    if hidden is None or hidden is False or (isinstance(hidden, int) and hidden == 0):
        return ()
    if isinstance(hidden, str) and hidden == "auto":
        hidden = 1
    if isinstance(hidden, bool) or not isinstance(hidden, (int, str, Sequence)):
        raise DataError(
            f'identify: `hidden` must be a number of states, their names or "auto", but is {short(hidden)}.'
        )
    if isinstance(hidden, int):
        names: tuple[str, ...] = ("w",) if hidden == 1 else tuple(f"w{k + 1}" for k in range(hidden))
    else:
        names = (hidden,) if isinstance(hidden, str) else tuple(hidden)
    for name in names:
        if not isinstance(name, str) or not name.isidentifier():
            raise DataError(f"identify: a hidden state must have a name such as w, but {name!r} is none.")
        if name in like.variables:
            kind = "a state" if name in like.states else "an input"
            raise DataError(
                f'identify: the hidden state "{name}" has the name of {kind} of the data. Rename it.'
            )
    if len(names) != 1:
        raise DataError(
            f"identify: {len(names)} hidden states were asked for, and one can be found. Give hidden=1."
        )
    return names


def with_hidden(data: Sequence[Trajectory], names: tuple[str, ...]) -> list[Trajectory]:
    """The trajectories with states that are missing at every sample."""
    return [
        replace(one, x=np.hstack([one.x, np.full((len(one), len(names)), np.nan)]), states=one.states + names)
        for one in data
    ]


def identify_with_hidden(request: Request, passes: int | None) -> Discovery | None:
    """The model with a hidden state, the last of the states of the request; None where no law settles."""
    name = request.data[0].states[-1]
    _check(request, name, passes)
    motion = request.motion()
    if motion is None or not motion.records:
        raise DataError(
            f'identify: the hidden state "{name}" is found with fitted states: use Integral(), and '
            "trajectories of ten samples at least."
        )
    seen = _without_last(request.data)
    noise = noise_variance(seen)
    problem = request.problem(motion)
    motion, options = request.narrowed(motion, problem), request.options(motion, problem)
    best: tuple[Motion, Found, Start] | None = None
    for start in _starts(motion)[:_STARTS]:
        here = _in_gauge(motion, start)
        spread = float(np.concatenate([w.ravel() for w in start.values]).std())
        found = search(here, _pinned(options, start), np.append(noise, (_HELD * spread) ** 2))
        if found is not None and (best is None or found.best.criterion < best[1].best.criterion):
            best = here, found, start
            if np.all(found.best.fitted.variance[:-1] < _AS_NOISE * noise):
                break
    if best is None:
        return None
    here, found, start = best
    last = LastPass.of(problem, here, found, request.callback)
    gain = _criterion_without(request, seen, noise) - found.best.criterion
    findings = (*last.model().findings, *_findings(name, start, last, gain))
    model = replace(last.model(), findings=findings, settings=request.settings | {"hidden": [name]})
    return Discovery(model, _filled(request.data, here, found), gain)


def _criterion_without(request: Request, seen: list[Trajectory], noise: Floats) -> float:
    """−2 log p and the prices of the best law in seen states alone, its model error free.

    Infinite where there is none, as where all terms hold the hidden state.
    """
    plain = replace(request, data=seen, pose=Problem)
    try:
        motion = plain.motion()
        assert motion is not None
        found = search(motion, plain.options(motion, plain.problem(motion)), noise)
    except DataError:
        return np.inf
    return np.inf if found is None else found.best.criterion


def not_needed(name: str, gain: float) -> Finding:
    """That a law with the hidden state is not worth its price."""
    by = f" by {-gain:.0f}" if np.isfinite(gain) else ""
    message = (
        f"The hidden state {name} is not worth its price: without it −2 log p and the price of terms "
        f"are lower{by}. Leave `hidden` out."
    )
    return Finding("hidden-not-needed", message, {"state": name, "gain": gain})


def _without_last(data: Sequence[Trajectory]) -> list[Trajectory]:
    return [replace(one, x=one.x[:, :-1], states=one.states[:-1]) for one in data]


def _check(request: Request, name: str, passes: int | None) -> None:
    where = f'identify: the hidden state "{name}"'
    if passes == 1:
        raise DataError(
            f"{where} is found with fitted states, but with passes=1 they are not. Leave `passes` out."
        )
    if request.pieces.source.whole is None:
        raise DataError(f"{where} needs the data in memory, and these are read in parts.")
    if request.form.needs_states or request.form.order != 1 or request.form.discrete:
        raise DataError(f"{where} needs equations of first order in time: use Integral().")
    if request.basis.unknowns():
        raise DataError(
            f"{where} cannot be found beside parameters inside terms. Give these values: basis.at({{…}})."
        )


def _findings(name: str, start: Start, last: LastPass, gain: float) -> Iterator[Finding]:
    """What to say of a hidden state: its gauge, its worth, and whether data tell its law."""
    motion = last.motion
    terms = motion.basis.names(motion.variables)
    product = terms[start.one // motion.states]
    zero = [terms[int(k) // motion.states] for k in start.zero]
    absent = f" and {listed(zero)} {'do' if len(zero) > 1 else 'does'} not occur" if zero else ""
    yield Finding(
        "hidden-gauge",
        f"Data do not fix the unit and the zero of {name}. They are chosen so that in the equation of "
        f"{start.equation} the coefficient of {product} is 1{absent}.",
        {"state": name, "equation": start.equation, "one": product, "zero": zero},
    )
    if gain > NEAR:
        by = f" by {gain:.0f}" if np.isfinite(gain) else ""
        message = f"The state {name} was not measured. With it −2 log p and the price of terms fall{by}."
        yield Finding("hidden-state", message, {"state": name, "gain": gain})
    else:
        yield not_needed(name, gain)
    free = np.setdiff1d(last.own.support, np.searchsorted(motion.candidates, [start.one]))
    columns = last.supports.design[:, free]
    sizes = np.linalg.svd(columns / lengths(columns), compute_uv=False)
    if len(sizes) and sizes.min() < _DEPENDENT * sizes.max():
        message = (
            f"These data do not tell the terms of the law with {name} apart: others with other coefficients "
            "fit as well. Say more of it by constraints, or measure it in some samples."
        )
        yield Finding(
            "hidden-unidentified", message, {"state": name, "condition": float(sizes.min() / sizes.max())}
        )


def _starts(motion: Motion) -> list[Start]:
    """First values in every gauge that the basis has terms for, the most promising first."""
    from scipy.interpolate import CubicSpline

    d = motion.states - 1
    states, rates = [], []
    for record in motion.records:
        x = np.stack([smoothed(record.grid.t, one[:, :d]).values for one in record.y])
        states.append(x)
        rates.append(np.stack([CubicSpline(record.grid.t, one)(record.grid.t, 1) for one in x]))
    x, slope = (np.concatenate([part.reshape(-1, d) for part in parts]) for parts in (states, rates))
    linear = np.column_stack([np.ones(len(x)), x])
    made: list[tuple[Floats, Start]] = []
    for j in range(d):
        weights = np.linalg.lstsq(linear, slope[:, j], rcond=1e-10)[0]
        for factor in range(d + 1):
            places = _gauge(motion, j, factor)
            if places is None:
                continue
            # Linear terms that are zero in this gauge belong to w.
            kept = weights.copy()
            kept[[0, *range(1, d + 1)] if factor == 0 else factor] = 0.0
            w = _divided(slope[:, j] - linear @ kept, linear[:, factor])
            if not w.std() > 0 or any(
                _left(np.column_stack([linear, other]), w) < _SAME for other, _ in made
            ):
                continue
            values = _by_record(motion, w)
            left = _unclosed(motion, states, values)
            name = "1" if factor == 0 else motion.variables[factor - 1]
            made.append((w, Start(motion.variables[j], name, places[0], places[1], values, left)))
    return sorted((start for _, start in made), key=lambda start: start.left)


def _gauge(motion: Motion, j: int, factor: int) -> tuple[int, Ints] | None:
    """Flat indices of φ w, whose coefficient is 1, and of φ and φ x_i, which are zero; None without φ w."""
    states = motion.states
    points = np.random.default_rng(0).uniform(0.5, 1.5, (16, len(motion.variables)))
    columns = motion.basis.evaluate(points, motion.variables)
    phi = np.ones(16) if factor == 0 else points[:, factor - 1]

    def place(values: Floats) -> int | None:
        same = np.flatnonzero((np.abs(columns - values[:, None]) < 1e-9).all(axis=0))
        flat = int(same[0]) * states + j if len(same) else -1
        return flat if flat in motion.candidates else None

    one = place(phi * points[:, states - 1])
    others = [place(phi * other) for other in (np.ones(16), *points[:, : states - 1].T)]
    return None if one is None else (one, np.array([k for k in others if k is not None], dtype=np.intp))


def _divided(values: Floats, factor: Floats) -> Floats:
    """values / factor, interpolated where the factor is near zero; without the outermost hundredths."""
    near = np.abs(factor) < _NEAR_ZERO * factor.std()
    if near.all():
        return np.zeros(len(values))
    place = np.arange(len(values))
    ratio = np.interp(place, place[~near], values[~near] / factor[~near])
    return np.asarray(np.clip(ratio, *np.quantile(ratio, [0.01, 0.99])) if near.any() else ratio)


def _left(columns: Floats, values: Floats) -> float:
    """The share of the spread of values that columns leave."""
    unit = columns / np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    rest = values - unit @ np.linalg.lstsq(unit, values, rcond=1e-10)[0]
    return float(rest.std() / max(values.std(), 1e-300))


def _unclosed(motion: Motion, states: Sequence[Floats], values: Sequence[Floats]) -> float:
    """The share of w' that the library in (x, w) leaves."""
    from scipy.interpolate import CubicSpline

    points, slopes = [], []
    for record, x, w in zip(motion.records, states, values, strict=True):
        smooth = np.stack([smoothed(record.grid.t, one[:, None]).values for one in w])
        slopes.append(
            np.stack([CubicSpline(record.grid.t, one[:, 0])(record.grid.t, 1) for one in smooth]).ravel()
        )
        every = np.concatenate([x, smooth, record.u], axis=2)
        points.append(every.reshape(-1, every.shape[2]))
    own = motion.candidates[motion.candidates % motion.states == motion.states - 1] // motion.states
    table = motion.basis.evaluate(np.concatenate(points), motion.variables)[:, own]
    return _left(table, np.concatenate(slopes))


def _by_record(motion: Motion, w: Floats) -> tuple[Floats, ...]:
    shapes = [record.y.shape[:2] for record in motion.records]
    parts = np.split(w, np.cumsum([a * b for a, b in shapes])[:-1])
    return tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))


def _in_gauge(motion: Motion, start: Start) -> Motion:
    """The motion with the first values of w, the law exact, and without what the gauge says is zero."""
    records = []
    for record, w in zip(motion.records, start.values, strict=True):
        y = record.y.copy()
        y[..., -1] = w
        records.append(replace(record, y=y))
    return replace(
        motion,
        records=tuple(records),
        candidates=np.setdiff1d(motion.candidates, start.zero),
        memory=np.ones(motion.states),
    )


def _pinned(options: Options, start: Start) -> Options:
    """The options with the coefficient of φ w as 1."""
    rows = options.rows
    entry = csr_array(coo_array(([1.0], ([0], [start.one])), shape=(1, rows.matrix.shape[1])))
    more = Rows(
        csr_array(vstack([rows.matrix, entry])),
        np.append(rows.lower, 1.0),
        np.append(rows.upper, 1.0),
        np.append(rows.owner, len(options.texts)),
    )
    return replace(options, rows=more, texts=(*options.texts, "the gauge of the hidden state"))


def _filled(data: Sequence[Trajectory], motion: Motion, found: Found) -> list[Trajectory]:
    """The data with what was found for the hidden state."""
    columns = [np.array(one.x) for one in data]
    for record, x in zip(motion.records, found.best.fitted.x, strict=True):
        for source, offset, states in zip(record.source, record.offset, x, strict=True):
            part = states[:: max(motion.parts, 1), -1]
            columns[int(source)][offset : offset + len(part), -1] = part
    return [replace(one, x=x) for one, x in zip(data, columns, strict=True)]
