"""pysindy's constraint matrices: into rows over the coefficients, and out of constraints by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from cindy._check import floats
from cindy.errors import ConstraintError
from cindy.rows import Rows

__all__ = ["Order", "constraint_rows", "constraint_texts"]

Floats = NDArray[np.float64]
Order = Literal["target", "feature"]

_MOST_NAMED = 4
"""Coefficients of a row that its text names one by one."""


def constraint_rows(lhs: Any, rhs: Any, inequalities: int, *, order: Order, terms: int, targets: int) -> Rows:
    """The rows lhs w ≤ rhs, the first `inequalities` of them, and lhs w = rhs, the rest.

    lhs: (rows, terms · targets), dense or sparse; in the order "feature" the coefficient of term i
        for target j stands at i · targets + j, in the order "target" at j · terms + i
    """
    matrix = csr_array(lhs, dtype=np.float64) if issparse(lhs) else csr_array(_dense(lhs))
    if matrix.shape[1] != terms * targets:
        raise ConstraintError(
            f"ConditionalGradient: `constraint_lhs` must have a column for each of the {terms} features × "
            f"{targets} targets = {terms * targets} coefficients, but has {matrix.shape[1]}. (An ensemble "
            "that leaves out library terms cannot be combined with constraints: they would speak of others.)"
        )
    goal = floats(np.atleast_1d(rhs), "ConditionalGradient: `constraint_rhs`", ndim=1)
    if len(goal) != matrix.shape[0]:
        raise ConstraintError(
            "ConditionalGradient: `constraint_rhs` must have an entry for each of the "
            f"{matrix.shape[0]} rows of `constraint_lhs`, but has {len(goal)}."
        )
    if order == "target":
        where = np.arange(terms * targets).reshape(targets, terms).T.ravel()
        matrix = csr_array(matrix[:, where])
    lower = goal.copy()
    lower[:inequalities] = -np.inf
    return Rows(matrix, lower, goal, np.arange(len(goal), dtype=np.intp))


def _dense(lhs: Any) -> Floats:
    return floats(np.atleast_2d(lhs), "ConditionalGradient: `constraint_lhs`", ndim=2)


def constraint_texts(rows: Rows, targets: int) -> list[str]:
    """Each row as a sentence about `coef_`, whose entries are [target, feature]."""
    texts = []
    for k in range(len(rows)):
        row = csr_array(rows.matrix[[k]])
        parts = [
            f"{weight:+.6g} coef_[{i % targets}, {i // targets}]"
            for i, weight in zip(row.indices[:_MOST_NAMED], row.data[:_MOST_NAMED], strict=True)
        ]
        more = " …" if row.nnz > _MOST_NAMED else ""
        sign = "=" if rows.lower[k] == rows.upper[k] else "≤"
        texts.append(f"row {k}: {' '.join(parts) or '0'}{more} {sign} {rows.upper[k]:.6g}")
    return texts
