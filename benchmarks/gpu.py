"""A device beside the CPU of the same machine: samples into a summary, and a large dictionary solved.

Needs PyTorch and array-api-compat. Where there is no CUDA device the same code runs through PyTorch on the
CPU, on a small part of the data, so that it can be tried anywhere.
"""

import os
import platform
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.table import write
from cindy import ConvergenceWarning, Integral, LeastSquares, Polynomial, Summary, accumulate
from cindy.solver import Region, Result, conditional_gradient, oracle_for
from cindy.solver.sampled_rows import DeviceRows

__all__ = ["run"]

STATES, DEGREE, WINDOW, STEP = 5, 3, 64, 0.01
EACH = 4_000_000
"""Samples in a trajectory."""
TERMS, EQUATIONS, ROWS, KEPT, NOISE = 20_000, 50, 40_000, 10, 0.1
RADII = (8.0, 9.8)
"""Of the l1 ball, for each equation, of which ten coefficients are drawn from ± 0.5 … 1.5: one that
shrinks them, and one at which the first terms of the noise come in."""
TOL = 1e-4
PATIENCE = 60.0
"""Seconds after which the CPU is asked how far it came."""


def run() -> None:
    import torch

    cuda = torch.cuda.is_available()
    device = "cuda" if cuda else "cpu"
    share = 1 if cuda else 500
    name = torch.cuda.get_device_name() if cuda else "PyTorch on the CPU"
    cores = os.cpu_count() or 1
    how = f"PyTorch {torch.__version__}, {name}; CPU: {_cpu()}, {cores} cores; wall time"
    print(how, flush=True)
    write(
        "gpu_stream",
        "Samples into a summary, on a device and on the CPU",
        _streams(device, 1_000_000_000 // share, cores),
        f"{STATES} states, all monomials to degree {DEGREE} (56 terms), the integral form in windows of "
        f"{WINDOW} samples, trajectories of {EACH:,} samples made on the device, which takes part of "
        "the time. The last column is the largest difference to the coefficients that numpy gives for the "
        "same trajectories, over the largest coefficient.",
        how=how,
    )
    write(
        "gpu_solver",
        "A large dictionary solved, on a device and on the CPU",
        _solves(device, share),
        f"Random rows, {KEPT} of the terms in each equation, noise of {NOISE:.0%} of each equation's spread; "
        f"least squares over an l1 ball, to a Frank-Wolfe gap of {TOL:g} of the loss at zero. "
        f"The CPU is stopped after {PATIENCE:.0f} s.",
        how=how,
    )


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _streams(device: str, total: int, cores: int) -> list[dict[str, Any]]:
    each = min(EACH, total)
    few = min(2 * each, 8_000_000)
    _summary(_on_device(device, each, each), device)  # warm up: kernels are loaded when first used
    began = time.perf_counter()
    for _ in _on_device(device, total, each):
        pass
    _wait(device)
    making = time.perf_counter() - began
    began = time.perf_counter()
    whole = _summary(_on_device(device, total, each), device)
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    here = _summary(_copied(device, few, each), None)
    alone = time.perf_counter() - began
    there = _summary(_on_device(device, few, each), device)
    largest = np.abs(_coefficients(here)).max()
    off = float(np.abs(_coefficients(there) - _coefficients(here)).max() / largest)
    spread = min(total, 16_000_000 if device == "cuda" else few)
    # Not forked: threads of the device's library do not survive that.
    with ProcessPoolExecutor(cores, get_context("spawn")) as pool:
        _summary(_copied(device, each, each), None, pool)
        began = time.perf_counter()
        _summary(_copied(device, spread, each), None, pool)
        shared = time.perf_counter() - began
    rows = [
        (f"{device}, this library on the device", whole.samples, seconds, making, off),
        ("CPU, one process (numpy)", here.samples, alone, 0.0, 0.0),
        (f"CPU, {cores} processes (numpy)", spread, shared, 0.0, 0.0),
    ]
    return [
        {
            "where": where,
            "samples": samples,
            "seconds": taken,
            "of these making the data": made,
            "million samples a second": samples / taken / 1e6,
            "seconds for 1e9 samples": 1e9 * taken / samples,
            "difference": difference,
        }
        for where, samples, taken, made, difference in rows
    ]


def _summary(data: Iterator[Any], device: str | None, executor: Any = None) -> Summary:
    form = Integral(window=WINDOW, degree=8, half_width=4, feedback=0.0)
    return accumulate(data, Polynomial(DEGREE), formulation=form, device=device, executor=executor)


def _coefficients(summary: Summary) -> np.ndarray:
    total: LeastSquares = summary.total
    return np.linalg.lstsq(total.design, total.target, rcond=None)[0]


def _on_device(device: str, total: int, each: int) -> Iterator[Any]:
    """Pairs (t, x) of tensors on the device: waves of other frequencies and phases each time."""
    import torch

    rng = np.random.default_rng(0)
    t = torch.arange(each, dtype=torch.float64, device=device) * STEP
    for _ in range(max(total // each, 1)):
        turns, phases = (
            torch.asarray(rng.uniform(a, b, STATES), device=device) for a, b in ((0.5, 2), (0, 6))
        )
        yield t, torch.sin(t[:, None] * turns + phases)


def _copied(device: str, total: int, each: int) -> Iterator[Any]:
    for t, x in _on_device(device, total, each):
        yield t.cpu().numpy(), x.cpu().numpy()


def _wait(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def _solves(device: str, share: int) -> list[dict[str, Any]]:
    scale = 1 if share == 1 else 20
    terms, rows, equations = TERMS // scale, ROWS // scale, max(EQUATIONS // (1 if share == 1 else 10), 1)
    design, target = _problem(device, terms, rows, equations)
    found = []
    objective = DeviceRows(design, target, device=device)
    _solved(objective, RADII[0], 5.0)  # warm up
    for radius in RADII:
        found.append(_row(device, _solved(objective, radius, 600.0), objective, radius))
    copied = DeviceRows(design.cpu().numpy(), target.cpu().numpy(), device=np)
    for radius in RADII:
        found.append(_row("CPU (numpy, all cores)", _solved(copied, radius, PATIENCE), copied, radius))
    return found


def _solved(objective: DeviceRows, radius: float, limit: float) -> Result:
    region = Region(objective.terms * objective.targets, radius * objective.targets)
    with warnings.catch_warnings(), threadpool_limits(os.cpu_count()):
        warnings.simplefilter("ignore", ConvergenceWarning)
        return conditional_gradient(
            objective, oracle_for(region), tol=TOL, max_iter=100_000, max_seconds=limit
        )


def _row(where: str, result: Result, objective: DeviceRows, radius: float) -> dict[str, Any]:
    return {
        "where": where,
        "terms": objective.terms,
        "equations": objective.targets,
        "rows": objective.rows,
        "radius an equation": radius,
        "seconds": result.seconds,
        "status": str(result.status),
        "iterations": result.iterations,
        "ms an iteration": 1e3 * result.seconds / max(result.iterations, 1),
        "relative gap": result.relative_gap,
        "terms in use": int(np.count_nonzero(result.x)),
    }


def _problem(device: str, terms: int, rows: int, equations: int) -> tuple[Any, Any]:
    """Random rows and what sparse coefficients make of them, on the device."""
    import torch

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    design = torch.randn((rows, terms), dtype=torch.float64, device=device)
    truth = np.zeros((terms, equations))
    for j in range(equations):
        at = rng.choice(terms, KEPT, replace=False)
        truth[at, j] = rng.uniform(0.5, 1.5, KEPT) * rng.choice([-1, 1], KEPT)
    clean = design @ torch.asarray(truth, device=device)
    noise = torch.randn(clean.shape, dtype=torch.float64, device=device) * clean.std(dim=0)
    return design, clean + NOISE * noise
