"""Where states may begin that noise has carried out of the domain of terms with parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cindy.model import between, outside_domain
from cindy.states import Motion

__all__ = ["motion_inside"]


def motion_inside(motion: Motion) -> Motion:
    """The same with the few measurements at which terms are undefined moved in between their neighbours:
    where states may begin."""
    parts = [np.concatenate([r.y, r.u], axis=2) for r in motion.records]
    flat = np.concatenate([part.reshape(-1, part.shape[2]) for part in parts])
    outside = outside_domain(motion.basis, motion.variables, flat)
    if not outside.any():
        return motion
    records, first = [], 0
    for record in motion.records:
        here = outside[first : first + record.y[..., 0].size].reshape(record.y.shape[:2])
        first += here.size
        moved = [between(record.grid.t, x, mask) for x, mask in zip(record.y, here, strict=True)]
        records.append(replace(record, y=np.stack(moved)))
    return replace(motion, records=tuple(records))
