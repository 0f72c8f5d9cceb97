"""Random paths of equations with random kicks, dx_i = F_i(x) dt + √q_i(x) dW_i, their bands and densities.

A path is computed in small steps δ. Its increments ΔW ~ N(0, δ) are independent from step to step; those of
different equations have the correlation `Diffusion.correlation`:

    y = x + F(x) δ + √q(x) ΔW,    x ← x + ½ (F(x) + F(y)) δ + √q(x) ΔW + ¼ ∂q/∂x (ΔW² − δ) .

Milstein's term, the last one, gives strong order one if q_i depends on x_i alone (Kloeden and Platen 1992,
10.3), also with correlated increments, since no integral of one of them over another occurs. If q_i depends
on other states the order is one half, as for Euler's scheme. Without kicks Heun's rule gives order two.

No single path should agree with the data. A model with kicks is compared with them by bands around solutions
and by the density of its states:

1. Draw many paths from the start of a solution, each with its own kicks.
2. Add measurement noise, y = x + σ e with the noise σ of the model, zero if unknown. At every time 90 % of
   the values lie between their 5th and 95th percentiles. This is the band; data lie in it as often if the
   model is right.
3. Without inputs, draw paths from random samples and discard their first halves, after which the start is
   forgotten. The histogram of the rest is the stationary density of the measurements. With inputs, follow the
   inputs of each trajectory; the density is that over the same times.
4. Draw paths from the first states of a few pieces of the data. If they all spread more within the pieces
   than the data do, or all less, and by a factor of three in the median, the equations are wrong, however
   well each step fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from cindy._arrays import Floats, one_thread
from cindy._check import integer
from cindy.basis import TIME, pretty
from cindy.data import Trajectory, spread_over
from cindy.errors import DataError
from cindy.findings import Finding
from cindy.model.denoised import denoised_states
from cindy.model.equations import Equations
from cindy.model.simulation import Limits, RightHandSide, all_inputs, blown_up, without_time
from cindy.model.solution import Solution
from cindy.states import Diffusion

Drift = Callable[[float, Floats], Floats]
"""(time, (paths, states)) → F at the states of all paths."""

TURN = 0.02
"""Largest relative change ‖F(x + F δ) − F(x)‖ / ‖F‖ of the drift in a step δ. Halving it moves paths of the
kicked van der Pol oscillator by less than their thickness in a plot."""
_FEWEST_STEPS, _MOST_STEPS = 4, 1000
"""Fewest and most steps between two samples."""


@dataclass(eq=False)
class RandomPath:
    """Draws paths, each call with new random numbers.

    diffusion: its variables are the states of the equations in first-order form
    first: how many equations without kicks come before those with kicks, as positions come before rates
    turn: by how much F may change in a step, relative to itself
    """

    diffusion: Diffusion
    rng: np.random.Generator
    first: int = 0
    turn: float = TURN

    @classmethod
    def of(cls, model: Equations, seed: int) -> RandomPath:
        """The paths of a model; an error if it has no random kicks."""
        if model.diffusion is None:
            raise DataError(
                "simulate: `noise` asks for random kicks, and this model has none: `model.diffusion` is "
                "None. Leave `noise` out, or identify a model from data that are driven by noise."
            )
        kicked = len(model.diffusion.variables) - len(model.states)
        return cls(model.diffusion, np.random.default_rng(integer(seed, "simulate: `seed`", least=0)), kicked)

    @cached_property
    def _half(self) -> Floats | None:
        """A root of the correlation of the increments; None if they are independent."""
        correlation = self.diffusion.correlation
        if correlation is None:
            return None
        # By eigenvalues and not by Cholesky's method, since the correlation may be singular.
        values, vectors = np.linalg.eigh(correlation)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    @cached_property
    def _same_everywhere(self) -> Floats | None:
        """Standard deviations of the kicks, per root of time; None if they depend on the state."""
        return np.sqrt(self.diffusion.coef[0]) if self.diffusion.additive else None

    def __call__(
        self,
        rhs: RightHandSide,
        start: Floats,
        t: Floats,
        names: Sequence[str],
        *,
        scale: Floats,
        limits: Limits,
    ) -> tuple[Floats, str | None]:
        """The states at the times t from `start`, and why they ended early if they did."""
        rows, bound = [start], limits.growth * scale
        path = self.along(lambda s, x: np.array([rhs(s, x[0])]), start[None], t, scale, limits.growth)
        for when, (x,) in zip(t[1:], path, strict=True):
            if not np.all(np.abs(x) <= bound):
                return np.array(rows), blown_up(x, float(when), names, bound)
            rows.append(x)
        return np.array(rows), None

    def along(self, drift: Drift, start: Floats, t: Floats, scale: Floats, growth: float) -> Iterator[Floats]:
        """(paths, states) at each time after the first, from `start`, which has the same shape.

        growth: a path whose states exceed this many times their scale has blown up, and is NaN from there on
        """
        x, bound = start, growth * scale
        for begin, end in pairwise(t.tolist()):
            with np.errstate(all="ignore"):
                steps = self._steps(drift, x, begin, end, scale)
                for n in range(steps):
                    x = self._step(drift, x, begin + n * (end - begin) / steps, (end - begin) / steps)
                    if not (np.abs(x) <= bound).all():
                        x[~(np.abs(x) <= bound).all(axis=1)] = np.nan
            yield x

    def _step(self, drift: Drift, x: Floats, now: float, step: float) -> Floats:
        # ΔW ~ N(0, δ) for every path and equation.
        change = np.sqrt(step) * self.rng.standard_normal((len(x), self.diffusion.coef.shape[1]))
        if self._half is not None:
            change = change @ self._half.T
        noise, correction = np.zeros_like(x), np.zeros(1)
        kicked = slice(self.first, self.first + change.shape[1])
        if self._same_everywhere is not None:
            noise[:, kicked] = self._same_everywhere * change
        else:
            finite = np.nan_to_num(x)
            variance = self.diffusion.variance(finite)
            noise[:, kicked] = np.sqrt(variance) * change
            by_all = self.diffusion.basis.derivative(finite, self.diffusion.variables)
            slopes = np.einsum("nti,ti->ni", by_all[..., kicked], self.diffusion.coef)
            # Milstein's term, ½ b ∂b/∂x (ΔW² − δ) with b = √q, which is ¼ ∂q/∂x (ΔW² − δ).
            correction = np.zeros_like(x)
            correction[:, kicked] = np.where(variance > 0, slopes, 0.0) * (change**2 - step) / 4.0
        # Heun's rule for the drift: the mean of both ends of the step.
        slope = drift(now, x)
        ahead = drift(now + step, x + step * slope + noise)
        return np.asarray(x + step * (slope + ahead) / 2.0 + noise + correction)

    def _steps(self, drift: Drift, x: Floats, begin: float, end: float, scale: Floats) -> int:
        """The number of steps from one sample to the next, for the path whose drift changes fastest."""
        slope, small = drift(begin, x), 1e-3 * (end - begin)
        # ‖J F‖ by a small step along F, which needs no Jacobian.
        turn = np.linalg.norm((drift(begin, x + small * slope) - slope) / scale, axis=1)
        rate = turn / np.maximum(np.linalg.norm(small * slope / scale, axis=1), 1e-300)
        needed = (end - begin) * np.max(rate, initial=0.0, where=np.isfinite(rate)) / self.turn
        return int(np.clip(np.ceil(needed), _FEWEST_STEPS, _MOST_STEPS))


@dataclass(frozen=True)
class _Paths:
    """How many paths bands and densities are drawn from."""

    level: float = 0.9
    """Share of the measurements that lie in a band."""
    paths: int = 600
    """Paths of a band: the probability of its edges is then known to 0.01."""
    long_paths: int = 40
    longest: int = 2000
    """Paths of a density and samples of each: 40,000 samples, half a second for two states."""
    turn: float = 0.1
    """In place of `TURN`: coarser, since quantiles of 600 paths are no better known."""
    pieces: int = 3
    least: int = 20
    most: int = 500
    """Pieces of the data, and fewest and most samples of each, whose spread is compared: half a second."""
    apart: float = 3.0
    """Ratio of spreads that is reported. Over one piece right equations had 0.6 to 1.6, and 2.9 where a
    double well stayed in one of its wells (systems of the benchmark kicks, two draws each)."""
    bins: int = 40
    """Bins of a histogram: as many as a figure can show."""
    tail: float = 1e-3
    """Share of samples on either side that a histogram leaves out."""


_PATHS = _Paths()


@one_thread()
def many_paths(model: Equations, starts: Floats, like: Trajectory, *, seed: int = 0) -> Floats:
    """(paths, samples, order · states): paths from `starts`, at the times and with the inputs of `like`.

    A path that blows up is NaN from there on.
    """
    path = replace(RandomPath.of(model, seed), turn=_PATHS.turn)
    usual = np.where(model.scale > 0, model.scale, np.abs(starts[:, : len(model.states)]).max() or 1.0)
    scale = np.maximum(np.tile(usual, model.order), np.abs(starts).max(axis=0))
    growth = Limits().growth
    drift = _drift(model, like, growth * scale)
    return np.stack([starts, *path.along(drift, starts, like.t, scale, growth)], axis=1)


def _drift(model: Equations, like: Trajectory, bound: Floats) -> Drift:
    """The equations at the states of all paths, in first-order form.

    bound: beyond which a path has blown up; the equations are evaluated at the bound then
    """
    signal = all_inputs(model, without_time(model, like.u, like.t), like.t, None, like.hold)
    d, given = len(model.states), len(model.states) + len(model.rates)

    def drift(s: float, x: Floats) -> Floats:
        measured = iter(() if signal is None else signal(s))
        inputs = [s if name == TIME else next(measured) for name in model.inputs]
        # One call evaluates all paths, and a single NaN or overflow would raise for all of them.
        near = np.clip(np.nan_to_num(x[:, :given]), -bound[:given], bound[:given])
        rows = np.column_stack([near, np.tile(inputs, (len(x), 1))])
        values = model.basis.evaluate(rows, model.variables) @ model.coef
        return values if model.order == 1 else np.column_stack([x[:, d:], values])

    return drift


def band(model: Equations, solution: Solution) -> tuple[Floats, Floats]:
    """Lower and upper edge, (samples, states) each, of the band of paths from the start of a solution."""
    # Step 1.
    starts = np.tile(solution.start, (_PATHS.paths, 1))
    paths = many_paths(model, starts, solution.measured)[..., : len(model.states)]
    # Step 2.
    paths += np.nan_to_num(model.noise) * np.random.default_rng(1).standard_normal(paths.shape)
    # After a blow-up of every path there is no band.
    alive, shares = np.isfinite(paths).any(axis=0), [50 * (1 - _PATHS.level), 50 * (1 + _PATHS.level)]
    edges = np.full((2, *alive.shape), np.nan)
    edges[:, alive] = np.nanpercentile(paths[:, alive], shares, axis=0)
    low, high = edges
    return low, high


@dataclass(frozen=True, eq=False)
class Density:
    """Histograms of one state over the same bins, as densities.

    edges: (bins + 1,); data, model: (bins,)
    """

    edges: Floats
    data: Floats
    model: Floats


def densities(model: Equations, data: Sequence[Trajectory]) -> list[Density]:
    """The density of every state in the data and by the model (step 3); none if no sample has all states."""
    pieces = list(_along_inputs(model, data) if model.inputs else _anywhere(model, data))
    drawn, d = [], len(model.states)
    if not pieces:
        return []
    # Step 3: with inputs the whole paths count, without them their second halves.
    for k, (starts, like) in enumerate(pieces):
        paths = many_paths(model, starts, like, seed=k)[..., :d]
        drawn.append((paths if model.inputs else paths[:, len(like) // 2 :]).reshape(-1, d))
    simulated = np.concatenate(drawn)
    simulated += np.nan_to_num(model.noise) * np.random.default_rng(1).standard_normal(simulated.shape)
    measured = np.concatenate([run.x for run in ([like for _, like in pieces] if model.inputs else data)])
    return [_histograms(measured[:, j], simulated[:, j]) for j in range(d)]


def paths_apart(model: Equations, data: Sequence[Trajectory]) -> Iterator[Finding]:
    """A finding on the state whose paths, with random kicks, spread least like the data (step 4)."""
    runs = spread_over(data, _PATHS.pieces)
    states = denoised_states(model, runs)
    width, count = model.order * len(model.states), _PATHS.long_paths
    pieces = [
        (x[first], run.part(first, min(len(run), first + _PATHS.most)))
        for run, x in zip(runs, states or (), strict=states is not None)
        # A long run may stay for a while where it seldom is, so that pieces are spread over it.
        for first in range(int(np.argmax(np.isfinite(x).all(axis=1))), len(run), _PATHS.most)
        if len(run) - first >= _PATHS.least and len(x[first]) == width and np.isfinite(x[first]).all()
    ]
    squares, samples = np.zeros((count + 1, len(model.states))), 0
    for k, (begin, run) in enumerate(spread_over(pieces, _PATHS.pieces)):
        d = run.dimension
        if run.u is not None and not np.isfinite(run.u).all():
            continue
        paths = many_paths(model, np.tile(begin, (count, 1)), run, seed=k)[..., :d]
        paths += np.nan_to_num(model.noise)[:d] * np.random.default_rng(0).standard_normal(paths.shape)
        seen = np.isfinite(run.x)
        both = np.where(seen, np.concatenate([run.x[None], paths]), 0.0)
        total = np.sum(both, axis=1) ** 2 / np.maximum(seen.sum(axis=0), 1)
        squares[:, :d] += np.sum(both**2, axis=1) - total
        samples = max(samples, len(run))
    if not samples:
        return
    # A path that blew up spreads without bound.
    ratio = np.sqrt(np.nan_to_num(squares[1:], nan=np.inf) / np.where(squares[0] > 0, squares[0], np.inf))
    median, all_beyond = np.median(ratio, axis=0), np.all((ratio > 1) == (ratio[0] > 1), axis=0)
    far = np.where(all_beyond, np.abs(np.log(np.maximum(median, 1e-300))), 0.0)
    worst = int(np.argmax(far))
    if far[worst] > np.log(_PATHS.apart):
        name, size = pretty(model.states[worst]), float(median[worst])
        spread = (
            f"spread {size:.2g} times as far as the data in {name}, over"
            if np.isfinite(size)
            else f"run away in {name}, at least every second one, within"
        )
        yield Finding(
            "paths-apart",
            f"Paths of these equations with random kicks {spread} {samples} samples. Each step may fit, "
            "but the drift or the size of the kicks is wrong: do not simulate with them. A state or an input "
            "may be missing.",
            {"state": model.states[worst], "ratio": size},
        )


def _anywhere(model: Equations, data: Sequence[Trajectory]) -> Iterator[tuple[Floats, Trajectory]]:
    """States at random samples, and a trajectory whose times the paths from there take."""
    longest = max(data, key=len)
    states = np.concatenate([_states(model, trajectory) for trajectory in data])
    states = states[np.isfinite(states).all(axis=1)]
    if len(states):
        chosen = np.random.default_rng(0).choice(len(states), size=_PATHS.long_paths)
        yield states[chosen], longest.part(0, min(len(longest), _PATHS.longest))


def _along_inputs(model: Equations, data: Sequence[Trajectory]) -> Iterator[tuple[Floats, Trajectory]]:
    """The first states of each trajectory, and the trajectory from there."""
    for trajectory in data:
        states = _states(model, trajectory)
        finite = np.flatnonzero(np.isfinite(states).all(axis=1))
        if len(finite) and len(trajectory) - finite[0] > 1:
            begin, count = int(finite[0]), max(_PATHS.long_paths // len(data), 2)
            yield (
                np.tile(states[begin], (count, 1)),
                trajectory.part(begin, min(len(trajectory), begin + _PATHS.longest)),
            )


def _states(model: Equations, trajectory: Trajectory) -> Floats:
    """(samples, order · states): the measured states, and their rates by differences for order 2."""
    if model.order == 1:
        return trajectory.x
    return np.column_stack([trajectory.x, np.gradient(trajectory.x, trajectory.t, axis=0)])


def _histograms(measured: Floats, simulated: Floats) -> Density:
    """Both densities over the range of both, at most three times as wide as that of the data.

    Samples of paths beyond it, or after a blow-up, are missing from the density of the model, so that it
    integrates to less than one: to zero if nothing is left.
    """
    tails = [_PATHS.tail, 1 - _PATHS.tail]
    seen = measured[np.isfinite(measured)]
    first, last = np.quantile(seen, tails)
    near = simulated[np.abs(simulated - (first + last) / 2) <= 1.5 * ((last - first) or np.inf)]
    low, high = np.quantile(near, tails) if len(near) else (first, last)
    low, high = min(low, first), max(high, last)
    edges = np.linspace(low, high if high > low else low + 1.0, _PATHS.bins + 1)
    data, model = (
        np.histogram(values, edges, density=True)[0] if len(values) else np.zeros(_PATHS.bins)
        for values in (seen, near)
    )
    return Density(edges, data, model * len(near) / len(simulated))
