"""The same problems by other people's solvers, each given the structure it can use."""

from typing import Any

import clarabel
import cvxopt
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import qr
from sklearn.linear_model import lars_path_gram, lasso_path

from cindy.least_squares import LeastSquares
from cindy.solver import Region

__all__ = ["by_clarabel", "by_cvxopt", "paths"]

Floats = NDArray[np.float64]


def _quadratic(objective: LeastSquares) -> tuple[Floats, Floats, float]:
    """AᵀA, AᵀB and ‖B‖²; both interior-point methods get the problem divided by the last."""
    return (
        objective.design.T @ objective.design,
        objective.design.T @ objective.target,
        float(np.sum(objective.target**2)),
    )


def _by_target(region: Region, targets: int) -> NDArray[np.intp]:
    """Flat indices target after target: the quadratic is then a matrix of diagonal blocks."""
    return np.arange(region.size).reshape(-1, targets).T.ravel()


def by_clarabel(objective: LeastSquares, region: Region, tol: float) -> Floats:
    """In z = x / radius and its bounds t: |z| ≤ t, Σ t ≤ 1. Gives x, (terms, targets)."""
    gram, linear, scale = _quadratic(objective)
    size, order = region.size, _by_target(region, objective.targets)
    eye, none = sp.eye(size), sp.csc_matrix((size, size))
    block = sp.csc_matrix(np.triu(2 * region.radius**2 / scale * gram))
    quadratic = sp.block_diag([*[block] * objective.targets, none], format="csc")
    rows = region.matrix[:, order]
    matrix = sp.vstack(
        [
            sp.hstack([rows, sp.csc_matrix(rows.shape)]),
            sp.hstack([eye, -eye]),
            sp.hstack([-eye, -eye]),
            sp.csc_matrix(np.repeat([0.0, 1.0], size)[None]),
        ],
        format="csc",
    )
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = tol
    solution = clarabel.DefaultSolver(
        quadratic,
        np.concatenate([-2 * region.radius / scale * linear.T.ravel(), np.zeros(size)]),
        matrix,
        np.concatenate([np.zeros(region.rows + 2 * size), [1.0]]),
        [clarabel.ZeroConeT(region.rows), clarabel.NonnegativeConeT(2 * size + 1)],
        settings,
    ).solve()
    return np.array(solution.x)[:size].reshape(objective.targets, -1).T * region.radius


def by_cvxopt(objective: LeastSquares, region: Region, tol: float) -> Floats:
    """In p, q, s ≥ 0 with x = radius (p − q), Σ p + Σ q + s = 1: sparse Cholesky factors suffice."""
    gram, linear, scale = _quadratic(objective)
    size, order = region.size, _by_target(region, objective.targets)
    blocks = sp.block_diag([2 * region.radius**2 / scale * gram] * objective.targets)
    quadratic = sp.block_diag(
        [sp.vstack([sp.hstack([blocks, -blocks]), sp.hstack([-blocks, blocks])]), [[0.0]]]
    )
    rows = _independent(region)[:, order]
    equal = sp.vstack(
        [sp.hstack([rows, -rows, sp.csc_matrix((rows.shape[0], 1))]), np.ones((1, 2 * size + 1))]
    )
    half = -2 * region.radius / scale * linear.T.ravel()
    cvxopt.solvers.options.update(show_progress=False, abstol=tol, reltol=tol)
    solution = cvxopt.solvers.qp(
        _sparse(quadratic),
        cvxopt.matrix(np.concatenate([half, -half, [0.0]])),
        _sparse(-sp.eye(2 * size + 1)),
        cvxopt.matrix(np.zeros(2 * size + 1)),
        _sparse(equal),
        cvxopt.matrix(np.append(np.zeros(rows.shape[0]), 1.0)),
    )
    pq = np.array(solution["x"]).ravel()
    return (pq[:size] - pq[size : 2 * size]).reshape(objective.targets, -1).T * region.radius


def _independent(region: Region) -> sp.csr_array:
    """The rows without repetitions, which CVXOPT cannot bear."""
    if not region.rows:
        return region.matrix
    dense = region.matrix.toarray()
    _, r, pivots = qr(dense.T, mode="economic", pivoting=True)
    rank = int((np.abs(np.diag(r)) > 1e-9 * abs(r[0, 0])).sum())
    return region.matrix[np.sort(pivots[:rank])]


def _sparse(matrix: Any) -> cvxopt.spmatrix:
    coo = sp.coo_matrix(matrix)
    return cvxopt.spmatrix(coo.data.tolist(), coo.row.tolist(), coo.col.tolist(), coo.shape)


def paths(objective: LeastSquares, terms: int) -> dict[str, Any]:
    """Name of a path solver → a call that runs it for every target until `terms` terms are in.

    A call gives the number of supports reached. LARS walks its own knots; the others get twenty
    penalties that end where it ended.
    """
    from celer import celer_path
    from skglm.datafits import Quadratic
    from skglm.penalties import L1
    from skglm.solvers import AndersonCD
    from skglm.utils.jit_compilation import compiled_clone

    gram, linear, _ = _quadratic(objective)
    design = np.asfortranarray(objective.design)
    each = -(-terms // objective.targets)

    def lars() -> tuple[int, list[Floats]]:
        reached, ends = 0, []
        for j in range(objective.targets):
            alphas, _, coefs = lars_path_gram(
                linear[:, j], gram, n_samples=len(design), max_iter=each, method="lasso"
            )
            reached += coefs.shape[1] - 1
            ends.append(alphas[0] * np.geomspace(1, max(alphas[-1] / alphas[0], 1e-8), 20))
        return reached, ends

    _, grids = lars()

    def coordinate() -> tuple[int, None]:
        reached = 0
        for j, alphas in enumerate(grids):
            _, coefs, _ = lasso_path(
                design, objective.target[:, j], alphas=alphas, precompute=gram, Xy=linear[:, j], tol=1e-6
            )
            reached += int(np.count_nonzero(coefs[:, -1]))
        return reached, None

    def celer() -> tuple[int, None]:
        reached = 0
        for j, alphas in enumerate(grids):
            _, coefs, _ = celer_path(
                design, np.ascontiguousarray(objective.target[:, j]), "lasso", alphas=alphas, tol=1e-6
            )
            reached += int(np.count_nonzero(coefs[:, -1]))
        return reached, None

    def skglm() -> tuple[int, None]:
        reached = 0
        solver = AndersonCD(tol=1e-6)
        for j, alphas in enumerate(grids):
            y = np.ascontiguousarray(objective.target[:, j])
            coefs = solver.path(
                design, y, compiled_clone(Quadratic()), compiled_clone(L1(1.0)), alphas=np.array(alphas)
            )[1]
            reached += int(np.count_nonzero(coefs[:, -1]))
        return reached, None

    return {"lars_path_gram": lars, "lasso_path": coordinate, "celer": celer, "skglm": skglm}
