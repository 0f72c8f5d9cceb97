"""The same problems by an interior-point method that shares nothing with the solver under test."""

import clarabel
import numpy as np
import scipy.sparse as sp

from cindy.least_squares import LeastSquares
from cindy.solver import Region


def optimal_value(objective: LeastSquares, region: Region) -> float:
    """min ‖A x − B‖² over the region, by Clarabel.

    A coefficient is counted in what the ball allows it or in what explains the
    target alone, whichever is less: columns may differ by a factor of 1e12.
    """
    size = region.size
    target = objective.target.ravel()
    unit = np.linalg.norm(target)
    lengths = np.repeat(np.linalg.norm(objective.design, axis=0), objective.targets)
    scales = np.minimum(region.radius / region.weights, unit / np.maximum(lengths, 1e-300))
    design = sp.kron(objective.design, sp.eye_array(objective.targets)) @ sp.diags_array(scales / unit)
    target = target / unit
    rows = region.matrix @ sp.diags_array(scales)
    scale = 1 / np.maximum(np.asarray(abs(rows).max(axis=1).todense()).ravel(), 1e-300)
    rows = (sp.diags_array(scale) @ rows).tocsr()
    lower, upper, equal = region.lower * scale, region.upper * scale, region.equality
    below, above = np.isfinite(upper) & ~equal, np.isfinite(lower) & ~equal
    eye = sp.eye_array(size)
    blocks = [
        (_padded(rows[equal]), lower[equal]),
        (_padded(sp.vstack([rows[below], -rows[above]])), np.concatenate([upper[below], -lower[above]])),
        (sp.vstack([sp.hstack([eye, -eye]), sp.hstack([-eye, -eye])]), np.zeros(2 * size)),
        (sp.csr_array(np.append(np.zeros(size), region.weights * scales / region.radius)[None]), np.ones(1)),
    ]
    quadratic = sp.block_diag([2 * design.T @ design, sp.csr_array((size, size))], format="csc")
    linear = np.concatenate([-2 * design.T @ target, np.zeros(size)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    cones = [clarabel.ZeroConeT(len(blocks[0][1]))]
    cones += [clarabel.NonnegativeConeT(len(b)) for _, b in blocks[1:]]
    solution = clarabel.DefaultSolver(
        sp.triu(quadratic, format="csc"),
        linear,
        sp.vstack([matrix for matrix, _ in blocks], format="csc"),
        np.concatenate([b for _, b in blocks]),
        cones,
        settings,
    ).solve()
    assert str(solution.status) in ("Solved", "AlmostSolved"), solution.status
    return float(np.sum((design @ np.array(solution.x)[:size] - target) ** 2)) * unit**2


def _padded(matrix: sp.sparray) -> sp.sparray:
    return sp.hstack([matrix, sp.csr_array(matrix.shape)])
