"""The loop: how runs end, what they leave behind, and what they refuse."""

import tracemalloc
import warnings
from fractions import Fraction

import numpy as np
import pytest
from tests.solver.independent import optimal_value
from tests.solver.problems import CORRECTIONS, LEAPT, REGIONS, badly_scaled, objective, region, walked

from cindy.errors import ConvergenceWarning, DataError, InfeasibleError
from cindy.least_squares import LeastSquares
from cindy.solver import Direct, Region, Status, basis_pursuit, conditional_gradient, gap_at, oracle_for

pytestmark = pytest.mark.xdist_group("runs of the solver")


def problem(radius="ball, radius inactive"):
    return objective("random"), oracle_for(region(radius))


@pytest.mark.parametrize("correction", CORRECTIONS.values(), ids=CORRECTIONS)
def test_the_callback_sees_every_step_and_can_stop_the_run(correction):
    seen = []

    def callback(step):
        seen.append(step)
        return False if step.iteration == 3 else None

    result = conditional_gradient(*problem(), correction, tol=1e-12, callback=callback)
    assert result.status is Status.STOPPED
    assert [step.iteration for step in seen] == [0, 1, 2, 3]
    # Where the callback stops the run, the gap is proved once more: its last digits may change.
    assert tuple(seen[:-1]) == result.history[:-1]
    assert result.gap == pytest.approx(seen[-1].gap, rel=1e-9)
    assert result.oracle_calls == 4


def test_a_run_that_hits_a_limit_says_so_with_gap_and_tolerance():
    with pytest.warns(ConvergenceWarning, match=r"iteration limit.*relative gap of .*tolerance 1\.00e-09"):
        result = conditional_gradient(*problem(), tol=1e-9, max_iter=2)
    assert result.status is Status.ITERATIONS
    assert result.iterations == 2
    with pytest.warns(ConvergenceWarning, match="time limit"):
        result = conditional_gradient(*problem(), tol=1e-9, max_seconds=1e-9)
    assert result.status is Status.TIME


@pytest.mark.parametrize("correction", CORRECTIONS.values(), ids=CORRECTIONS)
def test_clean_data_with_an_impossible_tolerance_ends_in_finite_time_and_honestly(correction):
    rng = np.random.default_rng(0)
    design, truth = rng.normal(size=(100, 10)), rng.normal(size=(10, 2))
    clean = LeastSquares.from_rows(design, design @ truth)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = conditional_gradient(
            clean, oracle_for(Region(20, 100.0)), correction, tol=1e-300, max_iter=2_000
        )
    assert result.status in (Status.STALLED, Status.ITERATIONS, Status.CONVERGED)
    if not isinstance(correction, type(CORRECTIONS["plain"])):
        assert result.iterations < 200
        assert result.objective <= 1e-25 * result.scale


def test_faint_noise_leaves_a_loss_that_is_right_to_many_digits():
    rng = np.random.default_rng(1)
    design, truth = rng.normal(size=(300, 20)), rng.normal(size=(20, 3))
    target = design @ truth + 1e-8 * rng.normal(size=(300, 3))
    result = conditional_gradient(
        LeastSquares.from_rows(design, target), oracle_for(Region(60, 100.0)), tol=1e-14
    )
    least = np.linalg.lstsq(design, target, rcond=None)[0]
    assert result.objective == pytest.approx(np.sum((design @ least - target) ** 2), rel=1e-6)


def test_where_doubles_are_too_coarse_the_gap_is_that_of_the_exact_solution_rounded():
    ratios = []
    for seed in range(15):
        f = badly_scaled(np.logspace(-6, 6, 12), seed)
        exact = _exact_least_squares(f)
        rounded = exact.astype(float)
        radius = 2 * float(np.abs(rounded).sum())
        miss = _fractions(f.design[: f.terms]) @ (_fractions(rounded) - exact)
        gradient = 2 * _fractions(f.design[: f.terms]).T @ miss
        least = float((gradient * _fractions(rounded)).sum() + Fraction(radius) * np.abs(gradient).max())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = conditional_gradient(f, oracle_for(Region(rounded.size, radius)), tol=1e-7)
        ratios.append(result.gap / least)
    # The exact solution is rounded once; a gradient 2 Aᵀ(A x − B) in doubles has two sums of 12 roundings,
    # which mostly cancel. In which draws they do not depends on the kernels of BLAS.
    assert np.median(ratios) <= 5
    assert max(ratios) <= 12**2


