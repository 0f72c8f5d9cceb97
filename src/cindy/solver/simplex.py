"""Projection onto the simplex, and accelerated projected gradients in both variants of the paper."""

from collections.abc import Callable

import numpy as np

from cindy._types import Floats

__all__ = ["accelerated", "accelerated_strongly", "project"]

Map = Callable[[Floats], Floats]
Test = Callable[[Floats], bool]


def project(point: Floats, *, costs: Floats | None = None, below: bool = False) -> Floats:
    """The nearest point of {x ≥ 0, costs · x = 1}, or of {x ≥ 0, costs · x ≤ 1} with `below`.

    costs: (n,), positive; ones, the probability simplex, when left out

    >>> project(np.array([0.9, 0.5, -2.0]))
    array([0.7, 0.3, 0. ])
    """
    price = np.ones_like(point) if costs is None else costs
    if below:
        clipped = np.maximum(point, 0.0)
        if price @ clipped <= 1.0:
            return clipped
    ratio = point / price
    order = np.argsort(-ratio)
    spent = np.cumsum(price[order] * point[order]) - 1.0
    shifts = spent / np.cumsum(price[order] ** 2)
    # The support is the longest prefix, by ratio, that stays positive under its own shift.
    last = int(np.flatnonzero(ratio[order] > shifts)[-1])
    return np.asarray(np.maximum(point - shifts[last] * price, 0.0))


def accelerated(
    gradient: Map,
    projection: Map,
    start: Floats,
    *,
    smoothness: float,
    steps: int,
    done: Test,
    every: int = 5,
) -> Floats:
    """Accelerated projected gradient for a convex function: error ≤ 2 L ‖x₀ − x*‖² / (k + 1)² after k steps.

    smoothness: L, an upper bound on the curvature
    done: asked every few steps whether a point is good enough; the run ends
        there, or after `steps`
    """
    point = ahead = start
    momentum = 1.0
    for step in range(1, steps + 1):
        following = projection(ahead - gradient(ahead) / smoothness)
        if step % every == 0 and done(following):
            return following
        larger = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead = following + ((momentum - 1.0) / larger) * (following - point)
        point, momentum = following, larger
    return point


def accelerated_strongly(
    gradient: Map,
    projection: Map,
    start: Floats,
    *,
    smoothness: float,
    convexity: float,
    steps: int,
    done: Test,
    every: int = 5,
) -> Floats:
    """Accelerated projected gradient for a strongly convex function: linear, at the rate 1 − √(μ / L).

    smoothness, convexity: L and μ, bounds on the curvature from above and below
    done: as in `accelerated`
    """
    root = np.sqrt(convexity / smoothness)
    push = (1.0 - root) / (1.0 + root)
    point = ahead = start
    for step in range(1, steps + 1):
        following = projection(ahead - gradient(ahead) / smoothness)
        if step % every == 0 and done(following):
            return following
        ahead = following + push * (following - point)
        point = following
    return point
