"""Shared lists: objectives, regions and corrections over which the laws of the solver run."""

from collections.abc import Callable
from functools import cache
from itertools import combinations, combinations_with_replacement

import numpy as np
import scipy.sparse
from scipy.integrate import solve_ivp

from cindy.least_squares import LeastSquares
from cindy.solver import (
    Blended,
    Correction,
    Direct,
    FullyCorrective,
    Plain,
    Region,
    Result,
    conditional_gradient,
    oracle_for,
)

CORRECTIONS: dict[str, Correction] = {
    "direct": Direct(),
    "blended": Blended(),
    "fully corrective": FullyCorrective(),
    "plain": Plain(),
}


def _truth(rng, terms, targets):
    return rng.normal(size=(terms, targets)) * (rng.random((terms, targets)) < 0.3)


def _random(terms=12, targets=3, rows=60, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(rows, terms))
    target = design @ _truth(rng, terms, targets) + noise * rng.normal(size=(rows, targets))
    return LeastSquares.from_rows(design, target)


def _correlated():
    rng = np.random.default_rng(1)
    design = rng.normal(size=(80, 1)) + 1e-3 * rng.normal(size=(80, 12))
    target = design @ _truth(rng, 12, 3) + 0.1 * rng.normal(size=(80, 3))
    return LeastSquares.from_rows(design, target)


def _rank_deficient():
    rng = np.random.default_rng(2)
    design = rng.normal(size=(50, 5)) @ rng.normal(size=(5, 12))
    design[:, 7] = design[:, 3]
    return LeastSquares.from_rows(design, design[:, :3] + rng.normal(size=(50, 3)))


def _wide():
    rng = np.random.default_rng(3)
    return LeastSquares.from_rows(rng.normal(size=(6, 12)), rng.normal(size=(6, 3)))


def badly_scaled(columns, seed=4):
    """Columns of the given lengths."""
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(60, 12))
    target = design @ _truth(rng, 12, 3) + 0.3 * rng.normal(size=(60, 3))
    return LeastSquares.from_rows(design * columns, target)


def _kuramoto():
    d, rng = 4, np.random.default_rng(5)
    natural = rng.uniform(size=d)

    def rate(_, x):
        return natural + 2 / d * np.sin(x - x[:, None]).sum(axis=1) + 0.2 * np.sin(x)

    t = np.linspace(0, 10, 60)
    x = np.concatenate(
        [
            solve_ivp(rate, (0, 10), rng.uniform(0, 2 * np.pi, d), t_eval=t, rtol=1e-9, atol=1e-9).y.T
            for _ in range(15)
        ]
    )
    rates = np.array([rate(0, row) for row in x])
    factors = [*np.sin(x).T, *np.cos(x).T]
    columns = [np.ones(len(x)), *factors, *(a * b for a, b in combinations(factors, 2))]
    return _unit(np.column_stack(columns), rates + 1e-3 * rng.normal(size=rates.shape))


def _fput():
    d, rng = 4, np.random.default_rng(6)

    def force(x):
        stretch = np.diff(np.concatenate([[0.0], x, [0.0]]))
        return np.diff(stretch + 0.7 * stretch**3)

    def rate(_, state):
        return np.concatenate([state[d:], force(state[:d])])

    t = np.linspace(0, 1, 20)
    x = np.concatenate(
        [
            solve_ivp(
                rate, (0, 1), np.append(rng.uniform(-1, 1, d), np.zeros(d)), t_eval=t, rtol=1e-9, atol=1e-9
            ).y[:d].T
            for _ in range(30)
        ]
    )  # fmt: skip
    forces = np.array([force(row) for row in x])
    powers = [c for k in range(4) for c in combinations_with_replacement(range(d), k)]
    design = np.column_stack([np.prod(x[:, c], axis=1) for c in powers])
    return _unit(design, forces + 1e-3 * rng.normal(size=forces.shape))


def _unit(design, target):
    whole = LeastSquares.from_rows(design, target)
    return whole.scaled(np.linalg.norm(whole.design, axis=0), np.linalg.norm(whole.target, axis=0))


OBJECTIVES: dict[str, Callable[[], LeastSquares]] = {
    "random": _random,
    "one target": lambda: _random(targets=1),
    "correlated": _correlated,
    "rank deficient": _rank_deficient,
    "fewer rows than terms": _wide,
    "columns of size 1e6": lambda: badly_scaled(1e6),
    "columns of size 1e-6": lambda: badly_scaled(1e-6),
    "columns of size 1e-3 to 1e3": lambda: badly_scaled(np.logspace(-3, 3, 12)),
    "columns of size 1e-6 to 1e6": lambda: badly_scaled(np.logspace(-6, 6, 12)),
    "targets of size 1e-6 to 1e6": lambda: _random().scaled(np.ones(12), np.logspace(-6, 6, 3)),
    "kuramoto": _kuramoto,
    "fput": _fput,
}