def _fractions(matrix):
    return np.vectorize(Fraction, otypes=[object])(matrix)


def _exact_least_squares(f):
    """In rational numbers, from the triangle."""
    design, x = _fractions(f.design[: f.terms]), _fractions(f.target[: f.terms])
    for i in reversed(range(f.terms)):
        x[i] = (x[i] - design[i, i + 1 :] @ x[i + 1 :]) / design[i, i]
    return x


def test_with_the_radius_inactive_direct_refits_each_support_exactly():
    f, oracle = problem()
    path = conditional_gradient(f, oracle, Direct(), tol=1e-10).path
    for support, x in path[1:]:
        for j in range(f.targets):
            chosen = support[support % f.targets == j] // f.targets
            refit = np.linalg.lstsq(f.design[:, chosen], f.target[:, j], rcond=None)[0]
            np.testing.assert_allclose(x[chosen, j], refit, atol=1e-9)
    assert [len(support) for support, _ in path[:6]] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", REGIONS)
@pytest.mark.parametrize("correction", CORRECTIONS.values(), ids=CORRECTIONS)
def test_a_run_that_starts_at_the_solution_ends_at_once(kind, correction):
    f, oracle = problem(kind)
    best = walked("random", kind)
    again = conditional_gradient(f, oracle, correction, tol=1e-7, start=best.x)
    assert again.iterations == 0
    np.testing.assert_allclose(again.x, best.x, atol=1e-4)
    assert again.objective <= best.objective + 1e-7 * best.scale


@pytest.mark.parametrize("kind", REGIONS)
def test_a_start_inside_the_region_is_not_made_worse(kind):
    f, oracle = problem(kind)
    rng = np.random.default_rng(3)
    points = [oracle(rng.normal(size=36)).point() for _ in range(5)]
    start = (rng.dirichlet(np.ones(5)) @ points).reshape(12, 3)
    for correction in CORRECTIONS.values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = conditional_gradient(f, oracle, correction, max_iter=0, start=start)
        assert result.objective <= f.value(start) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"tol": 0.0}, "`tol` must be a positive"),
        ({"max_iter": -1}, "`max_iter`"),
        ({"callback": 3}, "`callback` must be a function"),
        ({"correction": "direct"}, "`correction` must be one such as"),
        ({"max_seconds": 0}, "`max_seconds`"),
        ({"start": np.zeros((3, 12))}, "`start` must have shape"),
        ({"start": np.full((12, 3), 1e6)}, "`start` leaves the region"),
        ({"start": np.full((12, 3), np.nan)}, "must be finite"),
    ],
)
def test_arguments_that_make_no_sense_raise(arguments, sentence):
    with pytest.raises(DataError, match=sentence):
        conditional_gradient(*problem(), **arguments)


def test_an_objective_that_does_not_fit_the_region_raises():
    f, _ = problem()
    with pytest.raises(DataError, match="5 coefficients"):
        conditional_gradient(f, oracle_for(Region(5, 1.0)))
    broken = LeastSquares(np.full((2, 3), np.nan), 2, 2)
    with pytest.raises(DataError, match="must be finite"):
        conditional_gradient(broken, oracle_for(Region(2, 1.0)))
    with pytest.raises(DataError, match="`x` must have shape"):
        gap_at(f, oracle_for(Region(36, 1.0)), np.zeros((3, 3)))


def test_targets_that_are_zero_have_the_zero_solution():
    zero = LeastSquares.from_rows(np.eye(4), np.zeros((4, 2)))
    result = conditional_gradient(zero, oracle_for(Region(8, 1.0)))
    assert result.converged
    assert not result.x.any()


@pytest.mark.parametrize("correction", ["direct", "blended"])
def test_a_solve_takes_no_more_than_three_times_the_memory_of_the_factor(correction):
    rng = np.random.default_rng(4)
    truth = rng.normal(size=(200, 10)) * (rng.random((200, 10)) < 0.1)
    design = rng.normal(size=(1_000, 200))
    f = LeastSquares.from_rows(design, design @ truth + 0.1 * rng.normal(size=(1_000, 10)))
    oracle = oracle_for(Region(2_000, 0.9 * np.abs(truth).sum()))
    conditional_gradient(f, oracle, CORRECTIONS[correction], tol=1e-6)
    tracemalloc.start()
    result = conditional_gradient(f, oracle, CORRECTIONS[correction], tol=1e-6)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(np.flatnonzero(result.x)) > 150
    assert peak <= 3 * f.factor.nbytes


