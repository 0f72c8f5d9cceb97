"""Data in parts: loaded when asked for, again in every pass, and once where there is only once."""

import numpy as np
import pytest

import cindy
from cindy.data import as_source, glimpse

BASIS = cindy.Polynomial(2)


def run(seed: int, samples: int = 400) -> cindy.Trajectory:
    t = np.arange(samples) * 0.05
    size, phase = np.random.default_rng(seed).uniform(1, 6, 2)
    return cindy.Trajectory(t, size * np.stack([np.sin(t + phase), np.cos(t + phase)], axis=1), ("x", "y"))


@pytest.fixture
def files(tmp_path):
    for k in range(5):
        one = run(k)
        np.savez(tmp_path / f"{k}.npz", t=one.t, x=one.x, states=one.states)
    return tmp_path


class Again:
    """An iterable that begins anew, and counts how often."""

    def __init__(self) -> None:
        self.begun = 0

    def __iter__(self):
        self.begun += 1
        return (run(k) for k in range(5))


def test_files_are_loaded_part_by_part_and_again_in_every_pass(files):
    lazy = cindy.read(str(files / "*.npz"), lazy=True)
    assert repr(lazy) == "Lazy(5 parts of files)"
    first, second = list(lazy), list(lazy)
    assert [one.name for one in first] == [f"{k}.npz" for k in range(5)]
    assert all(np.array_equal(a.x, b.x) for a, b in zip(first, second, strict=True))
    several = cindy.read(sorted(files.glob("*.npz")))
    assert [one.name for one in several] == [one.name for one in first]
    model, whole = cindy.identify(lazy, BASIS, passes=1), cindy.identify(several, BASIS, passes=1)
    assert np.allclose(model.coef, whole.coef, atol=1e-9)
    assert not model.warnings


@pytest.mark.parametrize("labels", ["count", "time", "runs"])
def test_a_glimpse_of_a_parquet_file_is_the_beginning_of_what_it_holds(tmp_path, labels):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    one = run(0, 5000)
    frame = pd.DataFrame({"t": one.t, "x": one.x[:, 0], "y": one.x[:, 1]})
    index = {"count": None, "time": "t", "runs": ["run", "t"]}[labels]
    frame = frame if index is None else frame.assign(run=np.arange(5000) % 2).set_index(index)
    frame.drop(columns="run", errors="ignore").to_parquet(tmp_path / "0.parquet", row_group_size=2000)
    (part,) = cindy.read([tmp_path / "0.parquet"], lazy=True).parts
    whole, few = part(), glimpse(part, 100)
    assert [(f.name, f.states) for f in few] == [(w.name, w.states) for w in whole]
    assert [len(f) for f in few] == ([2500, 2500] if labels == "runs" else [100])
    for w, f in zip(whole, few, strict=True):
        assert np.array_equal(w.t[: len(f)], f.t)
        assert np.array_equal(w.x[: len(f)], f.x)


def test_a_missing_file_is_told_before_anything_is_loaded(files):
    with pytest.raises(cindy.DataError, match="there is no file"):
        cindy.read([files / "0.npz", files / "missing.npz"], lazy=True)
    with pytest.raises(cindy.DataError, match="no file matches"):
        cindy.read(str(files / "*.parquet"), lazy=True)


def test_a_generator_gets_one_pass_and_the_model_says_so():
    once = cindy.identify((run(k) for k in range(5)), BASIS, passes=1)
    assert "read only once" in once.warnings[-1]
    source = as_source(run(k) for k in range(20))
    assert not source.again
    assert len(source.some(100_000)) == 12
    assert len(list(source)) == 20
    with pytest.raises(cindy.DataError, match="only once"):
        list(source)


def test_an_iterable_that_begins_anew_may_be_read_again():
    data = Again()
    model = cindy.identify(data, BASIS, passes=1)
    assert data.begun > 1
    assert not any("only once" in sentence for sentence in model.warnings)
    assert sum(len(one) for one in as_source(data)) == 2000


def test_some_of_the_data_are_spread_over_the_parts():
    lazy = cindy.Lazy([lambda k=k: [run(k)] for k in range(100)])
    some = as_source(lazy).some(1200)
    assert len(some) == 12
    assert sum(map(len, some)) == 1200
    assert np.array_equal(some[-1].x, run(99).x[:100])


def test_parts_that_differ_in_their_states_are_refused():
    other = cindy.Trajectory(np.arange(50.0), np.zeros((50, 1)), ("z",))
    parts = [lambda: [run(0)]] * 30
    parts[16] = lambda: [other]
    with pytest.raises(cindy.DataError, match="same"):
        cindy.accumulate(cindy.Lazy(parts), BASIS)


def test_a_part_that_later_loads_something_else_is_refused():
    loads = iter([[run(0)]])
    lazy = cindy.Lazy([lambda: next(loads, 42)])
    with pytest.raises(cindy.DataError, match="a part must load a list of trajectories, but loaded 42"):
        cindy.accumulate(lazy, BASIS, formulation=cindy.Differential())
