"""Why no coefficients satisfy the constraints: the smallest set of them that excludes itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import vstack

from cindy.errors import InfeasibleError
from cindy.rows import Rows

__all__ = ["name_conflict"]


def name_conflict(constraints: Sequence[object], rows: Rows, error: InfeasibleError) -> InfeasibleError:
    """The error again, in the texts of the constraints that exclude each other.

    Each constraint is left out in turn, and stays out if the rest is still impossible:
    what remains is impossible only as a whole. Where the constraints are possible
    together, it is the radius that is too small, and the error already says so.
    """
    rows = rows.scaled(np.ones(rows.matrix.shape[1]))
    if _possible(rows, np.ones(len(rows.owner), dtype=bool)):
        return error
    kept = list(range(len(constraints)))
    for k in range(len(constraints)):
        trial = [i for i in kept if i != k]
        if not _possible(rows, np.isin(rows.owner, trial)):
            kept = trial
    texts = [f'"{constraints[i]}"' for i in kept]
    if len(texts) == 1:
        return InfeasibleError(f"the constraint {texts[0]} cannot be satisfied by any coefficients.")
    which = "these two constraints exclude" if len(texts) == 2 else f"these {len(texts)} constraints exclude"
    return InfeasibleError(f"{which} each other: {', '.join(texts)}. Drop or change one of them.")


def _possible(rows: Rows, keep: NDArray[np.bool_]) -> bool:
    from scipy.optimize import linprog

    if not keep.any():
        return True
    matrix, lower, upper = rows.matrix[keep], rows.lower[keep], rows.upper[keep]
    equal = lower == upper
    high, low = ~equal & np.isfinite(upper), ~equal & np.isfinite(lower)
    parts = [m for m in (matrix[high], -matrix[low]) if m.shape[0]]
    solution = linprog(
        np.zeros(matrix.shape[1]),
        A_ub=vstack(parts) if parts else None,
        b_ub=np.concatenate([upper[high], -lower[low]]) if parts else None,
        A_eq=matrix[equal] if equal.any() else None,
        b_eq=lower[equal] if equal.any() else None,
        bounds=(None, None),
    )
    return bool(solution.status != 2)
