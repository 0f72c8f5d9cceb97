"""The price of a term that spends a level over many tests.

A false term i comes in where its z² exceeds q + s_i: the price q that all terms pay, and a surcharge of its
own. The level is a bound on the chance that any false term comes in, and q is the least price within it:

1. Where nothing is known of the tests, by Bonferroni's inequality with p_i = P(z_i² > q + s_i) (with
   different s_i: Genovese, Roeder and Wasserman, Biometrika 93, 2006)

       Σ p_i = level

2. Once a law is known, only the terms beside it are tested (Holm, Scand. J. Stat. 6, 1979), and the columns
   at the states of the law tell how their tests are correlated. Tests that are correlated fail together, and
   what fails together counts once (Hunter, J. Appl. Probab. 13, 1976; Worsley, Biometrika 69, 1982):

       Σ p_i − Σ_(i, j) in T P(z_i² > q + s_i, z_j² > q + s_j) = level

   for any tree T that spans the tests; that of the largest correlations gives almost the least bound.
"""

from __future__ import annotations

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.selection.effort import EFFORT
from cindy.selection.supports import SupportFit, Supports

__all__ = ["correlated_tests", "least_price"]


def least_price(level: float, rows: int, surcharge: Floats, correlation: Floats | None = None) -> float:
    """The price q at which the chance of a false term is at most `level`.

    rows: Student's distribution has as many degrees of freedom
    correlation: (tests, tests) of the tests; None for Bonferroni's inequality
    """
    from scipy.optimize import brentq
    from scipy.special import ndtri, stdtr, stdtrit

    first, second = (np.zeros(0, np.intp),) * 2 if correlation is None else _tree(correlation)
    shared = np.zeros(0) if correlation is None else correlation[first, second]

    def unspent(price: float) -> float:
        chance = 2.0 * stdtr(max(rows, 2), -np.sqrt(price + surcharge))
        z = -ndtri(chance / 2.0)
        return level - float(chance.sum() - _both(z[first], z[second], shared).sum())

    if unspent(0.0) >= 0:
        return 0.0
    # Without surcharges all tests share the level alike.
    equal = float(stdtrit(max(rows, 2), level / (2 * len(surcharge))) ** 2)
    return equal if unspent(equal) <= 0 else float(brentq(unspent, 0.0, equal))


def correlated_tests(supports: Supports, fit: SupportFit) -> tuple[Ints, Floats]:
    """The columns that can be tested beside a law, and the correlations of their tests.

    The test of a column is on the part of it that no column of the law explains.
    """
    columns = np.setdiff1d(np.arange(supports.size), fit.support)
    design = supports.design[:, columns]
    beyond = design - fit.directions @ (fit.directions.T @ design)
    size = np.linalg.norm(beyond, axis=0)
    apart = size > EFFORT.supports_dependent * supports.lengths[columns]
    unit = beyond[:, apart] / size[apart]
    return columns[apart], unit.T @ unit


def _tree(correlation: Floats) -> tuple[Ints, Ints]:
    """The edges of the spanning tree of largest absolute correlations."""
    from scipy.sparse.csgraph import minimum_spanning_tree

    # An entry of zero would be no edge.
    edges = minimum_spanning_tree(2.0 - np.minimum(np.abs(correlation), 1.0)).tocoo()
    return edges.row.astype(np.intp), edges.col.astype(np.intp)


def _both(a: Floats, b: Floats, correlation: Floats) -> Floats:
    """P(|z₁| > a, |z₂| > b) of correlated normal numbers, by Owen's function (Ann. Math. Stat. 27, 1956)."""
    from scipy.special import ndtr, owens_t

    r = np.minimum(np.abs(correlation), 1.0 - 1e-12)
    a, b = np.maximum(a, 1e-12), np.maximum(b, 1e-12)
    apart = np.sqrt(1.0 - r**2)
    same, other = (
        0.5 * (ndtr(-a) + ndtr(-b))
        - owens_t(a, (b - side * a) / (a * apart))
        - owens_t(b, (a - side * b) / (b * apart))
        for side in (r, -r)
    )
    return np.asarray(2.0 * (same + other))
