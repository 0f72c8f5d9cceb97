"""View: the part of a regression on which one group of equations is searched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from cindy._types import Floats, Ints
from cindy.least_squares import LeastSquares, triangle
from cindy.regression import Regression
from cindy.rows import Rows

__all__ = ["LARGE", "View", "views_of"]


LARGE = 800
"""Terms beyond which an equation is searched among the likely ones: elimination of n terms takes n³, and a
move n², for each equation (`python -m benchmarks large`)."""
_IDLE = 50
"""Terms added greedily after the last that paid."""
_LIKELY = 100
"""Terms taken by what they would add to those, and as many by their size in the fit with all terms."""
_DEPENDENT = 1e-10
"""Share of a term's squares below which products of columns no longer tell what is left of it."""


@dataclass(frozen=True, eq=False)
class View:
    """Some equations, and the terms that they may be made of.

    regression: of these terms alone, in the units of the whole; targets: its numbers of the equations
    names: flat indices, in the whole, of its coefficients; None: it is the whole
    """

    regression: Regression
    targets: Ints
    names: Ints | None = None

    def whole(self, support: Ints) -> Ints:
        """Flat indices in the whole of some of its coefficients."""
        return support if self.names is None else self.names[support]

    def inside(self, support: Ints) -> Ints:
        """Of flat indices in the whole, its own for the same coefficients."""
        return support if self.names is None else np.searchsorted(self.names, support)


def views_of(regression: Regression, solution: Floats) -> list[View]:
    """Each group of equations with all of its terms; where they are many and free, with the likely ones.

    solution: (terms, targets) of the convex problem, for terms that the data do not tell apart
    """
    terms, width = regression.shape
    if terms <= LARGE or len(regression.equal):
        return [View(regression, group) for group in regression.groups]
    design = regression.total.design[:terms]
    gram = design.T @ design
    use = _use(regression, solution)
    made = []
    for j in range(width):
        kept = _likely(regression, gram, design.T @ regression.total.target[:terms, j], j, use[:, j])
        made.append(_view(regression, j, kept))
    return made


def _view(regression: Regression, j: int, kept: Ints) -> View:
    terms, width = regression.shape
    total = regression.total
    factor = triangle(total.factor[:, np.append(kept, terms + j)])
    small = Regression(
        (LeastSquares(factor, len(kept), total.rows),),
        Rows.none(len(kept)),
        None if regression.floor is None else regression.floor[j : j + 1],
        regression.noise[j : j + 1],
    )
    return View(small, np.zeros(1, dtype=np.intp), kept * width + j)


def _use(regression: Regression, solution: Floats) -> Floats:
    """(terms, targets) how much each term matters beside all others: its |t|, or its size in the solution."""
    terms = regression.shape[0]
    if regression.independent < terms:
        return np.abs(solution)
    triangular = regression.total.design[:terms]
    inverse = scipy.linalg.solve_triangular(triangular, np.eye(terms), check_finite=False)
    error = np.linalg.norm(inverse, axis=1)
    return np.asarray(np.abs(inverse @ regression.total.target[:terms]) / error[:, None])


def _likely(regression: Regression, gram: Floats, across: Floats, j: int, use: Floats) -> Ints:
    """Terms of equation j that a model may be made of, from both sides.

    Those that greedy steps add, long after they pay no more; those that would add most to these; those
    that matter most beside all others. Steps in the manner of Rubinstein, Zibulevsky and Elad, Efficient
    implementation of the K-SVD algorithm using batch orthogonal matching pursuit (2008): a Cholesky factor
    of the products of columns grows by a row, and no column is touched.

    across: (terms,) products of the columns with the target
    """
    terms, rows = regression.shape[0], regression.total.rows
    left, size = across.copy(), gram.diagonal().copy()
    least = _DEPENDENT * size
    loss = float(np.sum(regression.total.target[:, j] ** 2))
    price = (np.log(rows) + 2.0 * np.log(terms)) / rows
    factor = np.empty((0, terms))
    order: list[int] = []
    idle = 0
    while idle < _IDLE and len(order) < min(terms, rows // 2):
        gains = np.where(size > least, left**2 / np.where(size > least, size, 1.0), 0.0)
        gains[order] = 0.0
        i = int(np.argmax(gains))
        if gains[i] <= 0.0:
            break
        idle = 0 if gains[i] > price * loss else idle + 1
        loss = max(loss - float(gains[i]), 0.0)
        if len(order) == len(factor):
            factor = np.concatenate([factor, np.empty((max(len(factor), 64), terms))])
        row = (gram[i] - factor[: len(order), i] @ factor[: len(order)]) / np.sqrt(size[i])
        factor[len(order)] = row
        left -= row * (left[i] / np.sqrt(size[i]))
        size -= row**2
        order.append(i)
    gains = np.where(size > least, left**2 / np.where(size > least, size, 1.0), 0.0)
    further = np.argsort(-gains, kind="stable")[:_LIKELY]
    alone = np.argsort(-use, kind="stable")[:_LIKELY]
    return np.unique(np.concatenate([np.array(order, dtype=np.intp), further, alone]))
