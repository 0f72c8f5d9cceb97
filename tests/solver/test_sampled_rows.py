"""Objectives whose rows are read in samples."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from tests.solver import problems
from tests.solver.independent import optimal_value

from cindy.errors import ConvergenceWarning, DataError
from cindy.least_squares import LeastSquares
from cindy.solver import (
    Blended,
    Direct,
    Plain,
    Region,
    SampledRows,
    Status,
    conditional_gradient,
    gap_at,
    oracle_for,
    sampled_rows,
)
from cindy.solver.sampled_rows import Reading

SIZES = (3000, 12, 3)


def rows(seed=0, noise=0.5, sizes=SIZES):
    count, terms, targets = sizes
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(count, terms)) + rng.normal(size=(count, 1))
    truth = rng.normal(size=(terms, targets)) * (rng.random((terms, targets)) < 0.3)
    return design, design @ truth + noise * rng.normal(size=(count, targets))


@pytest.mark.parametrize("kind", problems.REGIONS)
@pytest.mark.parametrize("correction", ["direct", "blended", "fully corrective"])
def test_sampled_rows_reach_the_optimum_of_an_independent_solver_in_every_region(kind, correction):
    design, target = rows()
    whole = LeastSquares.from_rows(design, target)
    norm = float(np.abs(np.linalg.lstsq(design, target, rcond=None)[0]).sum())
    region = problems._region(design.shape[1] * target.shape[1], norm, kind)
    best = optimal_value(whole, region)
    sampled = SampledRows(design, target, seed=3)
    result = conditional_gradient(sampled, oracle_for(region), problems.CORRECTIONS[correction], tol=1e-6)
    assert result.converged
    assert region.violation(result.x) <= 1e-9 * region.radius
    assert result.objective == pytest.approx(whole.value(result.x), rel=1e-12)
    assert result.objective - best <= result.gap + 1e-9 * best
    assert result.gap <= 1e-6 * result.scale


def test_plain_steps_from_samples_lower_the_objective_and_end_with_a_true_gap():
    design, target = rows()
    whole = LeastSquares.from_rows(design, target)
    region = Region(36, 4.0)
    with pytest.warns(ConvergenceWarning):
        result = conditional_gradient(
            SampledRows(design, target), oracle_for(region), Plain(), tol=1e-9, max_iter=200
        )
    assert result.status is Status.ITERATIONS
    assert result.objective < 0.9 * np.sum(target**2)
    assert 0 <= result.objective - optimal_value(whole, region) <= result.gap


def test_the_objective_of_one_pass_after_another_never_rises():
    design, target = rows()
    # Samples of three rows: what they say of the curvature is mostly wrong.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = conditional_gradient(
            SampledRows(design, target, batch=3), oracle_for(Region(36, 4.0)), tol=1e-6, max_iter=400
        )
    honest = [
        b.objective
        for a, b in zip(result.history, result.history[1:], strict=False)
        if b.passes > a.passes + 0.9
    ]
    assert len(honest) > 5
    assert (np.diff(honest) <= 1e-9 * honest[0]).all()


def test_passes_count_the_rows_that_were_read():
    design, target = rows()
    seen = {"rows": 0}

    class Counted:
        shape = design.shape

        def __getitem__(self, which):
            part = design[which]
            seen["rows"] += len(part)
            return part

    result = conditional_gradient(SampledRows(Counted(), target), oracle_for(Region(36, 4.0)), tol=1e-6)
    assert result.passes == pytest.approx(seen["rows"] / len(design))
    assert result.passes == result.history[-1].passes > 1


def test_fewer_passes_than_gradients_of_all_rows_that_exact_steps_would_take():
    design, target = rows(sizes=(20_000, 60, 1), noise=1.0)
    region = Region(60, 0.7 * float(np.abs(np.linalg.lstsq(design, target, rcond=None)[0]).sum()))
    whole = conditional_gradient(LeastSquares.from_rows(design, target), oracle_for(region), tol=1e-9)
    reached = [s.iteration + 1 for s in whole.history if s.objective <= 1.01 * whole.objective]
    sampled = conditional_gradient(SampledRows(design, target), oracle_for(region), tol=1e-3)
    assert sampled.objective <= 1.01 * whole.objective
    assert sampled.passes < reached[0]


def test_the_same_seed_gives_the_same_run_and_another_one_another():
    design, target = rows()

    def run(seed):
        return conditional_gradient(
            SampledRows(design, target, seed=seed), oracle_for(Region(36, 4.0)), tol=1e-4
        )

    first, again, other = run(1), run(1), run(2)
    assert (first.x == again.x).all()
    assert first.history[-1][:4] == again.history[-1][:4]
    assert (first.x != other.x).any()


def test_a_run_starts_where_it_is_told():
    design, target = rows()
    oracle = oracle_for(Region(36, 4.0))
    end = conditional_gradient(SampledRows(design, target), oracle, tol=1e-8)
    again = conditional_gradient(SampledRows(design, target), oracle, tol=1e-7, start=end.x)
    assert again.iterations == 0
    assert again.converged


def test_rows_on_disk_are_read_like_rows_in_memory(tmp_path):
    design, target = rows()
    np.save(tmp_path / "design.npy", design)
    np.save(tmp_path / "target.npy", target)
    oracle = oracle_for(Region(36, 4.0))
    here = conditional_gradient(SampledRows(design, target), oracle, tol=1e-4)
    maps = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("design", "target")]
    there = conditional_gradient(SampledRows(*maps), oracle, tol=1e-4)
    assert (here.x == there.x).all()
    assert here.gap == there.gap


@pytest.mark.parametrize("kind", ["read", "written", "private", "part", "transposed", "gone"])
def test_any_memory_map_gives_the_rows_that_it_shows(tmp_path, kind):
    design, target = rows()
    path = tmp_path / "design.npy"
    np.save(path, np.asfortranarray(design) if kind == "transposed" else design)
    mode = {"written": "r+", "private": "c"}.get(kind, "r")
    shown = np.load(path, mmap_mode=mode)
    if mode != "r":
        shown[3] = 7.0
    if kind == "part":
        shown, target = shown[100:], target[100:]
    if kind == "gone":
        path.unlink()
        np.save(path, design[::-1])
    x = np.random.default_rng(0).normal(size=(12, 3))
    held = np.array(shown)
    assert SampledRows(shown, target).value(x) == SampledRows(held, target).value(x)
    samples = [Reading(SampledRows(values, target)).sample(100) for values in (shown, held)]
    assert (samples[0] == samples[1]).all()


@pytest.mark.parametrize("kind", problems.REGIONS)
def test_samples_of_the_columns_that_matter_reach_the_same_optimum(kind, monkeypatch):
    few = replace(sampled_rows._SAMPLING, sample=2_000, fewest=6)
    monkeypatch.setattr(sampled_rows, "_SAMPLING", few)
    design, target = rows(sizes=(1500, 40, 1))
    whole = LeastSquares.from_rows(design, target)
    norm = float(np.abs(np.linalg.lstsq(design, target, rcond=None)[0]).sum())
    region = problems._region(40, norm, kind)
    sampled = SampledRows(design, target, seed=3)
    assert sampled.columns_at(sampled.batch_at(3)) < 40
    result = conditional_gradient(sampled, oracle_for(region), tol=1e-5)
    assert result.converged
    assert result.objective - optimal_value(whole, region) <= result.gap + 1e-9 * result.scale


def test_the_gap_at_a_point_is_that_of_all_rows():
    design, target = rows()
    oracle = oracle_for(Region(36, 4.0))
    x = np.zeros((12, 3))
    whole, sampled = LeastSquares.from_rows(design, target), SampledRows(design, target)
    assert gap_at(sampled, oracle, x) == pytest.approx(gap_at(whole, oracle, x))
    assert sampled.value(x) == pytest.approx(whole.value(x))


def test_sparse_rows_and_a_single_target_will_do():
    import scipy.sparse

    design, target = rows(sizes=(500, 6, 1))
    sparse = scipy.sparse.csr_array(design)
    result = conditional_gradient(SampledRows(sparse, target[:, 0]), oracle_for(Region(6, 2.0)), tol=1e-6)
    assert result.x.shape == (6, 1)
    assert result.objective == pytest.approx(LeastSquares.from_rows(design, target).value(result.x))


@pytest.mark.parametrize(
    ("design", "target", "settings", "words"),
    [
        (np.ones((3, 2)), np.ones((4, 1)), {}, "as many rows"),
        (np.ones(3), np.ones((3, 1)), {}, "as many rows"),
        (np.ones((0, 2)), np.ones((0, 1)), {}, "nothing to fit"),
        (np.ones((3, 2)), np.ones((3, 1)), {"batch": 0}, "batch"),
        (np.ones((3, 2)), np.ones((3, 1)), {"seed": -1}, "seed"),
    ],
)
def test_what_cannot_be_sampled_is_told(design, target, settings, words):
    with pytest.raises(DataError, match=words):
        SampledRows(design, target, **settings)


def test_a_row_that_is_not_finite_is_named():
    design, target = rows()
    design[1234, 5] = np.nan
    with pytest.raises(DataError, match="row 1234"):
        conditional_gradient(SampledRows(design, target), oracle_for(Region(36, 4.0)))


def test_a_run_that_is_stopped_between_passes_ends_with_a_true_gap():
    design, target = rows()
    whole = LeastSquares.from_rows(design, target)
    oracle = oracle_for(Region(36, 4.0))
    result = conditional_gradient(
        SampledRows(design, target), oracle, callback=lambda step: step.iteration < 7
    )
    assert result.status is Status.STOPPED
    assert result.objective == pytest.approx(whole.value(result.x), rel=1e-12)
    assert result.gap == pytest.approx(gap_at(whole, oracle, result.x), rel=1e-6)


@pytest.mark.parametrize("correction", [Direct(), Blended()], ids=["direct", "blended"])
@pytest.mark.parametrize("batch", [None, 5, 20])
@pytest.mark.parametrize("tied", [False, True])
def test_columns_that_a_sample_misses_are_fitted_too(tied, batch, correction):
    rng = np.random.default_rng(0)
    design = rng.normal(size=(400, 5))
    design[:, 3:] = 0.0
    design[::97, 3] = 5.0  # rare events; the last column has none at all
    target = design @ np.array([[1.0], [-2.0], [0.5], [3.0], [0.0]])
    row = np.array([[1.0, 0.0, 0.0, 1.0, 1.0]]) if tied else None
    for radius in (6.0, 20.0):
        region = Region(5, radius, None, row, 4.0 if tied else -np.inf, 4.0 if tied else np.inf)
        oracle = oracle_for(region)
        whole = conditional_gradient(LeastSquares.from_rows(design, target), oracle)
        sampled = SampledRows(design, target, batch=batch)
        result = conditional_gradient(sampled, oracle, correction, tol=1e-4, max_iter=3_000)
        assert result.converged
        assert result.objective - whole.objective <= result.gap + 1e-9 * result.scale


def test_an_atom_that_no_row_sees_does_no_harm():
    design = np.zeros((50, 2))
    design[:, 0] = 1.0
    # The second coefficient alone is bounded away from zero, and its column is zero throughout.
    region = Region(2, 5.0, None, np.array([[0.0, 1.0]]), 1.0, 2.0)
    result = conditional_gradient(SampledRows(design, np.ones((50, 1))), oracle_for(region), Blended())
    assert result.converged
    assert result.x[0, 0] == pytest.approx(1.0)
