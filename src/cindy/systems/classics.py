"""Textbook systems beyond the paper, with parameters under which they are best known."""

from typing import Any

import numpy as np

from cindy.basis import Polynomial
from cindy.systems.paper import uniform
from cindy.systems.system import System

__all__ = ["duffing", "lorenz", "lotka_volterra", "rossler", "sir", "van_der_pol"]


def lorenz(*, sigma: float = 10.0, rho: float = 28.0, beta: float = 8.0 / 3.0) -> System:
    """Lorenz's convection model; chaotic at the parameters given.

    >>> lorenz().simulate(trajectories=1, points=5)[0].x.shape
    (5, 3)
    """

    def rhs(x: Any) -> Any:
        u, v, w = x[..., 0], x[..., 1], x[..., 2]
        return np.stack([sigma * (v - u), u * (rho - w) - v, u * v - beta * w], axis=-1)

    return System(
        name="lorenz",
        states=("x", "y", "z"),
        basis=Polynomial(degree=2),
        rhs=rhs,
        equations={
            ("x", "x"): -sigma,
            ("x", "y"): sigma,
            ("y", "x"): rho,
            ("y", "y"): -1.0,
            ("y", "x z"): -1.0,
            ("z", "z"): -beta,
            ("z", "x y"): 1.0,
        },
        initial=uniform([-15.0, -15.0, 10.0], [15.0, 15.0, 40.0], 3),
        horizon=4.0,
        trajectories=10,
        points=10_000,
    )


def rossler(*, a: float = 0.2, b: float = 0.2, c: float = 5.7) -> System:
    """Rössler's band of chaos."""

    def rhs(x: Any) -> Any:
        u, v, w = x[..., 0], x[..., 1], x[..., 2]
        return np.stack([-v - w, u + a * v, b + w * (u - c)], axis=-1)

    return System(
        name="rossler",
        states=("x", "y", "z"),
        basis=Polynomial(degree=2),
        rhs=rhs,
        equations={
            ("x", "y"): -1.0,
            ("x", "z"): -1.0,
            ("y", "x"): 1.0,
            ("y", "y"): a,
            ("z", "1"): b,
            ("z", "z"): -c,
            ("z", "x z"): 1.0,
        },
        initial=uniform([-6.0, -6.0, 0.0], [6.0, 6.0, 2.0], 3),
        horizon=10.0,
        trajectories=10,
        points=10_000,
    )


def lotka_volterra(
    *, growth: float = 1.0, predation: float = 0.5, gain: float = 0.5, death: float = 1.0
) -> System:
    """Prey and predators."""

    def rhs(x: Any) -> Any:
        prey, hunters = x[..., 0], x[..., 1]
        meetings = prey * hunters
        return np.stack([growth * prey - predation * meetings, gain * meetings - death * hunters], axis=-1)

    return System(
        name="lotka_volterra",
        states=("x", "y"),
        basis=Polynomial(degree=2),
        rhs=rhs,
        equations={
            ("x", "x"): growth,
            ("x", "x y"): -predation,
            ("y", "y"): -death,
            ("y", "x y"): gain,
        },
        initial=uniform(0.5, 4.0, 2),
        horizon=8.0,
        trajectories=10,
        points=4000,
    )


def van_der_pol(*, damping: float = 1.0) -> System:
    """Van der Pol's oscillator as a first-order system: ẋ = y, ẏ = μ(1 − x²)y − x."""

    def rhs(x: Any) -> Any:
        u, v = x[..., 0], x[..., 1]
        return np.stack([v, damping * (1.0 - u * u) * v - u], axis=-1)

    return System(
        name="van_der_pol",
        states=("x", "y"),
        basis=Polynomial(degree=3),
        rhs=rhs,
        equations={
            ("x", "y"): 1.0,
            ("y", "x"): -1.0,
            ("y", "y"): damping,
            ("y", "x^2 y"): -damping,
        },
        initial=uniform(-3.0, 3.0, 2),
        horizon=8.0,
        trajectories=10,
        points=4000,
    )


def duffing(*, linear: float = -1.0, cubic: float = 1.0, damping: float = 0.3) -> System:
    """Duffing's oscillator without forcing, as a first-order system: ẋ = y, ẏ = −δy − αx − βx³."""

    def rhs(x: Any) -> Any:
        u, v = x[..., 0], x[..., 1]
        return np.stack([v, -damping * v - linear * u - cubic * u**3], axis=-1)

    return System(
        name="duffing",
        states=("x", "y"),
        basis=Polynomial(degree=3),
        rhs=rhs,
        equations={
            ("x", "y"): 1.0,
            ("y", "y"): -damping,
            ("y", "x"): -linear,
            ("y", "x^3"): -cubic,
        },
        initial=uniform(-2.0, 2.0, 2),
        horizon=8.0,
        trajectories=10,
        points=4000,
    )


def sir(*, infection: float = 1.5, recovery: float = 0.4) -> System:
    """An epidemic: susceptible, infected, recovered; every trajectory is a town with a size of its own."""

    def rhs(x: Any) -> Any:
        new, healed = infection * x[..., 0] * x[..., 1], recovery * x[..., 1]
        return np.stack([-new, new - healed, healed], axis=-1)

    return System(
        name="sir",
        states=("S", "I", "R"),
        basis=Polynomial(degree=2),
        rhs=rhs,
        equations={
            ("S", "S I"): -infection,
            ("I", "S I"): infection,
            ("I", "I"): -recovery,
            ("R", "I"): recovery,
        },
        # Towns of different size: with one total for all, S + I + R would repeat the constant term.
        initial=uniform([0.5, 0.01, 0.0], [2.0, 0.3, 0.5], 3),
        horizon=8.0,
        trajectories=20,
        points=4000,
        physics=(("conserve", ({"S": 1, "I": 1, "R": 1},)),),
    )