LEAPT = ("random", "one target", "rank deficient", "kuramoto", "fput")
"""Those on which steps and leaps are compared."""


@cache
def objective(name: str) -> LeastSquares:
    return OBJECTIVES[name]()


@cache
def least_squares(name: str) -> np.ndarray:
    problem = objective(name)
    return np.linalg.lstsq(problem.design, problem.target, rcond=1e-10)[0].ravel()


def _rows(size, *rows):
    matrix = scipy.sparse.lil_array((len(rows), size))
    for i, row in enumerate(rows):
        for j, value in row.items():
            matrix[i, j] = value
    return matrix.tocsr()


def _ties(size):
    return _rows(size, *({i: 1.0, i + 1: -2.0} for i in range(0, size - 1, 4)), {2: 1.0, 0: 1.0})


def _laws(size):
    return _rows(
        size,
        *({i: 1.0, i + 1: 1.0, i + 2: 1.0} for i in range(0, size - 4, 4)),
        *({i + 1: 1.0, i + 3: 1.0} for i in range(0, size - 4, 4)),
    )


def _region(size, norm, kind):
    """A region of the kind for `size` coefficients whose least-squares solution has the given l1 norm."""
    eye = scipy.sparse.eye_array(size, format="csr")
    typical = norm / size
    rng = np.random.default_rng(7)
    ties, laws = _ties(size), _laws(size)
    match kind:
        case "ball, radius active":
            return Region(size, 0.5 * norm)
        case "ball, radius inactive":
            return Region(size, 2 * norm)
        case "weighted ball":
            return Region(size, norm, rng.uniform(0.5, 3.0, size))
        case "ties":
            return Region(size, 0.5 * norm, None, ties, 0, 0)
        case "ties, repeated rows":
            return Region(size, 2 * norm, None, scipy.sparse.vstack([ties, 3 * ties]), 0, 0)
        case "conservation laws":
            return Region(size, norm, rng.uniform(0.5, 3.0, size), laws, 0, 0)
        case "signs":
            return Region(size, norm, None, eye[::2], 0, np.inf)
        case "signs, ties and laws":
            rows = scipy.sparse.vstack([laws, eye[::3]])
            upper = np.repeat([0, np.inf], [laws.shape[0], len(range(0, size, 3))])
            return Region(size, norm, None, rows, 0, upper)
        case "fixed values":
            rows = scipy.sparse.vstack([eye[[5, 1]], ties[:1]])
            values = np.array([typical, -2 * typical, 0])
            return Region(size, norm, None, rows, values, values)
        case "bounds that bind":
            return Region(size, norm, None, eye, -0.5 * typical, typical)
        case "bounds away from zero":
            return Region(size, norm, None, eye[:4], 0.1 * typical, typical)
        case "equalities and inequalities":
            rows = scipy.sparse.vstack([laws, eye])
            edge = np.concatenate([np.zeros(laws.shape[0]), np.full(size, typical)])
            return Region(size, norm, None, rows, -edge, edge)
        case "dense rows":
            return Region(size, norm, None, rng.normal(size=(6, size)), -typical, typical)
    raise KeyError(kind)


REGIONS = (
    "ball, radius active",
    "ball, radius inactive",
    "weighted ball",
    "ties",
    "ties, repeated rows",
    "conservation laws",
    "signs",
    "signs, ties and laws",
    "fixed values",
    "bounds that bind",
    "bounds away from zero",
    "equalities and inequalities",
    "dense rows",
)


@cache
def region(kind: str, name: str = "random") -> Region:
    solution = least_squares(name)
    return _region(len(solution), float(np.abs(solution).sum()), kind)


@cache
def walked(name: str, kind: str) -> Result:
    """The run of the direct correction, the default, to a gap of 1e-9: several tests look at it."""
    return conditional_gradient(objective(name), oracle_for(region(kind, name)), tol=1e-9)


def in_units(f: LeastSquares, here: Region, units: np.ndarray) -> tuple[LeastSquares, Region]:
    """The same problem with the coefficients of term i counted in units[i]."""
    flat = np.repeat(units, f.targets)
    rows = here.matrix @ scipy.sparse.diags_array(flat)
    return (
        f.scaled(1 / units, np.ones(f.targets)),
        Region(here.size, here.radius, here.weights * flat, rows, here.lower, here.upper),
    )
