"""System: an ordinary differential equation with known sparse coefficients, and its reference solutions.

Solutions are computed by Picard iteration on polynomials of high degree. On a step of length h the solution
of ẋ = f(x) is the fixed point of

    x(s) = x(0) + h ∫₀ˢ f(x),    0 ≤ s ≤ 1,

where f(x) is the polynomial through its values at Chebyshev points (Clenshaw and Norton, Comput. J. 6, 1963).

1. Iterate in double precision from a straight line until no entry changes by more than 1e-14 of the state,
   then in extended precision, if the platform has it, until the tolerance is reached.
2. Accept the step if the last two Chebyshev coefficients of h f are below the tolerance as well; otherwise
   repeat it with a shorter length.
3. Evaluate the integral of the polynomial at every sample within the step, so that nothing is interpolated.
4. Choose the next length from the last coefficients and from the number of iterations.

An iteration costs one call of f with all points of all trajectories.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cindy import _check, problem
from cindy._arrays import Floats
from cindy.basis import Basis
from cindy.data import Trajectory
from cindy.errors import CindyError, DataError
from cindy.problem import Constraint


@dataclass(frozen=True, eq=False)
class System:
    """A dynamical system with its dictionary, its true coefficients and the settings of an experiment.

    order: 1 for ẋ = F(x), 2 for ẍ = F(x) started at rest
    rhs: F, from (..., states) to (..., states)
    equations: the true coefficient of each (state, term) that is not zero
    initial: draws so many initial states, (count, states)
    horizon, trajectories, points: of one experiment; `points` counts the samples of all trajectories together
    physics: for each constraint that the true coefficients satisfy, its name and its arguments

    >>> import cindy
    >>> system = cindy.systems.spring_masses()
    >>> data = system.simulate(seed=0, noise=0.01)
    >>> len(data), data[0]
    (10, Trajectory(150 samples of x1, x2 over t = 0 … 10))
    >>> model = cindy.identify(data, system.basis, formulation=cindy.Integral(order=system.order))
    >>> bool((model.support == (system.coef != 0)).all())
    True
    """

    name: str
    states: tuple[str, ...]
    basis: Basis
    rhs: Callable[[Any], Any]
    equations: Mapping[tuple[str, str], float]
    initial: Callable[[np.random.Generator, int], Floats]
    horizon: float
    trajectories: int
    points: int
    order: int = 1
    physics: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    @cached_property
    def terms(self) -> tuple[str, ...]:
        return self.basis.names(self.states)

    @cached_property
    def coef(self) -> Floats:
        """The true coefficients, (terms, states)."""
        row = {name: i for i, name in enumerate(self.terms)}
        coef = np.zeros((len(self.terms), len(self.states)))
        for (state, term), value in self.equations.items():
            coef[row[term], self.states.index(state)] = value
        return coef

    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints that the paper imposes on this system, if any."""
        return tuple(getattr(problem, kind)(*arguments) for kind, arguments in self.physics)

    def simulate(
        self,
        seed: int = 0,
        *,
        noise: float = 0.0,
        trajectories: int | None = None,
        points: int | None = None,
        horizon: float | None = None,
        times: Floats | Sequence[Floats] | None = None,
        initial: Floats | None = None,
        spread: Literal["pooled", "trajectory"] = "pooled",
    ) -> list[Trajectory]:
        """Trajectories with white Gaussian noise; without noise they are exact to 1e-12.

        The standard deviation of the noise is `noise` times that of the state, which is taken over all
        trajectories (`spread="pooled"`, the text of the paper) or over each one (`"trajectory"`, the code of
        its authors). One seed gives the same initial states and the same pattern of noise at every level.

        times: one grid for all trajectories, or a list with one grid each; by default `points` samples in
            all, spread evenly over [0, horizon]
        initial: initial states (trajectories, states) in place of random ones
        """
        _check.one_of(spread, ("pooled", "trajectory"), "simulate: `spread`")
        _check.non_negative(noise, "simulate: `noise`")
        _check.integer(seed, "simulate: `seed`", least=0)
        # Two streams, so that initial states do not depend on the noise, nor noise on initial states.
        draws, noises = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))
        start, grids = self._plan(draws, trajectories, points, horizon, times, initial)
        exact = self._solve(start, grids)
        pooled = np.vstack(exact).std(axis=0)
        measured = []
        for t, x in zip(grids, exact, strict=True):
            scale = noise * (pooled if spread == "pooled" else x.std(axis=0))
            measured.append(Trajectory(t, x + scale * noises.standard_normal(x.shape), self.states))
        return measured

    def _plan(
        self,
        draws: np.random.Generator,
        trajectories: int | None,
        points: int | None,
        horizon: float | None,
        times: Floats | Sequence[Floats] | None,
        initial: Floats | None,
    ) -> tuple[Floats, list[Floats]]:
        """Initial states (count, states) and a time grid for each."""
        listed = isinstance(times, (Sequence, np.ndarray)) and not isinstance(times, (str, bytes))
        scalar = isinstance(times, np.ndarray) and times.ndim == 0
        if times is not None and (scalar or not listed or not len(times)):
            raise DataError(
                f"simulate: `times` must be a grid of times or a list of them, but is {_check.short(times)}."
            )
        if initial is not None:
            initial = _check.floats(initial, "simulate: `initial`", ndim=2)
        if points is not None:
            _check.integer(points, "simulate: `points`", least=2, most=10**9)
        single = times is not None and np.ndim(times[0]) == 0
        count = _check.integer(
            trajectories if trajectories is not None
            else len(initial) if initial is not None
            else len(times) if times is not None and not single
            else self.trajectories,
            "simulate: `trajectories`", least=1, most=10**9,
        )  # fmt: skip
        start = self.initial(draws, count) if initial is None else initial
        if start.shape != (count, len(self.states)):
            raise DataError(
                f"simulate: `initial` must have shape {(count, len(self.states))}, but has {start.shape}."
            )
        if times is None:
            samples = _check.integer(
                (points or self.points) // count, "simulate: points per trajectory", least=2
            )
            end = _check.positive(self.horizon if horizon is None else horizon, "simulate: `horizon`")
            return start, [np.linspace(0.0, end, samples)] * count
        grids = [times] * count if single else list(times)
        if len(grids) != count:
            raise DataError(f"simulate: `times` must hold {count} grids, but holds {len(grids)}.")
        return start, [_check.floats(t, f"simulate: `times`[{i}]", ndim=1) for i, t in enumerate(grids)]

    def _solve(self, start: Floats, grids: list[Floats]) -> list[Floats]:
        """The exact states of every trajectory on its own grid, by one integration from time 0."""
        # One integration for all trajectories, so that their right-hand sides are one call.
        union = np.unique(np.concatenate([[0.0], *grids]))
        if union[0] < 0:
            raise DataError(f"simulate: `times` must not be negative, but the first is {union[0]}.")
        d = len(self.states)
        if self.order == 1:
            paths = integrate(self.rhs, start, union)
        else:
            # x'' = F as a system of first order that starts at rest.
            rest = np.hstack([start, np.zeros_like(start)])
            paths = integrate(
                lambda z: np.concatenate([z[..., d:], self.rhs(z[..., :d])], axis=-1), rest, union
            )
        return [paths[np.searchsorted(union, t), i, :d] for i, t in enumerate(grids)]


