"""Paths of equations with random kicks, dx_i = F_i(x) dt + √q_i(x) dW_i.

A path goes in small steps δ with independent increments ΔW ~ N(0, δ):

    y = x + F(x) δ + √q(x) ΔW,    x ← x + ½ (F(x) + F(y)) δ + √q(x) ΔW + ¼ ∂q/∂x (ΔW² − δ) .

Milstein's term makes it of strong order one where q_i depends on x_i alone (Kloeden, Platen 1992, 10.3);
where q_i depends on other states it is of order one half, as Euler's scheme is. Heun's rule for the drift
makes it of order two where kicks vanish.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cindy._check import integer
from cindy._types import Floats
from cindy.basis import Polynomial
from cindy.errors import DataError
from cindy.model.equations import Equations
from cindy.model.simulation import Limits, RightHandSide
from cindy.states import Diffusion

__all__ = ["RandomPath"]

_TURN = 0.02
"""Of a step δ: the norm of F(x + F δ) − F(x), times δ, over that of F δ. Halving it moves paths of the kicked
van der Pol oscillator by less than their thickness in a plot."""
_LEAST, _MOST = 4, 1000
"""Steps between two samples."""


@dataclass(eq=False)
class RandomPath:
    """Draws paths; the next path goes on with other random numbers.

    diffusion: its variables are the states of the equations, of first order; first: equations without kicks
        before those with, as positions are before rates
    """

    diffusion: Diffusion
    rng: np.random.Generator
    first: int = 0

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
    def _unit(self) -> Floats:
        """(equations, variables): the variable of each equation."""
        return np.eye(len(self.diffusion.variables))[self.first :]

    def _variance(self, x: Floats) -> Floats:
        return Polynomial(2).evaluate(x, self.diffusion.variables) @ self.diffusion.coef

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
        rows, x = [start], start
        bound = limits.growth * scale
        for k in range(len(t) - 1):
            with np.errstate(all="ignore"):
                x = self._between(rhs, x, float(t[k]), float(t[k + 1]), scale)
            if not np.all(np.abs(x) <= bound):
                worst = names[int(np.argmax(np.where(np.isfinite(x), np.abs(x) / bound, np.inf)))]
                return np.array(rows), f"{worst} blew up at t = {t[k + 1]:.6g}"
            rows.append(x)
        return np.array(rows), None

    def _between(self, rhs: RightHandSide, x: Floats, begin: float, end: float, scale: Floats) -> Floats:
        """From one sample to the next."""
        slope = np.asarray(rhs(begin, x))
        small = 1e-3 * (end - begin)
        turn = np.asarray(rhs(begin, x + small * slope)) - slope
        rate = float(np.linalg.norm(turn / scale) / max(float(np.linalg.norm(small * slope / scale)), 1e-300))
        steps = int(
            np.clip(np.ceil((end - begin) * rate / _TURN) if np.isfinite(rate) else _MOST, _LEAST, _MOST)
        )
        step = (end - begin) / steps
        kicked = slice(self.first, self.first + len(self._unit))
        additive = self.diffusion.additive
        variance = self._variance(x[None])[0]
        for n in range(steps):
            now = begin + n * step
            change = np.sqrt(step) * self.rng.standard_normal(len(self._unit))
            kick = np.zeros(len(x))
            if not additive:
                variance = self._variance(x[None])[0]
                # q is a quadratic form: its slopes are exact central differences.
                ends = self._variance(np.concatenate([x + self._unit, x - self._unit]))
                own = np.arange(len(self._unit))
                slopes = (ends[own, own] - ends[len(own) + own, own]) / 2.0
                kick[kicked] = np.where(variance > 0, slopes, 0.0) * (change**2 - step) / 4.0
            noise = np.zeros(len(x))
            noise[kicked] = np.sqrt(np.maximum(variance, 0.0)) * change
            slope = np.asarray(rhs(now, x))
            ahead = np.asarray(rhs(now + step, x + step * slope + noise))
            x = x + step * (slope + ahead) / 2.0 + noise + kick
        return x
