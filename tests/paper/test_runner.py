"""The runner: it resumes, repeats itself, and turns failures into rows."""

import csv
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.paper import methods, reproduce, studies
from benchmarks.paper.methods import METHODS, Method
from benchmarks.paper.runner import Case, run
from benchmarks.paper.tables import anchors_table
from benchmarks.table import alone, read_table

import cindy
from cindy.cli.app import main
from cindy.errors import DataError
from cindy.systems import fput

CASES = [Case("michaelis", f, eta, 0, trajectories=10) for f, eta in (("differential", 1e-6), ("free", 1e-3))]
NAMES = ("floor", "sindy", "lars")
TASKS = 3 + 2


def of_few(*arguments, **more):
    """A case of ten trajectories, where a study leaves their number to the system."""
    return Case(*arguments, **{"trajectories": 10, **more})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The table of a run that nothing disturbed, and the steps it told of."""
    seen, table = [], tmp_path_factory.mktemp("whole") / "a.csv"
    run(CASES, NAMES, table, trials=4, progress=lambda *step: seen.append(step))
    return table, seen


def test_every_method_that_takes_part_has_one_row_and_its_seconds(whole):
    table, seen = whole
    rows = read_table(table)
    assert len(rows) == TASKS
    assert [s[:2] for s in seen] == [(k + 1, TASKS) for k in range(TASKS)]
    assert all(row["error"] == "" and float(row["recovery"]) > 0 for row in rows)
    assert len(read_table(table.with_suffix(".seconds.csv"))) == TASKS


def test_two_runs_give_the_same_file_whatever_the_number_of_processes(whole, tmp_path):
    run(CASES, NAMES, tmp_path / "b.csv", trials=4, processes=2)
    assert whole[0].read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_a_broken_run_resumes_without_loss_or_repetition(whole, tmp_path):
    broken = tmp_path / "broken.csv"

    class Killed(BaseException):
        pass

    def kill(done, total, name):
        if done == 3:
            raise Killed

    with pytest.raises(Killed):
        run(CASES, NAMES, broken, trials=4, progress=kill)
    assert len(read_table(broken)) == 3
    # What a kill in the middle of a write leaves.
    with broken.open("a") as file:
        file.write("michaelis,free,1e-0")
    again = []
    run(CASES, NAMES, broken, trials=4, progress=lambda *step: again.append(step))
    assert len(again) == TASKS - 3
    assert whole[0].read_bytes() == broken.read_bytes()


def test_a_failure_is_a_row_with_its_error_and_the_run_goes_on(tmp_path, monkeypatch):
    def fail(setting, trials, seed):
        raise RuntimeError("it\nbroke")

    monkeypatch.setitem(methods.METHODS, "lars", Method("LARS", fail, ("differential",), "#000000", "o"))
    rows = run(CASES[:1], NAMES, tmp_path / "a.csv", trials=4)
    failed = {row["method"]: row["error"] for row in rows}
    assert failed == {"floor": "", "sindy": "", "lars": "RuntimeError: it broke"}


def test_the_command_ends_with_status_1_and_tells_each_failure(tmp_path, monkeypatch, capsys):
    def fail(setting, trials, seed):
        raise RuntimeError("it broke")

    def at_the_edge(setting, trials, seed):
        return replace(METHODS["floor"].fit(setting, trials, seed), edge="ridge:high")

    for name, fit in (("lars", fail), ("ssr", at_the_edge)):
        monkeypatch.setitem(methods.METHODS, name, replace(METHODS[name], fit=fit))
    monkeypatch.setattr(studies, "METHODS", ("floor", "lars", "ssr"))
    monkeypatch.setattr(studies, "Case", of_few)
    monkeypatch.setattr(studies.figures, "metrics_against_noise", lambda rows, methods: None)
    monkeypatch.setattr(studies.figures, "save", lambda figure, path: path)
    monkeypatch.setitem(studies.QUICK, "michaelis", studies.StudyPlan((1e-4,), 1, 2))
    command = ["cindy", "reproduce", "michaelis", "--quick", "--processes", "1", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as end:
        main()
    told = capsys.readouterr().err
    assert end.value.code == 1
    assert told.count("Failed: ") == 4
    assert "michaelis differential 0.0001 lars, repetition 0: RuntimeError: it broke" in told
    assert "michaelis integral 0.0001 ssr, repetition 0: tuned to an end of the range, ridge:high" in told


def test_noise_that_hides_everything_is_scored_as_no_model(tmp_path):
    loud = Case("michaelis", "integral", 30.0, 0, trajectories=10)
    (row,) = run([loud], ("default",), tmp_path / "a.csv", trials=2)
    assert row["error"] == ""
    assert (row["extra"], row["missing"]) == ("0", "7")
    assert "no term is significant" in row["note"]


def test_data_that_cannot_be_made_fail_every_method_of_the_case(tmp_path):
    rows = run([Case("michaelis", "free", 1e-3, 0, trajectories=2)], NAMES, tmp_path / "a.csv", trials=4)
    assert len(rows) == 2
    assert all("3 trajectories" in row["error"] for row in rows)


@pytest.fixture
def tiny(monkeypatch):
    """Every study in the smallest size that still draws its figures; `test_peers` has every method."""
    plan = studies.StudyPlan((1e-4,), 1, 2)
    monkeypatch.setattr(studies, "Case", of_few)
    monkeypatch.setattr(studies, "METHODS", ("floor", "sindy", "weak", "default"))
    monkeypatch.setattr(studies, "HEAT_METHODS", ("sindy", "default"))
    monkeypatch.setattr(studies, "SMALL", {"michaelis": plan})
    monkeypatch.setattr(studies, "ESTIMATES", (1e-6, 1e-4, 1e-2))
    monkeypatch.setattr(studies, "QUICK", dict.fromkeys((*studies.SMALL, *studies.LARGE), plan))
    monkeypatch.setattr(studies, "QUICK_HEAT", studies.StudyPlan((1e-4,), 1, 2))
    monkeypatch.setattr(studies, "SIZES", {"michaelis": (10,)})
    monkeypatch.setattr(studies, "ANCHOR_METHODS", ("floor", "sindy", "default"))


@pytest.mark.parametrize("name", ["michaelis", "sample-efficiency", "estimates", "anchors"])
def test_a_study_gives_its_tables_and_figures(name, tiny, tmp_path):
    written = reproduce(name, out=tmp_path, quick=True, processes=1)
    assert written
    for path in written:
        assert path.stat().st_size > 0
    for row in read_table(written[0]):
        assert not row.get("error"), row


@pytest.mark.parametrize("system", ["kuramoto10", "fput10"])
def test_the_large_systems_are_the_same_studies_as_the_small_ones(system):
    assert studies.STUDIES[system] is studies.STUDIES["michaelis"]
    assert set(studies.LARGE) <= set(studies.QUICK)


def test_identified_models_are_set_in_motion_and_drawn(tmp_path, monkeypatch):
    from benchmarks.paper import motion
    from benchmarks.paper.figures import save
    from benchmarks.table import write_table

    monkeypatch.setitem(motion.SYSTEMS, "fput2", lambda seed: fput(2))
    monkeypatch.setitem(motion.TIMES, "fput2", np.linspace(0, 2, 9))
    monkeypatch.setitem(motion.SHOWN, "fput2", (1.0, 2.0))
    rows = motion.set_in_motion("fput2", trials=2, trajectories=10)
    assert {row["model"] for row in rows} == {"truth", *motion.MODELS}
    table = write_table(tmp_path / "m.csv", motion.motion_columns(2), rows)
    drawn = save(motion.draw_motion(read_table(table), "fput2"), tmp_path / "m.png")
    assert drawn.stat().st_size > 0


def test_objectives_along_the_run_fall_and_are_drawn(tmp_path):
    from benchmarks.paper import convergence
    from benchmarks.paper.figures import save

    rows = convergence.objective_along_runs("michaelis", iterations=8, points=3, trajectories=10)
    for name in convergence.ALGORITHMS:
        mine = [r["training"] for r in rows if r["algorithm"] == name and r["formulation"] == "integral"]
        assert mine == sorted(mine, reverse=True)
    text = [{k: str(v) for k, v in r.items()} for r in rows]
    assert save(convergence.draw_convergence(text, text), tmp_path / "c.png").stat().st_size > 0


def test_an_unknown_study_or_method_is_told_with_the_nearest_name():
    with pytest.raises(DataError, match='Did you mean "kuramoto5"'):
        reproduce("kuramoto-5")
    with pytest.raises(DataError, match='Did you mean "states"'):
        reproduce("michaelis", methods=["state"])


def test_a_study_of_one_method_has_its_rows_alone(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(studies.figures, "metrics_against_noise", lambda rows, methods: None)
    monkeypatch.setattr(studies.figures, "save", lambda figure, path: path)
    table, *_ = reproduce("michaelis", out=tmp_path, quick=True, processes=1, methods=["floor"])
    assert {row["method"] for row in read_table(table)} == {"floor"}


def test_every_method_has_a_look_of_its_own():
    looks = [(m.colour, m.marker, m.line) for m in METHODS.values()]
    assert len(set(looks)) == len(looks)


def test_a_row_of_results_is_plain_csv(tmp_path):
    run(CASES[:1], ("floor",), tmp_path / "a.csv", trials=2)
    with (tmp_path / "a.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["noise"] == "1e-06"
    assert row["trajectories"] == "10"


def test_the_anchors_tell_medians_worst_and_by_what_factor():
    key = {"system": "fput5", "formulation": "free", "error": "", "missing": "0"}
    rows = [
        {**key, "method": "default", "recovery": "0.05", "extra": "0"},
        {**key, "method": "default", "recovery": "0.19", "extra": "2"},
        {**key, "method": "default", "recovery": "0.1", "extra": "0"},
        {**key, "method": "default", "recovery": "7", "extra": "0", "formulation": "integral"},
        {**key, "method": "default-c", "recovery": "", "extra": "", "error": "it broke"},
    ]
    line = anchors_table(rows, [{**row, "seconds": "0.5"} for row in rows]).splitlines()[2:]
    assert line == [
        "| fput5 | 3.1 | 7.7 | 1.9 | 5.9 | defaults | 0.1 | 0.19 | 2 of 3 | 0.50 | 19 | 10 |",
    ]


def test_the_front_table_has_a_line_for_every_method_and_tells_exact_supports(tmp_path):
    from benchmarks.paper.tables import front_table

    rows = run([of_few("michaelis", "free", 1e-4, 0)], ("floor", "sindy"), tmp_path / "a.csv", trials=4)
    text = front_table(rows, read_table(tmp_path / "a.seconds.csv"))
    lines = {line.split("|")[1].strip(): line for line in text.splitlines()[2:]}
    assert set(lines) == {m.label for m in METHODS.values()}
    assert lines["true support"].count("exact") == 1
    assert lines["true support"].endswith(f"| 1 ({cindy.__version__}) |")
    assert "–" in lines["FISTA"]


def test_a_second_run_into_the_same_table_is_refused_until_the_first_ends(tmp_path):
    table = tmp_path / "table.csv"
    again = (
        "import sys, pathlib; from benchmarks.table import alone\n"
        "with alone(pathlib.Path(sys.argv[1])): print('in')"
    )
    with alone(table):
        held = subprocess.run(
            [sys.executable, "-c", again, table], capture_output=True, text=True, check=False
        )
    free = subprocess.run([sys.executable, "-c", again, table], capture_output=True, text=True, check=False)
    assert "Another run is writing" in held.stderr
    assert free.stdout == "in\n"
    assert list(tmp_path.iterdir()) == []
