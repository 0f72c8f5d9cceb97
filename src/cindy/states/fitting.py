"""Gauss-Newton over states and coefficients on a support, with noise and model error by likelihood.

The states that belong to coefficients Ξ are x = y − ê with ê = Σ Bᵀ S⁻¹ r; with the coefficients refitted
in between, this is Gauss-Newton for the likelihood of the measurements, the states profiled out. Relatives:
WENDy (Bortz, Messenger, Dukic 2023), Meissner and Glasner (arXiv 2406.06707), and orthogonal distance
regression with Bayesian evidence (Fung 2025, arXiv 2507.23426).

A parameter inside terms has one more column, Σ ξ ∂ψ/∂θ. Variable projection (Golub, Pereyra 1973):
coefficients follow from the parameters, so that a step is a small problem in the parameters alone, within
their ranges. A step that does not fit better is halved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy.basis import Parameter
from cindy.errors import DataError
from cindy.least_squares import LeastSquares, lengths, quick_triangle, triangle
from cindy.states.determinants import inverse_at_samples, inverse_at_steps
from cindy.states.linearised import Law
from cindy.states.motion import Fitted, Motion, Whitened, shifted

__all__ = ["FEW_ROWS", "LEVELS", "NEARBY", "Solve", "along_walks", "at_level", "fit_states", "states_under"]

# `python -m benchmarks constants` changes those below the levels on 12 data sets: terms stay, and errors of
# coefficients move by a part in 1e5 at most.
LEVELS = (1e-1, 1e-2, 1e-4)
"""Model error in units of σ²/h: at the first the problem is nearly convex, the last negligible. With
1e-3 in between two of four systems come back that were lost without it (benchmark: chaotic)."""
NEARBY = (1e-3, 1e-4)
"""The same from states that another support has fitted. Without the first, three more systems of 140, at
10 and 40 % noise, end in a law that another beats (benchmark: chaotic)."""
FEW_ROWS = 400
"""Rows below which a walk that explains nothing fits as well as a law.

