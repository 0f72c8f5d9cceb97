"""cindy simulate: from a saved model to a table of its solution."""

import csv
import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cindy._files import whole_file, write_text
from cindy._types import Floats
from cindy.cli import texts
from cindy.cli.screen import bar, show_warnings, working
from cindy.data import Field, Held, Hold, Trajectory, as_hold, read
from cindy.errors import DataError
from cindy.model import Model, load

__all__ = ["run"]


def run(
    file: Path,
    *,
    x0: str,
    t: str | None,
    v0: str | None = None,
    inputs: Path | None = None,
    hold: str | None = None,
    periodic: str | None = None,
    out: Path | None,
) -> None:
    """Solve, and write the solution as csv to a file or to the screen; fields as npz."""
    model = load(file)
    if model.formulation.for_fields:
        _solve_field(model, Path(x0), t, periodic, out)
        return
    start = texts.start(x0, model.states, "--x0")
    velocity = None if v0 is None else texts.start(v0, model.states, "--v0")
    between = as_hold(hold or model.settings.get("hold", "linear"), "--hold")
    known = None if inputs is None else _inputs(model, inputs)
    if t is None and known is None:
        raise DataError('simulate: the times are missing. Say --t "start:stop:step".')
    times = known.t if t is None and known is not None else texts.times(t or "")
    with working("Simulating"):
        if known is None:
            found = model.simulate(start, times, v0=velocity)
        else:
            found = _driven(model, start, times, known, between, velocity)
    text = _csv(found)
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text, "the solution")
    if found.stopped is not None:
        show_warnings([f"stopped after {len(found)} of {len(times)} samples: {found.stopped}."])


def _solve_field(model: Model, start: Path, t: str | None, periodic: str | None, out: Path | None) -> None:
    """From the first field of a file to the solution at the times asked for, or at those of the file."""
    if out is None or out.suffix != ".npz":
        raise DataError("simulate: a solution of fields is written to a file. Say --out solution.npz.")
    around = () if periodic is None else texts.names(periodic, "--periodic")
    field = Field(start, periodic=around, inputs=model.inputs)
    times = field.t if t is None else texts.times(t)
    with bar("Simulating") as progress:
        found = model.simulate(field, times, progress=lambda done, total: progress(done, total, ""))
    arrays = {axis: found.coordinate(axis) for axis in (*found.axes, found.time)}
    arrays |= {state: found[state] for state in found.states}
    with whole_file(out, "the solution") as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    if found.stopped is not None:
        show_warnings([f"stopped after {len(found)} of {len(times)} times: {found.stopped}."])


def _inputs(model: Model, file: Path) -> Trajectory:
    if not model.inputs:
        raise DataError("simulate: the model has no inputs, so --inputs must be left out.")
    found = read(file, states=model.inputs)
    if len(found) != 1:
        raise DataError(f"simulate: {file} must hold the inputs of one trajectory, but holds {len(found)}.")
    return found[0]


def _driven(
    model: Model, start: Any, times: Floats, known: Trajectory, hold: Hold, velocity: Any
) -> Trajectory:
    """The solution at the times asked for, with inputs that were sampled at times of their own."""
    if times[0] < known.t[0] or times[-1] > known.t[-1]:
        raise DataError(
            f"simulate: the inputs are known for t = {known.t[0]:g} … {known.t[-1]:g}, "
            f"but the times are {times[0]:g} … {times[-1]:g}."
        )
    signal = Held(known.t, known.x, hold)
    if hold == "band":
        return model.simulate(start, times, signal, v0=velocity)
    # Inputs bend or jump at their samples, so that these are times of the solution, too.
    own = known.t[(known.t > times[0]) & (known.t < times[-1])]
    every = np.union1d(times, own)
    solution = model.simulate(start, every, signal.at(every), hold, v0=velocity)
    wanted = np.isin(solution.t, times)
    u = None if solution.u is None else solution.u[wanted]
    return replace(solution, t=solution.t[wanted], x=solution.x[wanted], u=u)


def _csv(found: Trajectory) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow(("t", *found.variables))
    np.savetxt(stream, np.column_stack([found.t, found.values]), "%.12g", ",")
    return stream.getvalue()
