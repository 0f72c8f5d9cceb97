"""Data as they come: what must be read right, and what must not be read wrong without a word."""

import datetime as dt
import gzip

import numpy as np
import pytest

import cindy
from cindy.data import pauses
from cindy.errors import DataError

T = np.linspace(0, 1, 6)
X = np.column_stack([np.sin(T), np.cos(T)])
ROWS = [f"{t!r} {x!r} {y!r}" for t, x, y in np.column_stack([T, X]).tolist()]


def same(found, names=("x", "y")):
    (one,) = found
    assert one.states == names
    assert np.array_equal(one.t, T)
    assert np.allclose(one.x, X, rtol=0, atol=1e-15)


# npz files whose names collide


@pytest.mark.parametrize(
    "arrays",
    [
        {"t": T, "x": X, "states": ["a", "a"]},
        {"t": T, "x": X, "states": ["t", "b"]},
        {"t": T, "x": X, "u": X, "states": ["a", "b"], "inputs": ["a", "c"]},
        {"t": T, "x": X, "a": T, "states": ["a", "b"]},
    ],
    ids=["repeated state", "a state called t", "an input called as a state", "a column called as a state"],
)
def test_names_that_collide_in_an_npz_file_are_refused(tmp_path, arrays):
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(DataError, match="occurs more than once"):
        cindy.read(tmp_path / "data.npz")


def test_a_state_called_u_is_a_state(tmp_path):
    np.savez(tmp_path / "data.npz", t=T, x=X, states=["u", "v"])
    same(cindy.read(tmp_path / "data.npz"), ("u", "v"))


def test_complex_columns_of_a_file_are_refused(tmp_path):
    np.savez(tmp_path / "data.npz", t=T, x=X + 1j)
    with pytest.raises(DataError, match="complex"):
        cindy.read(tmp_path / "data.npz")


# moments in time


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_time_stamps_count_in_seconds_whatever_their_zone_and_unit(zone, unit):
    pd = pytest.importorskip("pandas")
    stamps = pd.date_range("2024-03-30 22:00", periods=6, freq="90min", tz=zone).as_unit(unit)
    (one,) = cindy.read(pd.DataFrame({"time": stamps, "x": X[:, 0]}))
    assert np.array_equal(one.t, 5400.0 * np.arange(6))


@pytest.mark.parametrize(
    "moments",
    [
        ["2024-05-01", "2024-05-02", "2024-05-04"],
        ["2024-05-01 12:30", "2024-05-02 12:30", "2024-05-04 12:30"],
        ["2024-05-01T12:30:05.25+02:00", "2024-05-02T10:30:05.25Z", "2024-05-04T12:30:05.25+02:00"],
    ],
)
def test_iso_dates_in_a_text_file_count_in_seconds(tmp_path, moments):
    file = tmp_path / "data.csv"
    file.write_text("date,x\n" + "".join(f"{m},{k}\n" for k, m in enumerate(moments)))
    (one,) = cindy.read(file)
    assert np.array_equal(one.t, [0, 86400, 3 * 86400])


def test_a_date_that_is_none_is_named_with_its_line(tmp_path):
    (tmp_path / "data.csv").write_text("date,x\n2024-05-01,1\n2024-05-32,2\n")
    with pytest.raises(DataError, match='line 3, column "date"'):
        cindy.read(tmp_path / "data.csv")


@pytest.mark.parametrize(
    "times",
    [
        np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]"),
        np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[ns]"),
        np.array([5, 6], dtype="timedelta64[D]") - np.timedelta64(5, "D"),
        [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)],
        [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(2024, 1, 2, tzinfo=dt.UTC)],
    ],
)
def test_a_trajectory_counts_moments_in_seconds(times):
    assert np.array_equal(cindy.Trajectory(times, [1.0, 2.0]).t, [0, 86400])


def test_a_moment_that_is_missing_is_no_time():
    with pytest.raises(DataError, match="finite"):
        cindy.Trajectory(np.array(["2024-01-01", "NaT"], dtype="datetime64[D]"), [1.0, 2.0])


# arrays


@pytest.mark.parametrize(
    "x", [X + 0j, [1, 2, 3, 4, 5, 6j], np.array(["2024-01-01"] * 6, dtype="datetime64[D]")]
)
def test_states_that_are_not_real_numbers_are_refused(x):
    with pytest.raises(DataError, match=r"complex|dates"):
        cindy.Trajectory(T, x)


def test_a_masked_sample_is_a_missing_one():
    x = np.ma.masked_array(X, mask=False)
    x[2, 1] = np.ma.masked
    found = cindy.Trajectory(T, x)
    assert np.isnan(found.x[2, 1])
    assert np.isfinite(found.x).sum() == 11
    with pytest.raises(DataError, match="`t` must be finite"):
        cindy.Trajectory(np.ma.masked_array(T, mask=T[2] == T), X)


