"""What a run leaves behind: steps, status, and the point with its certificate."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from cindy._types import Floats, Ints
from cindy.solver.trace import Trace

__all__ = ["Result", "Status", "Step"]


class Status(StrEnum):
    """Why a run ended."""

    CONVERGED = "converged"
    ITERATIONS = "iteration limit"
    TIME = "time limit"
    STOPPED = "stopped by callback"
    STALLED = "stalled"


class Step(NamedTuple):
    """One iteration as the callback sees it: the state before the step is taken.

    gap: Frank-Wolfe gap over the whole region, absolute
    objective: ‖A x − B‖²
    atoms: how many atoms carry weight
    seconds: since the run began
    passes: data read so far, in units of the whole; of sampled rows only
    """

    iteration: int
    gap: float
    objective: float
    atoms: int
    seconds: float
    passes: float = 0.0


@dataclass(frozen=True, eq=False)
class Result:
    """A feasible point, and how far it can be from the best one.

    No point of the region has an objective below `objective − gap`: that is
    what the Frank-Wolfe gap certifies, whatever the status.

    x: (terms, targets)
    scale: loss at zero, the unit of `tol`
    history: one Step an iteration; the gap of the last is `gap`
    passes: data read, in units of the whole; 0 for a LeastSquares, which holds its data
    """

    x: Floats
    objective: float
    gap: float
    scale: float
    status: Status
    iterations: int
    oracle_calls: int
    seconds: float
    history: tuple[Step, ...] = ()
    trace: Trace | None = field(default=None, repr=False)
    passes: float = 0.0

    @property
    def relative_gap(self) -> float:
        """The gap over the loss at zero."""
        return self.gap / self.scale

    @property
    def converged(self) -> bool:
        return self.status is Status.CONVERGED

    @property
    def path(self) -> tuple[tuple[Ints, Floats], ...]:
        """The iterates along the run, one a support: (flat indices of the nonzeros, x).

        In the order of the run, each with the last values seen on that support;
        long runs thin out large supports (see `Trace`). Worked out at every
        access, from what the run kept.
        """
        if self.trace is None:
            return ((np.flatnonzero(self.x), self.x),)
        steps = [(support, flat.reshape(self.x.shape)) for support, flat in self.trace.path()]
        return (*steps[:-1], (np.flatnonzero(self.x), self.x))
