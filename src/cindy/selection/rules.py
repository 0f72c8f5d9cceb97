"""How one model is picked: rules over the candidates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cindy._check import integer, positive
from cindy._types import Ints
from cindy.errors import DataError, NoModelError
from cindy.regression import Refit
from cindy.selection.candidates import Candidates
from cindy.selection.crossvalidation import fold_losses
from cindy.selection.search import criterion_of

__all__ = [
    "BIC",
    "CrossValidation",
    "Discrepancy",
    "Gap",
    "Selection",
    "Significance",
    "Terms",
]


_FEW_BLOCKS = 10
"""With fewer blocks their scatter says little, and the rows stand for themselves. At 2, one of 32 data sets
of `python -m benchmarks constants` loses its terms."""


class Selection(ABC):
    """A rule that picks a support out of the candidates.

    refits: whether the coefficients are fitted anew on the support, or kept as the solver left them
    """

    refits: ClassVar[bool] = True

    @abstractmethod
    def pick(self, candidates: Candidates) -> Ints:
        """Flat indices of the coefficients to keep."""

    def tolerance(self, asked: float) -> float:
        """Of the solver's relative gap: what was asked for, unless the rule is about the gap itself."""
        return asked

    def price(self, rows: int, candidates: int) -> float | None:
        """What a parameter must lower −2 log p by at fitted states; None: this rule knows one pass only."""
        return None

    def nothing_kept(self, where: str) -> NoModelError:
        """What to raise where no term is left."""
        return NoModelError(
            f"{where}: {self!r} keeps no term at all: nothing in the basis explains the data better than "
            "chance. Try another basis, a looser selection, or more data."
        )

    criterion: ClassVar[str] = "extended information criterion per row"

    def score(self, candidates: Candidates, fit: Refit) -> float:
        """What the path shows for a model, the lower the better: `criterion`."""
        regression = candidates.regression
        every = np.arange(regression.shape[1])
        value = criterion_of(regression, every)(fit.loss, fit.free)
        return value / (regression.total.rows * len(every))


@dataclass(frozen=True)
class Significance(Selection):
    """Every term that stays is significant at `level`, Bonferroni's correction over all candidates.

    Elimination and local search find the support of least extended information criterion,
    in which rows count as the blocks say; then terms leave, the weakest first, until the
    least |t| exceeds Student's quantile with (blocks − 1) degrees of freedom (Cameron and
    Miller, J. Hum. Resour. 50, 2015, for errors clustered by few blocks):

        |ξ_i| / error_i > t_{G−1}(1 − level / 2N),   G blocks, N candidates over all equations
    """

    level: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < positive(self.level, "Significance: `level`") < 1:
            raise DataError(f"Significance: `level` must lie between 0 and 1, but is {self.level!r}.")

    def pick(self, candidates: Candidates) -> Ints:
        support = candidates.by_criterion()
        least = self.quantile(candidates)
        needed: set[int] = set()
        while len(support):
            fit = candidates.refit(support)
            x, error = fit.x.ravel()[support], fit.error.ravel()[support]
            t = np.where(error > 0, np.abs(x) / np.where(error > 0, error, 1.0), np.inf)
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
                # What was tied to it has gone with it.
                support = smaller[rest.x.ravel()[smaller] != 0]
        return support

    def price(self, rows: int, candidates: int) -> float:
        """The square of the |z| that a term must exceed."""
        from scipy.special import stdtrit

        return float(stdtrit(max(rows, 2), 1.0 - self.level / (2 * candidates)) ** 2)

    def quantile(self, candidates: Candidates) -> float:
        """The |t| that a term must exceed."""
        from scipy.special import stdtrit  # a quarter of the time of `import cindy`

        regression = candidates.regression
        blocks, rows = len(regression.blocks), regression.total.rows
        freedom = blocks - 1 if blocks >= _FEW_BLOCKS else max(rows - regression.independent, 1)
        return float(stdtrit(freedom, 1.0 - self.level / (2 * np.prod(regression.shape))))


