"""A field larger than what is held in memory: two fields on 256 × 256 × 200, from a netCDF file."""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path

import numpy as np

import cindy
from benchmarks.table import write

__all__ = ["run"]

SHAPE = (256, 256, 200)


def run() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "field.nc"
        _make(file)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        began, clock = time.process_time(), time.perf_counter()
        field = cindy.Field(file, periodic=("x", "y"))
        model = cindy.identify(field, cindy.Derivatives(3, 2))
        row = {
            "grid": " × ".join(map(str, SHAPE)),
            "fields": len(field.states),
            "terms": len(model.terms),
            "s": time.process_time() - began,
            "s by the clock": time.perf_counter() - clock,
            "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "MB before": before,
            "equations": "; ".join(model.equations()),
        }
    write(
        "pde_stream",
        "A large field from a netCDF file",
        [row],
        "Two fields that are carried along, spread and exchange, u_t = −u_x + 0.1 Δu − 0.5 v and "
        "v_t = −v_x + 0.1 Δv + 0.5 u, with 20 % noise. s: of one processor, all on one thread; the clock "
        "counts what other programs took of the machine, too.",
    )


def _make(file: Path) -> None:
    """An exact solution, mode by mode: w = u + i v turns, drifts and spreads."""
    from scipy.io import netcdf_file

    n, m, k = SHAPE
    x, y, t = 2 * np.pi * np.arange(n) / n, 2 * np.pi * np.arange(m) / m, np.linspace(0, 2, k)
    draw = np.random.default_rng(0)
    waves = np.arange(-4, 5)
    amplitudes = draw.standard_normal((9, 9, 2)) @ [1, 1j]
    rows, columns = np.exp(1j * np.outer(y, waves)), np.exp(1j * np.outer(waves, x))
    slow = 0.5j - 1j * waves - 0.1 * (waves**2 + waves[:, None] ** 2)
    noise = 0.2 * np.sqrt(np.sum(np.abs(amplitudes) ** 2) / 2) * 0.5
    with netcdf_file(file, "w") as store:
        for name, values in (("t", t), ("y", y), ("x", x)):
            store.createDimension(name, len(values))
            store.createVariable(name, "d", (name,))[:] = values
        u, v = (store.createVariable(name, "d", ("t", "y", "x")) for name in "uv")
        for i, time_ in enumerate(t):
            w = rows @ (amplitudes * np.exp(slow * time_)) @ columns
            u[i] = w.real + noise * draw.standard_normal((m, n))
            v[i] = w.imag + noise * draw.standard_normal((m, n))
