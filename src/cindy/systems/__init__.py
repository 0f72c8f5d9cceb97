"""Reference systems with known coefficients: those of the paper, and textbook examples."""

from cindy.systems.catalogue import (
    duffing,
    fput,
    kuramoto,
    lorenz,
    lotka_volterra,
    michaelis_menten,
    rossler,
    sir,
    spring_masses,
    van_der_pol,
)
from cindy.systems.system import System, integrate

__all__ = [
    "System",
    "duffing",
    "fput",
    "integrate",
    "kuramoto",
    "lorenz",
    "lotka_volterra",
    "michaelis_menten",
    "rossler",
    "sir",
    "spring_masses",
    "van_der_pol",
]