@dataclass(frozen=True)
class BIC(Selection):
    """Least information criterion, m log(loss / m) + k log m, and 2 k log n more if `extended`.

    m rows, k parameters, n candidates an equation. Schwarz, Ann. Stat. 6 (1978); the
    extension is that of Chen and Chen, Biometrika 95 (2008): log C(n, k) ≤ k log n models
    of that size were there to choose from.
    """

    extended: bool = True

    def pick(self, candidates: Candidates) -> Ints:
        return candidates.by_criterion(extended=self.extended, clustered=False)

    def price(self, rows: int, candidates: int) -> float:
        return float(np.log(rows) + (2.0 * np.log(candidates) if self.extended else 0.0))


@dataclass(frozen=True)
class Terms(Selection):
    """The k most important coefficients, over all equations together."""

    k: int

    def __post_init__(self) -> None:
        integer(self.k, "Terms: `k`", least=1)

    def pick(self, candidates: Candidates) -> Ints:
        ranking = candidates.ranking(candidates.by_criterion())
        if self.k > len(ranking):
            raise DataError(f"Terms: `k` is {self.k}, but there are only {len(ranking)} coefficients.")
        return np.sort(ranking[: self.k])


@dataclass(frozen=True)
class Gap(Selection):
    """The solver's own iterate, when its relative gap falls below `tol`: nothing is refitted."""

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

    Σ residual² ≤ σ² (m + 2 √(2m)): the mean of χ² with m rows and two of its standard
    deviations. Morozov, Sov. Math. Dokl. 7 (1966).

    noise: standard deviation of the measurements, one number or one a state, in physical
        units; None: what the whole dictionary cannot explain
    """

    noise: ArrayLike | None = None

    def __post_init__(self) -> None:
        if self.noise is not None and not np.all(np.asarray(self.noise, dtype=float) > 0):
            raise DataError(f"Discrepancy: `noise` must be positive, but is {self.noise!r}.")

    def pick(self, candidates: Candidates) -> Ints:
        regression = candidates.regression
        rows = regression.total.rows
        unit = np.ones(regression.shape[1])
        if self.noise is not None:
            given = np.asarray(self.noise, dtype=float)
            if given.shape not in ((), unit.shape):
                raise DataError(
                    f"Discrepancy: `noise` must be one number or one for each of the {len(unit)} states, "
                    f"but has shape {given.shape}."
                )
            unit = given / (candidates.size * regression.noise)
        found = []
        for trail in candidates.trails:
            allowed = float(np.sum(unit[trail.targets] ** 2)) * (rows + 2.0 * np.sqrt(2.0 * rows))
            enough = [s for s in trail.stages if s.loss <= allowed]
            if not enough:
                raise DataError(
                    "Discrepancy: even the whole dictionary leaves a residual of "
                    f"{np.sqrt(trail.stages[0].loss / allowed):.4g} times the given noise. "
                    "Enlarge the basis, or give a larger noise."
                )
            found.append(enough[-1].support)
        return candidates.with_needed(np.sort(np.concatenate(found)))


@dataclass(frozen=True)
class CrossValidation(Selection):
    """The smallest model within one standard error of the best on blocks left out.

    The error is that of the paired differences, model by model on the same block (Breiman
    et al., Classification and Regression Trees, 1984, for the rule of one standard error).

    folds: how many times a share of the blocks, contiguous, is left out
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
        ranking = candidates.ranking(candidates.by_criterion())
        losses = fold_losses(candidates, self.folds, most=len(ranking))
        # Sizes at which a fold cannot meet the constraints are none to choose from.
        sizes = np.flatnonzero(np.isfinite(losses).all(axis=0))
        losses = losses[:, sizes]
        best = int(np.argmin(losses.mean(axis=0)))
        # Paired: what matters is how surely a smaller model is worse than the best on the same blocks.
        above = losses - losses[:, best : best + 1]
        error = above.std(axis=0, ddof=1) / np.sqrt(len(losses))
        size = int(sizes[np.flatnonzero(above.mean(axis=0) <= error)[0]])
        return np.sort(ranking[:size])