Wide = NDArray[np.longdouble]
Floating = NDArray[np.floating[Any]]
Right = Callable[[Any], Any]


@dataclass(frozen=True)
class _Scheme:
    """Points and iterations of a step (`python -m benchmarks simulate`)."""

    nodes: int = 24
    """Chebyshev points of a step: 20 and 28 take as long, 36 a fifth longer (`python -m benchmarks
    simulate`)."""
    sweeps: int = 32
    """Iterations in double precision after which a step counts as too long."""
    wished: int = 18
    """Iterations of a step of the right length; after fewer, the next step is longer."""
    rough: float = 1e-14
    fine_sweeps: int = 8
    """Tolerance of the iteration in double precision, and iterations in extended precision after it, which
    usually converge at once."""
    shortest: float = 1e-12
    """Share of the horizon: a solution that needs shorter steps is unbounded."""


_SCHEME = _Scheme()


_ROUNDING = 16 * np.finfo(np.longdouble).eps


def integrate(rhs: Right, x0: Floats, times: Floats, *, tol: float = 1e-16) -> Floats:
    """The solutions of ẋ = rhs(x) from the rows of x0 at times[0], at all `times`, by Picard iteration.

    The result has shape (times, trajectories, states). The error of a step is below `tol` times max(1, |x|)
    in every entry, or as large as the rounding of `rhs` if that is larger.

    rhs: from (any number, states) to the same shape
    x0: (trajectories, states)

    >>> import numpy as np
    >>> x = integrate(lambda x: -x, np.ones((1, 1)), np.linspace(0.0, 1.0, 100))
    >>> abs(float(x[-1, 0, 0]) - float(np.exp(-1.0))) < 1e-15
    True
    """
    if np.ndim(x0) != 2:
        raise DataError(
            f"integrate: `x0` must have shape (trajectories, states), but has {np.shape(x0)}. "
            "Write x0[None] for one trajectory."
        )
    grid, clock = _grid(_SCHEME.nodes), np.asarray(times, dtype=np.longdouble)
    # Chaotic systems amplify the rounding of each step, hence the extended precision.
    x, exact = np.asarray(x0, dtype=np.longdouble), max(np.longdouble(tol), _ROUNDING)
    out = np.empty((len(clock), *x.shape))
    out[0] = x0
    now, end, k = clock[0], clock[-1], 1
    h = _first_length(rhs, x, end - now)
    with np.errstate(all="ignore"):
        while k < len(clock):
            slopes, factor = _step(rhs, x, h, exact, grid)
            if slopes is None:
                h *= factor
                if h < _SCHEME.shortest * (end - clock[0]):
                    raise CindyError(
                        f"integrate: no step is short enough after t = {float(now):.6g}; "
                        "the solution probably leaves every bound there. Choose a shorter horizon."
                    )
                continue
            # Step 3, for all samples within the step and for its end.
            last = len(clock) if h == end - now else int(np.searchsorted(clock, now + h, side="right"))
            changes = h * (grid.integrals(np.append((clock[k:last] - now) / h, 1)) @ slopes)
            out[k:last] = (x.ravel() + changes[:-1]).reshape(-1, *x.shape)
            x = x + changes[-1].reshape(x.shape)
            now, k, h = now + h, last, min(h * factor, end - (now + h))
    return out


