"""Rules that pick one model from the candidates, beside those that pick by a price (`prices.py`).

- By an order of importance, which a price gives (`Terms`, `Discrepancy`, `CrossValidation`).
- The solver's own iterate (`Gap`).
- Another rule, whose terms must also explain more than an error of the rows (`Beyond`).

Every rule works on any rows: those of a summary, and the white rows at denoised states.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cindy._arrays import Floats, Ints
from cindy._check import integer, numbers, positive, short
from cindy.errors import DataError
from cindy.regression import Regression, binding
from cindy.selection.candidates import Candidates
from cindy.selection.effort import EFFORT
from cindy.selection.orders import smallest
from cindy.selection.prices import Selection


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
    nothing: ClassVar[str] = "at a relative gap of {0.tol:g} the solver has no term"
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
    nothing: ClassVar[str] = "without any term the residual is no larger than the noise"
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

    nothing: ClassVar[str] = "no term predicts the parts left out better by more than a standard error"
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

    nothing: ClassVar[str] = "no term explains more than the error of the rows"
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
