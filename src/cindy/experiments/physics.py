"""The physics of a system as equality rows, for peers that take a matrix."""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from cindy.basis import term_variables
from cindy.systems import System

__all__ = ["equality_rows"]

Floats = NDArray[np.float64]


def equality_rows(system: System, scale: Floats) -> Floats:
    """Independent rows C with C · flat(z) = 0, where z are the coefficients of columns divided by `scale`."""
    d = len(system.states)
    found: list[Floats] = []
    terms = system.basis.terms(system.states)
    for kind, what in system.physics:
        if kind == "exchange":
            a, b = what
            image = system.basis.renamed(system.states, {a: b, b: a})
            for i, term in enumerate(terms):
                if term and term_variables(term) <= {a, b}:
                    row = np.zeros((len(terms), d))
                    row[i, system.states.index(a)] += 1.0
                    row[image[i], system.states.index(b)] -= 1.0
                    found.append(row)
        elif kind == "conserve":
            for i in range(len(terms)):
                row = np.zeros((len(terms), d))
                for state, weight in what[0].items():
                    row[i, system.states.index(state)] = weight
                found.append(row)
    rows = np.array([(row / scale[:, None]).ravel() for row in found])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    # Ties around a circle repeat each other, and peers that invert C Cᵀ cannot take repeats.
    r, order = scipy.linalg.qr(rows.T, mode="r", pivoting=True)
    rank = int(np.sum(np.abs(np.diag(r)) > 1e-10))
    return np.asarray(rows[np.sort(order[:rank])])
