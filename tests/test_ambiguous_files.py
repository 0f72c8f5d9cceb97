"""Files that could be read in two ways, or in part: told apart, or refused, and never read wrong."""

import io
import zipfile

import numpy as np
import pytest

import cindy
from cindy.data.files import matlab_arrays
from cindy.errors import DataError


def written(folder, text, name="a.csv"):
    path = folder / name
    path.write_text(text)
    return path


# quotes and comments


@pytest.mark.parametrize(
    "text",
    [
        't,x,note\n0,1,ok\n1,2,"pump on\n2,3,ok\n3,4,ok\n4,5,ok\n',
        't,x,note\n0,1,ok\n1,2,"pump on\n2,3,ok\n3,4,"pump off\n4,5,ok\n5,6,ok\n',
        't,x,note\n0,1,ok\n1,2,"pump on\n2,3,ok\n3,4,"\n4,5,ok\n5,6,ok\n',
    ],
)
def test_a_quote_that_is_not_closed_is_refused_with_its_line(tmp_path, text):
    with pytest.raises(DataError, match="line 3"):
        cindy.read(written(tmp_path, text), states=["x"])


def test_a_comment_sign_inside_a_quoted_cell_loses_no_row(tmp_path):
    text = 't,x,note\n0,1,ok\n# a comment\n1,2,"a\n# b"\n\n2,3,"c\n\nd"\n3,4,ok\n'
    assert np.array_equal(cindy.read(written(tmp_path, text), states=["x"])[0].t, [0, 1, 2, 3])


# decimals and thousands


@pytest.mark.parametrize(
    "text",
    [
        "t;x\n0;998\n1;999\n2;1,000\n3;1,001\n",
        "t;x\n0;999,5\n1;1.000\n2;1.001\n",
        "t;x\n0;0,5\n1;0.7\n",
        "t;x\n0;1,234\n1;2,345\n",
    ],
)
def test_thousands_that_may_be_decimals_are_refused(tmp_path, text):
    with pytest.raises(DataError, match="points"):
        cindy.read(written(tmp_path, text))


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        ("0;1,5\n1;0,125\n2;1,000", [1.5, 0.125, 1.0]),
        ("0;1.234,5\n1;1.000\n2;7", [1234.5, 1000.0, 7.0]),
        ("0;1,234.5\n1;1,000\n2;7", [1234.5, 1000.0, 7.0]),
        ("0;1,000,000\n1;-1,000\n2;2.5", [1e6, -1000.0, 2.5]),
        ("0;-1,5e3\n1;,5\n2;3,", [-1500.0, 0.5, 3.0]),
        ("0;1.500\n1;2\n2;3", [1.5, 2.0, 3.0]),
    ],
)
@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_decimal_commas_and_thousands_are_told_apart_by_the_other_cells(tmp_path, cells, values, delimiter):
    path = written(tmp_path, f"t;x\n{cells}\n".replace(";", delimiter))
    assert np.array_equal(cindy.read(path)[0].x[:, 0], values)


def test_a_number_with_underscores_is_refused(tmp_path):
    with pytest.raises(DataError, match="1_000"):
        cindy.read(written(tmp_path, "t,x\n0,1_000\n1,\n"))


# headers


def test_units_below_the_names_are_no_row(tmp_path):
    (found,) = cindy.read(written(tmp_path, "t,x,y\n(ms),m,m/s\n0,1,2\n1,3,4\n"))
    assert len(found) == 2
    assert found.time_unit == "ms"


def test_units_below_the_names_are_no_row_with_decimal_commas_either(tmp_path):
    (trajectory,) = cindy.read(written(tmp_path, "t;x\ns;m\n0,0;1,5\n0,5;2,5\n"))
    assert trajectory.time_unit == "s"
    assert trajectory.x[:, 0].tolist() == [1.5, 2.5]


def test_a_title_above_the_names_is_no_header(tmp_path):
    text = "Wolves and moose of an island\nyear,wolves,moose\n1959,20,538\n1960,22,564\n"
    (found,) = cindy.read(written(tmp_path, text))
    assert found.states == ("wolves", "moose")
    assert found.time_unit == "year"


@pytest.mark.parametrize("title", ["Measured on 3.4.2024", "Measured on Monday again", "Tank, lower, upper"])
def test_a_title_above_names_with_another_separator_is_no_header(tmp_path, title):
    text = f"{title}\nZeit [s];level 1 [cm];level 2 [cm];pump\n0,0;2,0;1,0;4,0\n2,0;2,1;1,1;4,0\n"
    (found,) = cindy.read(written(tmp_path, text), inputs=["pump"])
    assert found.states == ("level 1 [cm]", "level 2 [cm]")
    assert found.x[:, 0].tolist() == [2.0, 2.1]


