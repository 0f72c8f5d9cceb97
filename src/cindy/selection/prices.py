"""Rules that pick by a price: every parameter must lower −2 log p by at least that much.

`BIC` has one price for all. `Significance` spends a level over many tests. A false term i comes in where its
z² exceeds q + s_i: the price q that all terms pay, and a surcharge of its own. The level is a bound on the
chance that any false term comes in, and q is the least price within it (`least_price`):

1. Where nothing is known of the tests, by Bonferroni's inequality with p_i = P(z_i² > q + s_i) (with
   different s_i: Genovese, Roeder and Wasserman, Biometrika 93, 2006)

       Σ p_i = level

2. Once a law is known, only the terms beside it are tested (Holm, Scand. J. Stat. 6, 1979), and the columns
   at the states of the law tell how their tests are correlated (`correlated_tests`). Tests that are
   correlated fail together, and what fails together counts once (Hunter, J. Appl. Probab. 13, 1976; Worsley,
   Biometrika 69, 1982):

       Σ p_i − Σ_(i, j) in T P(z_i² > q + s_i, z_j² > q + s_j) = level

   for any tree T that spans the tests; that of the largest correlations gives almost the least bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cindy._arrays import Floats, Ints
from cindy._check import non_negative, positive
from cindy.errors import DataError, NoModelError
from cindy.selection.candidates import Candidates
from cindy.selection.effort import EFFORT
from cindy.selection.supports import SupportFit, Supports


class Selection(ABC):
    """A rule that picks a support from the candidates.

    Only the search calls the methods of a rule, so they do not check their arguments.

    refits: whether the coefficients are fitted anew on the support, or stay those of the solver
    by_price: whether the rule is a price; the search then uses that price itself
    repeats: whether a rule without a price picks again at the states that belong to its model
    nothing: what it means that the rule keeps no term, where {0} is the rule

    >>> import cindy
    >>> isinstance(cindy.Terms(4), cindy.Selection)
    True
    """

    refits: ClassVar[bool] = True

    @abstractmethod
    def pick(self, candidates: Candidates) -> Ints:
        """Flat indices of the coefficients to keep."""

    def tolerance(self, asked: float) -> float:
        """The tolerance of the solver's relative gap: the given one, unless the rule has its own."""
        return asked

    by_price: ClassVar[bool] = False
    repeats: ClassVar[bool] = True
    nothing: ClassVar[str] = "the rule keeps no term"

    def price(self, rows: int, candidates: int) -> float:
        """The amount by which a parameter must lower −2 log p; a rule without a price orders terms by it."""
        return Significance().price(rows, candidates)

    def prices(self, rows: int, factors: Ints, information: float) -> Floats:
        """(candidates,): the price of each.

        factors: the number of factors of each term
        information: squares of the signal in units of the noise, summed over the samples
        """
        return np.full(len(factors), self.price(rows, len(factors)))

    def spared(
        self, rows: int, factors: Ints, information: float, tested: Ints, correlation: Floats
    ) -> float:
        """By how much all prices fall once a law is known.

        tested: the candidates that are not in the law; correlation: (tested, tested) of their tests
        """
        return 0.0

    def nothing_kept(self, where: str) -> NoModelError:
        """The error to raise where no term is left."""
        return NoModelError(
            f"{where}: {self.nothing.format(self)}: nothing in the basis explains the data better than "
            'chance. Try another basis, a looser selection, or more data; least="best" gives a model anyway.'
        )

    def priced(self, candidates: Candidates) -> float:
        """The price of a parameter for these candidates."""
        regression = candidates.regression
        return self.price(regression.total.rows, int(np.prod(regression.shape)))


