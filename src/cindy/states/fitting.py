"""Gauss-Newton over states and coefficients on a support, with noise and model error by maximum likelihood.

For coefficients Ξ the most likely states are x = y − ê with ê = Σ Bᵀ S⁻¹ r. With the coefficients refitted in
between, this iteration is Gauss-Newton for the likelihood of the measurements, the states profiled out. Each
step costs time linear in the number of samples:

1. Linearise the rows around the current states (`Motion.whitened`) and solve for the coefficients.
2. Move the states to y − ê.
3. Update the variances of noise and model error from the derivatives of the likelihood.

Relatives: WENDy (Bortz, Messenger, Dukic 2023), Meissner and Glasner (arXiv 2406.06707), and orthogonal
distance regression with Bayesian evidence (Fung 2025, arXiv 2507.23426).

A parameter inside terms adds the column Σ ξ ∂ψ/∂θ. By variable projection (Golub, Pereyra 1973) coefficients
follow from the parameters, so that a step is a small problem in the parameters alone, within their ranges. A
step that does not improve the fit is halved.
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

# `python -m benchmarks constants` changed the numbers of `_Steps` on 12 data sets: the terms stayed the same,
# and errors of coefficients changed by at most a part in 1e5.
LEVELS = (1e-1, 1e-2, 1e-4, 1e-6)
"""Model errors tried in turn, in units of σ²/h. At the first the problem is nearly convex, the last is
negligible: a model error of share s makes the states forget after 1/√s samples, and what earlier samples say
about the law is lost. With 1e-4 as the last, −2 log p tells a missing term of Lorenz' system by 6 units where
the exact likelihood does by 33, and with 1e-6 by 26 (docs/noise.md). A further level of 1e-3 recovers two of
four systems that are lost without it (benchmark: chaotic)."""
NEARBY = (1e-3, 1e-4, 1e-6)
"""Levels for a start at states that were fitted on another support. Without the first, three more systems of
140, at 10 and 40 % noise, end in a law that is not the best (benchmark: chaotic)."""
FEW_ROWS = 400
"""Number of rows below which a random walk can fit as well as a law. Three runs of Paramecium, 108 rows,
prefer the walk by 3 units of −2 log p, although they obviously follow a law."""


@dataclass(frozen=True)
class _Steps:
    """The size of the steps of the fit, and when they end."""

    floor: float = 1e-8
    """Least model error, in units of σ²/h: a hundredth of the last level, and negligible beside the noise."""
    most: int = 12
    """Largest number of steps at one level. After the last level three times as many are allowed: from
    there to kicks without noise it takes up to thirty."""
    slow: float = 0.3
    """Step of the states, in units of the noise, below which the next level of the model error begins."""
    furthest: float = 1.5
    """Largest step of the logarithm of a variance."""
    same: float = 0.05
    """Change of the logarithm of a variance that counts as none: the traces are estimates."""
    worth: float = 1.0
    """Units of −2 log p that a further step of the variances must promise. For kicked motion, whose traces
    are exact, a twentieth of this."""
    negligible: float = 2e-6
    """Model error over one sampling step, as a share of σ², below which it is set to the last level."""
    sure: float = 2.0
    """Standard deviations of the score beyond which the likelihood rejects a negligible model error. Chance
    alone asks for more in half of the fits. With 3, residuals beside dry friction in 2e-4 noise count as
    smooth (tests/test_switching.py)."""
    by_chance: float = 10.0
    """Divided by √rows: relative amount by which a model error can seem too small by chance. With 0 one data
    set of five loses its terms (examples/oscillators.py)."""
    probes: int = 2
    """Vectors of random signs by which traces are estimated (Hutchinson, Commun. Stat. Simul. Comput. 18,
    1989). One vector gives a relative error of about √(2 / rows)."""
    signs: int = 4000
    """Least number of rows times vectors. With two vectors the trace of few rows is as uncertain as the noise
    itself: the growth of fourteen trees, six samples each, then does not slow down."""


_STEPS = _Steps()


Solve = Callable[[LeastSquares, Ints], Floats]
Update = Callable[[Motion, Fitted, "_Score"], Fitted]
Parts = list[tuple[Whitened, Floats]]


def fit_states(motion: Motion, start: Fitted, solve: Solve, *, levels: Sequence[float] = LEVELS) -> Fitted:
    """States and coefficients, fitted at each level of the model error and then with the model error free.

    solve: coefficients from the white rows of a support, under the constraints
    """
    now = start = replace(start, heeded=start.heeded or motion.forcing is not None)
    # With `forcing` the kicks are known to be large, so that the levels are skipped.
    for level in levels if motion.forcing is None else ():
        # A large model error first: the rows then hold for almost any states, and the problem is nearly
        # convex. Each level starts at the states of the level before.
        now = at_level(motion, now, solve, level)
        if not now.alive:
            return now
        # The likelihood asks for no smaller model error: at a lower level a wrong law would only return here.
        # With few rows the likelihood has two maxima, a random walk and, at smaller model error, the law.
        if now.settled and motion.rows >= FEW_ROWS and motion.memory is None:
            break
    # A fit that has settled without the determinants begins with them.
    heeded = motion.forcing is not None or (start.heeded and start.converged and start.settled and not levels)
    for _ in range(3 * _STEPS.most):
        now = _step(motion, now, solve, _newton if motion.memory is None else _noise_only, heeded=heeded)
        done = heeded or not (start.heeded and motion.may_be_kicked(now))
        if not now.alive or (now.converged and now.settled and done):
            break
        # The determinants cost more than ten steps. During the fit most laws leave more than noise
        # unexplained, so that only the residual at the end tells whether the determinants matter.
        heeded |= now.converged and now.settled
    return now


def at_level(motion: Motion, start: Fitted, solve: Solve, level: float) -> Fitted:
    """States, coefficients and noise at one level of the model error, in units of σ²/h."""
    now = replace(start, error=motion.errors(level, start.variance))
    for _ in range(_STEPS.most):
        now = _step(motion, now, solve, _fixed_ratio)
        if now.moved < _STEPS.slow or not now.alive:
            break
    return now


def along_walks(motion: Motion, start: Fitted, solve: Solve, errors: Iterable[Floats]) -> Fitted:
    """States and coefficients under one model error after the other, with the noise held fixed."""
    now = start
    for error in errors:
        now = replace(now, error=error)
        for _ in range(_STEPS.most // 3):
            now = _step(motion, now, solve, _fixed) if now.alive else now
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
            now = _step(motion, now, lambda objective, support: coef, _fixed)
            if now.moved < _STEPS.slow or not now.alive:
                break
    now = replace(now, error=error)
    for _ in range(_STEPS.most):
        if not now.alive or now.converged:
            break
        now = _step(motion, now, lambda objective, support: coef, _fixed)
    return now


def _fixed(motion: Motion, now: Fitted, score: _Score) -> Fitted:
    """An update that leaves noise and model error as they are."""
    return now


@dataclass(frozen=True, eq=False)
class _Score:
    """The derivatives of −2 log p by the logarithms of the variances v_i, noise first and then model error.

    With S = Σ v_i S_i: quadratic_i = v_i zᵀ S_i z and trace_i = v_i tr S⁻¹ S_i. The gradient is trace −
    quadratic, and the curvature is about (v_i S_i z)ᵀ S⁻¹ (v_j S_j z), the average information (Gilmour,
    Thompson, Cullis 1995).
    """

    quadratic: Floats
    trace: Floats
    curvature: Floats


@np.errstate(all="ignore")  # states may diverge, which `alive` says
def _step(motion: Motion, now: Fitted, solve: Solve, update: Update, *, heeded: bool = False) -> Fitted:
    """One Gauss-Newton step for states and coefficients, and one step of the variances.

    heeded: whether the determinants count. If a settled fit does not change by them, it is returned as it is
    """
    if now.law.unknown:
        return _step_with_parameters(motion, now, solve, update)
    parts: Parts = []
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
            parts.append((white, table))
    objective = LeastSquares(factor, factor.shape[1] - 1, rows)
    if heeded and motion.may_be_kicked(now):
        gradient = motion.determinants(now, now.law)
        if gradient is None:
            return replace(now, alive=False)
        [moved_objective] = shifted([objective], gradient)
        if moved_objective is objective and now.converged and now.settled:
            return now
        objective = moved_objective
    coef = solve(objective, now.law.support)
    if not np.isfinite(coef).all():
        return replace(now, alive=False)
    # The rows of long data are computed a second time instead of being held in memory.
    again = ((white, motion.table(white, now.law)) for white in motion.whitened(now) if white is not None)
    return _moved(motion, now, coef, parts or again, update)


def _step_with_parameters(motion: Motion, now: Fitted, solve: Solve, update: Update) -> Fitted:
    """The same step for a law with unknown parameters, which fits better with the states held fixed.

    1. Solve for the coefficients, and for the slopes of the residual with respect to the parameters.
    2. Solve for the parameters within their ranges and a trust region.
    3. Halve the step until the residual decreases; if it never does, the parameters stay.
    """
    from scipy.optimize import lsq_linear  # a sixth of the time of `import cindy`

    parts: Parts = []
    for white in motion.whitened(now):
        if white is None:
            return replace(now, alive=False)
        parts.append((white, motion.table(white, now.law, now.coef)))
    k, law = len(now.law.support), now.law
    start = now.coef[k:]
    current = _Rows.of([table for _, table in parts], k)
    coef = current.coefficients(solve, law.support, start)
    if not np.isfinite(coef).all():
        return replace(now, alive=False)
    slopes = current.slopes(solve, law.support, start)
    # Step 2, by the slopes of step 1.
    low, high = _reach(law.unknown, start)
    goal, size = current.residual(coef, start), lengths(slopes)
    solution = lsq_linear(slopes / size, goal, bounds=((low - start) * size, (high - start) * size))
    best, numbers, far = float(goal @ goal), np.concatenate([coef, start]), 0.0
    # Step 3.
    for share in 0.5 ** np.arange(_HALVINGS):
        place = start + share * (solution.x / size)
        try:
            moved = [(white, motion.table(white, law, np.concatenate([coef, place]))) for white, _ in parts]
        except DataError:
            continue
        trial = _Rows.of([table for _, table in moved], k)
        new = trial.coefficients(solve, law.support, place)
        residual = trial.residual(new, place)
        if np.isfinite(new).all() and float(residual @ residual) <= best * (1 + 1e-12):
            parts, numbers = moved, np.concatenate([new, place])
            # In units of the standard errors of the parameters.
            far = float(np.linalg.norm(slopes @ (place - start)))
            break
    after = _moved(motion, now, numbers, parts, update)
    return replace(after, moved=max(after.moved, far))


def _moved(
    motion: Motion, now: Fitted, coef: Floats, parts: Iterable[tuple[Whitened, Floats]], update: Update
) -> Fitted:
    """Steps 2 and 3: the states that belong to the coefficients, and the update of the variances."""
    d = motion.states
    quadratic, trace, curvature = np.zeros(2 * d), np.zeros(2 * d), np.zeros((2 * d, 2 * d))
    states, shift = [], 0.0
    curved = update is _newton
    probes = signs(motion, [r.rows // r.stretches for r in motion.records], _STEPS.probes if curved else 1)
    for (white, table), x, vectors in zip(parts, now.x, probes, strict=True):
        record = white.linear.record
        # z = S⁻¹ r. The most likely noise is ê = Σ Bᵀ z.
        z = white.solved(table[:, -1] - table[:, :-1] @ coef)
        collected = white.linear.noise_of(z)
        new = record.y - record.spread * now.variance * collected - record.shared(now.variance, collected)
        states.append(new)
        shift += float(np.sum((new - x) ** 2 / (record.spread * now.variance)))
        quadratic += _sizes(white, now, z, collected)
        if motion.forcing is not None:
            trace += _traces(white)
        else:
            # tr S⁻¹ S_i is the expectation of vᵀ S⁻¹ S_i v over random signs v.
            trace += _probed(white, now, vectors)
        if curved:
            derivatives = white.varied(z, collected)
            curvature += derivatives.T @ derivatives
    shift = float(np.sqrt(shift / sum(x.size for x in states)))
    alive = all(bool((np.abs(x) < motion.bounds).all()) for x in states)
    after = replace(now, x=tuple(states), coef=coef, moved=shift, alive=alive)
    return update(motion, after, _Score(quadratic, trace, curvature)) if alive else after


def signs(motion: Motion, sizes: Sequence[int], least: int = _STEPS.probes) -> Iterator[NDArray[np.int8]]:
    """(stretches, vectors, size) of each record: random signs, different in every stretch.

    The slowest few motions of a stretch determine a model error. With equal signs in all stretches its trace
    would be as uncertain as that of a single stretch (benchmark: bound).

    sizes: of a vector, by record; least: number of vectors, which is larger where rows are few
    """
    records, count = motion.records, max(least, -(-_STEPS.signs // motion.rows))
    # Stretches are ranked by their first and last measurements: neither order nor units of runs may matter.
    ends = [np.abs(np.where(r.missing, 0.0, r.y)[:, [0, -1]]).reshape(r.stretches, -1) for r in records]
    rank = np.argsort(np.lexsort(np.concatenate(ends).T))
    drawn = 2 * np.random.default_rng(0).integers(0, 2, (len(rank), count, max(sizes)), np.int8) - 1
    stretches = np.cumsum([r.stretches for r in records])[:-1]
    for size, places in zip(sizes, np.split(rank, stretches), strict=True):
        yield drawn[places, :, :size]


def _probed(white: Whitened, now: Fitted, vectors: NDArray[np.int8]) -> Floats:
    """v_i tr S⁻¹ S_i, estimated with random signs (stretches, probes, rows)."""
    total, probes = np.zeros(2 * len(now.variance)), vectors.shape[1]
    for k in range(probes):
        z = white.solved(vectors[:, k].astype(np.float64))
        total += _sizes(white, now, z, white.linear.noise_of(z)) / probes
    return total


def _traces(white: Whitened) -> Floats:
    """v_i tr S⁻¹ S_i exactly, from the blocks of S⁻¹ that the determinants also use.

    The error of two vectors of random signs is as large as that of the data: with them a kicked van der Pol
    oscillator in 2 % noise has a diffusion that is 10 % too large (benchmark: kicks).
    """
    linear, near = white.linear, white.inverse[0]
    record = linear.record
    sigma = np.where(record.missing[..., None], 0.0, record.covariance(white.variance))
    noise = np.einsum("smij,smji->i", sigma, inverse_at_samples(linear, white.sums))
    assert linear.forced is not None
    kicks = np.einsum("skij,skji->i", linear.forced.covariance(white.error), inverse_at_steps(linear, near))
    return np.concatenate([noise, kicks])


def _sizes(white: Whitened, now: Fitted, z: Floats, collected: Floats) -> Floats:
    """v_i zᵀ S_i z for the noise and the model error of every state. Missing entries do not contribute."""
    record = white.linear.record
    measured = np.where(record.missing, 0.0, record.spread)
    noise = now.variance * np.sum(measured * collected**2, axis=(0, 1))
    noise += np.sum(collected * record.shared(now.variance, collected), axis=(0, 1))
    if white.linear.forced is None:
        error = now.error * np.sum(record.grid.step[:, None] * z**2, axis=(0, 1))
    else:
        kicks = white.linear.kicks_of(z)
        error = np.sum(kicks * white.linear.weighted(now.error, kicks), axis=(0, 1, 2))
    return np.concatenate([noise, error])


def _fixed_ratio(motion: Motion, now: Fitted, score: _Score) -> Fitted:
    """Update the noise, with the model error in a fixed ratio to it.

    It has settled if the likelihood asks for no smaller model error than this.
    """
    d = motion.states
    # At the maximum of the likelihood the quadratic form equals the trace. Multiplying the variance by their
    # ratio is a fixed-point iteration that keeps it positive.
    ratio = (score.quadratic[:d] + score.quadratic[d:]) / np.maximum(
        score.trace[:d] + score.trace[d:], 1e-300
    )
    factor = np.where(motion.measured, np.clip(ratio, 0.1, 100.0), 1.0)
    variance = np.maximum(now.variance * factor, motion.floor)
    noise, kicks = np.split(score.quadratic / np.maximum(score.trace, 1e-300), 2)
    by_chance = 1 + _STEPS.by_chance / np.sqrt(motion.rows)
    # Where the likelihood prefers a larger model error than this level has, a lower level is of no use.
    enough = bool(np.any((kicks > by_chance * noise) & motion.measured & ~motion.known))
    error = now.error * (motion.errors(1.0, variance) / motion.errors(1.0, now.variance))
    return replace(now, variance=variance, error=error, settled=enough)


def _noise_only(motion: Motion, now: Fitted, score: _Score) -> Fitted:
    """Update the noise alone: the law is taken as exact, and the model error stays at its last level."""
    after = _fixed_ratio(motion, now, score)
    changed = np.abs(np.log(after.variance / now.variance))[motion.measured]
    return replace(after, settled=bool((changed < _STEPS.same).all()))


def _newton(motion: Motion, now: Fitted, score: _Score) -> Fitted:
    """A Newton step in the logarithms of all variances of noise and model error."""
    d = motion.states
    variances = np.concatenate([now.variance, now.error])
    least = np.concatenate([motion.floor, _STEPS.floor * now.variance / motion.step])
    gradient = score.trace - score.quadratic
    free = np.concatenate([motion.measured, ~motion.known])
    # A negligible model error is set to the last level instead of shrinking further: models whose negligible
    # errors differ by half differ by tens of units of −2 log p (benchmark: chaotic, NoseHoover).
    small = np.concatenate([np.zeros(d, bool), now.error < motion.errors(_STEPS.negligible, now.variance)])
    # The variance of the gradient is twice the curvature (Rao's score test).
    curved = np.diagonal(score.curvature)
    asked = gradient < -np.where(small, _STEPS.sure * np.sqrt(2.0 * curved), 0.0)
    free &= ((variances > 1.01 * least) & ~small) | asked
    step = np.zeros(2 * d)
    # The small diagonal keeps the system solvable if the data do not determine a variance.
    curvature = score.curvature + 1e-9 * np.eye(2 * d) * score.curvature.max()
    if free.any():
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)], -gradient[free])
    far = np.abs(step) > _STEPS.furthest
    step = np.clip(step, -_STEPS.furthest, _STEPS.furthest)
    within_limits = free & ~far
    if np.any(far[:d] & (now.error * motion.step > now.variance)) and within_limits.any():
        # Noise that is negligible beside the kicks has no curvature. Its clipped step is held fixed while the
        # other variances are solved for, so that it does not move them.
        pulled = gradient[within_limits] + curvature[np.ix_(within_limits, far)] @ step[far]
        remainder = np.linalg.solve(curvature[np.ix_(within_limits, within_limits)], -pulled)
        step[within_limits] = np.clip(remainder, -_STEPS.furthest, _STEPS.furthest)
    # −2 log p is flat in log q where q is negligible. If the data reject that, Newton's step in q is taken.
    rejected = small & free & asked
    step = np.where(small, np.log1p(np.where(rejected, -gradient / np.maximum(curved, 1e-300), 0.0)), step)
    # The decrease of −2 log p that the step promises, to second order.
    worth = float(-gradient @ step) / 2
    enough = _STEPS.worth if motion.forcing is None else _STEPS.worth / 20.0
    settled = not rejected.any() and (worth < enough or not np.any(np.abs(step) > 0.01))
    new = variances if settled else np.maximum(variances * np.exp(step), least)
    variance, error = new[:d], new[d:]
    negligible = (error < motion.errors(_STEPS.negligible, variance)) & ~motion.known
    last = np.where(negligible, motion.errors(LEVELS[-1], variance), error)
    # If the model error changed, the states need one more step.
    same = bool(np.all(np.abs(np.log(last / error)) < _STEPS.same))
    return replace(now, variance=variance, error=last, settled=settled and same)


_FURTHEST = 1.0
"""Largest step in the logarithm of a parameter: a factor of e."""
_SHARE = 0.2
"""Largest step of a parameter on a linear scale, as a share of its range."""
_HALVINGS = 5
"""Number of sizes tried for a step that does not fit better. Then the parameters stay."""


@dataclass(frozen=True, eq=False)
class _Rows:
    """White rows of all records as a triangle: `coefs` columns ψ, then parameters, then the target."""

    factor: Floats
    coefs: int
    rows: int

    @classmethod
    def of(cls, tables: Sequence[Floats], coefs: int) -> _Rows:
        factor = triangle(np.concatenate(tables))
        return cls(factor, coefs, sum(len(table) for table in tables))

    def _target(self, places: Floats) -> Floats:
        return np.asarray(self.factor[:, -1] - self.factor[:, self.coefs : -1] @ places)

    def coefficients(self, solve: Solve, support: Ints, places: Floats) -> Floats:
        """The coefficients for given parameters, under all constraints."""
        columns = np.column_stack([self.factor[:, : self.coefs], self._target(places)])
        return solve(LeastSquares(columns, self.coefs, self.rows), support)

    def residual(self, coef: Floats, places: Floats) -> Floats:
        return np.asarray(self._target(places) - self.factor[:, : self.coefs] @ coef)

    def slopes(self, solve: Solve, support: Ints, places: Floats) -> Floats:
        """(rows, p): the decrease of the residual with each parameter, the coefficients refitted.

        Refitted coefficients are piecewise linear in the parameters, so that a difference quotient is exact.
        """
        current = self.residual(self.coefficients(solve, support, places), places)
        columns = []
        for p in range(len(places)):
            size = float(np.linalg.norm(self.factor[:, self.coefs + p]))
            moved = np.array(places)
            moved[p] += 1e-3 / size if size else 1e-3
            coef = self.coefficients(solve, support, moved)
            columns.append((current - self.residual(coef, moved)) / (moved[p] - places[p]))
        return np.stack(columns, axis=1)


def _reach(unknown: Sequence[Parameter], start: Floats) -> tuple[Floats, Floats]:
    """The bounds of one step: inside the range of each parameter, and inside the trust region."""
    ends = np.array([parameter.places for parameter in unknown])
    far = np.array(
        [
            _FURTHEST if parameter.logarithmic else _SHARE * (high - low)
            for parameter, (low, high) in zip(unknown, ends, strict=True)
        ]
    )
    low, high = np.maximum(ends[:, 0], start - far), np.minimum(ends[:, 1], start + far)
    # lsq_linear requires room between its bounds.
    return low - 1e-12, high + 1e-12
