"""EMPS: a measured drive with dry friction, q'' = F(q, q', force) from its position alone.

A motor moves a carriage by a screw, in closed loop and at 1 kHz; position and motor voltage are measured, and
a known gain makes the voltage a force. The test record repeats the motion with pulses of force in addition.
Data: Janot, Gautier, Brunot, Data set and reference models of EMPS, 2019. Root mean square of the free
simulation of the test record, as published under one protocol (Beintema et al., arXiv 2405.10779): best
2.64 mm, polynomial NARX 5.17, linear 5.53; the reference model of the data's authors has 9.28.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat

import cindy

__all__ = ["PUBLISHED", "identified", "measure", "read_emps"]

AVERAGED = 13
"""Samples of 1 ms whose force is averaged: 1,910 steps, which are fitted as one stretch."""
PUBLISHED = "best 2.64, NARX 5.17, linear 5.53, reference model 9.28"


def read_emps(file: Path) -> cindy.Trajectory:
    """Positions in m and forces in N; the mean force of a step acts all through it."""
    columns = loadmat(file)
    q, volts, gain = (np.ravel(columns[name]) for name in ("qm", "vir", "gtau"))
    steps = len(q) // AVERAGED
    force = gain * volts[: steps * AVERAGED].reshape(steps, AVERAGED).mean(axis=1)
    q = q[: steps * AVERAGED : AVERAGED]
    return cindy.Trajectory(AVERAGED * 1e-3, q, ("q",), u=force, inputs=("F",), hold="zero")


def identified(data: cindy.Trajectory) -> cindy.Model:
    """Inertia, offset, spring, viscous and quadratic friction, and dry friction over an unknown speed s."""
    friction = {"tanh(q'/s)": "tanh(q'/s)", "q'|q'|": "q'*abs(q')"}
    basis = cindy.Polynomial(1) + cindy.Custom(friction, parameters={"s": (1e-4, 0.05)})
    return cindy.identify(data, basis, formulation=cindy.Integral(order=2, rates=True))


def measure(folder: Path) -> dict[str, Any]:
    """The law of the training record, and what free simulations from rest are wrong by."""
    records = [read_emps(folder / name) for name in ("DATA_EMPS.mat", "DATA_EMPS_PULSES.mat")]
    began = time.process_time()
    model = identified(records[0])
    seconds = time.process_time() - began
    errors = []
    for record in records:
        solved = model.simulate([record.x[0, 0], 0.0], record.t, record.u, hold="zero")
        wrong = solved.x[:, 0] - record.x[: len(solved), 0]
        errors.append(1e3 * float(np.sqrt(np.mean(wrong**2))))
    return {"law": str(model), "training mm": errors[0], "test mm": errors[1], "seconds": seconds}
