"""Starts: first values of hidden states, and the gauges that they are in.

A hidden state w stands in the equation of a state s that is there already (`hidden.py`):

    s' = φ w + (terms that are not φ, φ times another state),      φ = 1 or a state .

1. The rates of the present states are slopes of smoothed samples.
2. For each equation and factor φ, the part of s' that is linear in the states is subtracted by least squares,
   but for the terms that the gauge sets to zero. The rest, divided by φ, gives first values of w, which are
   interpolated where φ is near zero. With w as one more state, the same gives the next hidden state, divided
   by φ or by φ less a number.
3. Of these starts, the best few are those where the library explains the rate of the last hidden state best:
   a state of a law has an equation, other functions of the states have none.
4. First values of several hidden states are also fitted with the last of them a random walk (`walked`).

A user who knows more gives formulas in the measured states and their rates instead, one for each hidden
state (`start_from_formulas`). Its unit and zero are then those of the formula, where the law fixes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.basis import Custom
from cindy.errors import CindyError, DataError
from cindy.least_squares import lengths
from cindy.search import Request
from cindy.states import LEVELS, Fitted, Motion, Solve, along_walks, principal_motion, smoothed, start_of

_BRANCHES = 12
"""Starts with the first hidden states from which the next is searched: a bound on work."""
_NEAR_ZERO = 0.2
"""Values of a factor below this share of its spread are not divided by."""
_ENDS = 50
"""Where second derivatives are needed, a stretch is divided into so many parts and the first and the last are
left out: splines bend there. Other numbers were not tried (SEIR by I of benchmark: hidden)."""
_SAME = 0.05
"""A start is the same as another if this one and the measured states leave less than this share of it."""


_WALKS = ((30.0, 9.5, 3.0, 0.95, 0.3), (1.0, 0.3, 0.1), (0.3, 0.1, 0.03))
"""Variance of the random walk of the last hidden state, in the time in which measured states move by their
spread, over the variance of its values: first of a walk alone, then of one beside a law, in two sequences
(benchmark: hidden, Rössler by z)."""


@dataclass(frozen=True, eq=False)
class Pin:
    """The gauge of a hidden state: coefficients that are fixed, so that the data determine it.

    state: its name; equation: the state in whose equation it stands; factor: what it is multiplied by there
    one: the flat index of the coefficient that is 1; zero: those that are zero
    along: for each of these, the place of the state that could otherwise be added to w; −1 for a constant
    value: of the coefficient `one`, where a user has fixed it at another value than 1
    """

    state: str
    equation: str
    factor: str
    one: int
    zero: Ints
    along: Ints
    value: float = 1.0


@dataclass(frozen=True, eq=False)
class Start:
    """First values of the hidden states, and their gauges.

    values: for each record (stretches, samples, hidden states)
    left: the share of the rate of the last hidden state that the library does not explain
    """

    pins: tuple[Pin, ...]
    values: tuple[Floats, ...]
    left: float

    @property
    def gauge(self) -> tuple[int, ...]:
        """The coefficients that are 1."""
        return tuple(pin.one for pin in self.pins)


def starts_in_gauges(
    motion: Motion,
    names: tuple[str, ...],
    noise: Floats,
    fixed: Mapping[int, float],
    seen: Sequence[Floats] | None = None,
) -> list[Start]:
    """Steps 1 to 3: first values in every gauge that the basis has terms for, the most promising first.

    fixed: coefficients that a user has fixed, by flat index, none of them zero
    seen: denoised values of the measured states for each record, if a law was fitted before
    """
    d = motion.states - len(names)
    measured = [record.y[..., :d] for record in motion.records] if seen is None else list(seen)
    even = all(np.ptp(record.grid.step) < 1e-6 * motion.step for record in motion.records)
    if seen is None and len(names) > 1 and even:
        # A cascade takes derivatives of derivatives, which need a better smoother; it exists for even steps.
        measured = [
            np.stack([principal_motion(y[..., j], noise[j]) for j in range(d)], axis=2) for y in measured
        ]
    smooth, rates = _smoothed(motion, measured)
    starts = [Start((), tuple(x[..., :0] for x in smooth), 0.0)]
    for name in names:
        longer = [
            extended
            for start in starts
            for extended in _extended(motion, start, smooth, rates, name, fixed, exact=seen is not None)
        ]
        starts = sorted(longer, key=lambda start: start.left)[: _BRANCHES * (1 if name != names[-1] else 3)]
    return starts


def walked(motion: Motion, start: Start, variance: Floats, solve: Solve) -> list[Start]:
    """Step 4: the start with the likeliest values if the last hidden state is a random walk, or nearly one.

    Second derivatives of samples, divided by a factor that is near zero for most of the time, are useless as
    first values. Fitting the states weighs every sample by its information instead:

    1. The cascade of the gauges is exact, with linear terms beside it. The last hidden state has no equation:
       it is a random walk, whose variance is lowered in steps. First values of x and y from Rössler's z alone
       then have correlations of 0.93 with the truth, without this of 0.3 and 0.6; at 5 % noise of 0.75.
    2. A walk is a straight line where z is almost zero, between two spikes. With all terms of the library in
       the last equation, and a walk beside them whose variance is lowered, the states bend there as
       elsewhere: 0.75 becomes 0.85 to 0.99 in six of eight draws. No single sequence of variances succeeds in
       all of them, so two are tried.
    """
    equations = [motion.variables.index(pin.equation) for pin in start.pins]
    hidden, last = len(start.pins), motion.states - 1
    seen = [j for j in range(motion.states - hidden) if j not in equations]
    # With (φ − k) w the last hidden state also stands alone, beside φ w.
    linear = [_place(motion, j, k) for j in equations for k in (None, *range(motion.states - hidden))]
    linear.append(_place(motion, equations[-1], last))
    free = motion.candidates[np.isin(motion.candidates % motion.states, seen)]
    places = {pin.one for pin in start.pins} | {k for k in linear if k is not None} | set(free.tolist())
    support = np.array(sorted(places), dtype=np.intp)
    first = start_of(
        motion, support, np.isin(support, [pin.one for pin in start.pins]).astype(float), variance
    )
    # How fast the measured states move, in units of their spread.
    pace = float(np.median((motion.moved / motion.step / motion.spread)[: motion.states - hidden]))
    exact = motion.errors(LEVELS[-1], variance)

    def slower(now: Fitted, rates: Sequence[float]) -> Fitted:
        """The fit with the slowest walk for which states and coefficients can be fitted."""
        for rate in rates:
            error = np.where(np.arange(motion.states) < last, exact, rate * pace * motion.spread**2)
            try:
                after = along_walks(motion, now, solve, [error])
            except DataError:
                # On the way a state has left the domain of a term.
                break
            if not after.alive:
                break
            now = after
        return now

    walk = slower(first, _WALKS[0])
    whole = np.union1d(support, motion.candidates[motion.candidates % motion.states == last])
    coef = np.zeros(len(whole))
    coef[np.searchsorted(whole, support)] = walk.coef
    lawful = replace(walk, law=motion.law(whole), coef=coef)
    fits = (walk, *(slower(lawful, rates) for rates in _WALKS[1:]))
    return [
        replace(start, values=tuple(x[..., -hidden:] for x in fitted.x))
        for fitted in fits
        if fitted is not first and fitted is not lawful
    ]


def start_from_formulas(motion: Motion, formulas: Mapping[str, str]) -> Start:
    """First values by a user's formulas in the measured states, their rates and the inputs."""
    d = motion.states - len(formulas)
    names = motion.variables[:d]
    variables = (*names, *(f"{name}'" for name in names), *motion.variables[motion.states :])
    try:
        terms = Custom(dict(formulas))
        terms.names(variables)
    except CindyError as error:
        reason = str(error).removeprefix("Custom: ")
        raise DataError(f"identify: the first values in `hidden` cannot be worked out: {reason}") from error
    values = []
    for record, x, rates in zip(
        motion.records, *_smoothed(motion, [r.y[..., :d] for r in motion.records]), strict=True
    ):
        points = np.concatenate([x, rates, record.u], axis=2)
        w = terms.evaluate(points.reshape(-1, len(variables)), variables).reshape(*x.shape[:2], -1)
        if not np.isfinite(w).all():
            raise DataError(
                f"identify: the first values of {', '.join(formulas)} in `hidden` must be finite at all "
                f"samples, but {np.count_nonzero(~np.isfinite(w))} are not. Keep roots and quotients inside "
                "their domain."
            )
        values.append(w)
    return Start((), tuple(values), 0.0)


