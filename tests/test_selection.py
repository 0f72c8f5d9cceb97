"""Rules of selection: what each promises, on every small system."""

from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from scipy import stats

import cindy
from cindy import BIC, CrossValidation, Discrepancy, Gap, Integral, Significance, Terms, Trajectory
from cindy.errors import CindyError, DataError
from cindy.identification import identify
from cindy.selection.candidates import Candidates
from cindy.selection.rules import _fold_losses
from cindy.systems import (
    duffing,
    lorenz,
    lotka_volterra,
    michaelis_menten,
    rossler,
    sir,
    spring_masses,
    van_der_pol,
)

ETA = 1e-3
SMALL = [lotka_volterra(), van_der_pol(), duffing(), sir(), spring_masses(), lorenz(), rossler()]
every_small_system = pytest.mark.parametrize("system", SMALL, ids=lambda s: s.name)
some_small_systems = pytest.mark.parametrize(
    "system", [lotka_volterra(), spring_masses(), lorenz()], ids=lambda s: s.name
)
SPARSE = [Significance(), CrossValidation(), Discrepancy()]


def found(system, selection, *, seed=0, noise=ETA, trajectories=4, points=800, **settings):
    data = system.simulate(seed=seed, noise=noise, trajectories=trajectories, points=points)
    return identify(
        data, system.basis, formulation=Integral(order=system.order), selection=selection, **settings
    )


@cache
def candidates(make, seed=0, noise=ETA):
    system = make()
    data = system.simulate(seed=seed, noise=noise)
    form = cindy.accumulate(data, system.basis, formulation=Integral(order=system.order))
    problem = cindy.Problem(form)
    return Candidates(problem.regression, problem.form.pilot, problem.size)


@pytest.mark.parametrize(
    ("system", "rule"),
    [(system, rule) for system in SMALL for rule in SPARSE if rule == SPARSE[0] or system in SMALL[::3]],
    ids=lambda one: getattr(one, "name", None) or repr(one),
)
def test_a_sparse_rule_finds_the_terms_of_every_small_system(system, rule):
    model = found(system, rule, points=1200)
    np.testing.assert_array_equal(model.coef != 0, system.coef != 0)
    assert np.abs(model.coef - system.coef).max() < 0.02 * np.abs(system.coef).max()


@some_small_systems
@pytest.mark.parametrize("rule", [BIC(), BIC(extended=False), Gap(1e-8)], ids=repr)
def test_a_generous_rule_misses_no_term(system, rule):
    model = found(system, rule)
    assert ((model.coef != 0) >= (system.coef != 0)).all()
    if rule == BIC():
        assert model.size <= (system.coef != 0).sum() + 2


@some_small_systems
def test_terms_are_as_many_as_asked_for_and_the_right_ones_when_their_number_is_right(system):
    true = int((system.coef != 0).sum())
    for k in (1, true + 1):
        assert found(system, Terms(k)).size == k
    model = found(system, Terms(true))
    assert model.size == true
    np.testing.assert_array_equal(model.coef != 0, system.coef != 0)


@pytest.mark.parametrize(("passes", "sizes"), [(1, (3, 7, 8)), (None, (7, 8))])
def test_larger_numbers_of_terms_contain_the_smaller(passes, sizes):
    # Denoised states belong to their model: those of too few terms are another motion, with other terms.
    system = lorenz()
    supports = [found(system, Terms(k), passes=passes).coef != 0 for k in sizes]
    for one, following in pairwise(supports):
        assert (one <= following).all()


def test_under_ties_terms_come_in_whole_groups():
    system = spring_masses()
    laws = system.constraints()
    assert found(system, Terms(3), constraints=laws).size <= 3
    model = found(system, Terms(4), constraints=laws)
    assert model.size == 4
    assert model.violation < 1e-12


def test_every_term_that_significance_keeps_is_significant():
    rule = Significance()
    for system in (lorenz, van_der_pol):
        every = candidates(system)
        support = rule.pick(every)
        fit = every.refit(support)
        known = fit.error > 0
        assert np.min(np.abs(fit.x[known]) / fit.error[known]) > rule.quantile(every)


def test_the_quantile_is_bonferronis_over_all_coefficients():
    import scipy.stats

    every = candidates(lorenz)
    blocks = len(every.regression.blocks)
    expected = scipy.stats.t.ppf(1 - 0.01 / (2 * 30), blocks - 1)
    assert Significance(0.01).quantile(every) == pytest.approx(expected)


def test_a_stricter_level_never_keeps_more():
    system = sir()
    data = system.simulate(seed=3, noise=0.2, trajectories=4, points=200)
    sizes = [identify(data, system.basis, selection=Significance(a)).size for a in (0.5, 0.05, 1e-4, 1e-9)]
    assert sizes == sorted(sizes, reverse=True)


