"""Field: the door for data on grids, and what it refuses."""

import numpy as np
import pytest

import cindy
from cindy.data import as_fields

X, Y, T = np.linspace(0, 1, 12), np.linspace(0, 2, 9), np.linspace(0, 3, 15)


def wave(*, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((len(X), len(T)))


def test_a_field_gives_back_its_values_over_space_then_time_whatever_the_order_of_the_axes():
    u = wave()
    for field in (cindy.Field(u=u, x=X, t=T), cindy.Field(u=u.T, t=T, x=X)):
        assert field.axes == ("x",)
        assert field.shape == u.shape
        np.testing.assert_array_equal(field["u"], u)


def test_a_dataset_is_the_same_field_as_its_arrays():
    xarray = pytest.importorskip("xarray")
    u = np.random.default_rng(0).standard_normal((len(X), len(Y), len(T)))
    data = xarray.Dataset({"u": (("t", "y", "x"), u.transpose(2, 1, 0))}, coords={"x": X, "y": Y, "t": T})
    field = cindy.Field(data)
    assert field.axes == ("y", "x")
    np.testing.assert_array_equal(field["u"], u.transpose(1, 0, 2))
    np.testing.assert_array_equal(field.to_xarray()["u"].transpose("x", "y", "t").values, u)


@pytest.mark.parametrize("fault", [False, True], ids=["sound", "with a dead pixel"])
def test_axes_may_have_any_name_up_to_the_report(fault, tmp_path):
    name, time = np.arange(48) * 2 * np.pi / 48, np.linspace(0, 1, 40)
    mask = np.sin(name[:, None] - time) + 0.5 * np.cos(2 * (name[:, None] - time))
    mask += 1e-3 * np.random.default_rng(0).standard_normal(mask.shape)
    if fault:
        mask[10] = 5.0
    field = cindy.Field({"name": name, "time": time, "mask": mask}, periodic="name")
    assert (field.axes, field.time, field.states) == (("name",), "time", ("mask",))
    model = cindy.identify(field, cindy.Derivatives(1, 1))
    assert np.allclose(model.coef[model.terms.index("mask_name"), 0], -1, atol=0.01)
    assert ("dead-pixels" in {finding.code for finding in model.findings}) is fault
    if not fault:
        assert len(model.simulate(field.first, time)) == 40
        cindy.report.write(model, [field], tmp_path / "report.html")


def written(path, values, *, dims=("t", "x"), kind="d", **attributes):
    """A classic netCDF file of one field u; its time grows without limit, as in most such files."""
    from scipy.io import netcdf_file

    with netcdf_file(path, "w") as store:
        for name, coordinate in (("t", T), ("x", X)):
            store.createDimension(name, None if name == "t" else len(coordinate))
            store.createVariable(name, "d", (name,))[:] = coordinate
        u = store.createVariable("u", kind, dims)
        for name, value in attributes.items():
            setattr(u, name, value)
        u[:] = values
    return path


def test_a_file_of_netcdf_4_is_the_same_field_and_read_in_parts(tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    u = wave()
    data = xarray.Dataset({"u": (("t", "x"), u.T)}, coords={"x": X, "t": T})
    data.to_netcdf(tmp_path / "u.nc", engine="h5netcdf")
    assert (tmp_path / "u.nc").read_bytes()[1:4] == b"HDF"
    field = cindy.Field(tmp_path / "u.nc")
    np.testing.assert_array_equal(field["u"], u)
    np.testing.assert_array_equal(field.part(3, 7)["u"], u[:, 3:7])


@pytest.mark.filterwarnings("error")
def test_a_netcdf_file_is_the_same_field_as_its_arrays(tmp_path):
    u = wave()
    field = cindy.Field(written(tmp_path / "u.nc", u.T))
    assert field.axes == ("x",)
    np.testing.assert_array_equal(field["u"], u)
    np.testing.assert_array_equal(field.part(3, 7)["u"], u[:, 3:7])


def test_packed_values_of_a_file_are_unpacked_and_filled_ones_are_missing(tmp_path):
    packed = np.arange(len(T) * len(X)).reshape(len(T), len(X)).astype("i2")
    path = written(
        tmp_path / "u.nc", packed, kind="h", scale_factor=0.5, add_offset=1.0, _FillValue=np.int16(7)
    )
    expected = np.where(packed == 7, np.nan, 0.5 * packed + 1.0)
    np.testing.assert_array_equal(cindy.Field(path)["u"], expected.T)


def test_an_npz_file_is_the_same_field_as_its_arrays(tmp_path):
    np.savez(tmp_path / "u.npz", u=wave(), x=X, t=T)
    np.testing.assert_array_equal(cindy.Field(tmp_path / "u.npz")["u"], wave())


@pytest.mark.parametrize("name", ["none.nc", "text.nc", "text.csv", "text.npz"])
def test_a_file_that_is_no_field_gets_a_sentence(tmp_path, name):
    if not name.startswith("none"):
        (tmp_path / name).write_bytes(b"CDF but no more" if name.endswith("nc") else b"x,t")
    with pytest.raises(cindy.DataError, match=r"Field|text"):
        cindy.Field(tmp_path / name)


def test_masked_and_missing_values_are_nan():
    u = wave()
    mask = np.zeros(u.shape, dtype=bool)
    mask[3, 4] = True
    holes = np.where(mask, np.nan, u)
    for field in (
        cindy.Field(u=u, x=X, t=T, mask=mask),
        cindy.Field(u=np.ma.array(u, mask=mask), x=X, t=T),
        cindy.Field(u=holes, x=X, t=T),
    ):
        np.testing.assert_array_equal(field["u"], holes)
    assert np.isnan(cindy.Field(u=u, x=X, t=T, mask=np.arange(len(X)) == 2)["u"][2]).all()


def test_a_coordinate_and_a_known_field_are_inputs():
    a = X**2
    field = cindy.Field(u=wave(), x=X, t=T, inputs={"x": "x", "a": a})
    assert field.inputs == ("x", "a")
    np.testing.assert_array_equal(field["x"][:, 3], X)
    np.testing.assert_array_equal(field["a"][:, 0], a)


def test_a_part_is_the_field_at_those_times():
    field = cindy.Field(u=wave(), x=X, t=T, periodic={"x": 1.1})
    part = field.part(3, 7)
    np.testing.assert_array_equal(part["u"], field["u"][:, 3:7])
    np.testing.assert_array_equal(part.t, T[3:7])
    assert part.period("x") == 1.1
    assert len(field.first) == 1


@pytest.mark.parametrize(
    ("arrays", "options", "says"),
    [
        ({"u": wave().T, "x": X, "t": T}, {}, "transpose"),
        ({"u": wave(), "x": X}, {}, 'time "t" is missing'),
        ({"x": X, "t": T}, {}, "no field"),
        ({"u": wave(), "x": X[::-1], "t": T}, {}, "must increase"),
        ({"u": T, "t": T}, {}, "no field"),
        ({"u": wave(), "x": X, "t": T}, {"periodic": "z"}, "no axis"),
        ({"u": wave(), "x": X, "t": T}, {"periodic": "t"}, "time cannot be periodic"),
        ({"u": wave(), "x": X**2, "t": T}, {"periodic": "x"}, "length must be said"),
        ({"u": wave(), "x": X, "t": T}, {"periodic": {"x": 1.0}}, "Drop the sample"),
        ({"u": wave(), "x": X, "t": T}, {"inputs": {"a": np.ones(5)}}, "must have shape"),
        ({"u": wave(), "x": X, "t": T}, {"inputs": {"u": wave()}}, "u"),
        ({"u": 3.0, "x": X, "t": T}, {}, "must be an array"),
    ],
)
def test_a_mistake_gets_a_sentence(arrays, options, says):
    with pytest.raises(cindy.DataError, match=says):
        cindy.Field(**arrays, **options)


def test_fields_with_other_axes_or_names_do_not_go_together():
    one = cindy.Field(u=wave(), x=X, t=T)
    with pytest.raises(cindy.DataError, match="same states"):
        as_fields([one, cindy.Field(v=wave(), x=X, t=T)])
    with pytest.raises(cindy.DataError, match="same axes"):
        as_fields([one, cindy.Field(u=wave(), z=X, t=T)])
    with pytest.raises(cindy.DataError, match="mixed"):
        as_fields([one, cindy.Trajectory(T, T)])


def heat() -> cindy.Field:
    x, t = np.linspace(0, 2 * np.pi, 48, endpoint=False), np.linspace(0, 2, 61)
    waves = [np.exp(-0.1 * k * k * t) * np.sin(k * x + k)[:, None] / k for k in (1, 2, 3)]
    noise = 0.001 * np.random.default_rng(0).standard_normal((48, 61))
    return cindy.Field(u=sum(waves) + noise, x=x, t=t, periodic="x")


def test_an_equation_of_a_field_that_lacks_a_term_is_told_of_and_a_right_one_is_not():
    right = cindy.identify(heat(), cindy.Derivatives(2, 2))
    assert right.terms[np.flatnonzero(right.coef)[0]] == "u_xx"
    assert not right.warnings
    assert any("of its motion unexplained" in said for said in cindy.identify(heat(), "poly:2").warnings)


def test_what_a_field_is_not_for_is_said():
    xarray = pytest.importorskip("xarray")
    u = wave()
    array = xarray.DataArray(u, dims=("x", "t"), coords={"x": X, "t": T}, name="h")
    assert cindy.Field(array).states == ("h",)
    with pytest.raises(cindy.DataError, match="must be real"):
        cindy.Field(u=u + 1j, x=X, t=T)
    with pytest.raises(cindy.DataError, match="`periodic` must name axes"):
        cindy.Field(u=u, x=X, t=T, periodic=True)
    model = cindy.identify(heat(), "poly:1")
    with pytest.raises(cindy.DataError, match="Use score"):
        model.predict(heat())
    with pytest.raises(cindy.DataError, match="along trajectories"):
        model.smooth(heat())