def _extended(
    motion: Motion,
    start: Start,
    seen: list[Floats],
    rates: list[Floats],
    name: str,
    fixed: Mapping[int, float],
    exact: bool,
) -> Iterator[Start]:
    """Steps 1 and 2: the start with first values of one more hidden state, in every gauge that there is.

    exact: whether the measured states were denoised by a law, so that second derivatives can be used
    """
    hidden, slopes = _smoothed(motion, start.values)
    moving = [np.concatenate(parts, axis=2) for parts in zip(rates, slopes, strict=True)]
    x = _flat([np.concatenate(parts, axis=2) for parts in zip(seen, hidden, strict=True)])
    slope = _flat(moving)
    linear, d = np.column_stack([np.ones(len(x)), x]), x.shape[1]
    if exact:
        second = _flat(_smoothed(motion, moving)[1])
    others: list[Floats] = []
    for j in range(d):
        if any(pin.equation == motion.variables[j] for pin in start.pins):
            continue
        weights = np.linalg.lstsq(linear, slope[:, j], rcond=1e-10)[0]
        for factor in range(d + 1):
            pin = _gauge(motion, j, factor, name, fixed)
            if pin is None:
                continue
            # Linear terms that are zero in this gauge become a part of w.
            belonging = [0, *range(1, d + 1)] if factor == 0 else [factor]
            tried = [weights]
            if exact and factor > 0:
                tried.append(_closing(motion, x, slope, second[:, j], j, factor - 1))
            places = [_place(motion, j, column) for column in (None, *range(d))]
            for taken, zero in product(tried, _zeros(linear[:, factor]) if start.pins else (0.0,)):
                taken = taken.copy()
                taken[belonging] = 0.0
                for column, place in enumerate(places) if fixed else ():
                    taken[column] = fixed.get(place, taken[column]) if place is not None else taken[column]
                w = _divided(slope[:, j] - linear @ taken, pin.value * (linear[:, factor] - zero))
                if start.pins:
                    # Derivatives of derivatives are far off at the ends of a stretch.
                    w = np.clip(w, *np.quantile(w, [0.02, 0.98]))
                tables = (np.column_stack([linear, other]) for other in others)
                if not w.std() > 0 or any(_left(table, w) < _SAME for table in tables):
                    continue
                others.append(w)
                added = zip(start.values, _by_record(motion, w), strict=True)
                values = tuple(np.concatenate([known, new[..., None]], axis=2) for known, new in added)
                yield Start((*start.pins, pin), values, _unclosed(motion, seen, values))