@pytest.mark.parametrize("kind", REGIONS)
@pytest.mark.parametrize("name", ["random", "rank deficient", "fewer rows than terms"])
def test_the_two_forms_lead_to_each_other(name, kind):
    f, here = objective(name), region(kind, name)
    best = conditional_gradient(f, oracle_for(here), tol=1e-10)
    epsilon = best.objective + 1e-3 * best.scale
    found = basis_pursuit(f, here, epsilon, tol=1e-8)
    assert found.result.objective <= epsilon
    assert found.least_radius <= found.radius <= here.radius
    assert found.radius <= found.least_radius * (1 + 1e-5)
    assert here.with_radius(found.radius).violation(found.x) <= 1e-9 * here.radius
    smaller = (
        optimal_value(f, here.with_radius(0.99 * found.least_radius))
        if not _at_least(here, found)
        else np.inf
    )
    assert smaller > epsilon


def _at_least(here, found):
    """Whether a radius one per cent smaller is infeasible by the rows alone."""
    try:
        oracle_for(here.with_radius(0.99 * found.least_radius))
    except InfeasibleError:
        return True
    return False


def test_a_bound_that_zero_meets_needs_no_radius():
    f = objective("random")
    found = basis_pursuit(f, Region(36, 1.0), 2 * np.sum(f.target**2))
    assert found.radius == 0.0
    assert not found.x.any()


@pytest.mark.parametrize("kind", ["ball, radius inactive", "ties", "bounds that bind", "fixed values"])
def test_a_bound_below_the_least_loss_raises_with_that_loss(kind):
    f, here = objective("random"), region(kind)
    least = conditional_gradient(f, oracle_for(here.with_radius(1e3 * here.radius)), tol=1e-10).objective
    with pytest.raises(InfeasibleError, match=r"The least loss is") as caught:
        basis_pursuit(f, here, 0.9 * least)
    assert float(str(caught.value).split()[-1].rstrip(".")) == pytest.approx(least, rel=1e-4)


def test_a_bound_that_is_no_number_raises():
    with pytest.raises(DataError, match="`epsilon`"):
        basis_pursuit(objective("random"), Region(36, 1.0), np.nan)


@pytest.mark.parametrize("correction", CORRECTIONS.values(), ids=CORRECTIONS)
def test_a_region_of_positive_coefficients_with_only_negative_ones_wanted_ends_at_zero(correction):
    f = LeastSquares.from_rows(np.eye(3), -np.ones((3, 1)))
    oracle = oracle_for(Region(3, 1.0, None, np.eye(3), 0, np.inf))
    result = conditional_gradient(f, oracle, correction, start=np.full((3, 1), 0.2))
    np.testing.assert_allclose(result.x, 0.0, atol=1e-6)
    assert result.relative_gap <= 1e-8


@pytest.mark.parametrize("kind", REGIONS)
@pytest.mark.parametrize("name", LEAPT)
def test_a_leap_changes_how_the_solution_is_found_and_not_which(name, kind):
    f, here = objective(name), region(kind, name)
    far = here.with_radius(100 * here.radius)
    for region_, steps in (
        (here, walked(name, kind)),
        (far, conditional_gradient(f, oracle_for(far), tol=1e-9)),
    ):
        leapt = conditional_gradient(f, oracle_for(region_), Direct(leap=True), tol=1e-9)
        assert leapt.objective == pytest.approx(steps.objective, abs=2e-9 * steps.scale)
        assert region_.violation(leapt.x) <= 1e-10 * region_.radius
        assert leapt.converged


@pytest.mark.parametrize(
    "kind", ["ball, radius inactive", "ties, repeated rows", "conservation laws", "fixed values"]
)
def test_a_leap_takes_one_step_where_only_equalities_bind(kind):
    f, here = objective("random"), region(kind)
    result = conditional_gradient(f, oracle_for(here.with_radius(10 * here.radius)), Direct(leap=True))
    assert result.iterations == 0
    assert result.relative_gap <= 1e-8