def test_discrepancy_takes_the_smallest_model_that_the_given_noise_allows():
    system = lorenz()
    data = system.simulate(seed=0, noise=ETA, trajectories=4, points=1200)
    sigma = ETA * np.concatenate([one.x for one in data]).std(axis=0)
    exact = identify(data, system.basis, selection=Discrepancy(1.05 * sigma))
    np.testing.assert_array_equal(exact.coef != 0, system.coef != 0)
    coarse = identify(data, system.basis, selection=Discrepancy(100 * sigma))
    assert 0 < coarse.size < exact.size
    with pytest.raises(
        DataError, match=r"even the whole dictionary leaves a residual of .* times the allowed size"
    ):
        identify(data, system.basis, selection=Discrepancy(sigma / 10))


def test_cross_validation_judges_models_by_blocks_they_have_not_seen():
    every = candidates(lotka_volterra)
    losses = _fold_losses(every, 10.0, 5, 6)
    assert losses.shape == (len(every.regression.blocks), 7)
    mean = losses.mean(axis=0)
    assert mean[4] < 1.5 * len(every.size)
    assert (mean[:4] > 10 * mean[4]).all()


def test_the_gap_rule_returns_the_solvers_own_iterate():
    system = lotka_volterra()
    summary = cindy.accumulate(system.simulate(seed=0, noise=ETA), system.basis)
    problem = cindy.Problem(summary)
    model = cindy.solve(problem, selection=Gap(1e-4))
    run = cindy.solver.conditional_gradient(problem.objective, problem.oracle, cindy.Direct(), tol=1e-4)
    np.testing.assert_array_equal(model.coef, problem.physical(run.x))
    assert model.gap == pytest.approx(model.result.gap)
    assert model.result.gap <= 1e-4


@pytest.mark.parametrize("rule", [*SPARSE, BIC(), Terms(4)], ids=repr)
def test_the_path_goes_through_the_chosen_model_from_smaller_to_larger(rule):
    system = lotka_volterra()
    model = found(system, rule)
    sizes = [one.size for one in model.path]
    assert sizes == sorted(set(sizes))
    assert model.size in sizes
    np.testing.assert_array_equal(model.path[sizes.index(model.size)].coef, model.coef)
    assert len(model.path.scores) == len(sizes)
    supports = [one.coef != 0 for one in model.path]
    for one, following in pairwise(supports):
        assert (one <= following).all()


def test_models_near_one_of_measured_states_are_those_of_enumeration():
    t = np.linspace(0, 4, 60)
    x = np.stack([np.cos(t), -np.sin(t)], axis=1)
    noisy = Trajectory(t, x + 0.1 * np.random.default_rng(3).standard_normal(x.shape), ("x", "v"))
    summary = cindy.accumulate(
        noisy, cindy.Polynomial(1), formulation=Integral(window=0, feedback=0.0), blocks=1
    )
    rule, problem = BIC(), cindy.Problem(summary)
    model = cindy.solve(problem, selection=rule)
    total = problem.regression.total
    price = rule.price(total.rows, total.terms)

    def loss(place, support):
        columns = total.design[:, np.flatnonzero(support)]
        x = np.linalg.lstsq(columns, total.target[:, place], rcond=None)[0]
        return float(np.sum((total.target[:, place] - columns @ x) ** 2))

    own = (model.coef != 0).T
    variance = [loss(j, own[j]) / (total.rows - own[j].sum()) for j in range(2)]
    above = {}
    for pair in product(product((False, True), repeat=3), repeat=2):
        support = np.array(pair)
        worse = [
            (loss(j, support[j]) - loss(j, own[j])) / variance[j] + price * (support[j].sum() - own[j].sum())
            for j in range(2)
        ]
        if sum(max(w, 0.0) for w in worse) <= 14.0:
            above[support.tobytes()] = sum(max(w, 0.0) for w in worse)
    near = {
        (one.coef != 0).T.tobytes(): score for one, score in zip(model.near, model.near.scores, strict=True)
    }
    assert near == pytest.approx(above, abs=1e-6)
    weight = {key: np.exp(-0.5 * value) for key, value in above.items()}
    has = {key: np.frombuffer(key, dtype=bool).reshape(2, 3).T for key in above}
    inclusion = sum(weight[key] * has[key] for key in above) / sum(weight.values())
    np.testing.assert_allclose(model.inclusion, inclusion, atol=1e-6)


def test_no_rule_keeps_a_term_of_pure_noise():
    t = np.linspace(0, 5, 400)
    rng = np.random.default_rng(0)
    noise = [Trajectory(t, rng.standard_normal((400, 2))) for _ in range(6)]
    reasons = {Significance(0.01): "is significant at level 0.01", CrossValidation(): "predicts the parts"}
    for rule, reason in reasons.items():
        with pytest.raises(DataError, match=f"identify: no term {reason}"):
            identify(noise, cindy.Polynomial(2), selection=rule)


