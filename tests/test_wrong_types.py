"""What is no data at all, given wherever data are taken: an error of this library, and no other."""

from contextlib import suppress

import numpy as np
import pytest

import cindy
from cindy.data import as_fields, as_source, as_trajectories
from cindy.errors import CindyError

T = np.arange(5.0)
X = np.sin(T)
GRID = {"u": np.ones((4, 5)), "x": np.arange(4.0), "t": T}
TRAJECTORY = cindy.Trajectory(T, X, u=X)
FIELD = cindy.Field(**GRID)


class Odd:
    """Nothing that anybody expects."""


JUNK = [
    *(None, True, 5, -1, 0, 2.5, np.nan, np.inf, 1j, 10**400, "", "a", "t", "x", "\x00", "a" * 5000, b"b"),
    *([], (), {}, set(), [None], [1, "a"], [1, 2], ["x", "x"], ["\x00"], [[1], [2, 3]], [10**400, 1]),
    *({"a": 1}, {1: 2}, {"x": "y"}, {"x": None}, range(3), slice(1), object(), Odd(), Odd, len, int),
    *(np.array(3), np.zeros(0), np.zeros((0, 2)), np.zeros((2, 2, 2)), np.array(["a", "b"])),
    *(np.array([None, object()], dtype=object), np.datetime64("2020"), np.ma.masked, [np.nan, 1.0]),
]


def trajectory(argument):
    return lambda value: cindy.Trajectory(**{"t": T, "x": X, "u": X, argument: value})


def field(argument):
    return lambda value: cindy.Field(**{**GRID, argument: value})


OF_BOTH = ["t", "x", "u", "inputs", "time_unit", "name", "weight"]
DOORS = {
    **{f"Trajectory {a}": trajectory(a) for a in (*OF_BOTH, "states", "hold", "delay")},
    **{f"Field {a}": field(a) for a in (*OF_BOTH, "periodic", "mask", "time")},
    "Field": cindy.Field,
    "read": cindy.read,
    "Lazy": lambda value: list(cindy.Lazy(value)),
    "a part": lambda value: list(cindy.Lazy([lambda: value])),
    "as_trajectories": as_trajectories,
    "a list": lambda value: as_trajectories([value]),
    "a pair, times": lambda value: as_trajectories((value, X)),
    "a pair, states": lambda value: as_trajectories((T, value)),
    "as_source": lambda value: as_source(value).some(100),
    "as_fields": as_fields,
    "Trajectory.part": lambda value: TRAJECTORY.part(value, 3),
    "Trajectory.part, end": lambda value: TRAJECTORY.part(0, value),
    "Trajectory.step": lambda value: TRAJECTORY.step(value, 3),
    "Field.part": lambda value: FIELD.part(value, 3),
    "Field.coordinate": FIELD.coordinate,
    "Field.period": FIELD.period,
    "Field.uniform": FIELD.uniform,
    "Field[]": FIELD.__getitem__,
    "Field.with_values": lambda value: FIELD.with_values(T, value),
    "Field.with_values, times": lambda value: FIELD.with_values(value, {"u": np.ones((4, 5))}),
    "Field.with_inputs_of": FIELD.with_inputs_of,
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.filterwarnings("ignore")
def test_whatever_is_given_is_taken_or_refused_by_this_library(door):
    for value in JUNK:
        with suppress(CindyError):
            DOORS[door](value)


@pytest.mark.parametrize("argument", ["time", "states", "by", "inputs", "dt", "hold", "lazy"])
@pytest.mark.filterwarnings("ignore")
def test_whatever_read_is_told_about_a_file_is_taken_or_refused(argument, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("t,x,u,r\n0,1,2,a\n1,2,3,a\n2,3,4,b\n3,4,5,b\n")
    for value in JUNK:
        with suppress(CindyError):
            list(cindy.read(path, **{"states": ["x"], argument: value}))
