"""The regression problems of the paper's experiments, scaled as `identify` scales them."""

from functools import cache
from itertools import pairwise

import numpy as np

import cindy
from cindy import systems
from cindy.least_squares import LeastSquares
from cindy.solver import Region

__all__ = ["NAMES", "objective", "problem", "region", "support"]

NAMES = ("kuramoto5", "fput5", "kuramoto10", "fput10")


def _system(name: str) -> systems.System:
    d = 10 if name.endswith("10") else 5
    return systems.kuramoto(d) if name.startswith("kuramoto") else systems.fput(d, amplitude=1.0)


@cache
def problem(name: str, ties: bool = False) -> cindy.Problem:
    """A system at noise 1e-4, integral form; with ties: neighbours are interchangeable."""
    system = _system(name)
    trajectories = system.simulate(seed=0, noise=1e-4)
    summary = cindy.accumulate(trajectories, system.basis, formulation=cindy.Integral(order=system.order))
    constraints = [cindy.exchange(a, b) for a, b in pairwise(system.states)] if ties else []
    return cindy.Problem(summary, constraints=constraints, weights=cindy.Uniform())


def objective(name: str) -> LeastSquares:
    return problem(name).objective


@cache
def _norm(name: str) -> float:
    return float(np.abs(np.linalg.lstsq(objective(name).design, objective(name).target, rcond=None)[0]).sum())


def region(name: str, share: float, *, ties: bool = False) -> Region:
    """The l1 ball of radius `share` times the norm of least squares, with or without ties."""
    rows = problem(name, ties).form.scaled_rows
    size = objective(name).terms * objective(name).targets
    return Region(size, share * _norm(name), None, rows.matrix if ties else None, rows.lower, rows.upper)


def support(name: str) -> int:
    """How many true terms the system has."""
    return int(np.count_nonzero(_system(name).coef))
