"""read: every kind of file, and every kind of broken one."""

import gzip
import os
import re
import threading
from datetime import UTC, datetime, time

import numpy as np
import pytest

from cindy.data.readers import read
from cindy.errors import DataError

T = np.linspace(0, 1, 6)
X = np.column_stack([np.sin(T), np.cos(T)])
CSV = "t,x,y\n" + "".join(f"{t!r},{x!r},{y!r}\n" for t, x, y in np.column_stack([T, X]).tolist())


@pytest.fixture
def write(tmp_path):
    def make(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


def same(trajectories, *, names=("x", "y")):
    (one,) = trajectories
    assert one.states == names
    assert np.array_equal(one.t, T)
    assert np.array_equal(one.x, X)


@pytest.mark.parametrize(
    "text",
    [
        CSV,
        CSV.replace(",", ";"),
        CSV.replace(",", "\t"),
        CSV.replace("\n", "\r\n"),
        CSV + "\n\n",
        "\ufeff" + CSV,
        CSV.replace("t,x,y", '"t", "x","y"'),
        CSV.replace("\n0.2,", '\n"0.2",'),
        CSV.replace("\n0.2,", "\n\n0.2,"),
    ],
    ids=[
        "commas",
        "semicolons",
        "tabs",
        "windows",
        "blank end",
        "byte mark",
        "quoted header",
        "quoted",
        "blank line",
    ],
)
def test_text_files_in_every_dialect_give_the_same_trajectory(write, text):
    same(read(write(text)))


def test_a_gzipped_file_is_read_by_its_content(write):
    same(read(write(gzip.compress(CSV.encode()), "data.csv.gz")))


def test_a_path_may_be_a_string_and_states_a_selection(write):
    (one,) = read(str(write(CSV)), states=["y"])
    assert one.states == ("y",)
    assert np.array_equal(one.x[:, 0], X[:, 1])


@pytest.mark.parametrize("cell", ["", " ", "nan", "NaN", "NA", "null"])
def test_an_empty_cell_is_a_missing_value(write, cell):
    (one,) = read(write(f"t,x,y\n0,1,2\n1,{cell},3\n2,4,5\n"))
    assert np.isnan(one.x[1, 0])
    assert one.x[1, 1] == 3


def test_a_column_separates_trajectories_in_the_order_in_which_they_appear(write):
    (b, a) = read(write("run,t,x\nb,0,1\na,0,5\nb,1,2\na,2,6\n"), by="run")
    assert (b.name, a.name) == ("run b", "run a")
    assert b.x[:, 0].tolist() == [1, 2]
    assert a.t.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("content", "unit", "times", "length"),
    [
        ("date,x\n2024-05-01,1\n2024-05-02,2\n", None, [0, 86400], "s"),
        ("date,x\n2024-05-01,1\n2024-05-02,2\n", "day", [0, 1], "day"),
        ("date,x\n2020-01-01,1\n2024-01-01,2\n", "year", [0, 4], "year"),
        ("time_s,x\n0,1\n90,2\n", "minute", [0, 1.5], "minute"),
        ("day,x\n0,1\n3,2\n", "day", [0, 3], "day"),
        ("t,x\n0,1\n3,2\n", "week", [0, 3], "week"),
    ],
)
def test_dates_and_seconds_count_in_the_unit_that_is_given(write, content, unit, times, length):
    (run,) = read(write(content), time_unit=unit)
    assert run.t.tolist() == times
    assert run.time_unit == length


def test_a_step_has_the_unit_that_is_given(write):
    (run,) = read(write("x\n1\n2\n"), dt=0.5, time_unit="hour")
    assert (run.t.tolist(), run.time_unit) == ([0, 0.5], "hour")


def test_several_columns_separate_trajectories_together(write):
    path = write("who,dose,t,x\nb,1,0,1\nb,2,0,5\nb,1,1,2\na,1,0,6\n")
    runs = read(path, by=("who", "dose"))
    assert [run.name for run in runs] == ["who b, dose 1", "who b, dose 2", "who a, dose 1"]
    assert [run.x[:, 0].tolist() for run in runs] == [[1, 2], [5], [6]]
    assert runs[0].states == ("x",)


