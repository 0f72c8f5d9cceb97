"""Rules that pick one model from the candidates.

- By a price: every parameter must lower −2 log p by at least that much (`Significance`, `BIC`).
- By an order of importance, which a price gives (`Terms`, `Discrepancy`, `CrossValidation`).
- The solver's own iterate (`Gap`).

Every rule works on any rows: those of a summary, and the white rows at denoised states.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cindy._arrays import Floats, Ints
from cindy._check import integer, non_negative, numbers, positive, short
from cindy.errors import DataError, NoModelError
from cindy.regression import Refit, Regression, binding
from cindy.selection.candidates import Candidates
from cindy.selection.effort import EFFORT
from cindy.selection.familywise import least_price
from cindy.selection.orders import smallest

__all__ = [
    "BIC",
    "Beyond",
    "CrossValidation",
    "Discrepancy",
    "Gap",
    "Selection",
    "Significance",
    "Terms",
]


class Selection(ABC):
    """A rule that picks a support from the candidates.

    Only the search calls the methods of a rule, so they do not check their arguments.

    refits: whether the coefficients are fitted anew on the support, or stay those of the solver
    by_price: whether the rule is a price; the search then uses that price itself
    repeats: whether a rule without a price picks again at the states that belong to its model

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
            f"{where}: {self!r} keeps no term at all: nothing in the basis explains the data better than "
            'chance. Try another basis, a looser selection, or more data; least="best" gives a model anyway.'
        )

    criterion: ClassVar[str] = "extended information criterion per row"

    def score(self, candidates: Candidates, fit: Refit) -> float:
        """The criterion of a model on the path, the lower the better."""
        regression = candidates.regression
        rows = regression.total.rows * regression.shape[1]
        # The criterion is the same for all rules, so that the models can be compared.
        price = BIC().price(rows, regression.shape[0])
        return float(np.log(max(fit.loss, 1e-300))) + price * fit.free / rows

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
       once: q falls (`familywise.py`).
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


@dataclass(frozen=True)
class Terms(Selection):
    """The k most important coefficients, over all equations together.

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 6, 200)
    >>> swing = cindy.Trajectory(t, np.stack([np.cos(t), -np.sin(t)], axis=1), ("x", "v"))
    >>> cindy.identify(swing, "poly:2", selection=Terms(2), passes=1).size
    2
    """

    k: int

    def __post_init__(self) -> None:
        integer(self.k, "Terms: `k`", least=1)

    def pick(self, candidates: Candidates) -> Ints:
        # The order leads through the support of least criterion: below it terms leave by significance, above
        # it they enter by gain.
        ranking = candidates.ranking(candidates.by_price(self.priced(candidates)), self.k)
        if self.k > len(ranking):
            raise DataError(f"Terms: `k` is {self.k}, but there are only {len(ranking)} coefficients.")
        return np.sort(ranking[: self.k])


@dataclass(frozen=True)
class Gap(Selection):
    """The solver's own iterate once its relative gap is below `tol`; coefficients are not refitted.

    >>> Gap(1e-6)
    Gap(tol=1e-06)
    >>> import cindy
    >>> t = [0.0, 0.5, 1.0, 1.5, 2.0]
    >>> cindy.identify((t, [1.0, 0.61, 0.37, 0.22, 0.14]), "poly:1", selection="gap:1e-3", passes=1).size
    1
    """

    refits: ClassVar[bool] = False
    tol: float = 1e-6

    def __post_init__(self) -> None:
        positive(self.tol, "Gap: `tol`")

    def tolerance(self, asked: float) -> float:
        return self.tol

    def pick(self, candidates: Candidates) -> Ints:
        return np.flatnonzero(candidates.solution)


@dataclass(frozen=True)
class Discrepancy(Selection):
    """The smallest model whose residual is no larger than the noise (Morozov's principle).

    Σ residual² ≤ σ² (m + 2 √(2m)): the mean of χ² with m rows plus two of its standard deviations (Morozov,
    Sov. Math. Dokl. 7, 1966).

    noise: standard deviation of the measurements, one number or one for each state, in physical units; None:
        the residual of the whole dictionary

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 6, 200)
    >>> swing = cindy.Trajectory(t, np.stack([np.cos(t), -np.sin(t)], axis=1), ("x", "v"))
    >>> cindy.identify(swing, "poly:2", selection=Discrepancy(0.01), passes=1).size
    2
    """

    # The states of a smaller model leave larger residuals, so that each repetition would pick fewer terms.
    repeats: ClassVar[bool] = False
    noise: ArrayLike | None = None

    def __post_init__(self) -> None:
        if self.noise is not None and not np.all(numbers(self.noise, "Discrepancy: `noise`") > 0):
            raise DataError(f"Discrepancy: `noise` must be positive, but is {short(self.noise)}.")

    def pick(self, candidates: Candidates) -> Ints:
        regression = candidates.regression
        rows = regression.total.rows
        unit = np.ones(regression.shape[1])
        if self.noise is not None:
            given = np.asarray(self.noise, dtype=float)
            states = len(unit) if candidates.noise is None else len(candidates.noise)
            if given.shape not in ((), (states,)):
                raise DataError(
                    f"Discrepancy: `noise` must be one number or one for each of the {states} states, "
                    f"but has shape {given.shape}."
                )
            unit = candidates.in_units_of_noise(given)
        chosen = []
        for group in candidates.groups:
            supports = candidates.supports(group, self.priced(candidates))
            # χ² with m degrees of freedom has the mean m and the variance 2 m.
            allowed = float(np.sum(unit[group] ** 2)) * (rows + 2.0 * np.sqrt(2.0 * rows))
            if supports.least > allowed:
                raise DataError(
                    "Discrepancy: even the whole dictionary leaves a residual of "
                    f"{np.sqrt(supports.least / allowed):.4g} times the allowed size. "
                    "Enlarge the basis, or give a larger noise."
                )
            enough = smallest(supports, allowed, candidates.starts(group, supports))
            chosen.append(regression.coefficients(group)[enough.support])
        return candidates.with_needed(np.sort(np.concatenate(chosen)))


