"""Laws that hold for every objective, region and correction in the shared lists."""

import warnings
from functools import cache

import numpy as np
import pytest
from tests.solver.independent import optimal_value
from tests.solver.problems import CORRECTIONS, LEAPT, OBJECTIVES, REGIONS, in_units, objective, region, walked

from cindy.errors import ConvergenceWarning
from cindy.solver import Oracle, Result, conditional_gradient, gap_at, oracle_for
from cindy.solver.linear_program import LinearProgram

pytestmark = pytest.mark.xdist_group("runs of the solver")
TOL = 1e-7
CASES = [(name, kind) for name in OBJECTIVES for kind in REGIONS]


@cache
def optimum(name: str, kind: str) -> float:
    return optimal_value(objective(name), region(kind, name))


@cache
def asked(kind: str, name: str) -> Oracle:
    """An oracle for what is asked beside the runs, each of which has its own."""
    return oracle_for(region(kind, name))


@cache
def tolerance(name: str, kind: str) -> float:
    """TOL, or what doubles can tell: a gap is a sum that starts at its size at the origin."""
    problem, oracle = objective(name), asked(kind, name)
    origin = oracle.origin.reshape(problem.terms, problem.targets)
    first = gap_at(problem, oracle, origin) / max(float(np.sum(problem.target**2)), 1e-300)
    return max(TOL, 8 * np.finfo(float).eps * first)


@cache
def solve(name: str, kind: str, correction: str) -> Result:
    if correction == "direct" and name in LEAPT:
        return walked(name, kind)  # to a smaller gap, for the test of leaps
    with warnings.catch_warnings():
        if correction == "plain":
            warnings.simplefilter("ignore", ConvergenceWarning)
        return conditional_gradient(
            objective(name),
            oracle_for(region(kind, name)),
            CORRECTIONS[correction],
            tol=tolerance(name, kind),
            max_iter=60 if correction == "plain" else 3_000,
        )


@cache
def feasible_points(kind: str) -> np.ndarray:
    """A thousand points of the region: mixtures of corners in random directions."""
    rng = np.random.default_rng(0)
    program = LinearProgram(region(kind))
    corners = np.array([program(rng.normal(size=program.region.size)).point() for _ in range(40)])
    return rng.dirichlet(np.full(40, 0.1), size=1_000) @ corners


@pytest.mark.parametrize("kind", REGIONS)
def test_an_atom_is_feasible_and_beats_a_thousand_feasible_points(kind):
    here = region(kind)
    oracle = oracle_for(here)
    rng = np.random.default_rng(1)
    for _ in range(20):
        gradient = rng.normal(size=here.size)
        point = oracle(gradient).point()
        assert here.violation(point) <= 1e-12 * here.radius
        assert gradient @ point <= (feasible_points(kind) @ gradient).min() + 1e-9


@pytest.mark.parametrize("kind", REGIONS)
@pytest.mark.parametrize("name", ["random", "columns of size 1e6", "columns of size 1e-6", "kuramoto"])
def test_the_presolved_oracle_and_the_linear_program_agree(name, kind):
    here = region(kind, name)
    closed, program = oracle_for(here), LinearProgram(here)
    rng = np.random.default_rng(2)
    for _ in range(10):
        gradient = rng.normal(size=here.size)
        value = gradient @ closed(gradient).point()
        assert value == pytest.approx(gradient @ program(gradient).point(), rel=1e-9)


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_run_ends_within_the_tolerance_its_gap_is_true_its_iterates_are_feasible_and_never_rise(
    name, kind, correction
):
    # One test, so that the run is made once, whichever process the test is given to.
    the_gap_bounds_the_distance_to_an_independent_solvers_optimum(name, kind, correction)
    if correction != "plain":
        the_run_ends_with_a_gap_below_the_tolerance(name, kind, correction)
    the_objective_never_rises(name, kind, correction)
    every_iterate_is_feasible(name, kind, correction)


def the_gap_bounds_the_distance_to_an_independent_solvers_optimum(name, kind, correction):
    result = solve(name, kind, correction)
    excess = result.objective - optimum(name, kind)
    assert excess <= result.gap + 1e-8 * result.scale
    assert excess >= -1e-8 * result.scale


def the_run_ends_with_a_gap_below_the_tolerance(name, kind, correction):
    result = solve(name, kind, correction)
    assert result.converged
    tol = tolerance(name, kind)
    assert result.relative_gap <= tol
    assert gap_at(objective(name), asked(kind, name), result.x) <= 1.01 * tol * result.scale


def the_objective_never_rises(name, kind, correction):
    history = solve(name, kind, correction).history
    values = np.array([step.objective for step in history])
    assert (np.diff(values) <= 1e-12 * values[0]).all()


def every_iterate_is_feasible(name, kind, correction):
    here = region(kind, name)
    for _, x in solve(name, kind, correction).path:
        assert here.violation(x) <= 1e-10 * max(here.radius, 1e-3)


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_reported_objective_is_that_of_the_reported_point(name, correction):
    result = solve(name, "weighted ball", correction)
    assert result.objective == pytest.approx(objective(name).value(result.x), rel=1e-10)
    support, x = result.path[-1]
    np.testing.assert_array_equal(x, result.x)
    np.testing.assert_array_equal(support, np.flatnonzero(result.x))


@pytest.mark.parametrize("correction", [c for c in CORRECTIONS if c != "plain"])
@pytest.mark.parametrize("kind", REGIONS)
def test_units_from_1e_minus_6_to_1e6_do_not_matter(kind, correction):
    f, here = objective("random"), region(kind)
    units = np.random.default_rng(3).permutation(np.logspace(-6, 6, f.terms))
    g, there = in_units(f, here, units)
    result = conditional_gradient(g, oracle_for(there), CORRECTIONS[correction], tol=1e-9)
    assert result.converged
    assert result.objective == pytest.approx(optimum("random", kind), abs=1e-8 * result.scale)
    x = result.x * units[:, None]
    assert here.violation(x) <= 1e-10 * here.radius
    assert gap_at(f, oracle_for(here), x) <= 2e-9 * result.scale
