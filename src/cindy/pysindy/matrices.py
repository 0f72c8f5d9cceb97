"""pysindy's constraint matrices: into rows over the coefficients, and out of constraints by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from cindy._check import floats
from cindy._types import Floats
from cindy.errors import ConstraintError
from cindy.problem import Constraint, Names, Row, at_samples
from cindy.pysindy.libraries import Library, terms_of
from cindy.rows import Rows

__all__ = ["Order", "constraint_matrices", "constraint_rows", "constraint_texts"]

Order = Literal["target", "feature"]

_MOST_NAMED = 4
"""Coefficients of a row that its text names one by one."""


def constraint_rows(lhs: Any, rhs: Any, inequalities: int, *, order: Order, terms: int, targets: int) -> Rows:
    """The rows lhs w ≤ rhs, the first `inequalities` of them, and lhs w = rhs, the rest.

    lhs: (rows, terms · targets), dense or sparse; in the order "feature" the coefficient of term i
        for target j stands at i · targets + j, in the order "target" at j · terms + i
    """
    matrix = csr_array(lhs.astype(np.float64) if hasattr(lhs, "tocsr") else _dense(lhs))
    if matrix.shape[1] != terms * targets:
        raise ConstraintError(
            f"ConditionalGradient: `constraint_lhs` must have a column for each of the {terms} features × "
            f"{targets} targets = {terms * targets} coefficients, but has {matrix.shape[1]}. (An ensemble "
            "that leaves out library terms cannot be combined with constraints: they would speak of others.)"
        )
    goal = floats(np.ravel(rhs), "ConditionalGradient: `constraint_rhs`", ndim=1)
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


def constraint_matrices(
    constraints: Sequence[Constraint], library: Any, states: Sequence[str], inputs: Sequence[str] = ()
) -> dict[str, Any]:
    """Constraints by name as the arguments that `ConditionalGradient` and pysindy's `ConstrainedSR3` take.

    >>> import pysindy
    >>> from cindy import fix
    >>> given = constraint_matrices([fix("y", "x", 28.0)], pysindy.PolynomialLibrary(1), ["x", "y"])
    >>> given["constraint_lhs"], given["constraint_rhs"], given["constraint_order"]
    (array([[0., 0., 0., 1., 0., 0.]]), array([28.]), 'feature')

    library: the feature library of the model; states, inputs: its feature names
    """
    names = Names(Library(library), tuple(states), tuple(inputs))
    features = terms_of(library, names.states + names.inputs)
    place = {term: i for i, term in enumerate(dict.fromkeys(features))}
    # A feature that stands in the library twice is one term: its coefficient is the sum of both.
    spread = np.zeros((len(place), len(features)))
    spread[[place[term] for term in features], np.arange(len(features))] = 1.0
    rows = [row for one in constraints for row in _rows_of(one, names)]
    upper = [(r, 1.0, r.upper) for r in rows if r.lower < r.upper and np.isfinite(r.upper)]
    lower = [(r, -1.0, -r.lower) for r in rows if r.lower < r.upper and np.isfinite(r.lower)]
    equal = [(r, 1.0, r.upper) for r in rows if r.lower == r.upper]
    matrix = np.zeros((len(upper) + len(lower) + len(equal), len(place) * len(names.states)))
    for k, (row, sign, _) in enumerate([*upper, *lower, *equal]):
        matrix[k, list(row.weights)] = sign * np.array(list(row.weights.values()))
    table = matrix.reshape(len(matrix), len(place), len(names.states))
    return {
        "constraint_lhs": np.einsum("kts,tf->kfs", table, spread).reshape(len(matrix), -1),
        "constraint_rhs": np.array([goal for _, _, goal in (*upper, *lower, *equal)]),
        "constraint_order": "feature",
        "equality_constraints": bool(equal),
        "inequality_constraints": bool(upper or lower),
        "constraint_separation_index": len(upper) + len(lower),
    }


def _rows_of(constraint: Constraint, names: Names) -> list[Row]:
    if at_samples(constraint):
        raise ConstraintError(
            f"{constraint}: a tolerance speaks of samples, which an optimizer of pysindy does not see. "
            "Use cindy.identify()."
        )
    return list(constraint.rows(names))
