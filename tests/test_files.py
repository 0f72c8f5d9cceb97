"""Files that are written: whole or not at all, and into what was there before."""

import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import cindy
from cindy._files import whole_file, write_text
from cindy.errors import DataError
from cindy.model import Model
from cindy.summary.summary import Summary

MODEL = Model([[0.0], [-1.0]], cindy.Polynomial(1), ("x",))
SUMMARY = cindy.accumulate((np.linspace(0, 1, 30), np.exp(-np.linspace(0, 1, 30))), cindy.Polynomial(1))


@pytest.mark.parametrize("thing", [MODEL, SUMMARY], ids=["model", "summary"])
def test_saving_through_a_link_keeps_the_link(tmp_path, thing):
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "real", tmp_path / "link"
    for content in (None, "old"):
        if content is not None:
            target.write_text(content)
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        thing.save(link)
        assert link.is_symlink()
        assert target.stat().st_size > 100
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["far", "link", "real"]


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    MODEL.save(pipe)
    reader.join(10)
    assert '"cindy-model"' in got[0]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no full device")
@pytest.mark.parametrize("thing", [MODEL, SUMMARY], ids=["model", "summary"])
def test_a_full_device_is_said_in_a_sentence_and_stays_a_device(thing):
    with pytest.raises(DataError, match="No space left"):
        thing.save("/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    thing.save("/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no full device")
def test_the_command_line_says_that_the_disk_is_full(tmp_path):
    MODEL.save(tmp_path / "model.json")
    with open("/dev/full", "wb") as full:
        run = subprocess.run(
            [sys.executable, "-m", "cindy", "show", tmp_path / "model.json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert run.returncode == 1
    assert "No space left" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_file_that_was_there_keeps_its_permissions(tmp_path):
    target = tmp_path / "model.json"
    target.write_text("old")
    target.chmod(0o640)
    MODEL.save(target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


@pytest.mark.parametrize("path", ["", "no/such/folder/model.json", "a\0b", ".", "x" * 300])
@pytest.mark.parametrize("thing", [MODEL, SUMMARY], ids=["model", "summary"])
def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path, monkeypatch, path, thing):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"Cannot write|must be the path of a file"):
        thing.save(path)
    assert list(tmp_path.iterdir()) == []


def test_a_character_that_is_none_is_a_sentence(tmp_path):
    with pytest.raises(DataError, match="no character"):
        write_text(tmp_path / "file", "a\ud800", "the text")
    assert list(tmp_path.iterdir()) == []


def test_a_block_that_fails_leaves_the_old_file(tmp_path):
    (tmp_path / "file").write_text("old")

    def fail():
        with whole_file(tmp_path / "file", "it") as stream:
            stream.write(b"new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (tmp_path / "file").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda h: {k: v for k, v in h.items() if k != "basis"},
        lambda h: h | {"states": 3},
        lambda h: h | {"formulation": {"kind": "nothing"}},
        lambda h: h | {"samples": "many"},
        lambda h: h | {"labels": None},
        lambda h: h | {"basis": {"basis": "Polynomial", "degree": 7}},
        lambda h: [],
        lambda h: 1,
    ],
)
def test_a_summary_with_a_bad_header_is_refused(tmp_path, damage):
    import json

    SUMMARY.save(tmp_path / "s.npz")
    with np.load(tmp_path / "s.npz") as file:
        arrays = dict(file)
    arrays["header"] = np.array(json.dumps(damage(json.loads(str(arrays["header"])))))
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(DataError, match="Summary"):
        Summary.load(tmp_path / "bad.npz")


def test_names_with_commas_survive_the_csv_of_simulate(tmp_path):
    model = Model([[0.0], [-1.0]], cindy.Polynomial(1), ('mass, "dry"',))
    model.save(tmp_path / "m.json")
    command = ["simulate", tmp_path / "m.json", "--x0", "1", "--t", "0:1:0.5", "--out", tmp_path / "s.csv"]
    subprocess.run([sys.executable, "-m", "cindy", *command], check=True)
    (found,) = cindy.read(tmp_path / "s.csv")
    assert found.states == model.states
    assert np.allclose(found.x[:, 0], np.exp(-found.t))


def test_a_file_that_many_threads_write_is_always_whole(tmp_path):
    path = tmp_path / "model.json"
    models = [lorenz_like(scale) for scale in (1.0, 2.0)]
    models[0].save(path)
    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(models[k % 2].save, path) for k in range(40)]
        seen = {cindy.load(path).coef[1, 0] for _ in range(40)}
    assert all(done.exception() is None for done in writing)
    assert seen <= {1.0, 2.0}
    assert [file.name for file in tmp_path.iterdir()] == ["model.json"]


def lorenz_like(scale):
    return cindy.Model([[0.0], [scale]], cindy.Polynomial(1), ("x",))


def test_threads_that_identify_at_once_find_what_one_finds():
    t = np.linspace(0, 6, 60)
    data = [cindy.Trajectory(t, a * np.exp(-0.5 * t), ("x",)) for a in (1.0, 2.0)]
    alone = [cindy.identify(one, "poly:2", passes=1).coef for one in data]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda one: cindy.identify(one, "poly:2", passes=1).coef, data * 2))
    for found, expected in zip(together, alone * 2, strict=True):
        np.testing.assert_array_equal(found, expected)
