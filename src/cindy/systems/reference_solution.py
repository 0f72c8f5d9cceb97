"""Reference integration: Gragg-Bulirsch-Stoer extrapolation that lands on every sample time."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cindy._types import Floats
from cindy.errors import CindyError

__all__ = ["integrate"]

Wide = NDArray[np.longdouble]

COLUMNS = 10
"""Of the extrapolation table, order 20: what does not converge by then takes a shorter step."""
MOST_PIECES = 4096
"""Of the time between two samples; a solution that needs more is leaving every bound."""


def integrate(
    rhs: Callable[[Wide], Wide], x0: Floats, times: Floats, *, tol: float = 1e-16, stacked: bool = False
) -> Floats:
    """The solution of ẋ = rhs(x) from x0 at times[0], at every one of `times`: (times, *x0.shape).

    Many trajectories are one state: `rhs` acts on the last axis of arrays of the
    shape of x0. The error of every step is below `tol` times max(1, |x|) in every
    entry. Interpolation between steps would cost digits, so there is none.

    stacked: whether `rhs` takes any number of such arrays at once, along a first axis; the same
        solution, bit for bit, comes sooner

    >>> import numpy as np
    >>> x = integrate(lambda x: -x, np.ones((1, 1)), np.array([0.0, 1.0]))
    >>> abs(float(x[-1, 0, 0]) - float(np.exp(-1.0))) < 1e-15
    True
    """
    # Extended precision where the platform has it: chaotic systems amplify the rounding of each step.
    x = np.asarray(x0, dtype=np.longdouble)
    out = np.empty((len(times), *x.shape))
    out[0] = x0
    pieces, columns = 1, 4 if stacked else 0
    each = rhs if stacked else lambda z: np.asarray(rhs(z[0]))[None]
    for k in range(1, len(times)):
        span = np.longdouble(times[k]) - np.longdouble(times[k - 1])
        done, easy = 0, True
        while done < pieces:
            step, taken = _extrapolated(each, x, span / pieces, tol, columns)
            columns = taken if stacked else 0
            if step is None:
                if pieces >= MOST_PIECES:
                    raise CindyError(
                        f"integrate: no step is short enough after t = {float(times[k - 1]):.6g}; "
                        "the solution probably leaves every bound there. Choose a shorter horizon."
                    )
                pieces, done = 2 * pieces, 2 * done
                continue
            x, done, easy = step, done + 1, easy and taken <= COLUMNS // 2
        out[k] = x
        if easy and pieces > 1:
            pieces //= 2
    return out


def _extrapolated(
    rhs: Callable[[Wide], Wide], x: Wide, h: np.longdouble, tol: float, likely: int
) -> tuple[Wide | None, int]:
    """One step of length h and the columns it took; None where COLUMNS do not reach `tol`.

    likely: columns that are begun with, at once: as many as the last step took, or none
    """
    slope = rhs(x[None])[0]
    scale = tol * np.maximum(1.0, np.abs(x))
    starts = _midpoints(rhs, x, slope, h, range(likely)) if likely else []
    row: list[Wide] = []
    for k in range(COLUMNS):
        new = [starts[k] if k < likely else _midpoints(rhs, x, slope, h, range(k, k + 1))[0]]
        for j in range(k):
            ratio = ((k + 1) / np.longdouble(k - j)) ** 2
            new.append(new[j] + (new[j] - row[j]) / (ratio - 1.0))
        # Compared with the column before, so the value kept is better than the test says.
        if k >= 2 and bool(np.all(np.abs(new[-1] - new[-2]) <= scale)):
            return new[-1], k + 1
        row = new
    return None, COLUMNS


def _midpoints(
    rhs: Callable[[Wide], Wide], x: Wide, slope: Wide, h: np.longdouble, columns: range
) -> list[Wide]:
    """The explicit midpoint rule with 2 (k + 1) steps for each column k: its error is a series in h².

    All columns go in step, as one state; those of fewer steps leave first.
    """
    steps = np.array([2 * (k + 1) for k in columns])
    short = (h / steps).reshape(-1, *[1] * x.ndim)
    before, now = np.broadcast_to(x, (len(steps), *x.shape)), x + short * slope
    twice = 2 * short
    found: list[Wide] = []
    for taken in range(1, int(steps[-1])):
        before, now = now, before + twice * rhs(now)
        if taken + 1 == steps[len(found)]:
            found.append(now[0])
            before, now, twice = before[1:], now[1:], twice[1:]
    return found