@pytest.mark.parametrize(
    ("by", "told"),
    [
        (("run", "run"), "must be distinct"),
        (("run", 1), r"`by`\[1\] must be a non-empty string"),
        (7, "names"),
        (("t", "run"), 'the column "t" cannot be a state, an input, the time and `by` at once'),
    ],
)
def test_columns_that_cannot_separate_trajectories_are_refused(write, by, told):
    with pytest.raises(DataError, match=told):
        read(write("t,run,x\n0,1,1\n"), by=by)


def test_all_other_levels_of_an_index_separate_trajectories():
    pandas = pytest.importorskip("pandas")
    levels = pandas.MultiIndex.from_product([["a", "b"], [1, 2], [0.0, 0.5]], names=["who", "dose", "t"])
    runs = read(pandas.DataFrame({"x": np.arange(8.0)}, index=levels))
    assert [run.name for run in runs] == ["who a, dose 1", "who a, dose 2", "who b, dose 1", "who b, dose 2"]
    assert runs[3].x[:, 0].tolist() == [6, 7]


def test_inputs_and_time_have_the_names_they_are_given(write):
    (one,) = read(write("s,x,force\n0,1,9\n1,2,8\n"), time="s", inputs=["force"])
    assert one.states == ("x",)
    assert one.inputs == ("force",)
    assert one.u is not None
    assert one.u[:, 0].tolist() == [9, 8]


def test_words_in_a_column_that_is_not_asked_for_do_no_harm(write):
    (one,) = read(write("t,x,note\n0,1,good\n1,2,bad\n"), states=["x"])
    assert one.x[:, 0].tolist() == [1, 2]


BROKEN = {
    "empty": ("", {}, "is empty"),
    "blank": ("\n\n", {}, "is empty"),
    "header only": ("t,x,y\n", {}, "header but no rows"),
    "no header": ("0,1,2\n1,2,3\n", {}, "line 1: expected the names of the columns"),
    "words": ("t,x\n0,1\n1,two\n2,3\n", {}, "line 3, column \"x\": expected a number, but got 'two'"),
    "ragged": ("t,x,y\n0,1,2\n1,2\n2,3,4\n", {}, "line 3: expected 3 cells as in the header, but got 2"),
    "too many cells": ("t,x\n0,1\n1,2,3\n", {}, "line 3: expected 2 cells as in the header, but got 3"),
    "ragged after a blank line": ("t,x\n0,1\n\n1\n", {}, "line 4: expected 2 cells"),
    "binary junk": (bytes(range(256)) * 4, {}, "not text"),
    "null bytes": ("t,x\n0,1\n\x00\x00,2\n", {}, "line 3: this is not text"),
    "an unclosed quote": ('t,x\n0,1\n1,"' + "2" * 140_000, {}, "line 3"),
    "damaged gzip": (b"\x1f\x8b" + b"junk" * 10, {}, "damaged"),
    "missing time": ("s,x\n0,1\n", {}, 'no column "t", nor one called time.*`time`'),
    "two times": (
        "date,hour,x\n1,0,1\n",
        {},
        r'"date" and "hour" may be times.*joined by `time=\("date", "hour"\)`',
    ),
    "no date to join": ("day,time,x\n1,12:30,1\n", {"time": ("day", "time")}, "line 2.*got '1 12:30'"),
    "a part of the time": ("date,x\n2024-05-01,1\n", {"time": ("date", "clock")}, 'no column "clock"'),
    "missing state": ("t,speed\n0,1\n", {"states": ["sped"]}, 'no column "sped". Did you mean "speed"'),
    "a header shorter than the rows": (
        "t,x\nNA,NA,NA\n0,1,2\n",
        {},
        r"line 1 read as a title, line 2 as the names\) has no column \"t\"",
    ),
    "times in another unit": ("t_ms,x\n0,1\n", {"time_unit": "day"}, 'has times in "ms"'),
    "one of two missing": ("t,run,x\n0,1,1\n", {"by": ("run", "dos")}, 'no column "dos"'),
    "missing by": ("t,run,x\n0,1,1\n", {"by": "runs"}, 'no column "runs". Did you mean "run"'),
    "missing input": ("t,x\n0,1\n", {"inputs": ["u"]}, 'no column "u"'),
    "time goes back": ("t,x\n0,1\n2,2\n1,3\n", {}, 'line 4, column "t": time goes back, from 2 to 1.*`by`'),
    "time repeats": ("t,x\n0,1\n1,2\n1,3\n", {}, "line 4.*time repeats.*with `by`.*average the rows"),
    "time repeats in a run": (
        "t,r,x\n0,a,1\n0,b,1\n0,a,2\n",
        {"by": "r"},
        r"line 4.*time repeats, from 0 to 0 in r a.*average the rows.*\[\"r\", \"t\"\]",
    ),
    "no time in a row": ("t,x\n0,1\n,2\n", {}, 'line 3, column "t": the time is missing'),
    "infinite": ("t,x\n0,1\n1,inf\n", {}, 'line 3, column "x": inf is not a measurement'),
    "names repeat": ("t,x,x\n0,1,2\n", {}, '"x" occurs more than once'),
    "a name is empty": ("t,,x\n0,1,2\n", {}, "column 2 has no name"),
    "nothing but time": ("t\n0\n1\n", {}, "no column left"),
    "two parts": ("t,x\n0,1\n", {"states": ["t"]}, "cannot be a state"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_refused_with_its_name_and_the_place(write, case):
    content, arguments, message = BROKEN[case]
    path = write(content)
    with pytest.raises(DataError, match=f"(?s){message}") as caught:
        read(path, **arguments)
    if case != "two parts":
        assert path.name in str(caught.value)


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(DataError, match=r"no file nowhere\.csv"):
        read("nowhere.csv")


# -- npz -------------------------------------------------------------------------------------------


def test_npz_holds_matrices_with_names_or_one_array_per_column(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, t=T, x=X, states=np.array(["x", "y"]))
    same(read(path))
    np.savez(path, t=T, x=X)
    same(read(path), names=("x1", "x2"))
    np.savez(path, t=T, x=X[:, 0], y=X[:, 1])
    same(read(path))


def test_npz_inputs_are_inputs(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, t=T, x=X, u=T[:, None], inputs=np.array(["drive"]))
    (one,) = read(path)
    assert one.variables == ("x1", "x2", "drive")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"t": T, "x": X[:3]}, "one length"),
        ({"t": T, "x": X, "states": np.array(["a"])}, "1 names for 2 columns"),
        ({"x": X}, 'no column "t"'),
        ({"t": T, "x": np.array([["a", "b"]] * 6)}, "row 0.*expected a number, but got 'a'"),
        ({"t": T, "x": np.zeros((6, 2, 2))}, "one length"),
        ({"t": np.zeros(0), "x": np.zeros((0, 2))}, "no rows"),
    ],
)
def test_npz_that_does_not_fit_is_refused(tmp_path, arrays, message):
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)
    with pytest.raises(DataError, match=f"(?s){message}"):
        read(path)