@pytest.mark.parametrize("given", ["array", "view", "column", "series", "read-only view"])
def test_a_trajectory_does_not_change_with_the_array_it_came_from(given):
    pd = pytest.importorskip("pandas")
    base = np.array(X)
    locked = base[:]
    locked.flags.writeable = False
    x = {
        "array": base,
        "view": base[:, :],
        "column": base[:, 0],
        "series": pd.Series(base[:, 0], copy=False),
        "read-only view": locked,
    }[given]
    t = np.array(T)
    found = cindy.Trajectory(t, x)
    before = found.x.copy()
    base[:] = -7
    t[:] = -7
    assert np.array_equal(found.x, before)
    assert np.array_equal(found.t, T)


def test_data_on_disk_are_not_copied_into_memory(tmp_path):
    np.save(tmp_path / "x.npy", X)
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert np.shares_memory(cindy.Trajectory(T, x).x, x)


@pytest.mark.parametrize("x", [[[1, 2], [3]] * 3, [10**400] * 6, [None] * 5 + [{}]])
def test_what_is_no_table_of_numbers_is_refused_in_a_sentence(x):
    with pytest.raises(DataError):
        cindy.Trajectory(T, x)


@pytest.mark.parametrize("scale", [1e-300, 1e-100, 1e100, 1e300])
def test_times_beyond_floating_point_are_refused(scale):
    with pytest.raises(DataError, match="other units for time"):
        cindy.Trajectory(T * scale, X)


# text


@pytest.mark.parametrize(
    "text",
    [
        "# made by hand\n\n t x y\n" + "\n".join(ROWS) + "\n",
        "t   x\ty\n" + "\n".join(r.replace(" ", "   ") for r in ROWS),
        "t\tx\ty\n" + "\n".join(r.replace(" ", "\t") for r in ROWS),
        "% matlab\nt,x,y\n" + "\n".join(r.replace(" ", ",") for r in ROWS[:3]) + "\n# a pause\n"
        + "\n".join(r.replace(" ", ",") for r in ROWS[3:]),
        "# a pendulum\n# t x y\n" + "\n".join(ROWS),
        "#t,x,y\n" + "\n".join(r.replace(" ", ",") for r in ROWS),
        "t;x;y\n" + "\n".join(r.replace(" ", ";").replace(".", ",") for r in ROWS),
    ],
    ids=["comments", "blanks", "tabs", "percent", "savetxt", "commented header", "decimal commas"],
)  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_text_as_instruments_write_it_is_read(tmp_path, text, packed):
    file = tmp_path / ("data.txt.gz" if packed else "data.txt")
    file.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    same(cindy.read(file))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp1252", "utf-16"])
def test_text_is_read_in_the_letters_of_older_instruments(tmp_path, encoding):
    path = tmp_path / "log.txt"
    path.write_bytes("t;T [°C];µ\n0;1,5;2\n1;2,5;3\n".encode(encoding))
    (one,) = cindy.read(path)
    assert one.states == ("T [°C]", "µ")
    assert one.x.tolist() == [[1.5, 2], [2.5, 3]]


def test_blanks_and_tabs_may_be_mixed(tmp_path):
    path = tmp_path / "log.txt"
    path.write_text("# t x y\n0 1\t2\n1  3\t4\n")
    (one,) = cindy.read(path)
    assert one.states == ("x", "y")
    assert one.x.tolist() == [[1, 2], [3, 4]]


def test_a_wrong_cell_is_named_with_its_line_in_spite_of_comments(tmp_path):
    (tmp_path / "d.txt").write_text("# one\n# two\nt x\n0 1\n# three\n1 oops\n")
    with pytest.raises(DataError, match="line 6"):
        cindy.read(tmp_path / "d.txt")


def test_a_file_that_unpacks_without_end_is_refused(tmp_path):
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"0" * 300_000_000, 9))
    with pytest.raises(DataError, match="unpacks to more than"):
        cindy.read(tmp_path / "bomb.csv.gz")


# other files


def test_excel_and_matlab_files_are_read(tmp_path):
    pd, io = pytest.importorskip("pandas"), pytest.importorskip("scipy.io")
    pytest.importorskip("openpyxl")
    pd.DataFrame({"Time (s)": T, "x": X[:, 0], "y": X[:, 1]}).to_excel(tmp_path / "data.xlsx", index=False)
    same(cindy.read(tmp_path / "data.xlsx"))
    io.savemat(tmp_path / "data.mat", {"t": T, "x": X, "states": ["x", "y"], "dt": 0.2})
    same(cindy.read(tmp_path / "data.mat"))
    io.savemat(tmp_path / "columns.mat", {"time": T, "x": X[:, 0], "y": X[:, 1]})
    same(cindy.read(tmp_path / "columns.mat"))