@dataclass(frozen=True)
class CrossValidation(Selection):
    """The smallest model within one standard error of the best on blocks left out.

    The standard error is that of the differences between models on the same block (Breiman et al.,
    Classification and Regression Trees, 1984, for the rule of one standard error).

    folds: the number of parts of contiguous blocks, each of which is left out once

    >>> import cindy
    >>> runs = cindy.systems.lotka_volterra().simulate(seed=0, noise=0.01, trajectories=4, points=400)
    >>> cindy.identify(runs, "poly:2", selection=CrossValidation(folds=4), passes=1).size
    4
    """

    folds: int = 5

    def __post_init__(self) -> None:
        integer(self.folds, "CrossValidation: `folds`", least=2)

    def pick(self, candidates: Candidates) -> Ints:
        blocks = len(candidates.regression.blocks)
        if blocks < self.folds:
            raise DataError(
                f"CrossValidation: {self.folds} folds need as many blocks of data, but there are {blocks}. "
                "Give more trajectories, a shorter window, or fewer folds."
            )
        price = self.priced(candidates)
        through = candidates.by_price(price)
        most = len(through) + EFFORT.rules_beyond
        ranking = candidates.ranking(through, most)
        losses = _fold_losses(candidates, price, self.folds, min(most, len(ranking)))
        # A size at which some fold cannot meet the constraints is left out.
        sizes = np.flatnonzero(np.isfinite(losses).all(axis=0))
        losses = losses[:, sizes]
        best = int(np.argmin(losses.mean(axis=0)))
        # Paired differences show how surely a smaller model is worse than the best on the same blocks.
        above = losses - losses[:, best : best + 1]
        error = above.std(axis=0, ddof=1) / np.sqrt(len(losses))
        size = int(sizes[np.flatnonzero(above.mean(axis=0) <= error)[0]])
        return np.sort(ranking[:size])


def _fold_losses(candidates: Candidates, price: float, folds: int, most: int) -> Floats:
    """(blocks, sizes): loss per row on each block, of the model of each size fitted without its fold.

    The whole choice is repeated without the fold: an order that has seen the data that judge it would favour
    large models. Each state counts in units of its noise.
    """
    regression = candidates.regression
    blocks = regression.blocks
    losses = np.zeros((len(blocks), most + 1))
    for fold in np.array_split(np.arange(len(blocks)), folds):
        rest = tuple(block for k, block in enumerate(blocks) if k not in set(fold))
        part = replace(candidates, regression=replace(regression, blocks=rest))
        ranking = part.ranking(part.by_price(price), most)
        for size in range(most + 1):
            fit = part.possible(np.sort(ranking[:size])) if size <= len(ranking) else None
            for k in fold:
                residual = np.inf if fit is None else blocks[k].residual(fit.x) / regression.noise
                losses[k, size] = np.sum(residual**2) / max(blocks[k].rows, 1)
    return losses


@dataclass(frozen=True, eq=False)
class Beyond(Selection):
    """The support of another rule, less the terms that together explain no more than an error of the rows.

    A small systematic error does not average out as noise does: with enough rows, terms that mimic it are
    significant. As many terms leave, the weakest first, as together raise χ² by no more than the error may
    have added.

    error: (targets,) root mean square, in the units of the regression
    """

    rule: Selection
    error: Floats

    def pick(self, candidates: Candidates) -> Ints:
        support = self.rule.pick(candidates)
        if not np.any(self.error):
            return support
        regression = binding(candidates.regression, support)
        target, groups = support % regression.shape[1], regression.groups
        parts = [self._reduced(regression, support[np.isin(target, group)], group) for group in groups]
        smaller = np.sort(np.concatenate(parts))
        return smaller if candidates.possible(smaller) is not None else support

    def _reduced(self, regression: Regression, support: Ints, targets: Ints) -> Ints:
        # A systematic error of root mean square e adds up to m e² over m rows.
        share = self.error[targets] / regression.noise[targets]
        fit = regression.fit(support, targets)
        most = fit.loss + regression.total.rows * float(np.sum(share**2))
        while True:
            variance = np.sum(fit.spread**2, axis=1)
            free = variance > 0
            if not free.any():
                return fit.support
            rise = np.full(len(free), np.inf)
            rise[free] = fit.x[free] ** 2 / variance[free]
            smaller = regression.fit(np.delete(fit.support, int(np.argmin(rise))), targets)
            if smaller.loss > most:
                return fit.support
            fit = regression.fit(smaller.support[smaller.x != 0], targets)