def test_conservation_laws_hold_in_every_model_of_the_path():
    system = michaelis_menten()
    for rule in (Significance(), Terms(7)):
        model = found(system, rule, noise=1e-4, trajectories=20, points=800, constraints=system.constraints())
        np.testing.assert_array_equal(model.coef != 0, system.coef != 0)
        assert all(one.violation < 1e-9 for one in model.path)


WRONG = [
    (lambda: Significance(0.0), "`level` must be a positive number"),
    (lambda: Significance(1.0), "`level` must lie between 0 and 1"),
    (lambda: Significance("a"), "`level` must be a positive number"),
    (lambda: Terms(0), "`k` must be a whole number of at least 1"),
    (lambda: Terms(2.5), "`k` must be a whole number"),
    (lambda: found(lotka_volterra(), Terms(13)), "`k` is 13, but there are only 12 coefficients"),
    (lambda: Gap(0.0), "`tol` must be a positive number"),
    (lambda: Discrepancy(0.0), "`noise` must be positive"),
    (lambda: Discrepancy([1.0, -1.0]), "`noise` must be positive"),
    (lambda: found(lotka_volterra(), Discrepancy([1.0, 1.0, 1.0])), "one for each of the 2 states"),
    (lambda: CrossValidation(1), "`folds` must be a whole number of at least 2"),
    (lambda: found(lotka_volterra(), CrossValidation(1000)), "1000 folds need as many blocks"),
]


@pytest.mark.parametrize(("mistake", "sentence"), WRONG, ids=[w[1] for w in WRONG])
def test_a_mistake_is_told_in_a_sentence(mistake, sentence):
    with pytest.raises(CindyError, match=sentence):
        mistake()


@pytest.mark.parametrize(
    "rule",
    [
        cindy.Significance(),
        cindy.CrossValidation(),
        cindy.Terms(4),
        cindy.BIC(),
        cindy.Discrepancy(),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_term_that_an_inequality_keeps_from_zero_is_kept_by_every_rule(rule):
    data = cindy.systems.lotka_volterra().simulate(seed=0, noise=0.02, trajectories=4, points=200)
    law = cindy.bound("x", "y", lower=0.05)
    model = cindy.identify(data, cindy.Polynomial(2), constraints=[law], selection=rule)
    assert model.coef[model.place("x", "y")] >= 0.05 - 1e-9
    assert model.violation < 1e-9


@pytest.mark.parametrize("rule", [Terms(7), CrossValidation(), BIC(), Discrepancy(), "terms:7"], ids=repr)
def test_every_rule_picks_at_fitted_states(rule):
    system = lorenz()
    model = identify(
        system.simulate(seed=1, noise=0.1, trajectories=2, points=600), system.basis, selection=rule
    )
    assert model.denoised
    if rule in (Terms(7), "terms:7", BIC()):
        np.testing.assert_array_equal(model.coef != 0, system.coef != 0)


@pytest.mark.parametrize(("terms", "states"), [(10, 3), (35, 3), (70, 4), (3, 1)])
@pytest.mark.parametrize("level", [0.01, 0.05])
def test_prices_spend_the_level_over_all_candidates(terms, states, level):
    factors = np.repeat(np.resize([0, 1, 1, 2, 2, 2, 3], terms), states)
    rule, rows = Significance(level), 10**7
    prices = rule.prices(rows, factors, information=1.0)
    assert np.isclose(2 * stats.norm.sf(np.sqrt(prices)).sum(), level, rtol=1e-3)
    np.testing.assert_allclose(prices - prices.min(), 4.0 * np.maximum(factors - 1, 0))


@pytest.mark.parametrize("rows", [2, 200])
def test_a_level_below_rounding_has_a_finite_price(rows):
    factors = np.array([0, 1, 1, 2])
    tiny, tinier = (Significance(level).prices(rows, factors, information=1.0) for level in (1e-30, 1e-300))
    assert np.isfinite(tinier).all()
    assert (tinier > tiny).all()


def test_prices_rise_with_what_the_data_say_up_to_equal_shares():
    factors, rule = np.repeat([0, 1, 1, 1, 2, 2, 2, 3, 3, 4], 3), Significance()
    equal = rule.price(5000, len(factors))
    singles = [rule.prices(5000, factors, information)[0] for information in (1.0, 1e2, 1e4, 1e6, 1e9)]
    assert singles == sorted(singles)
    evidence = np.log(2e4 / np.pi)
    assert singles[0] < evidence < equal
    assert singles[2] == pytest.approx(evidence)
    assert singles[-1] == pytest.approx(equal)


def test_prices_are_equal_where_no_term_is_a_product():
    for rule in (Significance(per_factor=0), BIC()):
        prices = rule.prices(5000, np.repeat([0, 1, 2, 3], 2), information=10.0)
        np.testing.assert_allclose(prices, rule.price(5000, 8))