def _first_length(rhs: Right, x: Wide, horizon: np.longdouble) -> np.longdouble:
    """The time in which the fastest entry changes by its own size, or by 1 if that is more."""
    with np.errstate(all="ignore"):
        speed = np.max(np.abs(np.asarray(rhs(x))) / np.maximum(1.0, np.abs(x)), initial=0.0)
    return min(horizon, 1 / np.longdouble(speed)) if np.isfinite(speed) and speed > 0 else horizon


@dataclass(frozen=True)
class _Grid:
    """Chebyshev points on [0, 1], and operators on the values of a function at these points.

    points: (n,)
    running: (n, n) gives the integrals of the function from 0 to the points
    tail: (2, n) gives its last two coefficients in Chebyshev polynomials
    primitive: (n + 1, n) gives the coefficients of its integral
    """

    points: Wide
    running: Wide
    tail: Wide
    primitive: Wide

    def integrals(self, s: Wide) -> Wide:
        """(samples, n): the operator that gives the integrals of the function from 0 to s."""
        operator: Wide = _polynomials(s, len(self.primitive)) @ self.primitive
        return operator


@cache
def _grid(nodes: int) -> _Grid:
    # π/2 in extended precision, because np.pi has only double precision.
    half = np.arccos(np.longdouble(0))
    s = (1 - np.cos((2 * np.arange(nodes) + 1) * (half / nodes))) / 2
    coefficients = 2 * _polynomials(s, nodes).T / nodes
    coefficients[0] /= 2
    # ∫ T_k = T_{k+1} / 2(k+1) − T_{k−1} / 2(k−1) on [−1, 1], and half of it on [0, 1].
    primitive = np.zeros((nodes + 1, nodes), dtype=np.longdouble)
    for k in range(nodes):
        primitive[k + 1] += coefficients[k] / (4 * (k + 1) if k else 2)
        if k >= 2:
            primitive[k - 1] -= coefficients[k] / (4 * (k - 1))
    primitive[0] = -((-1.0) ** np.arange(1, nodes + 1)) @ primitive[1:]
    return _Grid(s, _polynomials(s, nodes + 1) @ primitive, coefficients[-2:], primitive)


