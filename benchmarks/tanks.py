"""Cascaded tanks: a measured benchmark with a state that nobody measured.

A pump fills an upper tank, which flows through a hole into a lower one, and that into the reservoir. Pump
voltage and level of the lower tank are measured, 1,024 samples of 4 s each for estimation and test. Both
tanks overflow when they are full, and the level of the upper one is hidden. Data: Schoukens, Mattson, Wigren,
Noël, Cascaded tanks benchmark combining soft and hard nonlinearities, 2016 (dataBenchmark.csv). Root mean
square of the simulated test half, as published: linear 0.588 V, polynomial NARX 0.413, CT-SUBNET
0.306, physics with overflow 0.191.
"""

import csv
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import cindy

__all__ = ["identified", "measure", "read_tanks", "simulated"]

Floats = NDArray[np.float64]

STEP = 4.0
FULL = 10.0
"""Volts at which the level sensor ends and the tanks overflow."""
FIRST = 50
"""Samples of a record that its initial states are estimated from: nobody measured the upper tank."""
WEIR = 0.1
"""What a full tank sheds, per second and volt above `FULL`: steep beside the tanks' own rates, a few
hundredths, and gentle beside the step."""
ROOTS = {"√upper": "sqrt(max(upper, 0.05))", "√lower": "sqrt(max(lower, 0.05))"}
SPILLS = {"spill": f"max(upper - {FULL:g}, 0)", "overflow": f"max(lower - {FULL:g}, 0)"}


def read_tanks(folder: Path) -> tuple[cindy.Trajectory, cindy.Trajectory]:
    """The records for estimation and test, the pump held between samples."""
    with (folder / "dataBenchmark.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["uEst"]]

    def record(part: str) -> cindy.Trajectory:
        level, pump = (np.array([float(row[f"{name}{part}"]) for row in rows]) for name in "yu")
        return cindy.Trajectory(STEP, level, ("lower",), u=pump, inputs=("pump",), hold="zero")

    return record("Est"), record("Val")


def identified(data: cindy.Trajectory) -> cindy.Model:
    """The law of both tanks from the level of the lower one.

    Torricelli's law lets a hole pass flow like the root of the level; a linear term corrects for pipes. Where
    both holes are alike, lower' = k (√upper − √lower), which with 1/k about 15 s is a first upper level.
    """
    basis = {
        "lower": cindy.Custom({**ROOTS, **SPILLS, "lower": "lower"}),
        "upper": cindy.Custom(
            {"pump": "pump", "√upper": ROOTS["√upper"], "spill": SPILLS["spill"], "upper": "upper"}
        ),
    }
    return cindy.identify(
        data,
        basis,
        hidden={"upper": "max(sqrt(lower) + 15*lower', 0.5)^2"},
        constraints=[cindy.fix("lower", "overflow", -WEIR), cindy.fix("upper", "spill", -WEIR)],
    )


def simulated(model: cindy.Model, record: cindy.Trajectory) -> Floats:
    """The level of the lower tank as the sensor shows it, from states fitted to the first samples."""
    [begun] = model.smooth(record.part(0, FIRST))
    solved = model.simulate(begun.x[0], record.t, record.u, hold="zero")
    return np.minimum(solved.x[:, 0], FULL)


def measure(folder: Path) -> dict[str, object]:
    """The law, and the root mean square of its free simulations."""
    estimation, test = read_tanks(folder)
    began = time.process_time()
    model = identified(estimation)
    seconds = time.process_time() - began
    errors = [
        float(np.sqrt(np.mean((simulated(model, record) - record.x[:, 0]) ** 2)))
        for record in (estimation, test)
    ]
    return {"law": str(model), "estimation V": errors[0], "test V": errors[1], "seconds": seconds}