@pytest.mark.parametrize("title", ["Laboratory 3", "Laboratory 3; device A"])
def test_a_title_may_stand_above_names_with_units_below_them(tmp_path, title):
    text = f"{title}\nrun;time;x;note\n;[s];[mm];\n" + "".join(f"A;{k},5;{k},25;ok\n" for k in range(3))
    (found,) = cindy.read(written(tmp_path, text), by="run", states=["x"])
    assert found.time_unit == "s"
    assert found.x[:, 0].tolist() == [0.25, 1.25, 2.25]


SETTINGS = "Model,TDS2024\nSample Interval,4e-06\nRecord Length,2500\n\nVertical Units,V\n"


@pytest.mark.parametrize("units", ["", "s,V,V\n"])
def test_settings_of_an_instrument_above_the_names_are_passed_over(tmp_path, units):
    text = f"{SETTINGS}TIME,CH1,CH2\n{units}" + "".join(f"{k},{k}.5,NA\n" for k in range(3))
    (found,) = cindy.read(written(tmp_path, text))
    assert found.states == ("CH1", "CH2")
    assert found.t.tolist() == [0, 1, 2]
    with pytest.raises(DataError, match=r"lines 1 to 5 read as a title, line 6 as the names.*no column"):
        cindy.read(written(tmp_path, text), states=["CH3"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{SETTINGS}TIME,CH1\n0,1\n1,2\n", "delete the lines above the right ones"),
        (f"{SETTINGS}0,1,2\n1,2,3\n", r"line 6: expected 2 cells.*delete the lines above the names"),
        ("t,x\n0,1\n1,2\ns,y,z\n0,1,2\n1,2,3\n", "line 4: expected 2 cells"),
        ("run,x\nA,1\nA,2\n3,4\ns,y,z\n0,1,2\n", "line 5: expected 2 cells"),
    ],
)
def test_lines_above_the_names_that_may_be_rows_are_never_passed_over(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        cindy.read(written(tmp_path, text))


def test_a_first_row_with_missing_values_is_no_line_of_units(tmp_path):
    text = "run,x,y\na,NA,\na,1,2\n"
    (found,) = cindy.read(written(tmp_path, text), by="run", dt=1.0)
    assert len(found) == 2


def test_columns_that_share_a_name_matter_only_if_they_are_asked_for(tmp_path):
    path = written(tmp_path, "t,x,loop,loop\n0,1,5,6\n1,2,7,8\n")
    assert np.array_equal(cindy.read(path, states=["x"])[0].x[:, 0], [1, 2])
    for arguments in ({}, {"states": ["x", "loop"]}, {"states": ["x"], "by": "loop"}):
        with pytest.raises(DataError, match='"loop" occurs more than once'):
            cindy.read(path, **arguments)


def test_a_comma_too_many_in_every_line_makes_no_column(tmp_path):
    path = written(tmp_path, "t,x,\n0,1,\n1,2,\n")
    assert cindy.read(path)[0].states == ("x",)
    with pytest.raises(DataError, match="column 3 has no name"):
        cindy.read(written(tmp_path, "t,x,\n0,1,5\n1,2,6\n"))


# dates


@pytest.mark.parametrize(
    "days",
    [
        ("20200130", "20200131", "20200201"),
        ("30.01.2020", "31.01.2020", "01.02.2020"),
        ("30.1.2020 0:00", "31.1.2020 00:00:00", "1.2.2020"),
        ("30/01/2020", "31/01/2020", "01/02/2020"),
        ("01/30/2020", "01/31/2020", "02/01/2020"),
        ("2020-01-30", "2020-01-31", "2020-02-01"),
        ("2020-01-30T00:00:00Z", "2020-01-31T01:00:00+01:00", "2020-02-01T00:00Z"),
    ],
)
def test_days_are_a_day_apart_however_they_are_written(tmp_path, days):
    rows = "\n".join(f"{day},{k}" for k, day in enumerate(days))
    (found,) = cindy.read(written(tmp_path, f"date,x\n{rows}\n"))
    assert np.array_equal(found.t, 86400.0 * np.arange(3))
    assert found.time_unit == "s"
    assert repr(found).endswith(" s)")


def test_a_date_whose_day_may_be_its_month_is_refused(tmp_path):
    with pytest.raises(DataError, match="day first or the month first"):
        cindy.read(written(tmp_path, "date,x\n01/02/2020,1\n02/02/2020,2\n"))


def test_numbers_that_are_no_days_stay_numbers(tmp_path):
    (found,) = cindy.read(written(tmp_path, "t,x\n20200130,1\n20200160,2\n20200190,3\n"))
    assert np.array_equal(found.t, [20200130, 20200160, 20200190])


# one table, many doors


TABLES = {
    "numbers": "t,x,y\n0,1,2\n1,2,\n2,4,5\n",
    "dates": "date,x\n2020-01-30,1\n2020-01-31,2\n2020-02-01,3\n",
    "day first": "date,x\n30.01.2020 12:00,1\n31.01.2020 12:00,2\n01.02.2020 12:00,3\n",
    "yyyymmdd": "date,x\n20200130,1\n20200131,2\n20200201,3\n",
    "index": ",t,x\n0,0,1\n1,1,2\n2,2,4\n",
    "units": "t,x\n[h],m\n0,1\n1,2\n2,4\n",
    "unit in name": "Time (ms),x\n0,1\n1,2\n2,4\n",
    "twice": "t,x\n0,1\n1,2\n",
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_gives_the_same_trajectory_whichever_way_it_is_opened(tmp_path, kind):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = written(tmp_path, TABLES[kind])
    (expected,) = cindy.read(path)
    frame = pd.read_csv(path)
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    doors = [
        frame,
        tmp_path / "a.parquet",
        tmp_path / "a.xlsx",
        pytest.importorskip("polars").from_pandas(frame),
    ]
    if kind == "dates":
        doors.append(pd.read_csv(path, parse_dates=["date"]))
        doors.append(pd.read_csv(path, parse_dates=["date"], index_col="date"))
        doors.append(doors[-1].to_xarray())
    for door in doors:
        (found,) = cindy.read(door)
        assert found.states == expected.states
        assert np.array_equal(found.t, expected.t)
        assert np.array_equal(found.x, expected.x, equal_nan=True)
        assert found.time_unit == expected.time_unit


# fields


def ocean():
    xarray = pytest.importorskip("xarray")
    lon, time = np.linspace(0, 1, 16, endpoint=False), 6.0 * np.arange(10)
    data = xarray.Dataset(
        {"h": (("time", "lon"), np.sin(2 * np.pi * (lon - 0.01 * time[:, None])))},
        coords={"lon": lon, "time": time},
    )
    data["time"].attrs["units"] = "hours since 2000-01-01"
    return xarray, data


@pytest.mark.parametrize("engine", ["scipy", "h5netcdf"])
def test_a_netcdf_file_gives_the_same_times_whoever_opens_it(tmp_path, engine):
    xarray, data = ocean()
    path = tmp_path / "ocean.nc"
    data.to_netcdf(path, engine=engine)
    with xarray.open_dataset(path) as decoded, xarray.open_dataset(path, decode_times=False) as raw:
        fields = [cindy.Field(path), cindy.Field(decoded), cindy.Field(raw), cindy.Field(raw, time="time")]
        for field in fields:
            assert field.time == "time"
            assert field.time_unit == "s"
            assert np.array_equal(field.t, 21600.0 * np.arange(10))
            assert np.array_equal(field["h"], data["h"].values.T)


def test_a_coordinate_called_time_is_found_and_its_unit_kept():
    x, time = np.linspace(0, 1, 8), np.arange(5.0)
    field = cindy.Field(u=np.ones((8, 5)), x=x, time=None, **{"Time (ms)": time})
    assert field.time == "Time (ms)"
    assert field.time_unit == "ms"
    assert field.part(1, 3).time_unit == "ms"
    with pytest.raises(DataError, match='"t" is missing'):
        cindy.Field(u=np.ones((8, 5)), x=x, y=time)


@pytest.mark.parametrize("n", [32, 64, 96, 256])
def test_axes_in_single_precision_are_uniform(n):
    x = np.linspace(0, 2 * np.pi, n, endpoint=False).astype(np.float32)
    t = np.linspace(0, 1, 40).astype(np.float32)
    field = cindy.Field(u=np.sin(x[:, None] - t), x=x, t=t, periodic="x")
    assert field.uniform("x")
    assert field.uniform("t")
    assert abs(field.period("x") - 2 * np.pi) < 1e-5
    bent = x.astype(float) ** 1.001
    assert not cindy.Field(u=np.sin(x[:, None] - t), x=bent, t=t).uniform("x")


# bombs


def test_files_that_would_fill_the_memory_are_refused(tmp_path):
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    np.savez_compressed(tmp_path / "a.npz", t=np.arange(8.0), x=np.zeros((8, 1_500_000)))
    savemat = pytest.importorskip("scipy.io").savemat
    savemat(tmp_path / "a.mat", {"x": np.zeros((8, 1_500_000))}, do_compression=True)
    repeated = pa.DictionaryArray.from_arrays(np.zeros(30_000_000, dtype=np.int8), [1.0])
    pq.write_table(pa.table({"t": repeated}), tmp_path / "a.parquet")
    pd.DataFrame({"t": [0.0, 1.0]}).to_excel(tmp_path / "small.xlsx", index=False)
    with (
        zipfile.ZipFile(tmp_path / "small.xlsx") as small,
        zipfile.ZipFile(tmp_path / "a.xlsx", "w") as large,
    ):
        for entry in small.infolist():
            content = small.read(entry)
            if entry.filename.startswith("xl/worksheets/"):
                content = content.replace(b'r="A3"', b'r="XFD1048576"').replace(
                    b'row r="3"', b'row r="1048576"'
                )
            large.writestr(entry, content)
    for name in ("a.npz", "a.mat", "a.parquet", "a.xlsx"):
        with pytest.raises(DataError, match=r"fill|unpacks|spread"):
            cindy.read(tmp_path / name)
    with pytest.raises(DataError, match="fill"):
        cindy.Field(tmp_path / "a.npz")


# Matlab


@pytest.mark.parametrize("packed", [False, True])
def test_the_reader_of_matlab_files_agrees_with_scipy(packed):
    scipy_io = pytest.importorskip("scipy.io")
    rng = np.random.default_rng(0)
    cells = np.empty(3, dtype=object)
    cells[:] = ["q", "momentum", "ü"]
    arrays = {
        "f8": rng.normal(size=(3, 4)),
        "f4": rng.normal(size=(1, 5)).astype(np.float32),
        "i2": rng.integers(-300, 300, (4, 2)).astype(np.int16),
        "u8": np.array([[1, 2**60]], dtype=np.uint64),
        "small": np.array([[1.0, 2.0, 3.0]]),
        "logical": np.array([[True, False]]),
        "complex": rng.normal(size=(2, 2)) + 1j,
        "word": "level",
        "cube": rng.normal(size=(2, 3, 4)),
        "none": np.zeros((0, 3)),
    }
    stream = io.BytesIO()
    scipy_io.savemat(stream, arrays | {"cells": cells, "object": {"a": 1}}, do_compression=packed)
    found = matlab_arrays(stream.getvalue(), 1_000_000)
    stream.seek(0)
    expected = scipy_io.loadmat(stream)
    for name in arrays:
        assert np.array_equal(found[name], expected[name]), name
    assert found["cells"].tolist() == cells.tolist()
    assert "object" not in found


def test_a_matlab_file_with_false_lengths_is_refused_and_does_not_end_the_process(tmp_path):
    stream = io.BytesIO()
    pytest.importorskip("scipy.io").savemat(stream, {"t": np.arange(9.0), "x": np.arange(9.0)})
    raw = stream.getvalue()
    path = tmp_path / "a.mat"
    refused = 0
    for place in range(128, len(raw) - 4, 2):
        for word in (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\x00\x00\x00\x00"):
            path.write_bytes(raw[:place] + word + raw[place + 4 :])
            try:
                cindy.read(path)
            except DataError:
                refused += 1
    assert refused > 100


@pytest.mark.parametrize("content", ["cut", "empty", "npy", "flipped"])
def test_a_damaged_field_is_refused_in_a_sentence(tmp_path, content):
    whole, single = io.BytesIO(), io.BytesIO()
    np.savez(whole, x=np.arange(8.0), t=np.arange(9.0), u=np.ones((8, 9)))
    np.save(single, np.ones(3))
    raw = whole.getvalue()
    flipped = raw[:200] + bytes([raw[200] ^ 255]) + raw[201:]
    kinds = {"cut": raw[:300], "empty": b"", "npy": single.getvalue(), "flipped": flipped}
    path = tmp_path / "a.npz"
    path.write_bytes(kinds[content])
    with pytest.raises(DataError, match=r"a\.npz"):
        cindy.Field(path)
    (tmp_path / "a.nc").write_bytes(b"CDF\x01" + b"\0\0\0\0")
    with pytest.raises(DataError, match=r"a\.nc"):
        cindy.Field(tmp_path / "a.nc")
