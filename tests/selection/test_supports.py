"""Least squares on supports and the moves between them, against all 4,096 supports of twelve terms."""

from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from scipy.sparse import csr_array

from cindy.least_squares import Rows
from cindy.selection.orders import Growth, Rival, eliminated, recombined, rivals
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
        """χ² of one support; infinite where the equalities cannot hold."""
        return float(self.losses(np.array([support], dtype=np.intp))[0])

    def losses(self, supports: np.ndarray) -> np.ndarray:
        """(supports,) χ² of supports of one size, by pseudo-inverses, the one equality eliminated."""
        columns = np.moveaxis(self.design[:, supports], 1, 0)
        if not len(self.goal):
            return _left(columns, np.broadcast_to(self.target, (len(supports), ROWS)))
        (goal,) = self.goal
        sides = self.matrix[0][supports]
        size = np.sum(sides**2, axis=1)
        bound = size > 0
        found = np.full(len(supports), np.inf)
        if goal == 0 and not bound.all():
            found[~bound] = _left(columns[~bound], np.broadcast_to(self.target, (int((~bound).sum()), ROWS)))
        if bound.any():
            # One point where the equality holds, and the directions along which it stays so.
            normal = sides[bound] / np.sqrt(size[bound])[:, None]
            offset = normal * (goal / np.sqrt(size[bound]))[:, None]
            along = np.eye(supports.shape[1]) - normal[:, :, None] * normal[:, None, :]
            rest = self.target - np.einsum("kri,ki->kr", columns[bound], offset)
            found[bound] = _left(columns[bound] @ along, rest)
        return found


def _left(columns: np.ndarray, target: np.ndarray) -> np.ndarray:
    """(many,) the squares that least squares leave: (many, rows, terms) columns, (many, rows) targets."""
    shares = np.einsum("kir,kr->ki", np.linalg.pinv(columns, rcond=1e-12), target)
    return np.asarray(np.sum((target - np.einsum("kri,ki->kr", columns, shares)) ** 2, axis=1))


def of_size(size: int) -> np.ndarray:
    """(supports, size) all supports of so many terms."""
    every = list(combinations(range(TERMS), size))
    return np.array(every, dtype=np.intp).reshape(len(every), size)


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
    values = {}
    for size in range(TERMS + 1):
        every = of_size(size)
        if size:
            every = every[np.linalg.matrix_rank(np.moveaxis(data.design[:, every], 1, 0)) == size]
        losses = data.losses(every) + PRICE * size
        values |= dict(zip(map(tuple, every.tolist()), losses.tolist(), strict=True))
    return values


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
            every = of_size(size)
            tied = data.matrix[0][every].any(axis=1)
            losses = data.losses(every) + PRICE * (size - tied)
            values |= dict(zip(map(tuple, every.tolist()), losses.tolist(), strict=True))
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


@pytest.mark.parametrize("unit", [1.0, 0.01])
@pytest.mark.parametrize("family", FAMILIES)
def test_products_of_columns_give_the_gains_that_columns_give(family, unit):
    data = drawn(family, 3)
    supports = data.supports()
    known = replace(
        supports, products=(unit * data.design.T @ data.design, unit * data.target @ data.design, unit)
    )
    for support in independent(data, some_supports(3)):
        fit = supports.fit(support)
        for old, new in zip(supports.products_at(fit), known.products_at(fit), strict=True):
            np.testing.assert_allclose(new, old, rtol=1e-9, atol=1e-9)
        rescaled = known.in_units_of(4.0)
        np.testing.assert_allclose(rescaled.gains(rescaled.fit(support)), supports.gains(fit) / 4, atol=1e-7)
    growths = [Growth(one, one.fit(())) for one in (supports, known)]
    for _ in range(5):
        gains = [one.gains() for one in growths]
        np.testing.assert_allclose(gains[1], gains[0], rtol=1e-7, atol=1e-7)
        for one in growths:
            one.take(int(np.argmax(gains[0])))


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


@pytest.mark.parametrize("family", ["apart", "correlated"])
@pytest.mark.parametrize("seed", range(4))
def test_other_terms_of_an_equation_are_as_good_as_the_best_of_all_combinations(family, seed):
    rows, start = drawn(family, seed), (0, 2, 5)
    supports = rows.supports()
    own = supports.fit(start)
    found = recombined(supports, own, [np.arange(TERMS)], within=20.0, most=5)
    least = min(
        rows.loss(chosen) + PRICE * len(chosen) for k in (1, 2, 3) for chosen in combinations(range(TERMS), k)
    )
    assert min(supports.criterion(fit) for fit in (own, *(r.fit for r in found))) <= least + 1e-6
    assert all(r.above == supports.criterion(r.fit) - supports.criterion(own) <= 20.0 for r in found)
    assert len({r.fit.support.tobytes() for r in (*found, Rival(own, 0.0))}) == len(found) + 1


def test_terms_that_must_change_all_at_once_are_found():
    # On a narrow range of three states all monomials mimic each other, and the moves of `settle` get stuck.
    rng, noise = np.random.default_rng(2), 3e-3
    x = 0.35 + 0.1 * rng.uniform(-1, 1, (400, 3))
    powers = [one for one in product(range(4), repeat=3) if sum(one) <= 3]
    design = np.stack([np.prod(x**one, axis=1) for one in powers], axis=1)
    true = [powers.index(one) for one in ((0, 0, 1), (0, 0, 2), (0, 1, 1), (1, 0, 1))]
    target = design[:, true] @ [1.0, -1.0, -0.7, -1.2] + noise * rng.standard_normal(400)
    count = len(powers)
    supports = Supports(
        design / noise, target / noise, 400, Rows.none(count), np.full(count, PRICE), known=True
    )
    starts = [np.sort(rng.choice(count, 4, replace=False)) for _ in range(8)]
    ends = [supports.settle(supports.fit(start)) for start in starts]
    assert any(not np.array_equal(end.support, np.sort(true)) for end in ends)
    for end in ends:
        found = [end, *(r.fit for r in recombined(supports, end, [np.arange(count)], within=0.0, most=1))]
        assert np.array_equal(found[-1].support, np.sort(true))
