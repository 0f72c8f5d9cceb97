"""Every method in a tiny size, and the claims its adapter makes."""

import warnings

import numpy as np
import pytest
from benchmarks.paper import methods, peers
from benchmarks.paper.lasso import interior_point
from benchmarks.paper.methods import METHODS
from benchmarks.paper.peers import Range, tune
from benchmarks.paper.setting import SYSTEMS, measure, prepare
from sklearn.linear_model import Lasso

SMALL = {"trajectories": 20, "points": 500}


@pytest.fixture(scope="module")
def settings():
    """Michaelis-Menten without much noise, in every formulation."""
    return {
        f: prepare("michaelis", f, 1e-5, 0, **SMALL) for f in ("differential", "integral", "free", "weak")
    }


@pytest.mark.parametrize("name", METHODS)
def test_every_method_gives_finite_coefficients_that_explain_the_data(name, settings):
    for formulation in METHODS[name].formulations:
        setting = settings[formulation]
        tuned = METHODS[name].fit(setting, 4, 0)
        assert tuned.coef.shape == setting.system.coef.shape
        assert np.isfinite(tuned.coef).all()
        zero = setting.validation_loss(np.zeros_like(tuned.coef))
        assert setting.validation_loss(tuned.coef) < 0.1 * zero
        assert np.isfinite(measure(setting.physical(tuned.coef), setting).recovery)


@pytest.mark.parametrize("name", ["sr3-l0", "ipm-c", "cindy-c", "default-c"])
def test_a_method_with_the_physics_is_nearer_to_the_truth_than_one_that_ignores_it(name, settings):
    setting = settings["differential"]
    held = METHODS[name].fit(setting, 8, 0)
    plain = measure(setting.physical(setting.least_squares), setting)
    assert measure(setting.physical(held.coef), setting).recovery < plain.recovery


@pytest.mark.parametrize("name", ["ipm-c", "cindy-c", "default-c"])
def test_the_physics_holds_for_methods_that_promise_it(name, settings):
    setting = settings["integral"]
    coef = METHODS[name].fit(setting, 4, 0).coef
    assert np.abs(setting.equalities @ coef.ravel()).max() < 1e-7 * np.abs(coef).max()


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_true_coefficients_satisfy_the_equality_rows_handed_to_peers(system):
    setting = prepare(system, "differential", 1e-6, 0, trajectories=10, points=300)
    rows = setting.equalities
    truth = (setting.system.coef * setting.scale[:, None]).ravel()
    assert np.abs(rows @ truth).max() < 1e-9 * np.abs(truth).max()
    assert np.linalg.matrix_rank(rows) == len(rows) > 0


def test_constrained_sr3_takes_the_same_steps_as_pysindys():
    from pysindy.optimizers import ConstrainedSR3

    setting = prepare("michaelis", "differential", 1e-3, 0, **SMALL)
    train = setting.scaled_train
    arguments = {
        "reg_weight_lam": 1e-3,
        "regularizer": "l1",
        "relax_coeff_nu": 0.1,
        "constraint_lhs": setting.equalities,
        "constraint_rhs": np.zeros(len(setting.equalities)),
        "constraint_order": "feature",
        "equality_constraints": True,
        "max_iter": 40,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = (
            kind(**arguments).fit(train.design, train.target).coef_
            for kind in (peers._constrained_sr3(), ConstrainedSR3)
        )
    np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-10)


def test_fista_and_the_interior_point_method_agree_with_scikit_learns_lasso():
    setting = prepare("michaelis", "differential", 1e-2, 0, **SMALL)
    train = setting.scaled_train
    penalty = 1e-3 * peers.l1_limit(train)
    lipschitz = 2.0 * np.linalg.norm(train.design, 2) ** 2
    fista = peers.proximal_gradient(train, penalty, lipschitz, tol=1e-12, max_iter=50_000)
    inner = interior_point(train, penalty, np.zeros((0, fista.size)))
    lasso = Lasso(alpha=penalty / (2 * len(train.design)), fit_intercept=False, tol=1e-12, max_iter=100_000)
    expected = lasso.fit(train.design, train.target).coef_.T
    np.testing.assert_allclose(fista, expected, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_allclose(inner, expected, atol=1e-5 * np.abs(expected).max())


def test_the_papers_run_and_the_public_interface_reach_the_same_loss(settings):
    from cindy import Blended, Gap, Uniform
    from cindy.identification import identify

    setting = settings["differential"]
    model = identify(
        setting.training,
        setting.system.basis,
        formulation=setting.form,
        weights=Uniform(),
        correction=Blended(),
        selection=Gap(1e-6),
    )
    zero = setting.train.value(np.zeros_like(model.coef))
    run = methods.paper_run(setting, False)
    assert abs(setting.train.value(model.coef) - run.objective) < 3e-6 * zero


def test_the_early_stop_never_has_a_larger_validation_loss_than_the_end(settings):
    setting = settings["integral"]
    early, end = (METHODS[m].fit(setting, 0, 0).loss for m in ("cindy-early", "cindy"))
    assert early <= end


def test_tuning_finds_the_bottom_of_a_bowl_and_repeats_itself():
    def bowl(coef):
        return float((np.log10(coef[0, 0]) + 3.0) ** 2)

    fits = [
        tune(lambda p: np.array([[p["a"]]]), bowl, {"a": Range(1e-8, 1.0)}, trials=24, seed=1)
        for _ in range(2)
    ]
    assert abs(np.log10(fits[0].parameters["a"]) + 3.0) < 0.3
    assert fits[0].parameters == fits[1].parameters
    assert fits[0].edge == ""


@pytest.mark.parametrize(("closed", "edge"), [((), "a:high"), (("high",), "")])
def test_a_tuned_value_at_an_open_end_of_its_range_is_told(closed, edge):
    tuned = tune(
        lambda p: np.array([[p["a"]]]),
        lambda coef: -float(coef[0, 0]),
        {"a": Range(1e-3, 1.0, closed=closed)},
        trials=120,
        seed=0,
    )
    assert tuned.edge == edge


def test_pysindys_use_of_the_global_generator_leaves_no_trace(settings):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    METHODS["ensemble"].fit(settings["differential"], 2, 0)
    METHODS["weak"].fit(settings["weak"], 2, 0)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
