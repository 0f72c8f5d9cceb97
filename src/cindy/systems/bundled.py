"""The data set of the demonstration: `python -m cindy.systems.bundled` makes it again."""

from pathlib import Path

from cindy._files import write_text
from cindy.systems import System, michaelis_menten

__all__ = ["KINETICS", "kinetics", "make"]

KINETICS = Path(__file__).with_name("kinetics.csv")
"""Concentrations in 24 runs of an enzyme reaction, one sample every 0.1 time units, with 1 % noise."""


def kinetics() -> System:
    """The reaction behind the data; faster binding than in the paper, so that every rate is visible."""
    return michaelis_menten(binding=2.0, release=0.5, catalysis=1.0)


def make(path: Path = KINETICS) -> None:
    """Write the data set."""
    runs = kinetics().simulate(seed=2021, noise=0.01, trajectories=24, points=1224, horizon=5.0)
    lines = ["run,t," + ",".join(runs[0].states)]
    for k, run in enumerate(runs, start=1):
        for t, row in zip(run.t, run.x, strict=True):
            lines.append(f"{k},{t:.6g}," + ",".join(f"{value:.6g}" for value in row))
    write_text(path, "\n".join(lines) + "\n", "the data set")


if __name__ == "__main__":
    make()
