"""Supports: least squares on any support of one triangle, and the moves from one support to another.

Terms are always chosen on white rows [A | b], reduced to a triangle. A support s is a set of columns of A.
Its loss is χ²(s) = min ‖A_s x − b‖², and its criterion, which is to be small, is

    C(s) = χ²(s) + Σ price          where the variance of the noise of the rows is known and 1
    C(s) = m log χ²(s) + Σ price    where it is unknown: m rows, each support judged by its own residual

The price of a parameter is z*² for a rule of significance, log m for an information criterion.

1. Starts (`orders`): the best support of the solver's path, greedy growth, and backward elimination.
2. Moves (`settle`): add the term of largest gain; drop the weakest term; replace several terms by one that
   equals their sum; add a term so that others can be dropped. A move is made if the criterion falls.

Q are the orthonormal directions that a support spans, r is its residual, and s_i the i-th row of a root of
the covariance of its coefficients. Adding a column c lowers χ² by its gain (cᵀ r)² / (|c|² − |Qᵀ c|²).
Dropping the coefficient x_i raises χ² by z_i² = x_i² / |s_i|².
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cindy._arrays import Floats, Ints
from cindy.errors import InfeasibleError
from cindy.least_squares import Rows, connected, lengths as column_lengths, orthogonalised, triangle
from cindy.problem import StandardForm
from cindy.regression import Regression
from cindy.selection.effort import EFFORT


@dataclass(frozen=True, eq=False)
class SupportFit:
    """Least squares on a support: scaled coefficients and their errors for white noise of size 1 in the rows.

    support: (k,) columns; x: (k,) coefficients; loss: χ²
    spread: (k, free) a root of the covariance, spread spreadᵀ
    directions: (rows, free) orthonormal basis of what the support spans; left: (rows,) the residual
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
        """(k,) absolute coefficients in units of their standard errors."""
        error = np.linalg.norm(self.spread, axis=1)
        size = np.abs(self.x)
        return np.where(error > 0, size / np.where(error > 0, error, 1.0), np.where(size > 0, np.inf, 0.0))


