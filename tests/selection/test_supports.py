"""Least squares on supports and the moves between them, against all 4,096 supports of twelve terms."""

from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest
import scipy.linalg
from scipy.sparse import csr_array

from cindy.least_squares import Rows
from cindy.selection.orders import Growth, eliminated, rivals
from cindy.selection.supports import Supports

TERMS, ROWS, PRICE = 12, 40, 9.0
FAMILIES = ["apart", "correlated", "repeated", "tied", "valued", "conserved"]
FREE = ["apart", "correlated", "repeated"]


@dataclass(frozen=True, eq=False)
class Rows12:
    """White rows with three terms at work, and equalities matrix x = goal."""

    design: np.ndarray
    target: np.ndarray
    matrix: np.ndarray
    goal: np.ndarray

    def supports(self, price=PRICE, *, known=True) -> Supports:
        """The class under test; the one place that knows how it is made."""
        constraints = Rows(csr_array(self.matrix), self.goal, self.goal, np.arange(len(self.goal)))
        return Supports(
            self.design, self.target, len(self.design), constraints, np.full(TERMS, price), known=known
        )

    def loss(self, support) -> float:
        """By an elimination of the equalities and numpy's least squares; infinite where they cannot hold."""
        chosen = list(support)
        columns, sides = self.design[:, chosen], self.matrix[:, chosen]
        offset = np.linalg.lstsq(sides, self.goal, rcond=None)[0] if len(self.goal) else np.zeros(len(chosen))
        if len(self.goal) and np.abs(sides @ offset - self.goal).max() > 1e-9:
            return np.inf
        null = scipy.linalg.null_space(sides) if len(self.goal) and chosen else np.eye(len(chosen))
        rest = self.target - columns @ offset
        change = np.linalg.lstsq(columns @ null, rest, rcond=None)[0]
        return float(np.sum((rest - columns @ null @ change) ** 2))


@cache
def drawn(family: str, seed: int) -> Rows12:
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(ROWS, TERMS))
    matrix, goal = np.zeros((0, TERMS)), np.zeros(0)
    truth = np.zeros(TERMS)
    truth[[1, 4, 7]] = [1.5, -2.0, 1.0]
    if family == "correlated":
        design += 1.5 * rng.normal(size=(ROWS, 1))
    if family == "repeated":
        design[:, 11] = design[:, 4]
        design[:, 10] = design[:, 1] + design[:, 2]
    if family == "tied":
        matrix, goal = np.eye(1, TERMS, 1) - np.eye(1, TERMS, 2), np.zeros(1)
        truth[2] = truth[1]
    if family == "valued":
        matrix, goal = np.eye(1, TERMS, 5), np.full(1, 2.0)
        truth[5] = 2.0
    if family == "conserved":
        matrix, goal = np.eye(1, TERMS, 7) + np.eye(1, TERMS, 8) + np.eye(1, TERMS, 9), np.zeros(1)
        truth[8] = -truth[7]
    return Rows12(design, design @ truth + rng.normal(size=ROWS), matrix, goal)


@cache
def enumerated(family: str, seed: int) -> dict[tuple[int, ...], float]:
    """The criterion of every support of independent columns: χ² + price · terms."""
    data = drawn(family, seed)
    return {
        support: data.loss(support) + PRICE * size
        for size in range(TERMS + 1)
        for support in combinations(range(TERMS), size)
        if np.linalg.matrix_rank(data.design[:, support]) == size
    }


def some_supports(seed, count=25):
    rng = np.random.default_rng(1_000 + seed)
    return [np.flatnonzero(rng.random(TERMS) < rng.uniform(0.1, 0.8)) for _ in range(count)]