# the time by its name


@pytest.mark.parametrize(
    "name",
    [
        "t",
        "T",
        "time",
        "Time",
        "time_s",
        "Time (ms)",
        "t [s]",
        "year",
        "Years",
        "date",
        "Day",
        "timestamp",
        "Zeit",
    ],
)
def test_the_time_is_found_by_its_usual_names(name):
    pd = pytest.importorskip("pandas")
    same(cindy.read(pd.DataFrame({"x": X[:, 0], name: T, "y": X[:, 1]})))


@pytest.mark.parametrize(
    ("columns", "time"),
    [
        (("T", "t"), "t"),
        (("T [°C]", "t"), "t"),
        (("T", "time"), "time"),
        (("t [°C]", "Time / s"), "Time / s"),
        (("T (K)", "hour"), "hour"),
        (("T", "x"), "T"),
        (("T [s]", "x"), "T [s]"),
    ],
)
def test_a_temperature_is_no_time(columns, time):
    pd = pytest.importorskip("pandas")
    (one,) = cindy.read(pd.DataFrame({name: (k + 1) * T for k, name in enumerate(columns)}))
    assert one.states == tuple(name for name in columns if name != time)


def test_a_temperature_alone_is_asked_about():
    pd = pytest.importorskip("pandas")
    with pytest.raises(DataError, match="`time`"):
        cindy.read(pd.DataFrame({"T [K]": T, "x": T}))


def test_the_index_of_a_frame_is_its_time():
    pd = pytest.importorskip("pandas")
    values = pd.DataFrame(X, columns=["x", "y"])
    same(cindy.read(values.set_index(pd.Index(T, name="elapsed seconds"))))
    same(cindy.read(values.set_index(pd.Index(T))))
    (one,) = cindy.read(values.set_index(pd.date_range("2024", periods=6, freq="s")))
    assert np.array_equal(one.t, np.arange(6))


@pytest.mark.parametrize("index", [None, [3, 4, 5, 7, 8, 9]])
def test_a_frame_without_times_is_refused(index):
    pd = pytest.importorskip("pandas")
    with pytest.raises(DataError, match='no column "t", nor one called time'):
        cindy.read(pd.DataFrame(X, columns=["x", "y"], index=index))


def test_frames_and_datasets_are_trajectories_as_they_are():
    pd, xr = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    pl = pytest.importorskip("polars")
    t = np.linspace(0, 6, 200)
    columns = {"t": t, "x": np.cos(t), "v": -np.sin(t)}
    frame = pd.DataFrame(columns)
    expected = cindy.identify(
        cindy.Trajectory(t, np.column_stack([columns["x"], columns["v"]]), ("x", "v")), cindy.Polynomial(1)
    )
    dataset = xr.Dataset({"x": ("t", columns["x"]), "v": ("t", columns["v"])}, coords={"t": t})
    for data in (frame, frame.set_index("t"), dataset, pl.DataFrame(columns), pl.LazyFrame(columns), [frame]):
        assert np.array_equal(cindy.identify(data, cindy.Polynomial(1)).coef, expected.coef)


def test_the_runs_of_a_dataset_are_trajectories():
    xr = pytest.importorskip("xarray")
    runs = xr.Dataset({"x": (("run", "t"), np.vstack([T, 2 * T]))}, coords={"t": T, "run": ["a", "b"]})
    a, b = cindy.read(runs)
    assert (a.name, b.name) == ("run a", "run b")
    assert np.array_equal(b.x[:, 0], 2 * T)


def test_an_empty_dataset_is_refused():
    xr = pytest.importorskip("xarray")
    for empty in (xr.Dataset(), xr.Dataset(coords={"t": T})):
        with pytest.raises(DataError, match="no columns"):
            cindy.read(empty)


# pauses


@pytest.mark.parametrize("pause", [1e2, 1e4, 1e6])
def test_bursts_of_samples_are_stretches_of_their_own(pause):
    burst = np.arange(0, 2, 0.02)
    t = np.concatenate([burst, pause + burst, 2 * pause + burst])
    x = np.column_stack([np.cos(2 * t), -2 * np.sin(2 * t)])
    data = cindy.Trajectory(t, x + 0.001 * np.random.default_rng(0).standard_normal(x.shape), ("x", "v"))
    assert [len(part) for part in data.segments()] == [100, 100, 100]
    for passes in (1, None):
        model = cindy.identify(data, "poly:2", passes=passes)
        assert model.size == 2
        assert model.coef[model.place("v", "x")] == pytest.approx(-4, abs=0.02)


