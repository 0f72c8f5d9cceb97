"""Silverbox: a measured Duffing circuit, y'' = F(y, y', u) from its positions alone.

An electronic circuit behaves like a mass on a hardening spring. Input and output are 131,072 samples at
10⁷/2¹⁴ = 610.35 Hz, band-limited by the filters of the instrument: a multisine for training and test, and an
"arrow" of growing noise whose last part is larger than anything in the training data. Data and splits:
Wigren and Schoukens, Three free data sets for development and benchmarking in nonlinear system
identification, 2013. Root mean square of free simulations in mV (multisine, arrow, arrow without
extrapolation), as published under one protocol (Beintema et al., arXiv 2405.10779): best 0.36, 0.26, 0.32;
SUBNET 0.36, 1.4, 0.32; polynomial NARX 0.64, 2.25, 0.57; LSTM 1.5, 2.7, 0.96; linear 7.0, 14.4, 6.6.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.io import loadmat

import cindy

__all__ = ["PUBLISHED", "TRAINING", "identified", "measure", "read_silverbox"]

Floats = NDArray[np.float64]

STEP = 2**14 / 1e7
TRAINING = (40_650, 105_712)
TESTS = {"multisine": (105_712, 127_400), "arrow": (100, 40_575)}
INSIDE = 32_000
"""Samples of the arrow that are no larger than the training data."""
LEFT_OUT = 50
"""First errors of a simulation, by the rules of the benchmark."""
SAMPLES = 2_048
PUBLISHED = "best 0.36 / 0.26 / 0.32, NARX 0.64 / 2.25 / 0.57, linear 7.0 / 14.4 / 6.6"


def read_silverbox(folder: Path) -> cindy.Trajectory:
    """The whole record without its offsets, the input band-limited as it was measured."""
    columns = loadmat(folder / "SNLS80mV.mat")
    u, y = (np.ravel(columns[name]) - np.mean(columns[name]) for name in ("V1", "V2"))
    return cindy.Trajectory(STEP, y, ("y",), u=u, inputs=("u",), hold="band")


def identified(data: cindy.Trajectory) -> cindy.Model:
    """A spring of any cubic force, damping, and a force that goes with the input."""
    basis = cindy.Polynomial(1) + cindy.Polynomial(3).on("y")
    return cindy.identify(data, basis, formulation=cindy.Integral(order=2, rates=True))


def _errors(model: cindy.Model, record: cindy.Trajectory) -> Floats:
    """What a free simulation is wrong by; it starts with the first sample and the slope of a spline there."""
    start = record.x[:LEFT_OUT, 0]
    slope = float(CubicSpline(record.t[:LEFT_OUT], start)(record.t[0], 1))
    solved = model.simulate([start[0], slope], record.t, record.u, hold="band")
    return np.asarray(solved.x[:, 0] - record.x[: len(solved), 0])[LEFT_OUT:]


def measure(folder: Path, first: int, samples: int = SAMPLES) -> dict[str, Any]:
    """The law of a part of the training data that begins at `first`, and its three errors in mV."""
    record = read_silverbox(folder)
    began = time.process_time()
    model = identified(record.part(first, first + samples))
    seconds = time.process_time() - began
    multisine, arrow = (_errors(model, record.part(*place)) for place in TESTS.values())
    sizes = [1e3 * float(np.sqrt(np.mean(e**2))) for e in (multisine, arrow, arrow[: INSIDE - LEFT_OUT])]
    return {"law": str(model), "errors": sizes, "seconds": seconds}
