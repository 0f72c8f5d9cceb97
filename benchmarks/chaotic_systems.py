"""The 70 chaotic systems of chaotic.json: their polynomials, and clean trajectories on their attractors."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

import cindy
from cindy.systems import integrate

__all__ = ["DEGREE", "Chaotic", "clean", "measured_with", "systems"]

Floats = NDArray[np.float64]

DEGREE = 4
TRAJECTORIES = 5
SAMPLES = 1000
PERIODS = 10.0
APART = 30.0
"""Periods from one initial state to the next along one solution: they spread over the attractor."""


@dataclass(frozen=True)
class Chaotic:
    """x' = Σ coefficient · x^exponents, for each state; an initial state, and the period of its motion."""

    name: str
    period: float
    start: tuple[float, ...]
    polynomials: tuple[tuple[tuple[tuple[int, ...], float], ...], ...]

    @property
    def states(self) -> tuple[str, ...]:
        return ("x", "y", "z", "w")[: len(self.start)]

    @property
    def basis(self) -> cindy.Polynomial:
        return cindy.Polynomial(DEGREE)

    @cached_property
    def coef(self) -> Floats:
        """The true coefficients, (terms, states)."""
        terms = self.basis.names(self.states)
        coef = np.zeros((len(terms), len(self.states)))
        for j, polynomial in enumerate(self.polynomials):
            for exponents, value in polynomial:
                coef[terms.index(self._term(exponents)), j] = value
        return coef

    def _term(self, exponents: tuple[int, ...]) -> str:
        factors = [
            state if power == 1 else f"{state}^{power}"
            for state, power in zip(self.states, exponents, strict=True)
            if power
        ]
        return " ".join(factors) or "1"

    def rhs(self, x: Any) -> Any:
        """F along the last axis, in the precision of x."""
        slopes = []
        for polynomial in self.polynomials:
            slope = np.zeros_like(x[..., 0])
            for exponents, value in polynomial:
                product = np.full_like(slope, value)
                for i, power in enumerate(exponents):
                    for _ in range(power):
                        product = product * x[..., i]
                slope = slope + product
            slopes.append(slope)
        return np.stack(slopes, axis=-1)


def systems() -> dict[str, Chaotic]:
    """All of them by name."""
    facts = json.loads(Path(__file__).with_name("chaotic.json").read_text(encoding="utf-8"))["systems"]
    return {
        name: Chaotic(
            name,
            one["period"],
            tuple(one["ic"]),
            tuple(tuple((tuple(powers), value) for powers, value in terms) for terms in one["terms"]),
        )
        for name, one in facts.items()
    }


def clean(system: Chaotic, cache: Path) -> tuple[Floats, Floats]:
    """Times (samples,) and states (trajectories, samples, d), exact to rounding; kept in `cache`."""
    path = cache / f"{system.name}.npz"
    if path.exists():
        with np.load(path) as stored:
            return stored["t"], stored["x"]
    t = np.linspace(0.0, PERIODS * system.period, SAMPLES)
    apart = np.arange(TRAJECTORIES) * APART * system.period
    there = solve_ivp(
        lambda _, x: system.rhs(x),
        (0.0, apart[-1]),
        system.start,
        method="LSODA",
        t_eval=apart,
        rtol=1e-9,
        atol=1e-9,
    )
    x = integrate(system.rhs, there.y.T, t).transpose(1, 0, 2)
    cache.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part.npz")
    np.savez(part, t=t, x=x)
    part.replace(path)
    return t, x


def measured_with(system: Chaotic, t: Floats, x: Floats, noise: float, seed: int) -> list[cindy.Trajectory]:
    """White noise, in units of the root mean square of each state over all trajectories."""
    # One pattern a seed and system, at every level of noise.
    digest = sum(ord(letter) * 31**k for k, letter in enumerate(system.name))
    rng = np.random.default_rng([seed, digest % 2**32])
    size = noise * np.sqrt(np.mean(x**2, axis=(0, 1)))
    noisy = x + size * rng.standard_normal(x.shape)
    return [cindy.Trajectory(t, one, system.states) for one in noisy]