def independent(data, supports):
    """Those whose columns do not depend on each other, as those of every start do not."""
    return [s for s in supports if np.linalg.matrix_rank(data.design[:, s]) == len(s)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("family", FAMILIES)
def test_a_fit_is_least_squares_under_the_equalities(family, seed):
    data = drawn(family, seed)
    supports = data.supports()
    for support in some_supports(seed):
        fit = supports.fit(support)
        assert set(support) <= set(fit.support)
        assert fit.loss == pytest.approx(data.loss(fit.support), rel=1e-9)
        x = np.zeros(TERMS)
        x[fit.support] = fit.x
        assert np.sum((data.design @ x - data.target) ** 2) == pytest.approx(fit.loss, rel=1e-9)
        np.testing.assert_allclose(data.matrix @ x, data.goal, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("family", ["apart", "correlated"])
def test_z_squared_is_the_rise_of_the_loss_when_a_term_goes(family, seed):
    data = drawn(family, seed)
    supports = data.supports()
    for support in some_supports(seed):
        fit = supports.fit(support)
        rises = [data.loss(np.delete(support, i)) - fit.loss for i in range(len(support))]
        np.testing.assert_allclose(fit.z**2, rises, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("family", FAMILIES)
def test_a_gain_is_the_fall_of_the_loss_by_an_explicit_refit(family, seed):
    data = drawn(family, seed)
    supports = data.supports()
    held = np.abs(data.matrix).sum(axis=0) > 0
    for support in some_supports(seed):
        fit = supports.fit(support)
        gains = supports.gains(fit)
        assert not gains[fit.support].any()
        for term in np.setdiff1d(np.flatnonzero(~held), fit.support):
            fall = fit.loss - data.loss([*fit.support, term])
            assert gains[term] == pytest.approx(fall, rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("family", ["apart", "correlated"])
def test_the_weakest_term_is_the_one_whose_loss_costs_least(family, seed):
    data = drawn(family, seed)
    supports = data.supports()
    for support in some_supports(seed):
        if not len(support):
            continue
        fit = supports.fit(support)
        values = [data.loss(np.delete(support, i)) + PRICE * (len(support) - 1) for i in range(len(support))]
        less = supports.without_weakest(fit)
        if min(values) < supports.criterion(fit) - 1e-9:
            assert less is not None
            assert supports.criterion(less) == pytest.approx(min(values), rel=1e-9)
        else:
            assert less is None


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_settling_never_raises_the_criterion(family, known):
    for seed in range(3):
        supports = drawn(family, seed).supports(known=known)
        for support in some_supports(seed, count=10):
            start = supports.fit(support)
            end = supports.settle(start)
            assert supports.criterion(end) <= supports.criterion(start) + 1e-9


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("family", FREE)
def test_where_it_settles_no_single_term_more_or_less_is_better(family, seed):
    data = drawn(family, seed)
    supports, values = data.supports(), enumerated(family, seed)
    for support in independent(data, some_supports(seed, count=15)):
        end = supports.settle(supports.fit(support))
        own = supports.criterion(end)
        inside = set(end.support.tolist())
        for term in range(TERMS):
            assert values.get(tuple(sorted(inside ^ {term})), np.inf) >= own - 1e-8


@pytest.mark.parametrize("family", FREE)
def test_from_elimination_it_settles_at_the_best_of_all_supports(family):
    missed = []
    for seed in range(5):
        supports, values = drawn(family, seed).supports(), enumerated(family, seed)
        start = eliminated(supports)
        assert start is not None
        end = supports.settle(start)
        if supports.criterion(end) > min(values.values()) + 1e-8:
            missed.append(seed)
    # The search is local; with correlated columns one draw in five may end beside the optimum.
    assert len(missed) <= (1 if family == "correlated" else 0)


@pytest.mark.parametrize("family", ["tied", "valued", "conserved"])
def test_under_equalities_the_best_of_all_supports_is_where_it_stays(family):
    for seed in range(2):
        data = drawn(family, seed)
        supports = data.supports()
        values = {}
        for size in range(TERMS + 1):
            for support in combinations(range(TERMS), size):
                tied = np.linalg.matrix_rank(data.matrix[:, support]) if size else 0
                values[support] = data.loss(support) + PRICE * (size - tied)
        best = min(values, key=values.__getitem__)
        end = supports.settle(supports.fit(best))
        assert supports.criterion(end) == pytest.approx(values[best], abs=1e-8)


@pytest.mark.parametrize("within", [6.0, 14.0])
@pytest.mark.parametrize("family", FREE)
def test_near_models_are_all_supports_one_move_away_that_are_almost_as_good(family, within):
    for seed in range(3):
        supports, values = drawn(family, seed).supports(), enumerated(family, seed)
        best = min(values, key=values.__getitem__)
        near = {tuple(r.fit.support.tolist()): r.above for r in rivals(supports, supports.fit(best), within)}
        assert best not in near
        assert list(near.values()) == sorted(near.values())
        for support, above in near.items():
            assert above <= within
            if support in values:
                assert above == pytest.approx(values[support] - values[best], abs=1e-7)
        inside = set(best)
        for support, value in values.items():
            new, gone = set(support) - inside, inside - set(support)
            if support != best and len(new) <= 1 and len(gone) <= 1 and value - values[best] <= within - 1e-6:
                assert support in near


def test_a_repeated_term_is_an_equal_model():
    supports, values = drawn("repeated", 0).supports(), enumerated("repeated", 0)
    best = min(values, key=values.__getitem__)
    same = tuple(sorted({4: 11, 11: 4}.get(term, term) for term in best))
    near = {tuple(r.fit.support.tolist()): r.above for r in rivals(supports, supports.fit(best), 6.0)}
    assert near[same] == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_support_that_grows_has_the_gains_and_the_loss_of_one_fitted_anew(family):
    supports = drawn(family, 3).supports()
    growth = Growth(supports, supports.fit(()))
    for _ in range(5):
        fit = supports.fit(growth.support)
        assert growth.loss == pytest.approx(fit.loss)
        assert growth.criterion == pytest.approx(supports.criterion(fit))
        np.testing.assert_allclose(growth.gains(), supports.gains(fit), rtol=1e-6, atol=1e-6)
        assert growth.take(int(np.argmax(growth.gains()))) is not None


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("exact", [True, False])
def test_the_best_of_some_supports_has_the_least_criterion_of_all_their_fits(family, known, exact):
    rows = drawn(family, 4)
    if exact:
        # Nothing is left of the target but rounding, where products of columns tell nothing.
        fit = rows.supports().fit([1, 4, 7, 9])
        rows = replace(rows, target=rows.design[:, fit.support] @ fit.x)
    supports = rows.supports(known=known)
    rng = np.random.default_rng(4)
    offered = [np.sort(rng.choice(TERMS, size, replace=False)) for size in (*range(1, 12), *range(1, 12))]
    offered += [np.array([1, 4, 7]), np.array([1, 4, 7, 9])]
    fits = [fit for fit in map(supports.possible, offered) if fit is not None]
    best = supports.best(offered)
    assert best is not None
    assert supports.criterion(best) == pytest.approx(min(map(supports.criterion, fits)), abs=1e-7)
