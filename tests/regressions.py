"""Random regressions in blocks, with and without constraints, for the laws of several rooms."""

import numpy as np
import scipy.linalg
from hypothesis import strategies as st
from scipy.sparse import csr_array

from cindy.least_squares import LeastSquares, Rows
from cindy.regression import Regression

__all__ = ["KINDS", "by_null_space", "combined", "made", "regressions", "rows_of"]

KINDS = ("none", "ties", "sums", "goals", "within one target", "redundant")


def rows_of(matrix, lower, upper=None) -> Rows:
    lower = np.asarray(lower, dtype=float)
    upper = lower if upper is None else np.asarray(upper, dtype=float)
    return Rows(csr_array(np.atleast_2d(matrix)), lower, upper, np.arange(len(lower)))


def combined(a: Rows, b: Rows) -> Rows:
    """The rows of both."""
    matrix = np.vstack([a.matrix.toarray(), b.matrix.toarray()])
    return rows_of(matrix, np.concatenate([a.lower, b.lower]), np.concatenate([a.upper, b.upper]))


def equalities(kind: str, rng: np.random.Generator, terms: int, targets: int) -> Rows:
    """A few equalities of a kind that random coefficients can satisfy."""
    size = terms * targets
    count = 0 if kind == "none" else 3
    matrix = np.zeros((count, size))
    for k in range(count):
        pool = np.arange(size) if kind != "within one target" else np.arange(0, size, targets)
        places = rng.choice(pool, 2 if kind == "ties" else min(3, len(pool)), replace=False)
        matrix[k, places] = rng.uniform(0.5, 2.0, len(places)) * rng.choice([-1, 1], len(places))
    if kind == "redundant":
        matrix = np.vstack([matrix, matrix[0] - 2 * matrix[1]])
    goal = np.zeros(len(matrix))
    if kind in ("goals", "redundant"):
        goal = matrix @ rng.standard_normal(size)
    return rows_of(matrix, goal) if count else Rows.none(size)


def made(kind="none", seed=0, *, blocks=6, rows=20, terms=6, targets=3, noise=0.1, sparse=2) -> Regression:
    """Blocks of rows that come from few true coefficients, and noise."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((terms, targets))
    for j in range(targets):
        truth[rng.choice(terms, min(sparse, terms), replace=False), j] = rng.uniform(1, 2, min(sparse, terms))
    mix = rng.standard_normal((terms, terms)) + 2 * np.eye(terms)
    parts = []
    for _ in range(blocks):
        design = rng.standard_normal((rows, terms)) @ mix
        target = design @ truth + noise * rng.standard_normal((rows, targets))
        parts.append(LeastSquares.from_rows(design, target))
    return Regression(tuple(parts), equalities(kind, rng, terms, targets))


@st.composite
def regressions(draw, kinds=KINDS):
    kind = draw(st.sampled_from(kinds))
    return made(
        kind, draw(st.integers(0, 10_000)), terms=draw(st.integers(3, 7)), targets=draw(st.integers(1, 3))
    )


def by_null_space(regression: Regression, support) -> tuple[np.ndarray, float]:
    """Least squares on the support over the null space of all equalities at once: x and the loss.

    Rows of a target are divided by its noise; nothing here is shared with the code under test.
    """
    terms, targets = regression.shape
    design = np.kron(regression.total.design, np.diag(1 / regression.noise))
    target = (regression.total.target / regression.noise).ravel()
    equal = regression.rows.matrix.toarray()[regression.rows.equality]
    goal = regression.rows.lower[regression.rows.equality]
    absent = np.setdiff1d(np.arange(terms * targets), support)
    rows = np.vstack([equal, np.eye(terms * targets)[absent]])
    x = np.linalg.lstsq(rows, np.concatenate([goal, np.zeros(len(absent))]))[0]
    free = scipy.linalg.null_space(rows) if len(rows) else np.eye(terms * targets)
    x = x + free @ np.linalg.lstsq(design @ free, target - design @ x)[0]
    residual = regression.total.residual(x.reshape(terms, targets)) / regression.noise
    return x, float(np.sum(residual**2))
