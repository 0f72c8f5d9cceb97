"""Arrays: their types, the device that holds them, and the number of threads that work on them.

Code for devices uses only functions of the array API standard. A `Space` holds these functions and moves
arrays of PyTorch, CuPy or numpy to the device and back.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cindy.errors import DataError, require

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


_FOREIGN = {"torch", "cupy", "array_api_strict"}
"""Libraries whose arrays stay on their device until numpy needs them."""


@dataclass(frozen=True, eq=False)
class Space:
    """A device that holds arrays, and the functions on them.

    xp: the functions of the array API standard
    device: the device in terms of `xp`; None for its default device
    """

    xp: Any
    device: Any

    def put(self, values: Any) -> Any:
        """The values as a float64 array of this space."""
        if is_foreign(values):
            if type(values).__module__.partition(".")[0] in self.xp.__name__:
                return self.xp.asarray(values, dtype=self.xp.float64, device=self.device)
            values = to_numpy(values)
        # A copy, because arrays of trajectories are read-only, which other libraries do not support.
        return self.xp.asarray(np.array(values, dtype=np.float64), device=self.device)

    def get(self, array: Any) -> Floats:
        """An array of this space as a numpy array."""
        return np.asarray(to_numpy(array), dtype=np.float64)


def evenly(places: Ints) -> Ints | slice:
    """The same places as a slice, which is copied three times as fast, where they are evenly spaced."""
    if len(places) < 2 or np.ptp(steps := np.diff(places)) or steps[0] < 1:
        return places
    return slice(int(places[0]), int(places[-1]) + 1, int(steps[0]))


def is_foreign(values: Any) -> bool:
    """Whether `values` is an array of a library other than numpy."""
    return type(values).__module__.partition(".")[0] in _FOREIGN and hasattr(values, "shape")


def space_holding(values: Any) -> Space:
    """The space of an array of another library."""
    compatible: Any = require("array_api_compat", "gpu", "an array on a device")
    return Space(compatible.array_namespace(values), compatible.device(values))


def to_numpy(values: Any) -> Any:
    """Any array as a numpy array."""
    if hasattr(values, "detach"):  # PyTorch
        return values.detach().cpu().numpy()
    if type(values).__module__.partition(".")[0] == "cupy":
        return values.get()
    return np.asarray(values)


def space_of(device: Any) -> Space:
    """The space that a user's `device` stands for.

    "cuda", "cuda:1", "cpu" or a torch.device: PyTorch, or CuPy if only that is installed. A module with the
    functions of the standard, such as cupy or array_api_strict, stands for its default device.
    """
    if isinstance(device, Space):
        return device
    if isinstance(device, ModuleType):
        name = device.__name__
        return Space(_compatible(name) if name in ("numpy", "torch", "cupy") else device, None)
    return _named(str(device))


@lru_cache(maxsize=8)
def _named(device: str) -> Space:
    """The space of "cpu", "cuda" or "cuda:1"."""
    kind = device.partition(":")[0]
    if kind not in ("cpu", "cuda"):
        raise DataError(
            f'device: expected "cuda", "cuda:1", … or "cpu" (through PyTorch), or a module such as cupy, '
            f"but got {device!r}. Devices without double precision cannot be used."
        )
    try:
        torch = require("torch", "gpu", f"device={device!r}")
    except ImportError:
        if kind == "cpu":
            raise
        cupy = require("cupy", "gpu", f"device={device!r}")
        number = int(device.partition(":")[2] or 0)
        return Space(_compatible("cupy"), cupy.cuda.Device(number))
    if kind == "cuda" and not torch.cuda.is_available():
        raise DataError(
            f"device={device!r}: PyTorch finds no CUDA device here. Leave `device` out to use numpy."
        )
    return Space(_compatible("torch"), torch.device(device))


def _compatible(name: str) -> ModuleType:
    """The functions of the array API standard for a library that has some of its own."""
    return require(f"array_api_compat.{name}", "gpu", "a device")


class _Limit:
    """The state that calls of `one_thread` share, because the number of threads is one for the whole process.

    inside: the number of calls under way; before: the numbers of threads that the last of them restores
    """

    lock = threading.Lock()
    inside = 0
    before: ClassVar[list[int]] = []


@contextmanager
def one_thread() -> Iterator[None]:
    """A block in which the OpenBLAS of numpy and scipy uses one thread; after it, as many as before.

    Matrices here are small: with sixteen threads a fit took 45 s of processor time and 3 s of wall time, with
    one thread 1.7 s of both. Several threads would also add up a product in another order, so that a model
    would depend on the number of cores. A BLAS other than OpenBLAS keeps its threads.

    threadpoolctl 3.8 does not serve here: only the first of several calls may change the number, and when
    that call ends, the others would run with all threads again.
    """
    libraries = _openblas()
    with _Limit.lock:
        if _Limit.inside == 0:
            _Limit.before = [get() for get, _ in libraries]
            for _, put in libraries:
                put(1)
        _Limit.inside += 1
    try:
        yield
    finally:
        with _Limit.lock:
            _Limit.inside -= 1
            if _Limit.inside == 0:
                for (_, put), count in zip(libraries, _Limit.before, strict=True):
                    put(count)


@lru_cache(maxsize=1)
def _openblas() -> tuple[tuple[Any, Any], ...]:
    """The functions that get and set the number of threads, of every OpenBLAS that numpy and scipy loaded."""
    # numpy and scipy have an OpenBLAS each, whose functions have different names in different versions.
    functions = []
    for name in ("numpy._core._multiarray_umath", "scipy.linalg._fblas"):
        library = ctypes.CDLL(importlib.import_module(name).__file__)
        for prefix, suffix in itertools.product(("scipy_openblas", "openblas"), ("64_", "")):
            get, put = (f"{prefix}_{verb}_num_threads{suffix}" for verb in ("get", "set"))
            if hasattr(library, get) and hasattr(library, put):
                functions.append((getattr(library, get), getattr(library, put)))
                break
    return tuple(functions)
