"""Reference systems with known coefficients: those of the paper, and the classics."""

from cindy.systems.classics import duffing, lorenz, lotka_volterra, rossler, sir, van_der_pol
from cindy.systems.paper import fput, kuramoto, michaelis_menten, spring_masses
from cindy.systems.reference_solution import integrate
from cindy.systems.system import System

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
