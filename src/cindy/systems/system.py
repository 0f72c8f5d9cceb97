"""System: an ordinary differential equation whose sparse coefficients are known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from cindy import _check, problem
from cindy._arrays import Floats
from cindy.basis import Basis
from cindy.data import Trajectory
from cindy.errors import DataError
from cindy.problem import Constraint
from cindy.systems.collocation import integrate

__all__ = ["System"]


@dataclass(frozen=True, eq=False)
class System:
    """A dynamical system, its dictionary, its true coefficients, and how to measure it.

    order: 1 for ẋ = F(x), 2 for ẍ = F(x) started at rest
    rhs: F, from (..., states) to (..., states)
    equations: the true coefficient of each (state, term) that is not zero
    initial: draws that many initial states, (count, states)
    horizon, trajectories, points: one experiment; `points` counts the samples of all trajectories together
    physics: the name of a constraint and its arguments, for each that the true coefficients satisfy
    """

    name: str
    states: tuple[str, ...]
    basis: Basis
    rhs: Callable[[Any], Any]
    equations: Mapping[tuple[str, str], float]
    initial: Callable[[np.random.Generator, int], Floats]
    horizon: float
    trajectories: int
    points: int
    order: int = 1
    physics: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    @cached_property
    def terms(self) -> tuple[str, ...]:
        return self.basis.names(self.states)

    @cached_property
    def coef(self) -> Floats:
        """The true coefficients, (terms, states)."""
        row = {name: i for i, name in enumerate(self.terms)}
        coef = np.zeros((len(self.terms), len(self.states)))
        for (state, term), value in self.equations.items():
            coef[row[term], self.states.index(state)] = value
        return coef

    def constraints(self) -> tuple[Constraint, ...]:
        """What is known about the physics, as the paper imposes it; empty where it imposes nothing."""
        return tuple(getattr(problem, kind)(*what) for kind, what in self.physics)

    def simulate(
        self,
        seed: int = 0,
        *,
        noise: float = 0.0,
        trajectories: int | None = None,
        points: int | None = None,
        horizon: float | None = None,
        times: Floats | Sequence[Floats] | None = None,
        initial: Floats | None = None,
        spread: Literal["pooled", "trajectory"] = "pooled",
    ) -> list[Trajectory]:
        """Trajectories with white Gaussian noise; without noise they are exact to 1e-12.

        The standard deviation is `noise` times that of the state, taken over all
        trajectories (`spread="pooled"`, the paper's text) or over each one
        (`"trajectory"`, the authors' code). One seed gives the same initial states
        and the same noise pattern at every level of noise.

        times: one grid for all trajectories, or a list with one grid each; by default `points` samples in
            all, spread evenly over [0, horizon]
        initial: initial states (trajectories, states) in place of random ones
        """
        if spread not in ("pooled", "trajectory"):
            raise DataError(f'simulate: `spread` must be "pooled" or "trajectory", but is {spread!r}.')
        if not (np.isfinite(noise) and noise >= 0):
            raise DataError(f"simulate: `noise` must be a number of at least 0, but is {noise!r}.")
        draws, noises = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
        start, grids = self._plan(draws, trajectories, points, horizon, times, initial)
        exact = self._solve(start, grids)
        pooled = np.vstack(exact).std(axis=0)
        measured = []
        for t, x in zip(grids, exact, strict=True):
            scale = noise * (pooled if spread == "pooled" else x.std(axis=0))
            measured.append(Trajectory(t, x + scale * noises.standard_normal(x.shape), self.states))
        return measured

    def _plan(
        self,
        draws: np.random.Generator,
        trajectories: int | None,
        points: int | None,
        horizon: float | None,
        times: Floats | Sequence[Floats] | None,
        initial: Floats | None,
    ) -> tuple[Floats, list[Floats]]:
        """Initial states (count, states) and a time grid for each."""
        single = times is not None and np.ndim(times[0]) == 0
        count = _check.integer(
            trajectories if trajectories is not None
            else len(initial) if initial is not None
            else len(times) if times is not None and not single
            else self.trajectories,
            "simulate: `trajectories`", least=1,
        )  # fmt: skip
        if initial is None:
            start = self.initial(draws, count)
        else:
            start = _check.floats(initial, "simulate: `initial`", ndim=2)
        if start.shape != (count, len(self.states)):
            raise DataError(
                f"simulate: `initial` must have shape {(count, len(self.states))}, but has {start.shape}."
            )
        if times is None:
            samples = _check.integer(
                (points or self.points) // count, "simulate: points per trajectory", least=2
            )
            end = _check.positive(self.horizon if horizon is None else horizon, "simulate: `horizon`")
            return start, [np.linspace(0.0, end, samples)] * count
        grids = [times] * count if single else list(times)
        if len(grids) != count:
            raise DataError(f"simulate: `times` must hold {count} grids, but holds {len(grids)}.")
        return start, [_check.floats(t, f"simulate: `times`[{i}]", ndim=1) for i, t in enumerate(grids)]

    def _solve(self, start: Floats, grids: list[Floats]) -> list[Floats]:
        """The exact states of every trajectory on its own grid, by one integration from time 0."""
        union = np.unique(np.concatenate([[0.0], *grids]))
        if union[0] < 0:
            raise DataError(f"simulate: `times` must not be negative, but the first is {union[0]}.")
        d = len(self.states)
        if self.order == 1:
            paths = integrate(self.rhs, start, union)
        else:
            rest = np.hstack([start, np.zeros_like(start)])
            paths = integrate(
                lambda z: np.concatenate([z[..., d:], self.rhs(z[..., :d])], axis=-1), rest, union
            )
        return [paths[np.searchsorted(union, t), i, :d] for i, t in enumerate(grids)]
