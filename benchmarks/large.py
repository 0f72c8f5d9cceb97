"""Large dictionaries: what a model of many states with many terms takes, and where the time goes."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

import cindy
from benchmarks.attempt import METHODS, peak_megabytes
from benchmarks.cells import Row, Subset, measured
from benchmarks.table import write

__all__ = ["CASES", "Case", "run"]

NOISE = 1e-3
STEP = 0.01
FORCE, DAMPING = 8.0, 0.02
NOTES = (
    "Rings of Lorenz (1996), with cubic damping at degree 3, noise 0.1 % of the spread, 10 trajectories "
    "of 2,000 samples. `of sums`: seconds that go into accumulating the samples of one pass, once. Version "
    "0.2.0 took 336 s for one pass with 20 states, before large dictionaries were searched among likely "
    "terms; the coefficients agree to 2e-15. With 20 and 50 states of their own the default keeps the model "
    "of one pass and says so: a step over states and coefficients would take more than 1e10 multiplications."
)


@dataclass(frozen=True)
class Case:
    """A ring of Lorenz (1996), with cubic damping where the dictionary has cubes.

    states, inputs: how many neighbours on the ring are to be explained, and how many drive them
    """

    states: int
    inputs: int
    degree: int
    trajectories: int
    points: int

    @property
    def name(self) -> str:
        return f"{self.states} states, {self.inputs} inputs, degree {self.degree}"

    def data(self) -> list[cindy.Trajectory]:
        """Trajectories on the attractor, with white noise relative to the spread of the ring."""
        rng = np.random.default_rng(0)
        size, horizon = self.states + self.inputs, 5.0 + self.points * STEP
        names = [f"x{k}" for k in range(size)]
        found = []
        for _ in range(self.trajectories):
            t = 5.0 + np.arange(self.points) * STEP
            start = FORCE + rng.normal(size=size)
            x = solve_ivp(self._force, (0, horizon), start, "DOP853", t, rtol=1e-10, atol=1e-10).y.T
            x[:, : self.states] += NOISE * x.std() * rng.normal(size=(len(t), self.states))
            states, inputs = np.split(x, [self.states], axis=1)
            more = {"u": inputs, "inputs": tuple(names[self.states :])} if self.inputs else {}
            found.append(cindy.Trajectory(t - t[0], states, tuple(names[: self.states]), **more))
        return found

    def _force(self, _: float, x: NDArray[np.float64]) -> NDArray[np.float64]:
        along = (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1)
        return along - x + FORCE - (DAMPING * x**3 if self.degree > 2 else 0.0)

    def right(self, model: cindy.Model) -> bool:
        """Whether the terms of every equation are those of the ring."""
        size = self.states + self.inputs
        for j, state in enumerate(model.states):
            ring = [f"x{k % size}" for k in (j - 2, j - 1, j + 1)]
            pairs = [sorted((ring[1], other), key=lambda n: int(n[1:])) for other in (ring[0], ring[2])]
            true = {"1", state, *(" ".join(pair) for pair in pairs)}
            true |= {f"{state}^3"} if self.degree > 2 else set()
            if {model.terms[i] for i in np.flatnonzero(model.coef[:, j])} != true:
                return False
        return True


CASES = (
    Case(20, 0, 3, 10, 2000),
    Case(10, 10, 3, 10, 2000),
    Case(50, 0, 2, 10, 2000),
)


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    known = {case.name: case for case in CASES}
    cells = [
        {"dictionary": name, "method": method}
        for name in subset.pick("names", tuple(known))
        for method in subset.pick("methods", tuple(METHODS))
    ]
    rows = measured("large_cells", cells, lambda dictionary, method: _row(known[dictionary], method), subset)
    write("large", "Large dictionaries", rows, NOTES, folder=subset.out)


def _row(case: Case, method: str) -> Row:
    data, basis = case.data(), cindy.Polynomial(case.degree)
    sums, _ = _timed(lambda: cindy.accumulate(data, basis))
    seconds, model = _timed(lambda: cindy.identify(data, basis, **METHODS[method]))
    return {
        "terms": len(model.terms),
        "coefficients": model.coef.size,
        "chosen": int(np.count_nonzero(model.coef)),
        "right": case.right(model),
        "seconds": seconds,
        "of sums": sums,
        "peak MB": peak_megabytes(),
    }


def _timed(action: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    result = action()
    return time.process_time() - began, result