def _closing(motion: Motion, x: Floats, slope: Floats, second: Floats, j: int, factor: int) -> Floats:
    """(1 + states,) weights c of the linear terms ℓ in s' = φ w + c·ℓ with which w has a linear law.

    Least squares of s' on ℓ give the part of φ w that is correlated with ℓ to ℓ. If the states are accurate
    enough for second derivatives, the law w' = θ·(1, x, w, φ w) determines c. Multiplied by φ² it is linear
    in c and in products of c and θ, which are taken as unknowns of their own:

        φ s'' − s' φ' = c·(φ ℓ' − ℓ φ') + φ² θ·(1, x) + φ (s' − c·ℓ) (θ_w + θ_φw φ) .

    For SEIR by I it gives −0.50 to −0.52 for −0.5 at 1 and 5 % noise, where least squares give −0.005.
    """
    phi, others = x[:, factor], [k for k in range(x.shape[1]) if k != factor]
    inside = []
    for record in motion.records:
        samples = record.y.shape[1]
        place = np.arange(samples)
        middle = (place >= samples // _ENDS) & (place < samples - samples // _ENDS)
        inside.append(np.tile(middle, record.y.shape[0]))
    weights = [-slope[:, factor], *(phi * slope[:, k] - x[:, k] * slope[:, factor] for k in others)]
    law = [phi**2, *(phi**2 * x.T), phi * slope[:, j], phi**2 * slope[:, j]]
    table = np.column_stack([*weights, *law])[np.concatenate(inside)]
    size = lengths(table)
    target = (phi * second - slope[:, j] * slope[:, factor])[np.concatenate(inside)]
    solution = np.linalg.lstsq(table / size, target, rcond=1e-8)[0] / size
    closing = np.zeros(1 + x.shape[1])
    closing[[0, *(1 + k for k in others)]] = solution[: len(weights)]
    return closing


def _zeros(factor: Floats) -> tuple[float, ...]:
    """Values of k that are tried where a later hidden state may stand in an equation as (φ − k) w.

    From Rössler's x alone w1' = (x − 5.5) w2 + …: divided by x the first values have a correlation of 0.67
    with z, divided by x less its mean and spread of 0.85, and after the random walk of 0.97.
    """
    spread = float(factor.std())
    return (0.0, float(factor.mean()) - spread, float(factor.mean()) + spread) if spread > 0 else (0.0,)


def _smoothed(motion: Motion, values: Sequence[Floats]) -> tuple[list[Floats], list[Floats]]:
    """Smoothed values (stretches, samples, states) of each record, and their slopes."""
    from scipy.interpolate import CubicSpline

    smooth, slopes = [], []
    for record, each in zip(motion.records, values, strict=True):
        # A start without hidden states yet has no columns, which neither a smoother nor a spline takes.
        if not each.shape[2]:
            smooth.append(each)
            slopes.append(each)
            continue
        t = record.grid.t
        smooth.append(np.stack([smoothed(t, stretch) for stretch in each]))
        slopes.append(np.stack([CubicSpline(t, stretch)(t, 1) for stretch in smooth[-1]]))
    return smooth, slopes


def _flat(parts: Sequence[Floats]) -> Floats:
    """(all samples, states)."""
    return np.concatenate([part.reshape(-1, part.shape[2]) for part in parts])


def _gauge(motion: Motion, j: int, factor: int, name: str, fixed: Mapping[int, float]) -> Pin | None:
    """The gauge in equation j: φ w has the coefficient 1; φ and φ times other states do not occur.

    None if the basis has no φ w. Coefficients that a user has fixed stay as they are.
    """
    new, phi = motion.variables.index(name), None if factor == 0 else factor - 1
    one = _place(motion, j, phi, new)
    if one is None:
        return None
    others = [k for k in range(motion.states) if k != new]
    places = {-1: _place(motion, j, phi)} | {k: _place(motion, j, phi, k) for k in others}
    zero = {k: flat for k, flat in places.items() if flat is not None and flat not in fixed}
    names = (name, motion.variables[j], "1" if phi is None else motion.variables[phi])
    flat, along = (np.array(list(part), dtype=np.intp) for part in (zero.values(), zero))
    return Pin(*names, one, flat, along, fixed.get(one, 1.0))


def _place(motion: Motion, j: int, *factors: int | None) -> int | None:
    """The flat index of a product of states in equation j; None where that is no candidate."""
    # A term is recognised by its values at random points, however its family writes it.
    points = np.random.default_rng(0).uniform(0.5, 1.5, (16, len(motion.variables)))
    columns = motion.basis.evaluate(points, motion.variables)
    product = np.prod([points[:, k] for k in factors if k is not None], axis=0) * np.ones(16)
    same = np.flatnonzero((np.abs(columns - product[:, None]) < 1e-9).all(axis=0))
    flat = int(same[0]) * motion.states + j if len(same) else -1
    return flat if flat in motion.candidates else None


def _divided(values: Floats, factor: Floats) -> Floats:
    """values / factor, interpolated where the factor is near zero, the outermost hundredths cut off."""
    # The largest value of a factor is no less than its spread, so that some values are not near zero.
    near = np.abs(factor) < _NEAR_ZERO * factor.std()
    place = np.arange(len(values))
    ratio = np.interp(place, place[~near], values[~near] / factor[~near])
    return np.asarray(np.clip(ratio, *np.quantile(ratio, [0.01, 0.99])) if near.any() else ratio)


def _left(columns: Floats, values: Floats) -> float:
    """The share of the spread of values that least squares on columns leave."""
    unit = columns / np.maximum(np.linalg.norm(columns, axis=0), 1e-300)
    residual = values - unit @ np.linalg.lstsq(unit, values, rcond=1e-10)[0]
    return float(residual.std() / max(values.std(), 1e-300))


def _unclosed(motion: Motion, states: Sequence[Floats], values: Sequence[Floats]) -> float:
    """Step 3: the share of the rate of the last w that the library in (x, w) does not explain."""
    smooth, slopes = _smoothed(motion, values)
    count = smooth[0].shape[2]
    later = motion.states - states[0].shape[2] - count
    points = []
    for record, x, w in zip(motion.records, states, smooth, strict=True):
        points.append(np.concatenate([x, w, np.zeros((*w.shape[:2], later)), record.u], axis=2))
    equation = states[0].shape[2] + count - 1
    own = motion.candidates[motion.candidates % motion.states == equation] // motion.states
    table = motion.basis.evaluate(_flat(points), motion.variables)[:, own]
    return _left(table, _flat(slopes)[:, -1])


def _by_record(motion: Motion, w: Floats) -> tuple[Floats, ...]:
    """(stretches, samples) for each record, from all samples."""
    shapes = [record.y.shape[:2] for record in motion.records]
    parts = np.split(w, np.cumsum([a * b for a, b in shapes])[:-1])
    return tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))


def finely_divided(request: Request) -> Motion | None:
    """The motion with steps divided where they differ much in length.

    How much a hidden state bends between the samples is not seen, inputs have kinks there, and over uneven
    steps integrals are less accurate. In 20 samples of glucose, 2 to 20 minutes apart, remote insulin is
    found with divided steps only.
    """
    motion = request.motion()
    if motion is None or motion.parts != 1:
        return motion
    steps = [record.grid.step for record in motion.records]
    uneven = any(step.max() > 2.0 * step.min() for step in steps)
    return request.motion(instants=2) if uneven else motion