def test_a_slow_motion_is_bridged_and_a_fast_one_is_not():
    t = np.concatenate([k + np.arange(0, 0.5, 0.02) for k in range(20)])
    slow, fast = np.sin(0.3 * t)[:, None], np.sin(7 * t)[:, None]
    ends = np.flatnonzero(np.diff(t) > 0.1)
    assert pauses(t, slow, 12).tolist() == []
    assert pauses(t, np.hstack([slow, fast]), 12).tolist() == ends.tolist()
    assert pauses(np.sort(np.random.default_rng(0).exponential(size=500).cumsum()), fast, 12).tolist() == []


def test_runs_one_after_the_other_with_a_pause_between_are_no_single_motion():
    t = np.linspace(0, 10, 500)
    x = np.column_stack([np.cos(t), -np.sin(t)])
    noise = 0.001 * np.random.default_rng(0).standard_normal((1000, 2))
    model = cindy.identify((np.concatenate([t, t + 12]), np.concatenate([x, x]) + noise), "poly:2")
    assert model.size == 2


def test_a_grid_that_coarsens_by_and_by_stays_whole():
    t = np.geomspace(1e-6, 1e3, 200)
    assert len(cindy.Trajectory(t, np.exp(-t)).segments()) == 1


def swing(samples=300):
    t = np.linspace(0.0, 12.0, samples)
    return t, np.stack([np.cos(t), -np.sin(t)], axis=1) + 1e-3 * np.random.default_rng(5).normal(
        size=(samples, 2)
    )


@pytest.mark.parametrize("first", [0, 1])
def test_a_first_column_without_a_name_that_counts_rows_is_no_state(tmp_path, first):
    t, x = swing(40)
    lines = [f"{k + first},{a},{b},{c}" for k, (a, (b, c)) in enumerate(zip(t, x, strict=True))]
    (tmp_path / "a.csv").write_text(",t,x,y\n" + "\n".join(lines))
    (one,) = cindy.read(tmp_path / "a.csv")
    assert one.states == ("x", "y")
    assert np.array_equal(one.t, t)


def test_a_first_column_without_a_name_that_does_not_count_is_the_time(tmp_path):
    _, x = swing(40)
    days = [f"2024-03-{1 + k // 24:02}T{k % 24:02}:00" for k in range(40)]
    lines = [f"{day},{b},{c}" for day, (b, c) in zip(days, x, strict=True)]
    (tmp_path / "a.csv").write_text(",x,y\n" + "\n".join(lines))
    (one,) = cindy.read(tmp_path / "a.csv")
    assert one.states == ("x", "y")
    assert one.t[:3].tolist() == [0.0, 3600.0, 7200.0]


TIMES, SWINGS = swing()
REFUSED = {
    "missing at every sample": (TIMES, np.column_stack([SWINGS, np.full(len(TIMES), np.nan)])),
    "no sample has all its values": (TIMES, np.full_like(SWINGS, np.nan)),
    "fewer than the 3 samples": (TIMES[:2], SWINGS[:2]),
    "cindy.read": "data.csv",
    "DataFrame first, or pass": {"t": TIMES, "x": SWINGS},
    "times are missing": SWINGS,
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_cannot_be_used_is_refused_with_what_to_do(said):
    with pytest.raises(cindy.CindyError, match=said):
        cindy.identify(REFUSED[said], cindy.Polynomial(1))


def test_a_series_and_a_folder_are_refused_with_what_to_do(tmp_path):
    pd = pytest.importorskip("pandas")
    with pytest.raises(cindy.DataError, match="to_frame"):
        cindy.identify(pd.Series(SWINGS[:, 0], index=TIMES), cindy.Polynomial(1))
    with pytest.raises(cindy.DataError, match=r"is a folder.*\*\.csv"):
        cindy.read(tmp_path)


def test_states_that_hardly_vary_beside_their_size_are_told_of():
    far = cindy.identify((TIMES, SWINGS + 1e6), cindy.Polynomial(1))
    assert any(finding.code == "far-from-zero" for finding in far.findings)
    for offset, degree, told in ((10, 1, False), (40, 1, False), (10, 2, False), (40, 2, True)):
        model = cindy.identify((TIMES, SWINGS + offset), cindy.Polynomial(degree), passes=1)
        assert any(finding.code == "far-from-zero" for finding in model.findings) == told


def test_a_netcdf_file_is_read_as_a_field(tmp_path):
    (tmp_path / "film.nc").write_bytes(b"CDF")
    with pytest.raises(DataError, match=r"cindy\.Field"):
        cindy.read(tmp_path / "film.nc")
