"""Fronts that are steeper than a grid can tell, by sums over every second sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats
from cindy.formulation.bumps import AxisRows, reduce

__all__ = ["INEXACT", "Counted", "alternating_sums", "counted"]

_FRONT = 6.0
"""Standard deviations of a row's noise from which its alternating sum is a front: chance comes so far in one
of 5e8. At 1 % noise the smooth solutions of `python -m benchmarks pde` reach 4.2 as chance does, the shock of
the inviscid Burgers equation 140."""
INEXACT = 1e-3
"""Of the root mean square of the target: an error of the rows below this is no matter for terms, even without
noise. Data of solvers and images are no better, and on the twelve equations of `python -m benchmarks pde` at
1 % noise it costs nothing."""


def alternating_sums(values: Mapping[str, Floats], axes: Sequence[AxisRows], order: int) -> Floats:
    """(states, axes + 1, rows …): the targets of every row with signs that alternate along one axis, and last
    with none that do; 0 along axes on which signs cannot tell.

    The sums over the even and over the odd samples differ by twice that. It holds as much noise as the
    target itself, and nothing of what the grid resolves.
    """
    both = [
        {False: a.matrices[k]} if a.rough is None else {False: a.matrices[k], True: a.alternating(k)}
        for a, k in zip(axes, _orders(axes, order), strict=True)
    ]
    every = range(len(axes))
    wanted = {tuple(k == j for k in every) for j in every if True in both[j]}
    found = np.zeros((len(values), len(axes) + 1, *(a.rows for a in axes)))
    for i, field in enumerate(values.values()):
        for key, sums in reduce(field, both, {*wanted, (False,) * len(axes)}).items():
            found[i, key.index(True) if any(key) else -1] = sums
    return found


def _orders(axes: Sequence[AxisRows], order: int) -> list[int]:
    """Of the derivatives in the target, along every axis."""
    return [0] * (len(axes) - 1) + [order]


@dataclass(frozen=True, eq=False)
class Counted:
    """Which rows of a field count.

    whole: (rows …) those that touch no missing value
    fronts: (rows …) of these, those at a front that the grid does not resolve
    """

    whole: NDArray[np.bool_]
    fronts: NDArray[np.bool_]

    @cached_property
    def coarse(self) -> bool:
        """Whether most rows are at fronts: the grid is coarse throughout, and they are taken as they are."""
        return bool(2 * self.fronts.sum() >= self.whole.sum() > 0)

    @cached_property
    def kept(self) -> NDArray[np.bool_] | None:
        """(rows …): those that count; None: all of them."""
        kept = self.whole if self.coarse else self.whole & ~self.fronts
        return None if kept.all() else kept


def counted(
    sums: Floats, whole: NDArray[np.bool_], noise: Sequence[float], axes: Sequence[AxisRows], order: int
) -> Counted:
    """Which rows hold more than noise in their alternating sums, and so a front.

    The sum over a jump is wrong by as much as a step of the grid holds, more or less as the jump lies in it.
    That is no noise: at a shock in 1 % noise it looks like diffusion.

    sums: as of `alternating_sums`; whole: (rows …) where no value is missing
    """
    from scipy.ndimage import maximum_filter

    plain = [np.linalg.norm(a.matrices[k], axis=1) for a, k in zip(axes, _orders(axes, order), strict=True)]
    size = np.zeros((len(axes), *whole.shape))
    for j, (axis, k) in enumerate(zip(axes, _orders(axes, order), strict=True)):
        if axis.rough is not None:
            turned = np.linalg.norm(axis.alternating(k), axis=1)
            size[j] = np.multiply.reduce(np.broadcast_arrays(*np.ix_(*plain[:j], turned, *plain[j + 1 :])))
    steep = np.zeros(whole.shape, dtype=bool)
    for sigma, (*sides, target) in zip(noise, sums, strict=True):
        inexact = INEXACT * float(np.sqrt(np.mean(target[whole] ** 2))) if whole.any() else 0.0
        steep |= (np.abs(sides) > _FRONT * np.hypot(sigma * size, inexact)).any(axis=0)
    # What overlaps with such a row holds some of the front too.
    ends: list[Literal["wrap", "nearest"]] = [
        "wrap" if axis.matrices[0][0, -1] != 0.0 else "nearest" for axis in axes[:-1]
    ]
    return Counted(whole, whole & maximum_filter(steep & whole, size=3, mode=[*ends, "nearest"]))
