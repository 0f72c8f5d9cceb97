"""Arrays: their types, where they live, and how many threads work on them.

Code for a device is written once, against the array API standard; a `Space` holds the
functions of that standard and takes arrays of PyTorch, CuPy or numpy to the device and back.
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

__all__ = [
    "Floats",
    "Ints",
    "Space",
    "device_of",
    "is_foreign",
    "namespace",
    "one_thread",
    "space_of",
    "to_numpy",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


_FOREIGN = {"torch", "cupy", "array_api_strict"}
"""Libraries whose arrays are kept as they are until numpy is needed."""


@dataclass(frozen=True, eq=False)
class Space:
    """Where arrays live, and the functions on them.

    xp: the functions of the array API standard
    device: as `xp` calls it; None for its usual one
    name: in words
    """

    xp: Any
    device: Any
    name: str

    def put(self, values: Any) -> Any:
        """The values as a float64 array of this space."""
        if is_foreign(values):
            if type(values).__module__.partition(".")[0] in self.xp.__name__:
                return self.xp.asarray(values, dtype=self.xp.float64, device=self.device)
            values = to_numpy(values)
        # A copy: arrays of this library are read-only, which other libraries do not know.
        return self.xp.asarray(np.array(values, dtype=np.float64), device=self.device)

    def get(self, array: Any) -> Floats:
        """An array of this space as a numpy one."""
        return np.asarray(to_numpy(array), dtype=np.float64)


def is_foreign(values: Any) -> bool:
    """Whether it is an array of another library than numpy."""
    return type(values).__module__.partition(".")[0] in _FOREIGN and hasattr(values, "shape")


def namespace(values: Any) -> Any:
    """The functions of the array API standard on an array of another library."""
    return require("array_api_compat", "gpu", "an array on a device").array_namespace(values)


def device_of(values: Any) -> Any:
    """The device that an array of another library lives on."""
    return require("array_api_compat", "gpu", "an array on a device").device(values)


def to_numpy(values: Any) -> Any:
    """Any array as a numpy one."""
    if hasattr(values, "detach"):  # PyTorch
        return values.detach().cpu().numpy()
    if type(values).__module__.partition(".")[0] == "cupy":
        return values.get()
    return np.asarray(values)


def space_of(device: Any) -> Space:
    """The space that a user's `device` stands for.

    "cuda", "cuda:1", "cpu" or a torch.device: PyTorch, or CuPy where only that is installed. A module
    with the functions of the standard, such as cupy or array_api_strict, stands for its usual device.
    """
    if isinstance(device, Space):
        return device
    if isinstance(device, ModuleType):
        name = device.__name__
        return Space(_compatible(name) if name in ("numpy", "torch", "cupy") else device, None, name)
    return _named(str(device))


@lru_cache(maxsize=8)
def _named(device: str) -> Space:
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
        return Space(_compatible("cupy"), cupy.cuda.Device(number), f"{device} through CuPy")
    if kind == "cuda" and not torch.cuda.is_available():
        raise DataError(
            f"device={device!r}: PyTorch finds no CUDA device here. Leave `device` out to use numpy."
        )
    return Space(_compatible("torch"), torch.device(device), f"{device} through PyTorch")


def _compatible(name: str) -> ModuleType:
    return require(f"array_api_compat.{name}", "gpu", "a device")


class _Limit:
    """The number of threads of BLAS is one for the whole process; calls in several threads share the change.

    inside: how many calls are under way; before: the numbers that the last of them restores
    """

    lock = threading.Lock()
    inside = 0
    before: ClassVar[list[int]] = []


@contextmanager
def one_thread() -> Iterator[None]:
    """Within it the OpenBLAS of numpy and scipy uses one thread; afterwards as many as before.

    Matrices here are small: with sixteen threads a fit took 45 s of processor time and 3 s of wall time, with
    one 1.7 s of both. And a product shared by several threads adds up in another order, so that a model
    would depend on how many cores a machine has. A BLAS other than OpenBLAS keeps its threads.

    By hand and not by threadpoolctl, where only the thread that came first may change the number (3.8):
    when it ends, those of its pool that are still at work would have all threads again.
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
    """(get, set) of the number of threads of every OpenBLAS that numpy and scipy have loaded."""
    # numpy and scipy each ship an OpenBLAS of their own, with names that differ between versions.
    functions = []
    for name in ("numpy._core._multiarray_umath", "scipy.linalg._fblas"):
        library = ctypes.CDLL(importlib.import_module(name).__file__)
        for prefix, suffix in itertools.product(("scipy_openblas", "openblas"), ("64_", "")):
            get, put = (f"{prefix}_{verb}_num_threads{suffix}" for verb in ("get", "set"))
            if hasattr(library, get) and hasattr(library, put):
                functions.append((getattr(library, get), getattr(library, put)))
                break
    return tuple(functions)