@dataclass(frozen=True, eq=False)
class Supports:
    """White rows with one target, constraints on their coefficients, and the price of each parameter.

    design, target: the triangle of so many `rows`; rest: χ² beyond it, which no column can explain
    constraints: over the columns of the design; equalities among them hold in every fit
    price: (columns,) by how much a parameter must lower χ²
    known: whether the variance of the noise is 1; otherwise each support is judged by its own residual
    effect: the design effect, by which the number of rows is divided, where the noise is unknown
    products: of very many columns: AᵀA, Aᵀb, and the number that both are to be divided by
    """

    design: Floats
    target: Floats
    rows: int
    constraints: Rows
    price: Floats
    rest: float = 0.0
    known: bool = True
    effect: float = 1.0
    products: tuple[Floats, Floats, float] | None = None

    @classmethod
    def of_form(cls, form: StandardForm, price: Floats | float) -> Supports:
        """The supports of a convex problem in standard form whose rows are white."""
        objective, size = form.objective, float(form.sizes[1][0])
        return cls(
            objective.design * size,
            objective.target[:, 0] * size,
            objective.rows,
            form.scaled_rows,
            np.broadcast_to(np.asarray(price, dtype=np.float64), (objective.terms,)),
        )

    @classmethod
    def of_regression(cls, regression: Regression, targets: Ints, price: Floats | float) -> Supports:
        """The supports of the targets that equalities connect, each target in units of its own noise.

        Columns are ordered as `regression.coefficients(targets)`: term by term, and target by target.
        """
        terms = regression.shape[0]
        count = len(targets)
        many = count == 1 and terms > EFFORT.orders_eliminated
        block = regression.total.design[:terms]
        design = np.zeros((count * len(block), terms * count))
        goal = np.zeros(count * len(block))
        for k, j in enumerate(targets):
            at = slice(k * len(block), (k + 1) * len(block))
            np.divide(block, regression.noise[j], out=design[at, k::count])
            goal[at] = regression.total.target[:terms, j] / regression.noise[j]
        names = regression.coefficients(targets)
        inside = csr_array(regression.rows.matrix[:, names])
        used = np.diff(inside.indptr) > 0
        rows = regression.rows
        constraints = Rows(csr_array(inside[used]), rows.lower[used], rows.upper[used], rows.owner[used])
        return cls(
            design,
            goal,
            regression.total.rows * count,
            constraints,
            np.broadcast_to(np.asarray(price, dtype=np.float64), (terms * count,)),
            regression.unexplained(targets),
            known=False,
            products=regression.products(int(targets[0])) if many else None,
        )

    @property
    def size(self) -> int:
        return int(self.design.shape[1])

    @cached_property
    def group(self) -> Ints:
        """(coefficients,) a number that coefficients share if equalities connect them."""
        equal = self.constraints.equalities
        return connected(equal.matrix)[1] if len(equal) else np.arange(self.size)

    @cached_property
    def required(self) -> Ints:
        """Coefficients without which a constraint cannot be met: they are in every support."""
        rows = self.constraints
        missed = (rows.lower > 0) | (rows.upper < 0)
        if not missed.any():
            return np.zeros(0, dtype=np.intp)
        touched = np.unique(csr_array(rows.matrix[missed]).indices)
        return np.flatnonzero(np.isin(self.group, self.group[touched]))

    @cached_property
    def _has_equalities(self) -> bool:
        return bool(self.constraints.equality.any())

    @cached_property
    def coupled(self) -> bool:
        """Whether equalities tie coefficients to each other."""
        return bool((np.diff(self.constraints.equalities.matrix.indptr) > 1).any())

    @cached_property
    def pinned(self) -> Ints:
        """Coefficients whose value an equality fixes."""
        matrix = self.constraints.equalities.matrix
        return np.unique(csr_array(matrix[np.diff(matrix.indptr) == 1]).indices)

    @cached_property
    def lengths(self) -> Floats:
        """(coefficients,) lengths of the columns."""
        return np.asarray(np.linalg.norm(self.design, axis=0))

    def fit(self, support: Iterable[int]) -> SupportFit:
        """Least squares under the equalities; raises InfeasibleError where they cannot be met."""
        chosen = np.asarray(support if isinstance(support, np.ndarray) else list(support), np.intp)
        if not (chosen[1:] > chosen[:-1]).all():
            chosen = np.unique(chosen)
        if len(self.required):
            # A constraint such as ξ ≥ 1 excludes zero; its coefficients are in every support.
            chosen = np.union1d(chosen, self.required)
        goal, columns = self.target, self.design[:, chosen]
        equal = self.constraints.equalities if self._has_equalities else None
        free = equal.freedom(chosen, also=equal.goal != 0) if equal is not None else None
        if free is not None:
            # Equalities by their null space: ξ = basis θ + offset, and θ is free.
            goal = goal - columns @ free.offset
            basis = free.basis.toarray()
            columns = columns @ basis
        size = column_lengths(columns)
        # Unit columns, so that a small pivot means dependence and not a small term.
        directions, r = orthogonalised(columns / size)
        if np.abs(np.diagonal(r)).min(initial=1.0) > 1e-11:
            inverse = scipy.linalg.lapack.dtrtri(r)[0] if len(r) else r
        else:
            # The directions of dependent columns consist of rounding errors and must not explain anything.
            u, s, vt = np.linalg.svd(r)
            real = s > 1e-12 * s[0]
            directions, inverse = directions @ u[:, real], vt[real].T / s[real]
        weights = directions.T @ goal
        spread = inverse / size[:, None]
        x = spread @ weights
        left = goal - directions @ weights
        if free is not None:
            x, spread = basis @ x + free.offset, basis @ spread
        return SupportFit(chosen, x, spread, float(left @ left) + self.rest, directions, left)

    def possible(self, support: Iterable[int]) -> SupportFit | None:
        """The fit, or None where constraints cannot be met."""
        try:
            return self.fit(support)
        except InfeasibleError:
            return None

    def cost(self, support: Ints, free: int) -> float:
        """The price of a support; where equalities tie coefficients, only free ones are paid for."""
        return float(self.price[support].sum()) * free / len(support) if len(support) else 0.0

    def value(self, loss: float, cost: float) -> float:
        """The criterion of a loss and a cost."""
        if self.known:
            return loss + cost
        return self.rows / self.effect * float(np.log(max(loss, 1e-300))) + cost

    def criterion(self, fit: SupportFit) -> float:
        """χ² and the price of the parameters."""
        return self.value(fit.loss, self.cost(fit.support, fit.free))

    def best(self, supports: Sequence[Ints], *, most: int = 200) -> SupportFit | None:
        """The fit of least criterion among supports of at most so many terms."""
        cheapest = float(self.price.min(initial=np.inf))
        fewer = int(self.constraints.equality.sum())
        offered = [np.unique(support) for support in sorted(supports, key=len) if len(support) <= most]
        quickly, values, least = self._quick_criterion(offered), list[float](), np.inf
        for support in offered:
            # By size: once even a perfect fit would cost more than the best so far, no larger one can win.
            if self.value(self.least, cheapest * max(len(support) - fewer, 0)) > least:
                break
            values.append(quickly(support))
            least = min(least, values[-1])
        near = least + 1e-6 * (self.rows + abs(least))  # what eight digits cannot tell from the best
        fits = [self.possible(support) for support, c in zip(offered, values, strict=False) if c <= near]
        return min((fit for fit in fits if fit is not None), key=self.criterion, default=None)

    def _quick_criterion(self, supports: Sequence[Ints]) -> Callable[[Ints], float]:
        """The criterion of each of these supports to eight digits, by Cholesky's method: ten times as fast.

        Where columns are nearly dependent, or under constraints, by a fit; infinite where none is possible.
        """
        names = np.unique(np.concatenate([*supports, self.required]))
        columns = np.column_stack([self.design[:, names], self.target])
        size = column_lengths(columns)
        gram = (columns / size).T @ (columns / size)
        plain = not (self._has_equalities or len(self.required))

        def criterion(support: Ints) -> float:
            at = np.append(names.searchsorted(support), len(names))
            r, info = scipy.linalg.lapack.dpotrf(gram[np.ix_(at, at)], lower=0, clean=0)
            pivots = np.diagonal(r)  # what is left of a unit column beyond those before; last the target's
            if plain and not info and pivots.min() > 1e-4:
                loss = float(pivots[-1] * size[-1]) ** 2 + self.rest
                return self.value(loss, self.cost(support, len(support)))
            fit = self.possible(support)
            return np.inf if fit is None else self.criterion(fit)

        return criterion

    @cached_property
    def least(self) -> float:
        """χ² of all coefficients together: no support has less."""
        if self._independent:
            return self.rest
        directions = np.linalg.qr(self.design)[0]
        left = self.target - directions @ (directions.T @ self.target)
        return float(left @ left) + self.rest

    @property
    def _independent(self) -> bool:
        """Whether the design is a triangle without a small pivot, so that all columns fit the target."""
        if self.design.shape[0] != self.size or np.tril(self.design, -1).any():
            return False
        return bool((np.abs(np.diagonal(self.design)) > 1e-9 * self.lengths).all())

    def settle(self, fit: SupportFit, *, most: int = 300) -> SupportFit:
        """Add, drop, merge and exchange while the criterion falls.

        Where the noise is not known the price follows the residual: a term must be worth `price` times the
        mean square that the support leaves.
        """
        if not self.known:
            return self._settled_by_own_variance(fit, most)
        seen = {fit.support.tobytes()}
        for _ in range(most):
            new = self._moved(fit)
            if new is None or new.support.tobytes() in seen:
                break
            fit = new
            seen.add(fit.support.tobytes())
        return fit

    def _moved(self, fit: SupportFit) -> SupportFit | None:
        """The first move that lowers the criterion, the cheapest to try first; None where there is none."""
        return self._added(fit) or self.without_weakest(fit) or self._merged(fit) or self._exchanged(fit)

    def _settled_by_own_variance(self, fit: SupportFit, most: int) -> SupportFit:
        """The same moves with the variance that each support leaves."""
        for _ in range(most):
            # m log χ² falls by m Δχ²/χ² for a small change: χ² must fall by the price times the mean square.
            scale = self.effect * fit.loss / max(self.rows - fit.free, 1)
            new = self._at(scale)._moved(fit)
            if new is None or self.criterion(new) >= self.criterion(fit):
                return fit
            fit = new
        return fit

    def _at(self, scale: float) -> Supports:
        """The same rows with noise of a known variance."""
        scaled = replace(self, known=True, price=self.price * scale)
        # What depends on the columns alone need not be computed again.
        for name in ("lengths", "group", "required", "coupled", "pinned", "_dependent", "_has_equalities"):
            scaled.__dict__[name] = getattr(self, name)
        return scaled

    def in_units_of(self, variance: float) -> Supports:
        """The same rows divided by the standard deviation of their noise, given its variance."""
        size = float(np.sqrt(max(variance, 1e-300)))
        return replace(
            self,
            design=self.design / size,
            target=self.target / size,
            rest=self.rest / size**2,
            known=True,
            products=self.products and (*self.products[:2], self.products[2] * size**2),
        )

    def only(self, columns: Ints) -> Supports:
        """The same rows for some of the columns; all other coefficients are zero."""
        table = triangle(np.column_stack([self.design[:, columns], self.target]))
        rows = self.constraints
        return replace(
            self,
            design=table[:, :-1],
            target=table[:, -1],
            constraints=Rows(csr_array(rows.matrix[:, columns]), rows.lower, rows.upper, rows.owner),
            price=self.price[columns],
            products=None,
        )

    def products_at(self, fit: SupportFit) -> tuple[Floats, Floats]:
        """Products of all columns with the directions of a support, (free, coefficients), and its residual.

        From `products` where these are known, unless nearly dependent columns, or a residual far smaller
        than the target, would magnify rounding errors.
        """
        apart = (np.abs(fit.spread) * self.lengths[fit.support, None]).max(initial=0.0) < 1e3
        if self.products is None or not apart or fit.left @ fit.left < 1e-8 * (self.target @ self.target):
            return fit.directions.T @ self.design, fit.left @ self.design
        columns, target, unit = self.products
        mine = columns[fit.support] / unit
        return fit.spread.T @ mine, target / unit - fit.x @ mine

    def gains(self, fit: SupportFit) -> Floats:
        """(coefficients,) by how much χ² falls when each term alone is added; 0 inside, or where pinned."""
        # The residual is orthogonal to the directions, so that only the length of a column is projected.
        inside, pull = self.products_at(fit)
        return self.gains_by(fit.support, self.lengths**2 - np.einsum("ij,ij->j", inside, inside), pull)

    def gains_by(self, support: Ints, beyond: Floats, pull: Floats) -> Floats:
        """(coefficients,) gains, from squared lengths beyond the support and products with the residual."""
        # Beyond the support a dependent column consists of rounding errors; its gain would mean nothing.
        gain = np.zeros(self.size)
        np.divide(pull**2, beyond, out=gain, where=beyond > self._dependent)
        gain[support] = 0.0
        if len(self.pinned):
            gain[self.pinned] = 0.0
        return gain

    @cached_property
    def _dependent(self) -> Floats:
        """(coefficients,) squared length beyond a support below which a column depends on it."""
        return np.asarray((EFFORT.supports_dependent * np.where(self.lengths > 0, self.lengths, np.inf)) ** 2)

    def connected_to(self, place: int) -> Ints:
        """A coefficient and those that equalities connect to it."""
        return np.flatnonzero(self.group == self.group[place])

    def _worth(self, new: SupportFit, old: SupportFit) -> bool:
        """Whether a larger support is worth its price."""
        more = self.cost(new.support, new.free) - self.cost(old.support, old.free)
        return old.loss - new.loss > max(more, float(self.price.min()))

    def _added(self, fit: SupportFit) -> SupportFit | None:
        """With the term of largest gain, if that pays."""
        gain = self.gains(fit) - self.price
        for place in np.argsort(-gain)[:20]:
            if gain[place] <= 0.0:
                return None
            new = self.possible(np.union1d(fit.support, self.connected_to(int(place))))
            if new is not None and self._worth(new, fit):
                return new
        return None

    def without_weakest(self, fit: SupportFit, keep: int = -1) -> SupportFit | None:
        """Without the least significant term, if that pays; the column `keep` stays in any case."""
        z = np.where(np.isin(fit.support, self.required) | (fit.support == keep), np.inf, fit.z)
        # Without equalities z² is exactly what χ² rises by when a term goes.
        short = z**2 - self.price[fit.support]
        for place in np.argsort(short)[:20]:
            if short[place] >= 0.0:
                return None
            new = self.possible(np.delete(fit.support, place))
            if new is None:
                continue
            # Coefficients that equalities tied to it are zero now and leave with it.
            stays = (new.x != 0) | np.isin(new.support, self.required)
            new = new if stays.all() else self.fit(new.support[stays])
            if len(new.support) < len(fit.support) and not self._worth(fit, new):
                return new
        return None

    def _exchanged(self, fit: SupportFit) -> SupportFit | None:
        """With a term that allows others to be dropped.

        Under equalities a fit costs a hundred times as much, and few candidates are tried.
        """
        if self.coupled and self.size > EFFORT.supports_exchanged:
            return None
        gain = self.gains(fit)
        order = np.argsort(self.price - gain)
        if self.coupled:
            # One coefficient stands for all that equalities connect to it.
            order = order[np.sort(np.unique(self.group[order], return_index=True)[1])]
        tried = order[: EFFORT.supports_tried // (3 if self.coupled else 1)]
        for place in tried[(gain[tried] > 0.0) & self._makes_room(fit, tried)]:
            new = less = self.possible(np.union1d(fit.support, self.connected_to(int(place))))
            # The new term may make several others superfluous: all go before the criterion is compared.
            while less is not None:
                new, less = less, self.without_weakest(less, int(place))
            if new is not None and self.criterion(new) < self.criterion(fit):
                return new
        return None

    def _makes_room(self, fit: SupportFit, places: Ints) -> NDArray[np.bool_]:
        """(places,) whether beside each of these columns a term of the support is not worth its price.

        Let a be the coefficients of a column c by least squares on the support, b = |c|² − |Qᵀ c|². Beside
        c, which gets y = cᵀ r / b, x_i becomes x_i − a_i y, and its variance is larger by a_i² / b.
        """
        if self.coupled or len(self.required):
            return np.ones(len(places), dtype=bool)
        columns = self.design[:, places]
        inside = fit.directions.T @ columns
        beyond = self.lengths[places] ** 2 - np.einsum("ij,ij->j", inside, inside)
        own = beyond > self._dependent[places]
        beyond = np.where(own, beyond, 1.0)
        share = fit.spread @ inside
        x = fit.x[:, None] - share * (fit.left @ columns / beyond)
        variance = np.sum(fit.spread**2, axis=1)[:, None] + share**2 / beyond
        # A little more than the price, because of rounding errors: a fit decides.
        return np.asarray(own & (x**2 < 1.0001 * self.price[fit.support][:, None] * variance).any(axis=0))

    def _merged(self, fit: SupportFit) -> SupportFit | None:
        """With one term instead of several that add up to it: 1 for sin² and cos².

        Let a column outside be Σ a_i c_i over columns c_i inside, which have the coefficients x_i. With the
        coefficient y for it the others become x_i − a_i y: all with x_i / a_i = y are superfluous.
        """
        products, _ = self.products_at(fit)
        # Differences of squares have few digits: they only say which columns to look at.
        small = self.lengths**2 - np.einsum("ij,ij->j", products, products) <= 1e-6 * self.lengths**2
        small[fit.support] = False
        near = np.flatnonzero(small & (self.lengths > 0))
        columns = self.design[:, near]
        beyond = np.linalg.norm(columns - fit.directions @ (fit.directions.T @ columns), axis=0)
        error = np.linalg.norm(fit.spread, axis=1)
        for place in near[beyond <= EFFORT.supports_dependent * self.lengths[near]]:
            share = fit.spread @ (fit.directions.T @ self.design[:, place])
            # The combination of terms inside that equals the column outside: sin² + cos² for 1.
            used = np.flatnonzero(np.abs(share) > 1e-6 * np.abs(share).max(initial=0.0))
            left = np.abs(fit.x[used] - (fit.x[used] / share[used])[:, None] * share[used])
            superfluous = left <= 3.0 * error[used] + 1e-9 * np.abs(fit.x[used])
            # Terms with the same ratio x_i / a_i give the same set: each set is tried once.
            for chosen in {terms.tobytes(): terms for terms in superfluous if terms.sum() > 1}.values():
                # Under equalities a term leaves, or enters, in all equations that these connect.
                stays = ~np.isin(self.group[fit.support], self.group[fit.support[used[chosen]]])
                new = self.possible(np.union1d(fit.support[stays], self.connected_to(int(place))))
                if new is not None and self.criterion(new) < self.criterion(fit):
                    return new
        return None
