"""Equations with random kicks, dx_i = F_i(x) dt + √q_i(x) dW_i: how they are written, and paths of them.

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
from cindy.basis import Polynomial, term_label
from cindy.errors import DataError
from cindy.export import format_value
from cindy.model.equations import Equations
from cindy.model.simulation import Limits, RightHandSide
from cindy.states import Diffusion

__all__ = ["RandomPath", "kick_texts"]

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


def kick_texts(diffusion: Diffusion, states: Sequence[str], *, errors: bool) -> tuple[str, ...]:
    """What stands before and in the increments of noise in each equation, "0.5 dW"; empty without kicks.

    >>> import numpy as np
    >>> noise = Diffusion(("1", "x", "x^2"), np.array([[0.25], [0], [0.5]]), np.zeros((3, 1)), ("x",))
    >>> kick_texts(noise, ("x",), errors=False)
    ('√(0.25 + 0.5 x^2) dW',)
    """
    labels = [term_label(term, diffusion.variables) for term in Polynomial(2).terms(diffusion.variables)]
    texts = []
    for i, state in enumerate(states):
        value, error = diffusion.coef[:, i], diffusion.coef_error[:, i]
        present = np.flatnonzero(value)
        increment = "dW" if len(states) == 1 else f"dW_{state}"
        if not len(present):
            texts.append("")
        elif len(present) == 1 and present[0] == 0:
            size = float(np.sqrt(value[0]))
            texts.append(f"{format_value(size, error[0] / (2 * size) if errors else None)} {increment}")
        else:
            parts: list[str] = []
            for j in present:
                number = format_value(abs(float(value[j])), float(error[j]) if errors else None)
                sign = (" - " if value[j] < 0 else " + ") if parts else ("-" if value[j] < 0 else "")
                parts.append(sign + (number if j == 0 else f"{number} {labels[j]}"))
            texts.append(f"√({''.join(parts)}) {increment}")
    return tuple(texts)
