"""Fronts that are steeper than a grid can tell, by sums over every second sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats
from cindy.formulation.bumps import AxisRows, reduce

__all__ = ["alternating_sums", "resolved"]

_FRONT = 6.0
"""Standard deviations of a row's noise from which its alternating sum is a front: chance comes so far in one
of 5e8. At 1 % noise the smooth solutions of `python -m benchmarks pde` reach 4.2 as chance does, the shock of
the inviscid Burgers equation 140."""
_INEXACT = 1e-3
"""Of the root mean square of the rows: what the grid adds below this is no matter, even without noise."""


def alternating_sums(values: Mapping[str, Floats], axes: Sequence[AxisRows], order: int) -> Floats:
    """(states, axes + 1, rows …): the targets of every row with signs that alternate along one axis, and last
    with none that do.

    The sums over the even and over the odd samples differ by twice that. It holds as much noise as the
    target itself, and nothing of what the grid resolves.
    """
    orders = [*(0 for _ in axes[1:]), order]
    both = [
        {False: a.matrices[k], True: a.alternating(k)} if a.even else {False: a.matrices[k]}
        for a, k in zip(axes, orders, strict=True)
    ]
    every = range(len(axes))
    wanted = {tuple(k == j for k in every) for j in every if axes[j].even}
    found = np.zeros((len(values), len(axes) + 1, *(a.rows for a in axes)))
    for i, field in enumerate(values.values()):
        for key, sums in reduce(field, both, {*wanted, (False,) * len(axes)}).items():
            found[i, key.index(True) if any(key) else -1] = sums
    return found


def resolved(
    sums: Floats, whole: NDArray[np.bool_], noise: Sequence[float], axes: Sequence[AxisRows], order: int
) -> NDArray[np.bool_]:
    """(rows …): where the alternating sums are noise.

    The sum over a jump is wrong by as much as a step of the grid holds, more or less as the jump lies in it.
    That is no noise: at a shock in 1 % noise it looks like diffusion. Where most rows are so, the grid
    is coarse throughout, and all of them are taken as they are.

    sums: as of `alternating_sums`; whole: (rows …) where no value is missing
    """
    from scipy.ndimage import maximum_filter

    size = np.ones(())
    for axis, k in zip(axes, [*(0 for _ in axes[1:]), order], strict=True):
        size = np.multiply.outer(size, np.linalg.norm(axis.matrices[k], axis=1))
    steep = np.zeros(whole.shape, dtype=bool)
    for sigma, (*sides, target) in zip(noise, sums, strict=True):
        inexact = _INEXACT * float(np.sqrt(np.mean(target[whole] ** 2))) if whole.any() else 0.0
        steep |= (np.abs(sides) > _FRONT * np.hypot(sigma * size, inexact)).any(axis=0)
    # What overlaps with such a row holds some of the front too.
    ends: list[Literal["wrap", "nearest"]] = [
        "wrap" if axis.matrices[0][0, -1] != 0.0 else "nearest" for axis in axes
    ]
    kept = whole & ~maximum_filter(steep & whole, size=3, mode=ends)
    return kept if kept.sum() > 0.5 * whole.sum() else whole