def test_npz_never_unpickles(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, t=T, x=np.array([object()] * 6, dtype=object))
    with pytest.raises(DataError, match="plain arrays"):
        read(path)
    path.write_bytes(b"junk")
    with pytest.raises(DataError, match="plain arrays"):
        read(path)


# -- data frames -----------------------------------------------------------------------------------


def columns():
    return {"t": T, "x": X[:, 0], "y": X[:, 1]}


def test_pandas_frames_and_parquet_files_are_read(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(columns())
    same(read(frame))
    frame.to_parquet(tmp_path / "data.parquet")
    same(read(tmp_path / "data.parquet"))


def test_pandas_missing_values_and_dates_are_understood():
    pd = pytest.importorskip("pandas")
    when = pd.date_range("2024-01-01", periods=3, freq="2s")
    frame = pd.DataFrame({"t": when, "x": pd.array([1, None, 3], dtype="Int64")})
    (one,) = read(frame)
    assert one.t.tolist() == [0, 2, 4]
    assert np.isnan(one.x[1, 0])


def test_polars_frames_are_read_with_a_column_that_separates():
    pl = pytest.importorskip("polars")
    same(read(pl.DataFrame(columns())))
    frame = pl.DataFrame({"t": [0.0, 1.0, 0.0], "x": [1.0, None, 3.0], "run": ["a", "a", "b"]})
    a, b = read(frame, by="run")
    assert np.isnan(a.x[1, 0])
    assert len(b) == 1


def test_an_xarray_dataset_is_read_along_its_time():
    xr = pytest.importorskip("xarray")
    flat = xr.Dataset({"x": ("t", X[:, 0]), "y": ("t", X[:, 1])}, coords={"t": T})
    same(read(flat))
    runs = xr.Dataset({"x": (("run", "t"), np.vstack([T, 2 * T]))}, coords={"t": T, "run": ["a", "b"]})
    _, b = read(runs, by="run")
    assert np.array_equal(b.x[:, 0], 2 * T)
    _, b = read(runs)
    assert np.array_equal(b.x[:, 0], 2 * T)


@pytest.mark.parametrize("thing", [7, [1, 2], None, np.zeros(3)])
def test_what_is_neither_file_nor_frame_is_refused(thing):
    with pytest.raises(DataError, match="expected a path, a data frame"):
        read(thing)


def test_words_in_a_frame_are_refused_with_row_and_column():
    pd = pytest.importorskip("pandas")
    with pytest.raises(DataError, match="row 1, column \"x\": expected a number, but got 'b'"):
        read(pd.DataFrame({"t": [0, 1], "x": ["1", "b"]}))


def test_a_damaged_parquet_file_is_refused(write):
    pytest.importorskip("pyarrow")
    with pytest.raises(DataError, match="parquet"):
        read(write(b"junk", "data.parquet"))


def test_rounded_times_that_repeat_lead_to_the_step(tmp_path):
    path, step = tmp_path / "log.csv", 0.1353
    path.write_text("time,r\n" + "".join(f"{step * k:.3g},{np.cos(step * k):.6f}\n" for k in range(1500)))
    with pytest.raises(DataError, match="evenly spaced and their times were rounded") as told:
        read(path)
    given = float(re.search(r"dt=([\d.]+)", str(told.value))[1])
    assert read(path, states=["r"], dt=given)[0].t[-1] == pytest.approx(1499 * step, rel=0.005)
    path.write_text("time,r\n" + "".join(f"{round(0.25 * k)},{k}\n" for k in range(39)))
    with pytest.raises(DataError, match=r"dt=0\.25"):
        read(path)
    path.write_text("time,r\n" + "".join(f"{k - (k > 50)},{k}\n" for k in range(100)))
    with pytest.raises(DataError, match=r"by`. If a time was measured more than once"):
        read(path)


def test_repeated_measurements_at_uneven_times_are_no_rounded_times(write):
    path = write("time,cal\n" + "".join(f"{t},{k}\n" for t in (0.45, 1.3, 2.4, 4.0, 6.1) for k in range(3)))
    with pytest.raises(DataError, match="average the rows") as told:
        read(path)
    assert "evenly spaced" not in str(told.value)


def test_a_column_named_as_something_else_is_not_taken_for_times(write):
    path = write("Subject,Date,Time,dose\n" + "".join(f"1,{d},{t},5\n" for d in (1, 2) for t in range(4)))
    assert [len(run) for run in read(path, by=("Subject", "Date"))] == [4, 4]
    assert read(write("day,time,x\n1,0,2\n1,1,3\n"), states=["day", "x"])[0].states == ("day", "x")


@pytest.mark.parametrize("rows", [("1", "2", "3"), ("4", "9", "16")])
def test_the_names_that_r_gives_to_rows_are_neither_times_nor_a_state(write, rows):
    path = write("rownames,time,x\n" + "".join(f"{row},{k},{k}\n" for k, row in enumerate(rows)))
    pandas = pytest.importorskip("pandas")
    assert read(path)[0].states == read(pandas.read_csv(path))[0].states == ("x",)
    with pytest.raises(DataError, match='no column "t"'):
        read(write("rownames,x\n1,2\n2,3\n"))


def test_missing_values_and_lists_in_columns_of_objects_are_told_apart(tmp_path):
    pd = pytest.importorskip("pandas")
    for kind, number in ((object, float), ("string", str)):
        values = pd.Series([pd.NA, *(number(k) for k in range(1, 6))], dtype=kind)
        (run,) = read(pd.DataFrame({"t": T, "x": values}))
        assert np.isnan(run.x[0, 0])
        assert run.x[1:, 0].tolist() == [1, 2, 3, 4, 5]
    nested = pd.DataFrame({"t": T, "x": [np.zeros(2)] * len(T)})
    with pytest.raises(DataError, match=r'row 0, column "x": expected a number'):
        read(nested)
    pytest.importorskip("pyarrow")
    nested.to_parquet(tmp_path / "nested.parquet")
    with pytest.raises(DataError, match=r'nested\.parquet, row 0, column "x": expected a number'):
        read(tmp_path / "nested.parquet")


@pytest.mark.parametrize(
    ("dates", "line"),
    [
        ("2024-03-31T01:00+01:00 2024-03-31T03:00 2024-03-31T04:00+02:00", 3),
        ("01/02/2024 2024-02-02 03/02/2024", 3),
        ("2024-02-28 2024-02-29 2024-02-30", 4),
    ],
)
def test_the_first_date_that_is_written_otherwise_is_named(write, dates, line):
    rows = "".join(f"{date},1\n" for date in dates.split())
    with pytest.raises(DataError, match=f'line {line}, column "date": expected a date of the calendar'):
        read(write("date,x\n" + rows))


def test_dates_of_which_only_some_have_a_time_zone_are_refused_in_a_frame_too():
    pd = pytest.importorskip("pandas")
    naive, aware = datetime(2024, 1, 1), datetime(2024, 1, 2, tzinfo=UTC)
    with pytest.raises(DataError, match=r"row 1, column .*time zone in all or in none"):
        read(pd.DataFrame({"time": [naive, aware], "x": [1.0, 2.0]}))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes have no names on this system")
@pytest.mark.parametrize("packed", [False, True])
def test_a_pipe_is_read_like_a_file(tmp_path, packed):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = gzip.compress(CSV.encode()) if packed else CSV.encode()
    writer = threading.Thread(target=pipe.write_bytes, args=(content,), daemon=True)
    writer.start()
    same(read(pipe))
    writer.join()


@pytest.mark.parametrize(
    "clock",
    [
        ["23:58:30", "23:59:15", "00:00:00", "00:00:45"],
        ["11:58:30 PM", "11:59:15 pm", "12:00:00 am", "12:00:45 AM"],
        ["35:58:30", "35:59:15,0", "36:00:00", "36:00:45.0"],
        ["58:30.0", "59:15.0", "60:00.0", "60:45.0"],
    ],
)
def test_times_of_a_clock_count_in_seconds_also_past_midnight(write, clock):
    rows = "".join(f'"{time}",{value}\n' for value, time in enumerate(clock))
    [run] = read(write("time,x\n" + rows))
    assert run.time_unit == "s"
    assert np.diff(run.t).tolist() == [45.0, 45.0, 45.0]


@pytest.mark.parametrize("times", [["1991 Jul", "1991 Aug"], ["12:05", "12:75"], ["9:00", "8:00"]])
def test_times_that_cannot_be_read_are_refused_with_what_to_write(write, times):
    with pytest.raises(DataError, match=r"line [23].* (as times of a clock|in one form|began again)"):
        read(write("time,x\n" + "".join(f"{time},1\n" for time in times)))


@pytest.mark.parametrize(
    ("dates", "clocks"),
    [
        (("2024-05-01", "2024-05-02", ""), ("23:59:50", "00:00:10.5", "00:01")),
        (("30.04.2024", "01.05.2024", "NA"), ("23:59:50", "00:00:10.5", "")),
    ],
)
def test_a_date_and_a_time_of_the_clock_in_two_columns_are_joined(write, dates, clocks):
    rows = [f"{date},{clock},{k}\n" for k, (date, clock) in enumerate(zip(dates, clocks, strict=True))]
    (run,) = read(write("date,time,x\n" + "".join(rows[:2])), time=("date", "time"))
    assert run.states == ("x",)
    assert run.t.tolist() == [0.0, 20.5]
    with pytest.raises(DataError, match=r"line 4.*the time is missing"):
        read(write("date,time,x\n" + "".join(rows)), time=("date", "time"))


def test_a_date_and_a_time_of_the_clock_in_a_frame_are_joined():
    frame = pytest.importorskip("pandas").DataFrame(
        {
            "date": np.array(["2024-05-01", "2024-05-02"], "datetime64[D]"),
            "time": [time(23, 59, 50), time(0, 0, 10)],
            "x": [1.0, 2.0],
        }
    )
    (run,) = read(frame, ("date", "time"), time_unit="minute")
    assert run.t.tolist() == pytest.approx([0.0, 1 / 3])
