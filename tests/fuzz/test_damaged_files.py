"""Damaged files of every kind: read right or refused in a sentence, and never anything else."""

import json

import numpy as np
import pytest
from benchmarks.fuzz_readers import KINDS, attempt, mutated as damaged

import cindy
from cindy.errors import CindyError
from cindy.model import Model
from cindy.summary import Summary

DAMAGED, MUTATED = 100, 500
T = np.linspace(0, 1, 30)
X = np.column_stack([np.sin(T), np.cos(T)])


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_read_or_refused_in_a_sentence(kind, tmp_path):
    pytest.importorskip("pandas")
    pytest.importorskip("xarray")
    # netCDF 4 is tried in a process of its own, which takes a third of a second.
    said = [attempt(kind, tmp_path, number) for number in range(3 if kind == "netCDF 4" else DAMAGED)]
    assert set(said) <= {"read", "refused"}


def test_a_damaged_summary_is_loaded_or_refused_in_a_sentence(tmp_path):
    file = tmp_path / "summary.npz"
    cindy.accumulate((T, X), cindy.Polynomial(1)).save(file)
    raw, rng, refused = file.read_bytes(), np.random.default_rng(13), 0
    for _ in range(DAMAGED):
        file.write_bytes(damaged(raw, rng))
        try:
            Summary.load(file)
        except CindyError:
            refused += 1
    assert refused > DAMAGED // 10


def mutated(value, rng):
    """A JSON value with one part replaced, dropped or doubled."""
    junk = [None, True, -1, 1e308, "", "x*", "\u0000", [], {}, [[]], "inf", 10**30, {"basis": "Sum"}]
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = list(value)[int(rng.integers(len(value)))]
        changed = dict(value)
        if rng.random() < 0.15:
            del changed[key]
        else:
            changed[key] = mutated(value[key], rng)
        return changed
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = int(rng.integers(len(value)))
        changed = list(value)
        if rng.random() < 0.3:
            changed[place : place + 1] = [value[place]] * int(rng.integers(3))
        else:
            changed[place] = mutated(value[place], rng)
        return changed
    return junk[int(rng.integers(len(junk)))]


def test_a_mutated_model_is_loaded_and_used_or_refused_in_a_sentence(tmp_path):
    t = np.linspace(0, 6, 200)
    data = cindy.Trajectory(t, np.column_stack([np.cos(t), -np.sin(t)]), ("x", "v"))
    basis = cindy.Polynomial(2).on("x", "v") + cindy.Custom({"drag": "v*abs(v) + where(x > 0, 1, exp(-x))"})
    model = cindy.identify(data, basis, constraints=[cindy.fix("x", "v", 1.0)])
    file = tmp_path / "model.json"
    model.save(file)
    whole = json.loads(file.read_text())
    rng = np.random.default_rng(7)
    loaded = 0
    for _ in range(MUTATED):
        file.write_text(json.dumps(mutated(whole, rng)))
        try:
            use(cindy.load(file), tmp_path)
            loaded += 1
        except CindyError:
            continue
    assert MUTATED // 20 < loaded < MUTATED


def use(model: Model, folder):
    """What a user does with a model that was loaded."""
    str(model)
    repr(model)
    model.summary()
    model._repr_html_()
    model.to_latex()
    compile(model.to_python(), "model", "exec")
    model.save(folder / "again.json")
    with np.errstate(all="ignore"):
        model.simulate(
            np.ones(model.order * len(model.states)),
            [0.0, 0.1],
            u=np.ones((2, len(model.inputs))) if model.inputs else None,
        )
