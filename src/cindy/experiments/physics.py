"""The physics of a system as equality rows, for peers that take a matrix."""

import numpy as np
import scipy.linalg

from cindy._types import Floats
from cindy.problem import Names
from cindy.systems import System

__all__ = ["equality_rows"]


def equality_rows(system: System, scale: Floats) -> Floats:
    """Independent rows C with C · flat(z) = 0, where z are the coefficients of columns divided by `scale`."""
    names = Names(system.basis, system.states)
    found = [row.weights for law in system.constraints() for row in law.rows(names)]
    rows = np.zeros((len(found), len(names.terms) * len(system.states)))
    for row, weights in zip(rows, found, strict=True):
        row[list(weights)] = list(weights.values())
    rows /= np.repeat(scale, len(system.states))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    # Ties around a circle repeat each other, and peers that invert C Cᵀ cannot take repeats.
    r, order = scipy.linalg.qr(rows.T, mode="r", pivoting=True)
    rank = int(np.sum(np.abs(np.diag(r)) > 1e-10))
    return np.asarray(rows[np.sort(order[:rank])])
