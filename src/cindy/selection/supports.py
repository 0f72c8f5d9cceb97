"""Supports: least squares of white rows on any support, and the terms that it asks for or can spare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cindy._types import Floats
from cindy.errors import InfeasibleError
from cindy.least_squares import lengths
from cindy.problem import StandardForm
from cindy.rows import Equalities, connected
from cindy.solver import Step

__all__ = ["SupportFit", "Supports"]

Ints = NDArray[np.intp]

_DEPENDENT = 1e-5
"""What is left of a unit column, beyond the terms of a support, below which it says nothing new. With
1e-3 terms are the same (benchmark: constants)."""
_TRIED = 30
"""Terms, those that explain most of what is left, that are tried for the sake of others: a bound on work.
With 3 terms are the same (benchmark: constants)."""


@dataclass(frozen=True, eq=False)
class SupportFit:
    """Scaled coefficients on a support with their errors, for white noise of size 1 in the rows.

    support: (k,); x: (k,); spread: (k, free), times its transpose the covariance; loss: χ²
    directions: (rows, free) orthonormal, what the support spans; left: (rows,) the residual
    """

    support: Ints
    x: Floats
    spread: Floats
    loss: float
    directions: Floats
    left: Floats

    @property
    def free(self) -> int:
        return int(self.spread.shape[1])

    @property
    def z(self) -> Floats:
        """(k,) coefficients in units of their errors."""
        error = np.linalg.norm(self.spread, axis=1)
        size = np.abs(self.x)
        return np.where(error > 0, size / np.where(error > 0, error, 1.0), np.where(size > 0, np.inf, 0.0))


@dataclass(frozen=True, eq=False)
class Supports:
    """The white rows of a problem in standard form with one target, under its equalities.

    price: what a parameter must lower χ² by; z*² for significance
    """

    form: StandardForm
    price: float

    @cached_property
    def _rows(self) -> tuple[Floats, Floats]:
        """Design and target in units of the noise, which is 1 before scaling."""
        objective, size = self.form.objective, float(self.form.sizes[1][0])
        return objective.design * size, objective.target[:, 0] * size

    @cached_property
    def _equal(self) -> Equalities:
        return self.form.scaled_rows.equalities

    @cached_property
    def group(self) -> Ints:
        """(coefficients,): those that equalities connect share a number, and enter together."""
        return connected(self._equal.matrix)[1] if len(self._equal) else np.arange(self.form.region.size)

    @cached_property
    def required(self) -> Ints:
        """Coefficients without which a constraint cannot be met: never left out."""
        rows = self.form.scaled_rows
        missed = (rows.lower > 0) | (rows.upper < 0)
        if not missed.any():
            return np.zeros(0, dtype=np.intp)
        touched = np.unique(csr_array(rows.matrix[missed]).indices)
        return np.flatnonzero(np.isin(self.group, self.group[touched]))

    @property
    def coupled(self) -> bool:
        """Whether equalities tie coefficients to each other."""
        return len(self._equal) > 0

    def fit(self, support: Iterable[int]) -> SupportFit:
        """Least squares under the equalities; raises InfeasibleError where they cannot be met."""
        chosen = np.union1d(np.asarray(list(support), dtype=np.intp), self.required)
        design, goal = self._rows
        columns = design[:, chosen]
        equal = self._equal
        free = equal.freedom(chosen, also=equal.goal != 0) if len(equal) else None
        if free is not None:
            goal = goal - columns @ free.offset
            basis = free.basis.toarray()
            columns = columns @ basis
        size = lengths(columns)
        directions, r = np.linalg.qr(columns / size)
        weights = directions.T @ goal
        if np.abs(np.diagonal(r)).min(initial=1.0) > 1e-11:
            inverse = scipy.linalg.solve_triangular(r, np.eye(len(r)), check_finite=False)
        else:
            inverse = np.linalg.pinv(r, rcond=1e-12)
        spread = inverse / size[:, None]
        x = spread @ weights
        left = goal - directions @ weights
        if free is not None:
            x, spread = basis @ x + free.offset, basis @ spread
        return SupportFit(chosen, x, spread, float(left @ left), directions, left)

    def possible(self, support: Iterable[int]) -> SupportFit | None:
        """The fit, or None where constraints cannot be met."""
        try:
            return self.fit(support)
        except InfeasibleError:
            return None

    def criterion(self, fit: SupportFit) -> float:
        """χ² and the price of the parameters."""
        return fit.loss + self.price * fit.free

    def best(
        self, supports: Sequence[Ints], *, own_variance: float | None = None, most: int = 200
    ) -> SupportFit | None:
        """The fit of least criterion among supports.

        own_variance: the price of a parameter where each is judged by its own residual
        """
        found: tuple[float, SupportFit] | None = None
        rows = self.form.objective.rows

        def value(loss: float, free: int) -> float:
            if own_variance is None:
                return loss + self.price * free
            return rows * float(np.log(max(loss, 1e-300))) + own_variance * free

        for support in sorted(supports, key=len):
            if found is not None and value(self.least, len(support) - len(self._equal)) > found[0]:
                break
            fit = self.possible(support) if len(support) <= most else None
            if fit is not None and (found is None or value(fit.loss, fit.free) < found[0]):
                found = value(fit.loss, fit.free), fit
        return None if found is None else found[1]

    @cached_property
    def least(self) -> float:
        """χ² of all coefficients together: no support has less."""
        design, goal = self._rows
        directions = np.linalg.qr(design)[0]
        left = goal - directions @ (directions.T @ goal)
        return float(left @ left)

    def can_gain(self) -> Callable[[Step], bool]:
        """For a run of the solver: whether larger supports may still have a smaller criterion than those met.

        An iterate has at least the χ² of its support, and no support less than all coefficients together.
        """
        unit = float(self.form.sizes[1][0]) ** 2
        met = np.inf

        def goes_on(step: Step) -> bool:
            nonlocal met
            met = min(met, unit * step.objective + self.price * step.atoms)
            return self.least + self.price * step.atoms <= met

        return goes_on

    def settle(self, fit: SupportFit, *, scale: float = 1.0, most: int = 300) -> SupportFit:
        """Add while an excluded term's |z| exceeds √price, drop while an included one's is below.

        scale: variance of the rows, where it is not 1
        """
        if scale != 1.0:
            return replace(self, price=self.price * scale).settle(fit, most=most)
        seen = {fit.support.tobytes()}
        for _ in range(most):
            new = self._added(fit) or self.without_weakest(fit) or self._merged(fit) or self._exchanged(fit)
            if new is None or new.support.tobytes() in seen:
                return fit
            fit = new
            seen.add(fit.support.tobytes())
        return fit

    def gains(self, fit: SupportFit) -> Floats:
        """(coefficients,) by how much χ² falls when each term alone is added; 0 for those inside."""
        design = self._rows[0]
        beyond = design - fit.directions @ (fit.directions.T @ design)
        size = np.linalg.norm(beyond, axis=0)
        whole = np.linalg.norm(design, axis=0)
        new = size > _DEPENDENT * np.where(whole > 0, whole, np.inf)
        gain = np.where(new, (beyond.T @ fit.left / np.where(new, size, 1.0)) ** 2, 0.0)
        gain[fit.support] = 0.0
        return np.asarray(gain)

    def replaceable(self, fit: SupportFit, within: float) -> Ints:
        """Places in a support whose term may go, or make way for another, at a rise of χ² below `within`.

        A term that goes leaves z_i along its own direction u_i, and a column c outside then explains
        (cᵀ left + cᵀ u_i z_i)² / (what is left of |c|² + (cᵀ u_i)²) of it. All places under equalities.
        """
        if self.coupled:
            return np.arange(len(fit.support))
        design = self._rows[0]
        error = np.linalg.norm(fit.spread, axis=1)
        known = error > 0
        z = np.divide(fit.x, error, out=np.full(len(error), np.inf), where=known)
        own = fit.directions @ (fit.spread / np.where(known, error, 1.0)[:, None]).T
        outside = np.setdiff1d(np.arange(design.shape[1]), fit.support)
        columns = design[:, outside]
        along = columns.T @ own
        beyond = np.sum(columns**2, axis=0) - np.sum((fit.directions.T @ columns) ** 2, axis=0)
        whole = np.maximum(beyond, 0.0)[:, None] + along**2
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.where(whole > 0, ((columns.T @ fit.left)[:, None] + along * z) ** 2 / whole, 0.0)
        rise = z**2 - np.maximum(np.nan_to_num(gain).max(axis=0, initial=0.0), self.price)
        return np.flatnonzero(~(rise > within))

    def _added(self, fit: SupportFit) -> SupportFit | None:
        gain = self.gains(fit)
        for place in np.argsort(-gain)[:20]:
            if gain[place] <= self.price:
                return None
            together = np.flatnonzero(self.group == self.group[place])
            new = self.possible(np.union1d(fit.support, together))
            if new is not None and fit.loss - new.loss > self.price * max(new.free - fit.free, 1):
                return new
        return None

    def without_weakest(self, fit: SupportFit, keep: int = -1) -> SupportFit | None:
        """Without the least significant term, if that pays; one may be kept whatever its significance."""
        z = np.where(np.isin(fit.support, self.required) | (fit.support == keep), np.inf, fit.z)
        for place in np.argsort(z)[:20]:
            if z[place] ** 2 >= self.price:
                return None
            new = self.possible(np.delete(fit.support, place))
            if new is None:
                continue
            # What was tied to it has gone with it.
            kept = new.support[(new.x != 0) | np.isin(new.support, self.required)]
            new = new if len(kept) == len(new.support) else self.fit(kept)
            if new.loss - fit.loss < self.price * max(fit.free - new.free, 1):
                return new
        return None

    def _exchanged(self, fit: SupportFit) -> SupportFit | None:
        """A term added for the sake of those that can go when it is there; not under equalities.

        Those connect terms, and every fit under them costs a hundred times as much.
        """
        if self.coupled:
            return None
        gain = self.gains(fit)
        for place in np.argsort(-gain)[:_TRIED]:
            if gain[place] <= 0.0:
                return None
            new = self.possible(np.union1d(fit.support, np.flatnonzero(self.group == self.group[place])))
            less = new
            while less is not None:
                new, less = less, self.without_weakest(less, int(place))
            if new is not None and self.criterion(new) < self.criterion(fit):
                return new
        return None

    def _merged(self, fit: SupportFit) -> SupportFit | None:
        """One term in the place of several that add up to it: 1 for sin² and cos².

        A column a outside the support that is Σ a_i c_i over the columns c_i inside may take c times its
        share from each of them; where c is x_i / a_i for several i, these are not needed any more.
        """
        design = self._rows[0]
        beyond = design - fit.directions @ (fit.directions.T @ design)
        whole = np.linalg.norm(design, axis=0)
        inside = (np.linalg.norm(beyond, axis=0) <= _DEPENDENT * whole) & (whole > 0)
        inside[fit.support] = False
        error = np.linalg.norm(fit.spread, axis=1)
        for place in np.flatnonzero(inside):
            share = fit.spread @ (fit.directions.T @ design[:, place])
            used = np.flatnonzero(np.abs(share) > 1e-6 * np.abs(share).max(initial=0.0))
            for i in used:
                left = np.abs(fit.x - fit.x[i] / share[i] * share)
                gone = used[left[used] <= 3.0 * error[used] + 1e-9 * np.abs(fit.x[used])]
                if len(gone) < 2:
                    continue
                new = self.possible(np.union1d(np.delete(fit.support, gone), [place]))
                if new is not None and self.criterion(new) < self.criterion(fit):
                    return new
        return None
