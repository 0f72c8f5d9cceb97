"""Paths of equations with random kicks, dx_i = F_i(x) dt + √q_i(x) dW_i.

A path goes in small steps δ with increments ΔW ~ N(0, δ), independent from step to step, those of different
equations as `Diffusion.correlation` says:

    y = x + F(x) δ + √q(x) ΔW,    x ← x + ½ (F(x) + F(y)) δ + √q(x) ΔW + ¼ ∂q/∂x (ΔW² − δ) .

Milstein's term makes it of strong order one where q_i depends on x_i alone (Kloeden, Platen 1992, 10.3),
with correlated increments too, since no integral of one of them over another occurs;
where q_i depends on other states it is of order one half, as Euler's scheme is. Heun's rule for the drift
makes it of order two where kicks vanish.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from cindy._arrays import Floats
from cindy._check import integer
from cindy.errors import DataError
from cindy.model.equations import Equations
from cindy.model.simulation import Limits, RightHandSide
from cindy.states import Diffusion

__all__ = ["Drift", "RandomPath"]

Drift = Callable[[float, Floats], Floats]
"""(time, (paths, states)) → F at the states of all paths."""

TURN = 0.02
"""Of a step δ: the norm of F(x + F δ) − F(x), times δ, over that of F δ. Halving it moves paths of the kicked
van der Pol oscillator by less than their thickness in a plot."""
_LEAST, _MOST = 4, 1000
"""Steps between two samples."""


@dataclass(eq=False)
class RandomPath:
    """Draws paths; the next path goes on with other random numbers.

    diffusion: its variables are the states of the equations, of first order; first: equations without kicks
        before those with, as positions are before rates
    turn: by how much F may change in a step, beside itself
    """

    diffusion: Diffusion
    rng: np.random.Generator
    first: int = 0
    turn: float = TURN

    @classmethod
    def of(cls, model: Equations, seed: int) -> RandomPath:
        """The paths of a model."""
        if model.diffusion is None:
            raise DataError(
                "simulate: `noise` asks for random kicks, and this model has none: `model.diffusion` is "
                "None. Leave `noise` out, or identify a model from data that are driven by noise."
            )
        kicked = len(model.diffusion.variables) - len(model.states)
        return cls(model.diffusion, np.random.default_rng(integer(seed, "simulate: `seed`", least=0)), kicked)

    @cached_property
    def _half(self) -> Floats | None:
        """A root of the correlations; None where increments are independent."""
        together = self.diffusion.correlation
        if together is None:
            return None
        values, vectors = np.linalg.eigh(together)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    @cached_property
    def _same_everywhere(self) -> Floats | None:
        """Standard deviations of kicks of one size; None where they depend on the state."""
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
                worst = names[int(np.argmax(np.where(np.isfinite(x), np.abs(x) / bound, np.inf)))]
                return np.array(rows), f"{worst} blew up at t = {when:.6g}"
            rows.append(x)
        return np.array(rows), None

    def along(self, drift: Drift, start: Floats, t: Floats, scale: Floats, growth: float) -> Iterator[Floats]:
        """(paths, states) at each time behind the first, from `start`, of as many paths.

        growth: over scale, beyond which a path has blown up; it is NaN from there on
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
        change = np.sqrt(step) * self.rng.standard_normal((len(x), self.diffusion.coef.shape[1]))
        if self._half is not None:
            change = change @ self._half.T
        noise, correction = np.zeros_like(x), np.zeros(1)
        kicked = slice(self.first, self.first + change.shape[1])
        if self._same_everywhere is not None:
            noise[:, kicked] = self._same_everywhere * change
        else:
            known = np.nan_to_num(x)
            variance = self.diffusion.variance(known)
            noise[:, kicked] = np.sqrt(variance) * change
            by_all = self.diffusion.basis.derivative(known, self.diffusion.variables)
            slopes = np.einsum("nti,ti->ni", by_all[..., kicked], self.diffusion.coef)
            correction = np.zeros_like(x)
            correction[:, kicked] = np.where(variance > 0, slopes, 0.0) * (change**2 - step) / 4.0
        slope = drift(now, x)
        ahead = drift(now + step, x + step * slope + noise)
        return np.asarray(x + step * (slope + ahead) / 2.0 + noise + correction)

    def _steps(self, drift: Drift, x: Floats, begin: float, end: float, scale: Floats) -> int:
        """Steps from one sample to the next, enough for the path whose drift turns fastest."""
        slope, small = drift(begin, x), 1e-3 * (end - begin)
        turn = np.linalg.norm((drift(begin, x + small * slope) - slope) / scale, axis=1)
        rate = turn / np.maximum(np.linalg.norm(small * slope / scale, axis=1), 1e-300)
        needed = (end - begin) * np.max(rate, initial=0.0, where=np.isfinite(rate)) / self.turn
        return int(np.clip(np.ceil(needed), _LEAST, _MOST))
