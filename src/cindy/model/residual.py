"""What the equations leave unexplained, sample by sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cindy._types import Floats
from cindy.data import Trajectory
from cindy.errors import DataError
from cindy.formulation import Formulation
from cindy.model.domain import inside_domain
from cindy.model.equations import Equations
from cindy.model.unmeasured import matched

__all__ = ["Residual", "autocorrelation", "residuals"]


@dataclass(frozen=True, eq=False)
class Residual:
    """Data less equations, in the form the model was fitted in, on one window without gaps.

    trajectory: the place of its trajectory in the data
    t: (n,) times; values: (n, states), in the units of the states for the integral form, of their rates
        for the differential one
    """

    trajectory: int
    t: Floats
    values: Floats


def residuals(model: Equations, trajectories: Any) -> list[Residual]:
    """The residuals of every window of the data, in order.

    In the integral form a window has an initial state of its own, the one that leaves the least residual.

    >>> from cindy.basis import Polynomial
    >>> from cindy.model import Model
    >>> t = np.linspace(0, 2, 50)
    >>> decay = Model([[0.0], [-1.0]], Polynomial(1), ("x",))
    >>> [one] = residuals(decay, Trajectory(t, np.exp(-t), ("x",)))
    >>> one.values.shape, bool(abs(one.values).max() < 1e-8)
    ((50, 1), True)
    """
    data = inside_domain(model, matched(model, trajectories, "residuals"))[0]
    form = model.formulation.fit_to(data)
    found: list[Residual] = []
    for i, one in enumerate(data):
        for segment in one.segments():
            if len(segment) >= form.min_samples:
                # A weight says how much a row counts, not how large its residual is.
                windows = _windows(model, form, replace(segment, weight=1.0))
                found.extend(Residual(i, t, values) for t, values in windows)
    if not found:
        raise DataError("residuals: no trajectory has enough complete samples in a row.")
    return found


def _windows(model: Equations, form: Formulation, segment: Trajectory) -> Iterator[tuple[Floats, Floats]]:
    measured, modelled = form.compared(segment, model.basis, model.coef)
    return form.at_samples(segment, measured - modelled)


def autocorrelation(found: Sequence[Residual], lags: int) -> Floats:
    """(lags + 1, states): the correlation of residuals that many samples apart within a window.

    NaN where no window is long enough, or nothing varies.
    """
    states = found[0].values.shape[1]
    products, counts = np.zeros((lags + 1, states)), np.zeros(lags + 1)
    for one in found:
        n = len(one.values)
        for lag in range(min(lags, n - 1) + 1):
            products[lag] += np.sum(one.values[: n - lag] * one.values[lag:], axis=0)
            counts[lag] += n - lag
    with np.errstate(divide="ignore", invalid="ignore"):
        means = products / counts[:, None]
        return np.asarray(means / means[0])
