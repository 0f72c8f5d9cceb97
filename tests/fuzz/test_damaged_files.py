"""Damaged files of every kind: read right or refused in a sentence, and never anything else."""

import gzip
import json
import warnings

import numpy as np
import pytest

import cindy
from cindy.errors import CindyError
from cindy.model import Model
from cindy.summary import Summary

DAMAGED, MUTATED = 300, 500
T = np.linspace(0, 1, 30)
X = np.column_stack([np.sin(T), np.cos(T)])


def written(kind, folder):
    """A whole file of some kind."""
    file = folder / f"whole.{kind}"
    if kind in ("csv", "txt", "csv.gz"):
        lines = [
            "# made for a test",
            "t,x,y",
            *(f"{t!r},{x!r},{y!r}" for t, x, y in zip(T, *X.T, strict=True)),
        ]
        text = "\n".join(lines).replace(",", " " if kind == "txt" else ",")
        file.write_bytes(gzip.compress(text.encode()) if kind == "csv.gz" else text.encode())
    elif kind == "npz":
        np.savez_compressed(file, t=T, x=X, states=["x", "y"])
    elif kind == "mat":
        pytest.importorskip("scipy.io").savemat(file, {"t": T, "x": X}, do_compression=True)
    elif kind == "summary.npz":
        cindy.accumulate((T, X), cindy.Polynomial(1)).save(file)
    else:
        frame = pytest.importorskip("pandas").DataFrame({"t": T, "x": X[:, 0], "y": X[:, 1]})
        if kind == "parquet":
            frame.to_parquet(file)
        else:
            pytest.importorskip("openpyxl")
            frame.to_excel(file, index=False)
    return file


def damaged(raw, rng):
    """The bytes with one of the accidents that happen to files."""
    data = bytearray(raw)
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(data))) if data else 0
        match int(rng.integers(5)):
            case 0:
                data[place : place + 1] = bytes([int(rng.integers(256))])
            case 1:
                data = data[:place]
            case 2:
                data[place:place] = rng.bytes(int(rng.integers(1, 30)))
            case 3:
                data[place : place + int(rng.integers(1, 30))] = b""
            case 4:
                data[place : place + 8] = b"\x00" * 8
    return bytes(data)


@pytest.mark.parametrize("kind", ["csv", "txt", "csv.gz", "npz", "mat", "parquet", "xlsx", "summary.npz"])
def test_a_damaged_file_is_read_or_refused_in_a_sentence(kind, tmp_path):
    raw = written(kind, tmp_path).read_bytes()
    rng = np.random.default_rng(13)
    refused = 0
    for k in range(DAMAGED):
        file = tmp_path / f"{k}.{kind}"
        file.write_bytes(damaged(raw, rng))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                Summary.load(file) if kind == "summary.npz" else cindy.read(file)
        except CindyError:
            refused += 1
        file.unlink()
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
