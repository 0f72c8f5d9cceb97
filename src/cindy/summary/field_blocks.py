"""From fields to a summary: slab by slab of time, in blocks of space and time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cindy.basis import Basis
from cindy.data import Field
from cindy.errors import DataError
from cindy.formulation import Formulation, field_rows
from cindy.least_squares import LeastSquares
from cindy.summary.running_qr import RunningTriangle
from cindy.summary.summary import Summary

__all__ = ["summarise_fields"]


def summarise_fields(
    fields: Sequence[Field],
    basis: Basis,
    form: Formulation,
    *,
    blocks: int,
    progress: Callable[[int, int | None], None] | None = None,
) -> Summary:
    """The summary of fields in the weak form, in one pass over their values."""
    first = fields[0]
    if not isinstance(basis, Basis):
        raise DataError(f"accumulate: `basis` must be a basis such as Derivatives(3, 2), but is {basis!r}.")
    basis = basis.on_axes(first.axes)
    fitted: Any = form.fit_to_fields(fields, basis)
    size = int(sum(np.prod(f.shape) for f in fields))
    width = len(basis.names(first.variables)) + len(first.states)
    spurious = np.zeros((width, width))
    parts: list[LeastSquares] = []
    labels: list[str] = []
    samples = 0
    for i, (field, rows) in enumerate(
        zip(fields, field_rows(fields, basis, fitted, blocks=blocks), strict=True)
    ):
        name = field.name or (f"field {i}" if len(fields) > 1 else "field")
        boxes: dict[tuple[int, int], RunningTriangle] = {}
        times: dict[tuple[int, int], tuple[float, float]] = {}
        for slab in rows.slabs():
            spurious += slab.spurious
            samples += slab.samples
            for k, box in enumerate(slab.boxes):
                boxes.setdefault((slab.part, k), RunningTriangle()).add(box)
                begin = times.get((slab.part, k), (slab.begin,))[0]
                times[slab.part, k] = begin, slab.end
            if progress is not None:
                progress(samples, size)
        for key, running in boxes.items():
            if running.rows:
                parts.append(LeastSquares(running.factor(), width - len(first.states), running.rows))
                begin, end = times[key]
                labels.append(f"{name}, box {key[1]}, {field.time} = {begin:.6g} … {end:.6g}")
    if not parts:
        raise DataError(
            "accumulate: nothing is left: every test function touches a missing value. Give smaller "
            "half_widths to Weak, "
            "or fill small holes."
        )
    return Summary(
        tuple(parts), tuple(labels), first.states, first.inputs, basis, fitted, samples, 0, spurious
    )
