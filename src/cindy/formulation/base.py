"""Formulation: how a trajectory and a basis become rows of a least-squares problem.

Two formulations have a row for every sample: of its derivative (Differential) or of the next sample
(Discrete). Of the weak form for fields, only the settings are here; `evidence` chooses them and makes the
rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from cindy._arrays import Floats, Ints, Space
from cindy._check import integer, numbers, one_of, short
from cindy.basis import Basis
from cindy.calculus import derivative
from cindy.data import Field, Trajectory
from cindy.errors import DataError
from cindy.formulation.scales import derivative_window, single_steps, split
from cindy.states import Motion, map_grid, records_of

Pair = tuple[Floats, Floats]

STRETCH = 64
"""Samples in an indivisible stretch, if a formulation has no windows."""
_SMOOTHING_DEGREE = 4
"""Degree of the local polynomials of `smooth` (Savitzky and Golay), which keeps curvature within a window."""


class Formulation(ABC):
    """The equations that the coefficients Ξ satisfy, as rows design · Ξ = target.

    A formulation cuts a segment without gaps into stretches of consecutive samples. The rows of consecutive
    stretches depend on their samples and a few neighbours only, so that a segment can be processed in pieces
    of any size with the same rows. Methods do not check segments, because trajectories check their samples.

    >>> import cindy
    >>> isinstance(cindy.Discrete(), cindy.Formulation), cindy.Integral(order=2).order
    (True, 2)
    """

    # kinds: all formulations by the names under which they are saved
    # discrete: the right-hand side is the next state, not a rate
    # differentiates: rows compare rates, which are estimated from the data
    # integrates: rows compare states with integrals, so that residuals have the units of the states
    # for_fields: the data are fields on a grid of space and time, and terms may be derivatives in space
    kinds: ClassVar[dict[str, type[Formulation]]] = {}
    kind: ClassVar[str]
    discrete: ClassVar[bool] = False
    differentiates: ClassVar[bool] = False
    integrates: ClassVar[bool] = False
    for_fields: ClassVar[bool] = False
    order: int
    smooth: int | None

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "kind"):
            Formulation.kinds.setdefault(cls.kind, cls)

    @property
    def min_samples(self) -> int:
        """A segment with fewer samples has no rows."""
        return self.order + 2

    @property
    @abstractmethod
    def margin(self) -> int:
        """The number of samples on either side of a stretch on which its rows may depend."""

    def edges(self, samples: int) -> Ints:
        """Stretch k of a segment of that many samples is edges[k] … edges[k + 1] − 1."""
        return split(samples, STRETCH)

    @abstractmethod
    def _matrix(self, segment: Trajectory, basis: Basis, edges: Ints) -> Floats:
        """As `matrix`, but without the weight of the trajectory."""

    @abstractmethod
    def fit_to(self, trajectories: Sequence[Trajectory]) -> Self:
        """This formulation with every setting that is None chosen from the data."""

    def with_window(self, segments: Sequence[Trajectory], samples: int) -> Self:
        """This formulation with the length of its windows chosen from the data, if that is None.

        segments: some of the data (`some_segments`); samples: the number of samples in all of the data
        """
        return self

    @property
    def needs_states(self) -> bool:
        """Whether terms contain states that were not measured, so that states must be fitted."""
        return False

    def variables(self, states: tuple[str, ...], inputs: tuple[str, ...]) -> tuple[str, ...]:
        """The variables of the terms: the states, then the inputs."""
        return states + inputs

    def motion(
        self, trajectories: Sequence[Trajectory], basis: Basis, *, instants: int | None = None
    ) -> Motion | None:
        """The problem in which the states are unknown, too; None if the formulation needs measured states.

        instants: the number of parts into which time steps are divided; None: chosen from the samples
        """
        return None

    @property
    def signature(self) -> dict[str, Any]:
        """The settings that two summaries must share to be added; those chosen from the data may differ."""
        settings = self.to_dict()
        shared = ("kind", "order", "initial", "smooth", "rates", "time")
        return {key: settings[key] for key in shared if key in settings}

    def matrix(self, segment: Trajectory, basis: Basis, edges: Ints) -> Floats:
        """(k, terms + states): the rows [design | target] of consecutive stretches, in order."""
        rows = self._matrix(segment, basis, edges)
        if segment.weight != 1.0:
            # The root of the weight, because residuals are squared.
            rows *= np.sqrt(segment.weight)
        return rows

    @property
    def leaves_noise(self) -> bool:
        """Whether the residual of the rows under the true model is the noise of the measurements."""
        return False

    def unweighted(self) -> Self:
        """This formulation without the whitening that serves estimation."""
        return self

    def compared(self, segment: Trajectory, basis: Basis, coef: Floats) -> Pair:
        """The target by the data and by the equations, (k, states) each."""
        matrix = self.matrix(segment, basis, self.edges(len(segment)))
        return matrix[:, len(coef) :], matrix[:, : len(coef)] @ coef

    def at_samples(self, segment: Trajectory, rows: Floats) -> Iterator[Pair]:
        """Times and residuals of rows of a segment, stretch by stretch."""
        yield segment.t, rows

    def on_device(self, segment: Trajectory, basis: Basis, edges: Ints, space: Space) -> Any:
        """(terms + states, k): the transpose of `matrix` in a space of arrays, here computed by numpy."""
        near, edges = self.nearby(segment, edges)
        return space.put(self.matrix(near, basis, edges).T)

    def nearby(self, segment: Trajectory, edges: Ints) -> tuple[Trajectory, Ints]:
        """Consecutive stretches with the neighbours on which they depend, and their edges in that part."""
        # Twice the margin, because a window at an end is moved inwards and then reaches farther on one side.
        margin = 2 * self.margin + 1
        low, high = max(0, int(edges[0]) - margin), min(len(segment), int(edges[-1]) + margin)
        return segment.part(low, high), edges - low

    def rows(self, segment: Trajectory, basis: Basis) -> list[Pair]:
        """One pair (design (k, terms), target (k, states)) for every stretch of a segment without gaps."""
        edges = self.edges(len(segment))
        matrices = [self.matrix(segment, basis, edges[i : i + 2]) for i in range(len(edges) - 1)]
        return [(rows[:, : -segment.dimension], rows[:, -segment.dimension :]) for rows in matrices]

    def to_dict(self) -> dict[str, Any]:
        """Plain values from which `formulation_from_dict` makes an equal formulation."""
        return {"kind": self.kind, **asdict(self)}  # type: ignore[call-overload]

    def _variables(self, segment: Trajectory, start: int, stop: int) -> Floats:
        """(stop − start, d + p): the states, smoothed if that was asked for, and the inputs."""
        if self.smooth is None:
            x = segment.x[start:stop]
        else:
            degree = min(_SMOOTHING_DEGREE, 2 * self.smooth)
            x = derivative(segment.t, segment.x, start, stop, order=0, degree=degree, half_width=self.smooth)
        return x if segment.u is None else np.hstack([x, segment.u[start:stop]])

    def _evaluate(self, segment: Trajectory, basis: Basis, start: int, stop: int) -> Floats:
        """(stop − start, terms): the terms at these samples."""
        variables = self.variables(segment.states, segment.inputs)
        return basis.evaluate(self._variables(segment, start, stop), variables)

    def _check_common(self) -> None:
        where = type(self).__name__
        one_of(self.order, (1, 2), f"{where}: `order` of x' = F or x'' = F")
        if self.smooth is not None:
            integer(self.smooth, f"{where}: `smooth`", least=1)


def formulation_from_dict(settings: dict[str, Any]) -> Formulation:
    """The formulation that `to_dict` described."""
    values, kinds = dict(settings), Formulation.kinds
    kind = values.pop("kind", None)
    if kind not in kinds:
        raise DataError(f"formulation_from_dict: unknown kind {kind!r}. Known: {', '.join(kinds)}.")
    try:
        return kinds[kind](**values)
    except TypeError as error:
        raise DataError(f"formulation_from_dict: these are not settings of {kind!r}: {error}.") from error


@dataclass(frozen=True)
class Differential(Formulation):
    """The derivative of the given order, estimated at every sample, equals ψ(x) Ξ.

    The estimate is the derivative of a local least-squares polynomial of `degree` through 2 half_width + 1
    samples. If either is None, it is chosen from the noise in the data (Goldenshluger and Lepski).

    smooth: half-width of a local-polynomial smoother of the states inside ψ

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 3, 200)
    >>> model = cindy.identify(cindy.Trajectory(t, np.exp(-t), ("x",)), "poly:1", formulation=Differential())
    >>> model.terms, model.coef.ravel().round(3).tolist()
    (('1', 'x'), [0.0, -1.0])
    """

    kind: ClassVar[str] = "differential"
    differentiates: ClassVar[bool] = True
    order: int = 1
    degree: int | None = None
    half_width: int | None = None
    smooth: int | None = None

    def __post_init__(self) -> None:
        self._check_common()
        if self.degree is not None:
            integer(self.degree, "Differential: `degree`", least=self.order)
        if self.half_width is not None:
            integer(self.half_width, "Differential: `half_width`", least=1)

    @property
    def margin(self) -> int:
        return max(self.half_width or 0, self.smooth or 0)

    def fit_to(self, trajectories: Sequence[Trajectory]) -> Self:
        if self.degree is not None and self.half_width is not None:
            return self
        degree, half_width = derivative_window(
            trajectories, order=self.order, degree=self.degree, half_width=self.half_width
        )
        return replace(self, degree=degree, half_width=half_width)

    def _matrix(self, segment: Trajectory, basis: Basis, edges: Ints) -> Floats:
        fitted = self.fit_to([segment])
        degree, half_width = fitted.degree or 0, fitted.half_width or 0
        a, b = int(edges[0]), int(edges[-1])
        slope = derivative(segment.t, segment.x, a, b, order=self.order, degree=degree, half_width=half_width)
        return np.hstack([self._evaluate(segment, basis, a, b), slope])


@dataclass(frozen=True)
class Discrete(Formulation):
    """The next sample equals ψ(x) Ξ at the present one: x[k + 1] = F(x[k]), on a uniform grid.

    Steps over missing samples have no row.

    >>> import numpy as np
    >>> import cindy
    >>> x = [0.4]
    >>> for _ in range(60):
    ...     x.append(3.7 * x[-1] * (1 - x[-1]))
    >>> print(cindy.identify((np.arange(61.0), x), "poly:2", formulation=Discrete()).to_text(errors=False))
    x1[k+1] = 3.7 x1 - 3.7 x1^2
    """

    kind: ClassVar[str] = "discrete"
    discrete: ClassVar[bool] = True
    order: ClassVar[int] = 1  # type: ignore[misc]
    smooth: int | None = None

    def __post_init__(self) -> None:
        self._check_common()

    def motion(
        self, trajectories: Sequence[Trajectory], basis: Basis, *, instants: int | None = None
    ) -> Motion | None:
        # States are fitted at every step, but a missing sample makes a double step, which the map does not
        # describe.
        if self.smooth is not None or not all(single_steps(run.t).all() for run in trajectories):
            return None
        first = trajectories[0]
        records = records_of(trajectories, lambda t: map_grid(len(t)), least=self.min_samples)
        free = np.arange(len(basis.names(first.variables)) * first.dimension)
        return Motion(records, basis, first.variables, first.dimension, free, free[:0], parts=0)

    @property
    def min_samples(self) -> int:
        return 2

    @property
    def margin(self) -> int:
        return 1 + (self.smooth or 0)

    def fit_to(self, trajectories: Sequence[Trajectory]) -> Self:
        return self

    def at_samples(self, segment: Trajectory, rows: Floats) -> Iterator[Pair]:
        yield segment.t[1:][single_steps(segment.t)], rows

    def _matrix(self, segment: Trajectory, basis: Basis, edges: Ints) -> Floats:
        a, b = int(edges[0]), min(int(edges[-1]), len(segment) - 1)
        # If the only stretch is the last sample, which has no successor, the design is empty.
        if a >= b:
            a, b = len(segment) - 1, len(segment) - 1
        joined = np.hstack([self._evaluate(segment, basis, a, b), segment.x[a + 1 : b + 1]])
        return np.asarray(joined[single_steps(segment.t)[a:b]])


@dataclass(frozen=True)
class Weak(Formulation):
    """Equations of fields, integrated against smooth test functions φ of compact support.

    The rows are ∫ φ ∂_t^r u = Σ ξ_k ∫ φ D^{a_k} g_k(u). Integration by parts moves derivatives to φ, so that
    no derivative of the data is needed. Hermite polynomials remove the bias of noise from powers, and the
    matrix that noise adds to the Gram matrix is subtracted (`Summary.spurious`).

    order: of the derivative by time
    time: "weak": test functions in time too; "integral": integrals from a free initial state, which use the
        ends of the time interval too, and so transients at its beginning
    half_widths: of φ along the axes of space and along time, in the units of the axes; None: chosen from the
        data
    powers: p of φ = (1 − s²)^p, likewise
    noise: standard deviation of the noise, one number or one per field; None: estimated
    thin: along each axis of space and time, n if one of n samples is used; None: chosen so that samples share
        no noise

    >>> import numpy as np
    >>> import cindy
    >>> x, t = np.linspace(0, 2 * np.pi, 64, endpoint=False), np.linspace(0, 1, 80)
    >>> u = sum(np.exp(-0.5 * k**2 * t) * np.sin(k * x + k)[:, None] for k in (1, 2, 3))
    >>> heat = cindy.Field(u=u, x=x, t=t, periodic="x")
    >>> print(cindy.identify(heat, cindy.Derivatives(1, order=2), formulation=Weak()).to_text(errors=False))
    u_t = 0.5 u_xx
    """

    kind: ClassVar[str] = "weak"
    for_fields: ClassVar[bool] = True
    smooth: ClassVar[None] = None  # type: ignore[misc]
    order: int = 1
    time: Literal["weak", "integral"] = "weak"
    half_widths: tuple[float, ...] | None = None
    powers: tuple[int, ...] | None = None
    noise: tuple[float, ...] | float | None = None
    thin: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        one_of(self.order, (1, 2), "Weak: `order` of u_t = F or u_tt = F")
        one_of(self.time, ("weak", "integral"), "Weak: `time`")
        for name in ("half_widths", "powers", "noise", "thin"):
            value = getattr(self, name)
            if isinstance(value, (list, np.ndarray)):
                numbers(value, f"Weak: `{name}`")
                given = value if isinstance(value, list) else value.tolist()
                object.__setattr__(self, name, tuple(given) if isinstance(given, list) else given)
        noise = self.noise
        if noise is not None and not np.all(numbers(noise, "Weak: `noise`") >= 0):
            raise DataError(f"Weak: `noise` must be at least 0, but is {short(self.noise)}.")

    def given_noise(self, field: Field) -> dict[str, float] | None:
        """The standard deviation of the noise of every field by name; None if it was not given."""
        if self.noise is None:
            return None
        given = np.broadcast_to(np.asarray(self.noise, dtype=float), (len(field.states),))
        return dict(zip(field.states, map(float, given), strict=True))

    @property
    def widths(self) -> tuple[float, ...]:
        """The half-widths of a form whose settings were chosen."""
        return self.half_widths or ()

    @property
    def exponents(self) -> tuple[int, ...]:
        """The powers of a form whose settings were chosen."""
        return self.powers or ()

    @property
    def steps(self) -> tuple[int, ...]:
        """For each axis n, if one of n samples is used, of a form whose settings were chosen."""
        return self.thin or ()

    @property
    def thinned(self) -> str:
        """In words, which samples are used because neighbours share their noise; empty if all are."""
        return "" if all(n == 1 for n in self.steps) else " × ".join(f"{n}." for n in self.steps)

    # The rest is for trajectories, and raises an error where it would need one.

    @property
    def margin(self) -> int:
        return 0

    def fit_to(self, trajectories: Sequence[Any]) -> Self:
        raise _for_fields()

    def _matrix(self, segment: Any, basis: Basis, edges: Ints) -> Floats:
        raise _for_fields()


def _for_fields() -> DataError:
    return DataError(
        "Weak() is for fields on a grid of space and time, cindy.Field. Trajectories take Integral(), "
        "which is weak in time as well."
    )
