"""HiGHS as this library uses it: quiet, on one thread, as tight as it goes, and asked twice when in doubt."""

from typing import cast

import highspy
import numpy as np
import scipy.sparse

from cindy._types import Floats

__all__ = ["optimum", "quiet_model"]

_TOLERANCE = 1e-10
"""HiGHS's tightest. Columns and rows are scaled to one beforehand, so it holds in relative terms."""
_DUAL, _PRIMAL = 1, 4
# Answers that an ill-conditioned last basis gives to programs that have an optimum.
_DOUBTFUL = (
    highspy.HighsModelStatus.kUnknown,
    highspy.HighsModelStatus.kUnbounded,
    highspy.HighsModelStatus.kUnboundedOrInfeasible,
    highspy.HighsModelStatus.kSolveError,
)


def quiet_model(
    rows: scipy.sparse.csr_array, low: Floats, high: Floats, row_low: Floats, row_high: Floats
) -> highspy.Highs:
    """A program without costs: low ≤ x ≤ high, row_low ≤ rows x ≤ row_high; infinite where free."""
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = rows.shape
    model.col_cost_ = np.zeros(rows.shape[1])
    model.col_lower_, model.col_upper_ = low, high
    model.row_lower_, model.row_upper_ = row_low, row_high
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = rows.indptr
    model.a_matrix_.index_ = rows.indices
    model.a_matrix_.value_ = rows.data
    highs = highspy.Highs()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("solver", "simplex"),
        ("simplex_strategy", _PRIMAL),
        ("presolve", "off"),
        ("primal_feasibility_tolerance", _TOLERANCE),
        ("dual_feasibility_tolerance", _TOLERANCE),
    ):
        highs.setOptionValue(option, value)
    highs.passModel(model)
    return highs


def optimum(highs: highspy.Highs) -> highspy.HighsModelStatus:
    """Run, by the primal method from the last basis; in doubt once more from scratch, by the dual."""
    highs.run()
    status = highs.getModelStatus()
    if status in _DOUBTFUL:
        highs.clearSolver()
        highs.setOptionValue("simplex_strategy", _DUAL)
        highs.run()
        highs.setOptionValue("simplex_strategy", _PRIMAL)
        status = highs.getModelStatus()
    return cast(highspy.HighsModelStatus, status)