Three runs of Paramecium, 108 rows, are a walk by 3 units of −2 log p, and a law to every reader."""


@dataclass(frozen=True)
class _Steps:
    """How far one step of the fit goes, and when it ends."""

    floor: float = 1e-6
    """Least model error, in units of σ²/h: a hundredth of the last level, and nothing beside the noise."""
    most: int = 12
    """Steps at one level, and after the last; a fit that has not settled by then is given up."""
    slow: float = 0.3
    """A step of the states, in units of the noise, at which the next level of the model error may come."""
    furthest: float = 1.5
    """A step of the logarithm of a variance."""
    same: float = 0.05
    """Change of the logarithm of a variance that is none, with one random vector for the traces."""
    worth: float = 1.0
    """Units of −2 log p that a further step of noise and model error must promise; a twentieth where both are
    to be told, motion being kicked, and traces are exact."""
    negligible: float = 2e-4
    """Model error from one sample to the next, as a share of σ², that changes nothing (benchmark:
    chaotic)."""
    by_chance: float = 10.0
    """Over √rows: by how much a model error seems too small by chance, with the traces below. With 0 one data
    set of five loses its terms (examples/oscillators.py)."""
    probes: int = 2
    """Random signs by which traces are estimated (Hutchinson, Commun. Stat. Simul. Comput. 18, 1989), to
    about √(2 / rows) with one."""
    signs: int = 4000
    """Rows times vectors of random signs, at least: the trace of a few rows is uncertain by as much as the
    noise. With two vectors fourteen trees of six samples have no growth that slows down."""


_STEPS = _Steps()


def fit_states(motion: Motion, start: Fitted, solve: Solve, *, levels: Sequence[float] = LEVELS) -> Fitted:
    """States and coefficients converged at every level of the model error in turn, then at its own.

    solve: coefficients from the white rows of a support; where constraints act
    """
    now = start = replace(start, heeded=start.heeded or motion.forcing is not None)
    # Kicks that are known to be there need not be taken away first.
    for level in levels if motion.forcing is None else ():
        # A large model error first: rows then hold whatever the states are, and the problem is nearly
        # convex. Each level starts at the states of the one before.
        now = at_level(motion, now, solve, level)
        if not now.alive:
            return now
        # Less is not asked for: down there a wrong law would only climb back. Of few rows a walk explains as
        # much as a law, and the likelihood has two maxima, the lower of which is the law's.
        if now.settled and motion.rows >= FEW_ROWS and motion.memory is None:
            break
    # What has settled without them begins with them.
    heeded = motion.forcing is not None or (start.heeded and start.converged and start.settled and not levels)
    for _ in range(2 * _STEPS.most):
        now = _step(motion, now, solve, _separate if motion.memory is None else _exact, heeded=heeded)
        done = heeded or not (start.heeded and motion.may_be_kicked(now))
        if not now.alive or (now.converged and now.settled and done):
            break
        # The determinants take longer than ten steps. Most laws met on the way are left unexplained by more
        # than noise while they are fitted, and only what is left in the end tells whether they matter.
        heeded |= now.converged and now.settled
    return now


def at_level(motion: Motion, start: Fitted, solve: Solve, level: float) -> Fitted:
    """States, coefficients and noise at one level of the model error."""
    now = replace(start, error=motion.errors(level, start.variance))
    for _ in range(_STEPS.most):
        now = _step(motion, now, solve, _shared)
        if now.moved < _STEPS.slow or not now.alive:
            break
    return now


def along_walks(motion: Motion, start: Fitted, solve: Solve, errors: Iterable[Floats]) -> Fitted:
    """States and coefficients under one model error after the other, the noise as it is."""
    now = start
    for error in errors:
        now = replace(now, error=error)
        for _ in range(_STEPS.most // 3):
            now = _step(motion, now, solve, _kept) if now.alive else now
    return now


def states_under(
    motion: Motion,
    law: Law,
    coef: Floats,
    variance: Floats,
    error: Floats,
    *,
    levels: Sequence[float] = LEVELS,
) -> Fitted:
    """States fitted to the measurements under a known law, noise and model error."""
    start = Fitted(law, tuple(r.y for r in motion.records), coef, np.maximum(variance, motion.floor), error)
    now = start
    for level in levels:
        now = replace(now, error=np.maximum(motion.errors(level, start.variance), error))
        for _ in range(_STEPS.most):
            now = _step(motion, now, lambda objective, support: coef, _kept)
            if now.moved < _STEPS.slow or not now.alive:
                break
    now = replace(now, error=error)
    for _ in range(_STEPS.most):
        if not now.alive or now.converged:
            break
        now = _step(motion, now, lambda objective, support: coef, _kept)
    return now


def _kept(motion: Motion, now: Fitted, pull: _Pull) -> Fitted:
    """Noise and model error as they are."""
    return now


@dataclass(frozen=True, eq=False)
class _Pull:
    """How the likelihood wants the variances of noise and model error to change, for fixed rows.

    With S = Σ v_i S_i: quadratic_i = v_i zᵀ S_i z, trace_i = v_i tr S⁻¹ S_i; −2 log p falls along
    trace − quadratic, and its curvature in log v is about (v_i S_i z)ᵀ S⁻¹ (v_j S_j z), the average
    information (Gilmour, Thompson, Cullis 1995). Noise first, then model error.
    """

    quadratic: Floats
    trace: Floats
    curvature: Floats


def _step(
    motion: Motion,
    now: Fitted,
    solve: Solve,
    update: Callable[[Motion, Fitted, _Pull], Fitted],
    *,
    heeded: bool = False,
) -> Fitted:
    """One step of Gauss-Newton for states and coefficients, and one of the variances.

    heeded: whether determinants count. What has settled without them, and they do not move, is returned as it
        is
    """
    if now.law.unknown:
        return _step_with_parameters(motion, now, solve, update)
    kept: list[tuple[Whitened, Floats]] = []
    factor = np.zeros((0, len(now.law.support) + 1))
    rows = 0
    for white in motion.whitened(now):
        if white is None:
            return replace(now, alive=False)
        table = motion.table(white, now.law)
        rows += len(table)
        # Record by record, so that the rows of long data are never in memory together.
        factor = quick_triangle(np.concatenate([factor, table]) if len(factor) else table)
        if motion.held:
            kept.append((white, table))
    objective = LeastSquares(factor, factor.shape[1] - 1, rows)
    if heeded and motion.may_be_kicked(now):
        gradient = motion.determinants(now, now.law)
        if gradient is None:
            return replace(now, alive=False)
        [whole] = shifted([objective], gradient)
        if whole is objective and now.converged and now.settled:
            return now
        objective = whole
    coef = solve(objective, now.law.support)
    if not np.isfinite(coef).all():
        return replace(now, alive=False)
    return _moved(motion, now, coef, kept or _again(motion, now), update)


def _step_with_parameters(
    motion: Motion, now: Fitted, solve: Solve, update: Callable[[Motion, Fitted, _Pull], Fitted]
) -> Fitted:
    """The same for a law with unknown parameters."""
    parts: list[tuple[Whitened, Floats]] = []
    for white in motion.whitened(now):
        if white is None:
            return replace(now, alive=False)
        parts.append((white, motion.table(white, now.law, now.coef)))
    made = stride(motion, now, parts, solve)
    if made is None:
        return replace(now, alive=False)
    after = _moved(motion, now, made.coef, made.parts, update)
    return replace(after, moved=max(after.moved, made.far))


def _again(motion: Motion, now: Fitted) -> Iterable[tuple[Whitened, Floats]]:
    for white in motion.whitened(now):
        assert white is not None
        yield white, motion.table(white, now.law)


def _moved(
    motion: Motion,
    now: Fitted,
    coef: Floats,
    parts: Iterable[tuple[Whitened, Floats]],
    update: Callable[[Motion, Fitted, _Pull], Fitted],
) -> Fitted:
    d = motion.states
    quadratic, trace, curvature = np.zeros(2 * d), np.zeros(2 * d), np.zeros((2 * d, 2 * d))
    states, shift = [], 0.0
    curved = update is _separate
    probes = max(_STEPS.probes if curved else 1, -(-_STEPS.signs // motion.rows))
    for (white, table), x, signs in zip(parts, now.x, _signs(motion, probes), strict=True):
        record = white.linear.record
        # z = S⁻¹ r, and the noise that is most likely under the law is ê = Σ Bᵀ z.
        z = white.solved(table[:, -1] - table[:, :-1] @ coef)
        back = white.linear.noise_of(z)
        new = record.y - record.spread * now.variance * back - record.shared(now.variance, back)
        states.append(new)
        shift += float(np.sum((new - x) ** 2 / (record.spread * now.variance)))
        quadratic += _sizes(white, now, z, back)
        if motion.forcing is not None:
            trace += _traces(white)
        else:
            # tr S⁻¹ S_i is the expectation of vᵀ S⁻¹ S_i v over random signs v; one or two vectors do
            # where rows are many.
            trace += _probed(white, now, signs)
        if curved:
            table = white.varied(z, back)
            curvature += table.T @ table
    shift = float(np.sqrt(shift / sum(x.size for x in states)))
    alive = all(bool((np.abs(x) < motion.bounds).all()) for x in states)
    after = replace(now, x=tuple(states), coef=coef, moved=shift, alive=alive)
    return update(motion, after, _Pull(quadratic, trace, curvature)) if alive else after


def _signs(motion: Motion, probes: int) -> Iterator[NDArray[np.int8]]:
    """(stretches, probes, rows of one) of each record: random signs, of every stretch its own.

    A model error is told by the few slowest motions of a stretch. With one draw for all stretches its trace
    would be as uncertain as that of a single stretch, whatever their number (benchmark: bound).
    """
    records = motion.records
    # By the size of the first and the last measurements: neither the order of runs nor units may matter.
    ends = [np.abs(np.where(r.missing, 0.0, r.y)[:, [0, -1]]).reshape(r.stretches, -1) for r in records]
    rank = np.argsort(np.lexsort(np.concatenate(ends).T))
    longest = max(r.rows // r.stretches for r in records)
    signs = 2 * np.random.default_rng(0).integers(0, 2, (len(rank), probes, longest), np.int8) - 1
    for record, places in zip(
        records, np.split(rank, np.cumsum([r.stretches for r in records])[:-1]), strict=True
    ):
        yield signs[places, :, : record.rows // record.stretches]


def _probed(white: Whitened, now: Fitted, signs: NDArray[np.int8]) -> Floats:
    """v_i tr S⁻¹ S_i by random signs (stretches, probes, rows)."""
    total, probes = np.zeros(2 * len(now.variance)), signs.shape[1]
    for k in range(probes):
        z = white.solved(signs[:, k].astype(np.float64))
        total += _sizes(white, now, z, white.linear.noise_of(z)) / probes
    return total


def _traces(white: Whitened) -> Floats:
    """v_i tr S⁻¹ S_i exactly, from the blocks of S⁻¹ that the determinants need anyway.

    Two random signs are wrong by as much as the data are: with them a kicked van der Pol oscillator in 2 %
    noise has 10 % more diffusion than it has (benchmark: kicks).
    """
    linear, near = white.linear, white.inverse[0]
    record = linear.record
    sigma = np.where(record.missing[..., None], 0.0, record.covariance(white.variance))
    noise = np.einsum("smij,smji->i", sigma, inverse_at_samples(linear, near))
    assert linear.forced is not None
    kicks = np.einsum("skij,skji->i", linear.forced.covariance(white.error), inverse_at_steps(linear, near))
    return np.concatenate([noise, kicks])


def _sizes(white: Whitened, now: Fitted, z: Floats, back: Floats) -> Floats:
    """v_i zᵀ S_i z for the noise and the model error of every state; what was not measured has no say."""
    record = white.linear.record
    seen = np.where(record.missing, 0.0, record.spread)
    noise = now.variance * np.sum(seen * back**2, axis=(0, 1))
    noise += np.sum(back * record.shared(now.variance, back), axis=(0, 1))
    if white.linear.forced is None:
        error = now.error * np.sum(record.grid.step[:, None] * z**2, axis=(0, 1))
    else:
        kicks = white.linear.kicks_of(z)
        error = np.sum(kicks * white.linear.weighted(now.error, kicks), axis=(0, 1, 2))
    return np.concatenate([noise, error])


def _shared(motion: Motion, now: Fitted, pull: _Pull) -> Fitted:
    """Noise by likelihood, the model error in its fixed proportion; settled where no less is asked for."""
    d = motion.states
    # At the maximum of the likelihood the quadratic form equals the trace; their ratio is the step of a
    # fixed-point iteration in the variance, which cannot become negative.
    ratio = (pull.quadratic[:d] + pull.quadratic[d:]) / np.maximum(pull.trace[:d] + pull.trace[d:], 1e-300)
    factor = np.where(motion.measured, np.clip(ratio, 0.1, 100.0), 1.0)
    variance = np.maximum(now.variance * factor, motion.floor)
    noise, kicks = np.split(pull.quadratic / np.maximum(pull.trace, 1e-300), 2)
    by_chance = 1 + _STEPS.by_chance / np.sqrt(motion.rows)
    # The likelihood wants more model error than this level has: a lower level would only be undone.
    enough = bool(np.any((kicks > by_chance * noise) & motion.measured & ~motion.known))
    error = now.error * (motion.errors(1.0, variance) / motion.errors(1.0, now.variance))
    return replace(now, variance=variance, error=error, settled=enough)


def _exact(motion: Motion, now: Fitted, pull: _Pull) -> Fitted:
    """Noise by likelihood, the law held exact: the model error stays at its last level."""
    after = _shared(motion, now, pull)
    changed = np.abs(np.log(after.variance / now.variance))[motion.measured]
    return replace(after, settled=bool((changed < _STEPS.same).all()))


def _separate(motion: Motion, now: Fitted, pull: _Pull) -> Fitted:
    """A Newton step in the logarithms of noise and model error, each for itself."""
    d = motion.states
    variances = np.concatenate([now.variance, now.error])
    least = np.concatenate([motion.floor, _STEPS.floor * now.variance / motion.step])
    gradient = pull.trace - pull.quadratic
    free = np.concatenate([motion.measured, ~motion.known])
    # A model error below all that matters is the last level rather than drift to its floor: models whose
    # negligible errors differ by half differ by tens of units of −2 log p (benchmark: chaotic, NoseHoover).
    small = np.concatenate([np.zeros(d, bool), now.error < motion.errors(_STEPS.negligible, now.variance)])
    free &= ((variances > 1.01 * least) & ~small) | (gradient < 0)
    step = np.zeros(2 * d)
    # A variance that the data say nothing about has no curvature.
    curvature = pull.curvature + 1e-9 * np.eye(2 * d) * pull.curvature.max()
    if free.any():
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)], -gradient[free])
    far = np.abs(step) > _STEPS.furthest
    step = np.clip(step, -_STEPS.furthest, _STEPS.furthest)
    rest = free & ~far
    if np.any(far[:d] & (now.error * motion.step > now.variance)) and rest.any():
        # Noise that is nothing beside the kicks has no curvature, and would take the others with it.
        pulled = gradient[rest] + curvature[np.ix_(rest, far)] @ step[far]
        within = np.linalg.solve(curvature[np.ix_(rest, rest)], -pulled)
        step[rest] = np.clip(within, -_STEPS.furthest, _STEPS.furthest)
    step = np.where(small & (step < 0), 0.0, step)
    # What −2 log p would fall by, to second order.
    worth = float(-gradient @ step) / 2
    enough = _STEPS.worth if motion.forcing is None else _STEPS.worth / 20.0
    settled = worth < enough or not np.any(np.abs(step) > 0.01)
    new = variances if settled else np.maximum(variances * np.exp(step), least)
    variance, error = new[:d], new[d:]
    negligible = (error < motion.errors(_STEPS.negligible, variance)) & ~motion.known
    last = np.where(negligible, motion.errors(LEVELS[-1], variance), error)
    # Rows at another model error need one more step of the states.
    same = bool(np.all(np.abs(np.log(last / error)) < _STEPS.same))
    return replace(now, variance=variance, error=last, settled=settled and same)


Solve = Callable[[LeastSquares, Ints], Floats]
Parts = list[tuple[Whitened, Floats]]

_FURTHEST = 1.0
"""A step in the logarithm of a parameter: a factor of e."""
_SHARE = 0.2
"""Of the range: a step of a parameter that is spanned by differences."""
_HALVINGS = 5
"""Of a step that does not fit better; then the parameters stay."""


@dataclass(frozen=True, eq=False)
class Stride:
    """Where a step of coefficients and parameters leads: the new numbers of the law, and the rows there.

    far: how far the parameters went, in units of their errors
    """

    coef: Floats
    parts: Parts
    far: float


def stride(motion: Motion, now: Fitted, parts: Parts, solve: Solve) -> Stride | None:
    """A step that fits better with states held; the same parameters where there is none, None beyond ψ."""
    from scipy.optimize import lsq_linear  # a sixth of the time of `import cindy`

    k, law = len(now.law.support), now.law
    start = now.coef[k:]
    here = _Rows.of([table for _, table in parts], k)
    coef = here.coefficients(solve, law.support, start)
    if not np.isfinite(coef).all():
        return None
    slopes = here.slopes(solve, law.support, start)
    low, high = _reach(law.unknown, start)
    goal, size = here.residual(coef, start), lengths(slopes)
    inside = lsq_linear(slopes / size, goal, bounds=((low - start) * size, (high - start) * size))
    whole = inside.x / size
    best = float(goal @ goal)
    for share in 0.5 ** np.arange(_HALVINGS):
        place = start + share * whole
        try:
            moved = [(white, motion.table(white, law, np.concatenate([coef, place]))) for white, _ in parts]
        except DataError:
            continue
        there = _Rows.of([table for _, table in moved], k)
        new = there.coefficients(solve, law.support, place)
        left = there.residual(new, place)
        if np.isfinite(new).all() and float(left @ left) <= best * (1 + 1e-12):
            far = float(np.linalg.norm(slopes @ (place - start)))
            return Stride(np.concatenate([new, place]), moved, far)
    return Stride(np.concatenate([coef, start]), parts, 0.0)


@dataclass(frozen=True, eq=False)
class _Rows:
    """White rows [ψ | tangents | target] of all records, as a triangle."""

    factor: Floats
    coefs: int
    rows: int

    @classmethod
    def of(cls, tables: Sequence[Floats], coefs: int) -> _Rows:
        factor = triangle(np.concatenate(tables))
        return cls(factor, coefs, sum(len(table) for table in tables))

    def _left(self, places: Floats) -> Floats:
        return np.asarray(self.factor[:, -1] - self.factor[:, self.coefs : -1] @ places)

    def coefficients(self, solve: Solve, support: Ints, places: Floats) -> Floats:
        """The coefficients that go with parameters, under all constraints."""
        columns = np.column_stack([self.factor[:, : self.coefs], self._left(places)])
        return solve(LeastSquares(columns, self.coefs, self.rows), support)

    def residual(self, coef: Floats, places: Floats) -> Floats:
        return np.asarray(self._left(places) - self.factor[:, : self.coefs] @ coef)

    def slopes(self, solve: Solve, support: Ints, places: Floats) -> Floats:
        """(rows, p): by how much the residual falls with each parameter, coefficients following.

        They follow piece by piece along straight lines, so that a difference is exact.
        """
        there = self.residual(self.coefficients(solve, support, places), places)
        columns = []
        for p in range(len(places)):
            size = float(np.linalg.norm(self.factor[:, self.coefs + p]))
            moved = np.array(places)
            moved[p] += 1e-3 / size if size else 1e-3
            coef = self.coefficients(solve, support, moved)
            columns.append((there - self.residual(coef, moved)) / (moved[p] - places[p]))
        return np.stack(columns, axis=1)


def _reach(unknown: Sequence[Parameter], start: Floats) -> tuple[Floats, Floats]:
    """The places that one step may lead to: inside the range and not too far."""
    ends = np.array([one.places for one in unknown])
    far = np.array(
        [
            _FURTHEST if one.logarithmic else _SHARE * (b - a)
            for one, (a, b) in zip(unknown, ends, strict=True)
        ]
    )
    low, high = np.maximum(ends[:, 0], start - far), np.minimum(ends[:, 1], start + far)
    # lsq_linear wants room between its bounds
    return low - 1e-12, high + 1e-12
