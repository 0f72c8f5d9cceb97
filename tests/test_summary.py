"""Summaries add up, survive the disk, and refuse what does not match."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.sums import close, gram

from cindy.basis import Custom, Polynomial
from cindy.data.trajectory import Trajectory
from cindy.errors import DataError
from cindy.formulation import Differential, Discrete, Integral
from cindy.least_squares import LeastSquares
from cindy.summary.accumulation import accumulate
from cindy.summary.summary import Summary

T = np.linspace(0, 5, 101)
BASIS = Polynomial(2)


def trajectory(phase: float, **more) -> Trajectory:
    x = np.column_stack([np.sin(T + phase), (1 + phase) * np.cos(T + phase)])
    return Trajectory(T, x, more.pop("states", ("x", "y")), **more)


def summary_of(*phases: float, formulation=None, basis=BASIS, **more) -> Summary:
    return accumulate(
        [trajectory(p, **more) for p in phases], basis, formulation=formulation or Integral(window=25)
    )


@pytest.mark.parametrize(
    "formulation",
    [
        Integral(window=25, feedback=0.0),
        Integral(order=2, window=25, feedback=0.0),
        Integral(initial="first", window=0),
        Differential(degree=4, half_width=3),
        Discrete(),
    ],
    ids=lambda f: f.kind,
)
def test_addition_is_associative_commutative_and_equal_to_accumulating_all(formulation):
    a, b, c = (summary_of(p, formulation=formulation) for p in (0.1, 0.7, 1.9))
    together = summary_of(0.1, 0.7, 1.9, formulation=formulation)
    for other in ((a + b) + c, a + (b + c), c + b + a):
        assert close(gram(other), gram(together))
        assert other.samples == together.samples
        assert other.total.rows == together.total.rows


def test_blocks_sum_to_the_whole():
    summary = summary_of(0.1, 0.7)
    total = sum((b.factor.T @ b.factor for b in summary.blocks), np.zeros((8, 8)))
    assert close(total, gram(summary))
    assert sum(b.rows for b in summary.blocks) == summary.total.rows


def test_adding_keeps_blocks_and_labels():
    a, b = summary_of(0.1), summary_of(0.7)
    assert (a + b).labels == a.labels + b.labels
    assert len((a + b).blocks) == len(a.blocks) + len(b.blocks)


def test_windows_chosen_from_different_data_do_not_stand_in_the_way():
    assert (summary_of(0.1) + summary_of(0.2, formulation=Integral(window=30))).samples == 202


MISMATCHES = {
    "states": (summary_of(0.1, states=("x", "z")), r"states: \('x', 'y'\) and \('x', 'z'\)"),
    "inputs": (summary_of(0.1, u=np.sin(T)), r"inputs: \(\) and \('u1',\)"),
    "basis": (summary_of(0.1, basis=Polynomial(3)), r"basis: Polynomial\(.*2.*\) and Polynomial\(.*3.*\)"),
    "order": (summary_of(0.1, formulation=Integral(order=2)), r"formulation \(order\): 1 and 2"),
    "kind": (
        summary_of(0.1, formulation=Differential()),
        r"formulation \(kind\): 'integral' and 'differential'",
    ),
    "initial": (summary_of(0.1, formulation=Integral(initial="first")), r"formulation \(initial\)"),
}


@pytest.mark.parametrize("case", MISMATCHES)
def test_what_does_not_match_is_refused_and_the_difference_named(case):
    other, message = MISMATCHES[case]
    with pytest.raises(DataError, match=message):
        summary_of(0.1) + other


def test_a_saved_and_loaded_summary_is_the_same(tmp_path):
    summary = accumulate(
        [trajectory(0.1, u=np.sin(3 * T)), trajectory(0.5, u=np.cos(T)), trajectory(0.5, u=T).part(0, 2)],
        Polynomial(2) + Custom({"growth": "x*exp(-y)"}),
        formulation=Integral(window=20),
    )
    summary.save(tmp_path / "s.npz")
    again = Summary.load(tmp_path / "s.npz")
    assert again.terms == summary.terms
    assert again.labels == summary.labels
    assert (again.samples, again.skipped) == (summary.samples, summary.skipped) == (202, 1)
    assert again.formulation == summary.formulation
    assert all(np.array_equal(a.factor, b.factor) for a, b in zip(again.blocks, summary.blocks, strict=True))
    assert [a.rows for a in again.blocks] == [b.rows for b in summary.blocks]
    assert np.array_equal((again + summary).total.factor, (summary + summary).total.factor)


def test_python_functions_come_back_when_they_are_given_again(tmp_path):
    def cube(x):
        return x**3

    summary = summary_of(0.1, basis=Custom({"cube": cube}))
    summary.save(tmp_path / "s.npz")
    with pytest.raises(DataError, match="cube"):
        Summary.load(tmp_path / "s.npz")
    assert Summary.load(tmp_path / "s.npz", functions={"cube": cube}).terms == ("cube",)


def test_a_failed_save_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "s.npz"
    summary_of(0.1).save(path)
    before = path.read_bytes()
    monkeypatch.setattr(np, "savez", lambda *a, **k: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(DataError, match="disk full"):
        summary_of(0.2).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["s.npz"]


@pytest.mark.parametrize("junk", [b"", b"junk", b"PK\x03\x04 not a zip"])
def test_junk_is_not_a_summary(tmp_path, junk):
    path = tmp_path / "s.npz"
    path.write_bytes(junk)
    with pytest.raises(DataError, match=r"s\.npz"):
        Summary.load(path)


def test_other_archives_versions_and_missing_files_are_refused(tmp_path):
    with pytest.raises(DataError, match="no file"):
        Summary.load(tmp_path / "s.npz")
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    with pytest.raises(DataError, match="not a summary"):
        Summary.load(tmp_path / "other.npz")
    header = np.array(json.dumps({"format": "cindy-summary", "version": 99}))
    np.savez(tmp_path / "new.npz", header=header)
    with pytest.raises(DataError, match="version 99"):
        Summary.load(tmp_path / "new.npz")
    np.savez(tmp_path / "pickle.npz", header=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="not a summary"):
        Summary.load(tmp_path / "pickle.npz")


def test_a_file_whose_blocks_do_not_fit_its_header_is_refused(tmp_path):
    path = tmp_path / "s.npz"
    summary_of(0.1).save(path)
    with np.load(path) as file:
        arrays = dict(file)
    arrays["factors"] = arrays["factors"][:, :-1]
    np.savez(path, **arrays)
    with pytest.raises(DataError, match="not of the shape that its header says"):
        Summary.load(path)


def test_blocks_that_do_not_fit_are_refused():
    summary = summary_of(0.1)
    with pytest.raises(DataError, match="needs a label"):
        replace(summary, labels=())
    with pytest.raises(DataError, match='block "wrong" has 3 terms'):
        replace(summary, blocks=(LeastSquares.empty(3, 2),), labels=("wrong",))