@dataclass(frozen=True)
class Significance(Selection):
    """Every term that stays is significant at `level`, with Bonferroni's correction over all candidates.

    1. A term stays if it lowers −2 log p by at least its price, z*², the square of the quantile.
    2. Where the noise of the rows is not known beforehand, the errors clustered by block decide in the end:
       terms leave, the weakest first, until the least |t| exceeds Student's quantile with (blocks − 1)
       degrees of freedom (Cameron and Miller, J. Hum. Resour. 50, 2015),

           |ξ_i| / error_i > t_{G−1}(1 − level / 2N),   G blocks, N candidates over all equations.

    3. With denoised states a term with m factors costs q + per_factor · (m − 1), since there are more terms
       with more factors. The price q of a single factor spends the level over all candidates (a weighted
       Bonferroni correction: Genovese, Roeder and Wasserman, Biometrika 93, 2006):

           Σ_i P(z² > q + per_factor · (m_i − 1)) = level

       Once a law is known, only the terms beside it are tested, and what their tests have in common counts
       once: q falls (`spared`).
    4. With many or accurate data false terms would still come in at that rate, while true ones are far above
       any price. There q is log(2 I / π), from Laplace's approximation of the evidence (Kashyap, IEEE Trans.
       Pattern Anal. Mach. Intell. 4, 1982) with a coefficient that may be anything from −1 to 1 in units of
       the signal. I is the sum over the samples of the squared signal in units of the noise; q is at most
       z*². None of this has units, so rescaled data give the same terms.

    `python -m benchmarks lorenz_map` shows the effect at much noise, and `chaotic` at little.

    level: probability that any false term is kept; per_factor: 0 gives every term the same price

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 6, 200)
    >>> swing = cindy.Trajectory(t, np.stack([np.cos(t), -np.sin(t)], axis=1), ("x", "v"))
    >>> model = cindy.identify(swing, "poly:2", selection=Significance(level=0.01), passes=1)
    >>> print(model.to_text(errors=False))
    x' =  1 v
    v' = -1 x
    """

    by_price: ClassVar[bool] = True
    nothing: ClassVar[str] = "no term is significant at level {0.level:g}"
    level: float = 0.05
    per_factor: float = 4.0

    def __post_init__(self) -> None:
        if not 0 < positive(self.level, "Significance: `level`") < 1:
            raise DataError(f"Significance: `level` must lie between 0 and 1, but is {self.level!r}.")
        non_negative(self.per_factor, "Significance: `per_factor`")

    def pick(self, candidates: Candidates) -> Ints:
        support = candidates.by_price(self.priced(candidates))
        if candidates.known:
            return support
        least = self.quantile(candidates)
        # Coefficients that a constraint needs stay, however weak they are.
        needed: set[int] = set()
        while len(support):
            fit = candidates.refit(support)
            x, error = fit.x.ravel()[support], fit.error.ravel()[support]
            t = np.where(error > 0, np.abs(x) / np.where(error > 0, error, 1.0), np.inf)
            # A coefficient that a bound holds at zero has no error either; it leaves first.
            t[x == 0] = 0.0
            t[np.isin(support, list(needed))] = np.inf
            weak = int(np.argmin(t))
            if t[weak] > least:
                break
            smaller = np.delete(support, weak)
            rest = candidates.possible(smaller)
            if rest is None:
                needed.add(int(support[weak]))
            else:
                # Coefficients that were tied to it are zero now, and leave with it.
                support = smaller[rest.x.ravel()[smaller] != 0]
        return support

    def priced(self, candidates: Candidates) -> float:
        price = super().priced(candidates)
        if candidates.known:
            return price
        # Where each model is judged by its own residual, the price must also count the models.
        regression = candidates.regression
        return max(price, BIC().price(regression.total.rows, regression.shape[0]))

    def price(self, rows: int, candidates: int) -> float:
        """The square of the |z| that a term must exceed."""
        from scipy.special import stdtrit

        # Two-sided, with Bonferroni's correction. With many rows Student's quantile is the normal one.
        return float(stdtrit(max(rows, 2), self.level / (2 * candidates)) ** 2)

    def prices(self, rows: int, factors: Ints, information: float) -> Floats:
        surcharge = self._surcharge(factors)
        return self._single(rows, len(factors), information, surcharge) + surcharge

    def spared(
        self, rows: int, factors: Ints, information: float, tested: Ints, correlation: Floats
    ) -> float:
        surcharge = self._surcharge(factors)
        before = self._single(rows, len(factors), information, surcharge)
        return before - self._single(rows, len(factors), information, surcharge[tested], correlation)

    def _surcharge(self, factors: Ints) -> Floats:
        return np.asarray(self.per_factor * np.maximum(factors - 1.0, 0.0))

    def _single(
        self,
        rows: int,
        candidates: int,
        information: float,
        surcharge: Floats,
        correlation: Floats | None = None,
    ) -> float:
        """The price of a term of one factor."""
        least = least_price(self.level, rows, surcharge, correlation)
        evidence = float(np.log(max(2.0 * information / np.pi, 1.0)))
        return min(max(least, evidence), self.price(rows, candidates))

    def quantile(self, candidates: Candidates) -> float:
        """The |t| that a term must exceed."""
        from scipy.special import stdtrit  # a quarter of the time of `import cindy`

        regression = candidates.regression
        blocks, rows = len(regression.blocks), regression.total.rows
        # Few blocks give poor errors. Below the limit rows are taken as independent instead.
        freedom = blocks - 1 if blocks >= EFFORT.rules_few_blocks else max(rows - regression.independent, 1)
        return -float(stdtrit(freedom, self.level / (2 * np.prod(regression.shape))))


@dataclass(frozen=True)
class BIC(Selection):
    """The least Bayesian information criterion, m log(loss / m) + k log m, plus 2 k log n if `extended`.

    Here m is the number of rows, k of parameters, and n of candidates in an equation (Schwarz, Ann. Stat. 6,
    1978). The extension counts the models of k terms to choose from, log C(n, k) ≤ k log n (Chen and Chen,
    Biometrika 95, 2008).

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 6, 200)
    >>> swing = cindy.Trajectory(t, np.stack([np.cos(t), -np.sin(t)], axis=1), ("x", "v"))
    >>> cindy.identify(swing, "poly:2", selection=BIC(), passes=1).size
    2
    """

    by_price: ClassVar[bool] = True
    nothing: ClassVar[str] = "no term lowers the Bayesian information criterion"
    extended: bool = True

    def pick(self, candidates: Candidates) -> Ints:
        return candidates.by_price(self.priced(candidates), clustered=False)

    def priced(self, candidates: Candidates) -> float:
        # The extension counts the models of one equation, unless all equations were searched together.
        regression = candidates.regression
        terms = regression.shape[0] if not candidates.known else int(np.prod(regression.shape))
        return self.price(regression.total.rows, terms)

    def price(self, rows: int, candidates: int) -> float:
        return float(np.log(rows) + (2.0 * np.log(candidates) if self.extended else 0.0))


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