def _polynomials(s: Wide, count: int) -> Wide:
    """(points, count): the Chebyshev polynomials of degree 0 … count − 1 at s in [0, 1]."""
    angle = np.arccos(np.clip(2 * s - 1, -1, 1))
    values: Wide = np.cos(angle[:, None] * np.arange(count))
    return values


def _step(
    rhs: Right, x: Wide, h: np.longdouble, tol: np.longdouble, grid: _Grid
) -> tuple[Wide | None, float]:
    """The slopes at the points of a step, None if it is too long; and the factor for the next length."""
    start, slope = x.ravel(), np.asarray(rhs(x)).ravel()
    scale: Wide = np.maximum(1.0, np.abs(start)).astype(np.longdouble)
    guess = start + h * grid.points[:, None] * slope
    # Step 1; arithmetic in double precision is many times as fast.
    running = h * grid.running
    rough, _, taken = _fixed_point(
        rhs, x, running, guess.astype(np.float64), _SCHEME.rough * scale, _SCHEME.sweeps
    )
    if rough is None:
        return None, 0.5
    _, slopes, _ = _fixed_point(
        rhs, x, running, rough.astype(np.longdouble), tol * scale, _SCHEME.fine_sweeps
    )
    if slopes is None:
        return None, 0.7
    # The coefficients of a right-hand side in double precision have its rounding, however short the step is.
    rounding = 8 * np.finfo(slopes.dtype).eps * h * np.max(np.abs(slopes), axis=0)
    # Step 2. The last coefficients of a polynomial that resolves the solution are small.
    tail = float(np.max(np.abs(h * (grid.tail @ slopes)) / np.maximum(tol * scale, rounding)))
    # Step 4. The last coefficient is proportional to h^n, where n is the number of points.
    fitting = 0.9 * max(tail, 1e-12) ** (-1 / len(grid.points))
    if tail > 1.0:
        return None, min(fitting, 0.9)
    return slopes, float(np.clip(min(fitting, _SCHEME.wished / taken), 0.5, 4.0))


def _fixed_point(
    rhs: Right, x: Wide, running: Wide, states: Floating, limit: Floating, most: int
) -> tuple[Floating | None, Wide | None, int]:
    """States and slopes at the fixed point, to within the limit and in the precision of `states`.

    The third value is the number of iterations. States and slopes are None if `most` of them did not suffice.
    """
    kind = states.dtype
    running, start, limit = running.astype(kind), x.ravel().astype(kind), limit.astype(kind)
    for sweep in range(1, most + 1):
        slopes = np.asarray(rhs(states.reshape(-1, x.shape[-1]))).reshape(len(running), -1)
        new = start + running @ slopes
        change = np.max(np.abs(new - states) / limit)
        states = new
        if change <= 1.0:
            return states, slopes, sweep
        if not np.isfinite(change):
            break
    return None, None, most
