"""Ensembles: many paths of a model with random kicks, as bands around solutions and as a density.

One path of dx = F(x) dt + √q(x) dW is as likely as another, so that a model with kicks is compared with data
by what its paths have in common:

1. Paths begin where a solution begins, each with kicks of its own (`stochastic.py`), all at once.
2. A measurement of them is y = x + σ e with the noise σ of the model. At every time nine in ten of its values
   lie in the band between the 5th and the 95th percentile, and so do the data where the model is right.
3. Without inputs, paths that begin anywhere in the data and have gone on for half of their length have
   forgotten their start: the histogram of the rest is the stationary density of the measurements. Inputs are
   followed as they were measured, and the density is that of the same times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cindy._arrays import Floats, one_thread
from cindy.basis import TIME
from cindy.data import Trajectory
from cindy.model.equations import Equations
from cindy.model.simulation import Limits, all_inputs, without_time
from cindy.model.solution import Solution
from cindy.model.stochastic import Drift, RandomPath

__all__ = ["Density", "band", "densities", "many_paths"]

LEVEL = 0.9
"""Of measurements that a band holds."""


@dataclass(frozen=True)
class _Paths:
    """How many paths bands and densities are drawn from."""

    paths: int = 600
    """Of a band: its edges are then known to 0.01 in probability."""
    long_paths: int = 40
    longest: int = 2000
    """Paths of a density and samples of each: 40,000 samples, half a second for two states."""
    turn: float = 0.1
    """Of a step, as in `stochastic.py`: coarser, for quantiles of 600 paths are no better known."""
    bins: int = 40
    """Of a histogram: as many as a figure shows apart."""
    tail: float = 1e-3
    """Share of samples on either side that a histogram leaves out."""


_PATHS_OF = _Paths()


@one_thread()
def many_paths(model: Equations, starts: Floats, like: Trajectory, *, seed: int = 0) -> Floats:
    """(paths, samples, order · states): paths from `starts`, at the times and with the inputs of `like`.

    A path that blows up is NaN from there on.
    """
    path = replace(RandomPath.of(model, seed), turn=_PATHS_OF.turn)
    usual = np.where(model.scale > 0, model.scale, np.abs(starts[:, : len(model.states)]).max() or 1.0)
    scale = np.maximum(np.tile(usual, model.order), np.abs(starts).max(axis=0))
    rows = np.full((len(like), *starts.shape), np.nan)
    rows[0] = starts
    growth = Limits().growth
    for k, x in enumerate(
        path.along(_drift(model, like, growth * scale), starts, like.t, scale, growth), start=1
    ):
        rows[k] = x
    return np.swapaxes(rows, 0, 1)


def _drift(model: Equations, like: Trajectory, bound: Floats) -> Drift:
    """The equations at the states of all paths, of first order whatever their own.

    bound: beyond which a path has blown up; it goes nowhere then, and must not stop the others
    """
    signal = all_inputs(model, without_time(model, like.u, like.t), like.t, None, like.hold)
    d, given = len(model.states), len(model.states) + len(model.rates)

    def drift(s: float, x: Floats) -> Floats:
        known = iter(() if signal is None else signal(s))
        inputs = [s if name == TIME else next(known) for name in model.inputs]
        near = np.clip(np.nan_to_num(x[:, :given]), -bound[:given], bound[:given])
        rows = np.column_stack([near, np.tile(inputs, (len(x), 1))])
        values = model.basis.evaluate(rows, model.variables) @ model.coef
        return values if model.order == 1 else np.column_stack([x[:, d:], values])

    return drift


def band(model: Equations, one: Solution, *, seed: int = 0) -> tuple[Floats, Floats]:
    """(samples, states) twice: what 90 % of measurements lie between, of paths that begin as a solution."""
    starts = np.tile(one.start, (_PATHS_OF.paths, 1))
    paths = many_paths(model, starts, one.measured, seed=seed)[..., : len(model.states)]
    paths += _noise(model) * np.random.default_rng(seed + 1).standard_normal(paths.shape)
    low, high = np.nanpercentile(paths, [50 * (1 - LEVEL), 50 * (1 + LEVEL)], axis=0)
    return low, high


def _noise(model: Equations) -> Floats:
    """(states,) standard deviations of the measurements; none where it is unknown."""
    return np.nan_to_num(model.noise)


@dataclass(frozen=True, eq=False)
class Density:
    """Histograms of one state over the same bins, as densities.

    edges: (bins + 1,); data, model: (bins,)
    """

    edges: Floats
    data: Floats
    model: Floats


def densities(model: Equations, data: Sequence[Trajectory], *, seed: int = 0) -> list[Density]:
    """The density of every state, in the data and by the model; none where no sample has all states."""
    pieces = list(_along_inputs(model, data) if model.inputs else _anywhere(model, data, seed))
    drawn, d = [], len(model.states)
    if not pieces:
        return []
    for k, (starts, like) in enumerate(pieces):
        paths = many_paths(model, starts, like, seed=seed + k)[..., :d]
        drawn.append((paths if model.inputs else paths[:, len(like) // 2 :]).reshape(-1, d))
    simulated = np.concatenate(drawn)
    simulated += _noise(model) * np.random.default_rng(seed + 1).standard_normal(simulated.shape)
    measured = np.concatenate([one.x for one in ([like for _, like in pieces] if model.inputs else data)])
    return [_histograms(measured[:, j], simulated[:, j]) for j in range(d)]


def _anywhere(model: Equations, data: Sequence[Trajectory], seed: int) -> Iterator[tuple[Floats, Trajectory]]:
    """Starts at random samples, and times to go on for."""
    longest = max(data, key=len)
    states = np.concatenate([_states(model, one) for one in data])
    states = states[np.isfinite(states).all(axis=1)]
    if len(states):
        chosen = np.random.default_rng(seed).choice(len(states), size=_PATHS_OF.long_paths)
        yield states[chosen], longest.part(0, min(len(longest), _PATHS_OF.longest))


def _along_inputs(model: Equations, data: Sequence[Trajectory]) -> Iterator[tuple[Floats, Trajectory]]:
    """The first states of each trajectory, and the trajectory."""
    for one in data:
        states = _states(model, one)
        finite = np.flatnonzero(np.isfinite(states).all(axis=1))
        if len(finite) and len(one) - finite[0] > 1:
            begin, count = int(finite[0]), max(_PATHS_OF.long_paths // len(data), 2)
            yield (
                np.tile(states[begin], (count, 1)),
                one.part(begin, min(len(one), begin + _PATHS_OF.longest)),
            )


def _states(model: Equations, one: Trajectory) -> Floats:
    """(samples, order · states) as measured, with rates by differences."""
    return one.x if model.order == 1 else np.column_stack([one.x, np.gradient(one.x, one.t, axis=0)])


def _histograms(measured: Floats, simulated: Floats) -> Density:
    ends = [np.nanquantile(values, [_PATHS_OF.tail, 1 - _PATHS_OF.tail]) for values in (measured, simulated)]
    low, high = np.min(ends), np.max(ends)
    edges = np.linspace(low, high if high > low else low + 1.0, _PATHS_OF.bins + 1)
    data, model = (
        np.histogram(values[np.isfinite(values)], edges, density=True)[0] for values in (measured, simulated)
    )
    return Density(edges, data, model)
