"""Divided differences over neighbouring samples: what is rough in values on any grid."""

from __future__ import annotations

import numpy as np

from cindy._types import Floats

__all__ = ["divided_differences"]


def divided_differences(x: Floats, order: int) -> Floats:
    """(samples − order, order + 1): weights of the differences of an order over neighbours, of unit length.

    White noise keeps its size, and of polynomials of lower degree nothing is left.
    """
    windows = np.lib.stride_tricks.sliding_window_view(x, order + 1)
    apart = windows[:, :, None] - windows[:, None, :]
    scale = np.abs(apart).max(axis=(1, 2))[:, None, None]
    apart = np.where(np.eye(order + 1, dtype=bool), 1.0, apart / scale)
    weights = 1.0 / np.prod(apart, axis=2)
    return np.asarray(weights / np.linalg.norm(weights, axis=1, keepdims=True))
