"""Solutions of the partial differential equations of a model, from a first field and times.

Evenly spaced periodic axes are solved by exponential time differencing (`spectral`), any other grid by the
method of lines:

1. Derivatives in space are those of local polynomials, which are sparse matrices. On a grid of several axes
   they are Kronecker products.
2. Values at the cells are then the states of a stiff system of ordinary differential equations. Derivatives
   say which cells depend on each other, so that few differences give its sparse Jacobian.
3. Solve it by the backward differentiation formulas of scipy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from cindy._arrays import Floats, one_thread
from cindy._check import floats, one_of, short
from cindy.basis import Factor, Term
from cindy.calculus import derivative_weights
from cindy.data import Field
from cindy.errors import DataError
from cindy.model.equations import Equations
from cindy.model.simulation import Limits
from cindy.model.spectral import Spectral, Summand, spectral_solution, values_of

Boundary = Literal["reflecting", "held"]

_HALF_WIDTH = 3
"""Half-width of the local polynomials, of degree 6: exact to sixth order inside."""


@dataclass(frozen=True, eq=False)
class Lines:
    """Right-hand sides on a grid, with sparse derivatives.

    summands: (function, orders of its derivative by axis, coefficients (states,))
    coordinates, periods: one per axis; the period of an axis that is not periodic is None
    boundary: "reflecting": nothing flows through the ends; "held": values there stay as they are
    known: inputs as a function of time, by name
    """

    summands: Sequence[Summand]
    states: tuple[str, ...]
    axes: tuple[str, ...]
    coordinates: tuple[Floats, ...]
    periods: tuple[float | None, ...]
    known: Callable[[float], dict[str, Floats]]
    boundary: Boundary
    order: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(x) for x in self.coordinates)

    @property
    def cells(self) -> int:
        return int(np.prod(self.shape))

    def derivative(self, orders: Sequence[int]) -> scipy.sparse.csr_array:
        """(cells, cells): a derivative as a matrix (step 1)."""
        total = scipy.sparse.csr_array(np.ones((1, 1)))
        for x, period, order in zip(self.coordinates, self.periods, orders, strict=True):
            along = (
                _along(x, order, period, self.boundary)
                if order
                else scipy.sparse.eye_array(len(x), format="csr")
            )
            total = scipy.sparse.csr_array(scipy.sparse.kron(total, along, format="csr"))
        return total

    @cached_property
    def _operators(self) -> list[tuple[Term, scipy.sparse.csr_array, Floats]]:
        return [(term, self.derivative(orders), coef) for term, orders, coef in self.summands]

    @cached_property
    def _slopes(self) -> dict[tuple[str, ...], scipy.sparse.csr_array]:
        operators = {}
        for term, _, _ in self.summands:
            for f in term:
                if f.kind == "derivative" and f.by not in operators:
                    operators[f.by] = self.derivative([f.by.count(axis) for axis in self.axes])
        return operators

    @cached_property
    def moving(self) -> Floats:
        """(cells,): 0 where a value is held at the boundary, 1 elsewhere."""
        free = np.ones(self.shape)
        for k, period in enumerate(self.periods):
            if period is None and self.boundary == "held":
                np.moveaxis(free, k, 0)[[0, -1]] = 0.0
        return free.ravel()

    def rates(self, t: float, y: Floats) -> Floats:
        """(states · order · cells,) the derivatives by time."""
        values = self._values(t, y)
        out = np.zeros((len(self.states), self.cells))
        for term, operator, coef in self._operators:
            moved = operator @ self._evaluated(term, values)
            for i in np.flatnonzero(coef):
                out[i] += coef[i] * moved
        out *= self.moving
        first = y[self.cells * len(self.states) :]
        return np.concatenate([first, out.ravel()]) if self.order == 2 else out.ravel()

    @cached_property
    def coupled(self) -> scipy.sparse.csr_array:
        """Where ∂ rates / ∂ y may differ from zero (step 2): operators after slopes, between all states."""
        d, same = len(self.states), scipy.sparse.eye_array(self.cells, format="csr")
        inner = sum((abs(slope) for slope in self._slopes.values()), same)
        cells = sum((abs(operator) for _, operator, _ in self._operators), same) @ inner
        blocks: Any = scipy.sparse.kron(np.ones((d, d)), cells)
        if self.order == 1:
            return scipy.sparse.csr_array(blocks)
        moving: Any = scipy.sparse.eye_array(d * self.cells)
        return scipy.sparse.csr_array(scipy.sparse.block_array([[None, moving], [blocks, None]]))

    def _values(self, t: float, y: Floats) -> dict[str, Floats]:
        split = dict(
            zip(self.states, y[: self.cells * len(self.states)].reshape(-1, self.cells), strict=True)
        )
        return split | {name: value.ravel() for name, value in self.known(t).items()}

    def _evaluated(self, term: Term, values: Mapping[str, Floats]) -> Floats:
        def derivative(factor: Factor) -> Floats:
            return np.asarray(self._slopes[factor.by] @ self._evaluated(factor.of, values))

        return np.broadcast_to(values_of(term, values, derivative), (self.cells,))


def _along(x: Floats, order: int, period: float | None, boundary: Boundary) -> scipy.sparse.csr_array:
    """(n, n): the derivative along an axis; beyond its ends values are periodic, or mirror images."""
    half = min(_HALF_WIDTH + order // 2, (len(x) - 1) // 2)
    if period is None and boundary == "held":
        return scipy.sparse.csr_array(derivative_weights(x, order=order, degree=2 * half, half_width=half))
    n = len(x)
    if period is None:
        # Mirror images are even about the boundary, so that the first derivative vanishes there and nothing
        # flows through.
        places = np.concatenate([np.arange(half, 0, -1), np.arange(n), np.arange(n - 2, n - 2 - half, -1)])
        wide = np.concatenate([2 * x[0] - x[half:0:-1], x, 2 * x[-1] - x[-2 : -2 - half : -1]])
    else:
        places = np.concatenate([np.arange(n - half, n), np.arange(n), np.arange(half)])
        wide = np.concatenate([x[-half:] - period, x, x[:half] + period])
    weights = scipy.sparse.csr_array(derivative_weights(wide, order=order, degree=2 * half, half_width=half))
    fold = scipy.sparse.csr_array(
        (np.ones(len(places)), (np.arange(len(places)), places)), shape=(len(places), n)
    )
    return scipy.sparse.csr_array(weights[half : half + n] @ fold)


def _lines_solution(
    system: Lines,
    start: Floats,
    t: Floats,
    *,
    rtol: float,
    growth: float,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[Floats], str | None]:
    """The fields at the times t from `start` (states · order, space …), and why the solution ended early."""
    from scipy.integrate import BDF  # 40 ms to import, and most uses of a model never simulate

    y = start.ravel()
    bound = growth * (float(np.abs(start).max()) or 1.0)
    out = [start]
    if len(t) == 1:
        return out, None
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        # Values near zero need no relative accuracy of their own.
        atol = rtol * 1e-3 * (float(np.abs(start).max()) or 1.0)
        # Step 3. Diffusion on a fine grid is stiff: an explicit method would need very short steps.
        solver = BDF(system.rates, t[0], y, t[-1], rtol=rtol, atol=atol, jac_sparsity=system.coupled)
        while len(out) < len(t):
            try:
                failed = solver.status == "running" and solver.step() is not None
            except (ValueError, RuntimeError):
                # The sparse factorisation of scipy refuses values that are not finite.
                failed = True
            if failed or not np.isfinite(solver.y).all() or np.abs(solver.y).max() > bound:
                return out, f"the solution blows up after t = {t[len(out) - 1]:g}"
            dense = solver.dense_output()
            while len(out) < len(t) and t[len(out)] <= solver.t:
                out.append(dense(t[len(out)]).reshape(start.shape))
            if progress is not None:
                progress(len(out) - 1, len(t) - 1)
    return out, None


_RATE_TIMES = 7
"""Times from which the first rate of an equation of second order is estimated, if there are as many."""
_LEAST_RTOL = 1e-5
"""Smallest relative tolerance of a solution; data are seldom better."""


@one_thread()
def simulate_field(
    model: Equations,
    start: Any,
    t: ArrayLike,
    *,
    boundary: Boundary = "reflecting",
    limits: Limits,
    progress: Callable[[int, int], None] | None = None,
) -> Field:
    """The solution of a model of fields at the times t; see `Model.simulate`."""
    if not isinstance(start, Field):
        raise DataError("simulate: a model of fields starts from a Field, such as field.first.")
    if start.states != model.states:
        raise DataError(
            f"simulate: the model is about {', '.join(model.states)}, but the field holds "
            f"{', '.join(start.states)}."
        )
    one_of(boundary, ("reflecting", "held"), "simulate: `boundary`")
    if progress is not None and not callable(progress):
        raise DataError(f"simulate: `progress` must be a function of two numbers, but is {short(progress)}.")
    times = floats(t, "simulate: t", ndim=1)
    if not len(times) or (np.diff(times) <= 0).any():
        raise DataError("simulate: t must hold increasing times.")
    first = _first(start, model.order)
    known = _known(start, model.inputs)
    terms = summands(model, start.axes)
    periods = tuple(start.period(axis) for axis in start.axes)
    # Data are seldom better than the tolerance that is enforced here.
    rtol = max(limits.rtol, _LEAST_RTOL)
    uniform = all(start.uniform(axis) for axis in start.axes)
    solution: Callable[..., tuple[list[Floats], str | None]]
    if uniform and all(p is not None for p in periods):
        lengths = tuple(float(p or 0.0) for p in periods)
        shape = first.shape[1:]
        system: Any = Spectral(terms, model.states, start.axes, shape, lengths, known, model.order)
        solution = spectral_solution
    else:
        coordinates = tuple(start.coordinate(axis) for axis in start.axes)
        system = Lines(terms, model.states, start.axes, coordinates, periods, known, boundary, model.order)
        solution = _lines_solution
    rows, stopped = solution(
        system, first, times, rtol=rtol, growth=min(limits.growth, 1e6), progress=progress
    )
    values = {state: np.stack([row[i] for row in rows], axis=-1) for i, state in enumerate(model.states)}
    return start.with_values(times[: len(rows)], values, stopped=stopped)


def summands(model: Equations, axes: tuple[str, ...]) -> list[Summand]:
    """The terms with a coefficient: functions of the fields, orders of their derivatives, coefficients."""
    terms: list[Summand] = []
    for term, coef in zip(model.basis.terms(model.variables), model.coef, strict=True):
        if coef.any():
            whole = len(term) == 1 and term[0].kind == "derivative" and term[0].power == 1
            orders = tuple(term[0].by.count(axis) if whole else 0 for axis in axes)
            terms.append((term[0].of if whole else term, orders, np.asarray(coef)))
    return terms


def _first(start: Field, order: int) -> Floats:
    """(states · order, space …): the fields at the first time, and their rates for order 2."""
    values = [start.slab(state, 0, 1)[..., 0] for state in start.states]
    if order == 2:
        count = min(_RATE_TIMES, len(start))
        if count > 1:
            weights = derivative_weights(start.t[:count], order=1, degree=min(3, count - 1), half_width=count)
            row = weights.toarray()[0]
            values += [start.slab(state, 0, count) @ row for state in start.states]
        else:
            values += [np.zeros_like(v) for v in values]
    first = np.stack(values)
    if np.isnan(first).any():
        raise DataError("simulate: the field to start from has missing values.")
    return first


def _known(start: Field, inputs: tuple[str, ...]) -> Callable[[float], dict[str, Floats]]:
    """The inputs as a function of time, interpolated linearly."""
    missing = [name for name in inputs if name not in start.inputs]
    if missing:
        raise DataError(f"simulate: the field to start from lacks the input {missing[0]!r} of the model.")
    grids = {name: start[name] for name in inputs}
    times = start.t

    def at(t: float) -> dict[str, Floats]:
        k = int(np.clip(np.searchsorted(times, t) - 1, 0, max(len(times) - 2, 0)))
        if len(times) == 1:
            return {name: grid[..., 0] for name, grid in grids.items()}
        share = float(np.clip((t - times[k]) / (times[k + 1] - times[k]), 0.0, 1.0))
        return {name: (1 - share) * grid[..., k] + share * grid[..., k + 1] for name, grid in grids.items()}

    return at
