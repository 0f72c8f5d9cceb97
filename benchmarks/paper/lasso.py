"""The l1-penalised problem by accelerated proximal gradients, and by CVXOPT's interior-point method."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from cindy._arrays import Floats
from cindy.errors import SolverError
from cindy.least_squares import LeastSquares

__all__ = ["interior_point", "l1_limit", "proximal_gradient"]


def l1_limit(train: LeastSquares) -> float:
    """The smallest l1 penalty of ‖A x − B‖² under which zero is the minimiser."""
    return 2.0 * float(np.abs(train.design.T @ train.target).max())


def proximal_gradient(
    train: LeastSquares, penalty: float, lipschitz: float, *, tol: float = 1e-8, max_iter: int = 5000
) -> Floats:
    """FISTA until no coefficient moves by more than `tol` of the largest, or `max_iter` steps."""
    gram, goal = (
        2.0 * train.design.T @ train.design / lipschitz,
        2.0 * train.design.T @ train.target / lipschitz,
    )
    shrink = penalty / lipschitz
    x = ahead = np.zeros((train.terms, train.targets))
    momentum = 1.0
    for _ in range(max_iter):
        moved = ahead - gram @ ahead + goal
        new = np.sign(moved) * np.maximum(np.abs(moved) - shrink, 0.0)
        step = new - x
        if np.vdot(ahead - new, step) > 0:
            momentum = 1.0
        after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        x, ahead, momentum = new, new + (momentum - 1.0) / after * step, after
        if np.abs(step).max() <= tol * np.abs(x).max():
            break
    return x


def interior_point(train: LeastSquares, penalty: float, equalities: Floats) -> Floats:
    """min ‖A x − B‖² + penalty ‖x‖₁ subject to equalities · flat(x) = 0, at CVXOPT's default tolerances.

    equalities: (m, terms · targets), independent rows; m may be 0

    The penalty takes the place of the paper's radius: each radius belongs to a
    penalty, and a penalty leaves the equations uncoupled but for the physics. Then
    every Newton step is a small Cholesky factorisation per equation.
    """
    import cvxopt
    from cvxopt import solvers

    size = train.terms * train.targets
    # In units of the loss at zero, since CVXOPT's tolerances are partly absolute.
    unit = float(np.sum(train.target**2))
    gram = 2.0 * train.design.T @ train.design / unit
    goal = 2.0 * train.design.T @ train.target / unit

    def quadratic(x: Any, y: Any, alpha: float = 1.0, beta: float = 0.0) -> None:
        flat = _array(x)[:size].reshape(train.terms, train.targets)
        _put(y, alpha * np.concatenate([(gram @ flat).ravel(), np.zeros(size)]) + beta * _array(y))

    def bounds(x: Any, y: Any, alpha: float = 1.0, beta: float = 0.0, trans: str = "N") -> None:
        # |x| ≤ u as x − u ≤ 0 and −x − u ≤ 0.
        a, b = np.split(_array(x), 2)
        product = [a - b, -a - b]
        _put(y, alpha * np.concatenate(product) + beta * _array(y))

    def physics(x: Any, y: Any, alpha: float = 1.0, beta: float = 0.0, trans: str = "N") -> None:
        if trans == "N":
            product = equalities @ _array(x)[:size]
        else:
            product = np.concatenate([equalities.T @ _array(x), np.zeros(size)])
        _put(y, alpha * product + beta * _array(y))

    # Tighter than the defaults, which stop at a relative accuracy of 1e-6: far above the loss on clean data.
    options = {"show_progress": False, "abstol": 1e-14, "reltol": 1e-10, "feastol": 1e-10}
    cost = np.concatenate([-goal.ravel(), np.full(size, penalty / unit)])
    solution = solvers.coneqp(
        quadratic,
        cvxopt.matrix(cost),
        bounds,
        cvxopt.matrix(np.zeros(2 * size)),
        {"l": 2 * size, "q": [], "s": []},
        physics,
        cvxopt.matrix(np.zeros((len(equalities), 1))),
        kktsolver=_newton(gram, train.targets, equalities),
        options=options,
    )
    if solution["x"] is None:
        raise SolverError(f"CVXOPT ended without a point: {solution['status']}.")
    return _array(solution["x"])[:size].reshape(train.terms, train.targets)


def _newton(
    gram: Floats, targets: int, equalities: Floats
) -> Callable[[Any], Callable[[Any, Any, Any], None]]:
    """CVXOPT's kktsolver for this structure.

    u is eliminated entry by entry, x equation by equation, the physics by its Schur complement.
    """
    terms = len(gram)
    size = terms * targets
    rows = equalities.reshape(-1, terms, targets)

    def factored(scaling: Any) -> Callable[[Any, Any, Any], None]:
        inverse = _array(scaling["di"])
        e1, e2 = np.split(inverse**2, 2)
        total, lean = e1 + e2, e2 - e1
        diagonal = (4.0 * e1 * e2 / total).reshape(terms, targets)
        factors = [scipy.linalg.cho_factor(gram + np.diag(diagonal[:, j])) for j in range(targets)]

        def solve(columns: Floats) -> Floats:
            """Columns of shape (terms, targets, …): the system of every equation."""
            return np.stack([scipy.linalg.cho_solve(f, columns[:, j]) for j, f in enumerate(factors)], axis=1)

        if len(rows):
            spread = solve(np.moveaxis(rows, 0, 2)).reshape(size, -1)
            schur = scipy.linalg.cho_factor(equalities @ spread)

        def apply(x: Any, y: Any, z: Any) -> None:
            z1, z2 = np.split(_array(z), 2)
            rx, ru = np.split(_array(x), 2)
            rx, ru = rx + e1 * z1 - e2 * z2, ru - e1 * z1 - e2 * z2
            dx = solve((rx - lean / total * ru).reshape(terms, targets)).ravel()
            if len(rows):
                dy = scipy.linalg.cho_solve(schur, equalities @ dx - _array(y))
                dx = dx - spread @ dy
                _put(y, dy)
            du = (ru - lean * dx) / total
            _put(x, np.concatenate([dx, du]))
            _put(z, inverse * np.concatenate([dx - du - z1, -dx - du - z2]))

        return apply

    return factored


def _array(matrix: Any) -> Floats:
    return np.array(matrix, dtype=np.float64).ravel()


def _put(matrix: Any, values: Floats) -> None:
    import cvxopt

    matrix[:] = cvxopt.matrix(values)
