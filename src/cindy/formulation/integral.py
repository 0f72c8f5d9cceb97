"""The integral form: states equal integrals of the terms from a free initial state.

    x(t_k) = x₀ + ∫ ψ(x) Ξ dt + e_k        in a window of samples; order 2: two integrals, from x₀ + v₀ t

1. Cut each segment without gaps into windows, each of which has an initial state of its own.
2. Evaluate the terms at the samples, and integrate the local polynomials through them from sample to sample.
3. Eliminate the initial state exactly by an orthogonal projection, which keeps white noise white.
4. If the noise in the terms drifts (`feedback`), solve differences with the Cholesky factor of their banded
   covariance instead, so that the rows are white again (`calculus.whitened`).

No derivative of the data is estimated. Schaeffer and McCalla (Phys. Rev. E 96, 2017) use the first sample as
initial state. On a uniform grid, windows of one length share one dense operator, which `_alike` caches; a row
then costs one product with it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self

import numpy as np

from cindy._arrays import Floats, Ints, Space
from cindy._check import flag, integer, non_negative, one_of, short, unique_names
from cindy.basis import Basis, Polynomial
from cindy.calculus import (
    apply_alike,
    derivative,
    interval_weights,
    onto_samples,
    reach,
    running_sums,
    whitened,
    whitened_differences,
    windowed,
    without_polynomials,
)
from cindy.data import Trajectory, half_period, some_segments
from cindy.errors import DataError
from cindy.formulation.base import Formulation, Pair
from cindy.formulation.scales import derivative_window, feedback_of_data, integral_window, split, stacks
from cindy.states import Motion, averaged, grid_of, instants_for, records_of


@dataclass(frozen=True)
class _Windows:
    """How long windows are, and how their rows are computed."""

    enough: int = 12
    """Windows that are needed to estimate errors; with 3 or 48 errors are smaller by 2 % or less (benchmark:
    constants)."""
    shared: int = 160
    """Samples in a window up to which a dense operator that all windows share is faster."""


_WINDOWS = _Windows()


@dataclass(frozen=True)
class Integral(Formulation):
    """The states equal the integral of ψ(x) Ξ, taken once or twice, from an initial state.

    initial: "free" (default): the initial state of every window, and for order 2 its rate, is unknown and is
        eliminated exactly; white noise in the states stays white in the rows, and no derivative is estimated.
        "first": the first sample is the initial state, as in the original method; for order 2 the first
        derivative is then estimated
    window: samples in a window with an initial state of its own; 0: one window for each trajectory; None:
        chosen from the data. Windows share no sample, so that steps between windows are not used, but no two
        windows share any noise
    degree, half_width: of the local polynomials that are integrated; None: 8 and 4, or less if the time grid
        is so uneven that these would amplify noise
    rate: degree and half-width for the first derivative, if it is estimated
    smooth: half-width of a local-polynomial smoother of the states inside ψ
    feedback: mean square of the Jacobian, with each state in units of its noise. It says how strongly noise
        in the states drifts through the terms, and rows are whitened accordingly. 0: no drift; None:
        estimated from the data, and later by `identify` from a first model
    rates: whether terms may contain the rates of the states, for x'' = F(x, x'): the rate of x is the
        variable x'. `identify` fits rates as states without measurements; elsewhere `rate` says how they are
        estimated

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 6, 200)
    >>> swing = cindy.Trajectory(t, np.cos(2 * t), ("x",))
    >>> model = cindy.identify(swing, "poly:1", formulation=Integral(order=2))
    >>> print(model.to_text(errors=False))
    x'' = -4 x
    """

    kind: ClassVar[str] = "integral"
    integrates: ClassVar[bool] = True
    order: int = 1
    initial: Literal["free", "first"] = "free"
    window: int | None = None
    degree: int | None = None
    half_width: int | None = None
    smooth: int | None = None
    rate: tuple[int, int] | None = None
    feedback: float | None = None
    rates: bool = False

    def __post_init__(self) -> None:
        self._check_common()
        one_of(self.initial, ("free", "first"), "Integral: `initial`")
        if self.window is not None and integer(self.window, "Integral: `window`", least=0) != 0:
            integer(self.window, "Integral: `window` (0: whole trajectories)", least=self.min_samples)
        if self.degree is not None:
            integer(self.degree, "Integral: `degree`", least=1)
        if self.half_width is not None:
            integer(self.half_width, "Integral: `half_width`", least=1)
        if self.feedback is not None:
            non_negative(self.feedback, "Integral: `feedback`")
        if self.rate is not None:
            object.__setattr__(self, "rate", _degree_and_width(self.rate))
        if flag(self.rates, "Integral: `rates`") and (
            self.order != 2 or self.initial != "free" or self.smooth is not None
        ):
            raise DataError(
                "Integral: `rates` are for x'' = F(x, x') with states fitted: they need order=2, "
                f'initial="free" and smooth=None, but the form is {self!r}.'
            )

    @property
    def margin(self) -> int:
        rate = self.rate[1] if self.rate else 0
        return max(self.order * (self.half_width or 0) + (self.smooth or rate * self.rates), rate)

    @property
    def needs_states(self) -> bool:
        return self.rates

    def variables(self, states: tuple[str, ...], inputs: tuple[str, ...]) -> tuple[str, ...]:
        """The states, their rates if terms may contain them, and the inputs."""
        if not self.rates:
            return states + inputs
        rates = tuple(f"{name}'" for name in states)
        return unique_names((*states, *rates, *inputs), "Integral: states, their rates and inputs")

    def edges(self, samples: int) -> Ints:
        return split(samples, self.window or samples, least=self.min_samples)

    def fit_to(self, trajectories: Sequence[Trajectory]) -> Self:
        degree, half_width, rate = self.degree, self.half_width, self.rate
        if degree is None or half_width is None:
            degree, half_width = integral_window(trajectories, degree=degree, half_width=half_width)
        if rate is None and (self._estimates_a_rate or self.rates):
            rate = derivative_window(trajectories, order=1)
        form = replace(self, degree=degree, half_width=half_width, rate=rate)
        if self.initial == "first":
            return replace(form, window=self.window or 0, feedback=self.feedback or 0.0)
        if None not in (self.window, self.feedback):
            return form
        segments = some_segments(trajectories)
        form = form.with_window(segments, sum(map(len, trajectories)))
        if form.feedback is not None:
            return form
        return replace(form, feedback=feedback_of_data(segments, self.order, form.window or 0))

    def with_window(self, segments: Sequence[Trajectory], samples: int) -> Self:
        if self.window is not None or self.initial == "first":
            return self
        # A trajectory of fewer than three periods is one window, because every cut costs an initial state.
        # Longer ones are cut into windows of one and a half periods; of less, but no less than half a period,
        # if there would otherwise be too few windows to estimate errors.
        half = half_period(segments)
        return replace(self, window=min(max(half, samples // _WINDOWS.enough), 3 * half))

    def motion(
        self, trajectories: Sequence[Trajectory], basis: Basis, *, instants: int | None = None
    ) -> Motion | None:
        if self.initial == "first" or self.smooth is not None:
            return None
        first = trajectories[0]
        parts = instants_for(trajectories) if instants is None else instants
        grid = partial(grid_of, order=1 if self.rates else self.order)
        records = records_of(trajectories, grid, least=self.min_samples, instants=parts, rates=self.rates)
        variables, d = self.variables(first.states, first.inputs), first.dimension
        basis = averaged(basis, variables, records)
        free = np.arange(len(basis.names(variables)) * d)
        if not self.rates:
            return Motion(records, basis, variables, d, free, free[:0], parts)
        # x' = v is known, whether v is a term of the basis or not, and terms are sought for v'.
        rates = variables[d : 2 * d]
        extended = basis + Polynomial(1, bias=False).on(*rates)
        names = extended.names(variables)
        known = np.array([names.index(rate) * 2 * d + j for j, rate in enumerate(rates)])
        return Motion(records, extended, variables, 2 * d, free // d * 2 * d + d + free % d, known, parts)

    @property
    def leaves_noise(self) -> bool:
        return self.initial == "free"

    def unweighted(self) -> Self:
        return replace(self, feedback=0.0)

    def at_samples(self, segment: Trajectory, rows: Floats) -> Iterator[Pair]:
        eliminated = self._times
        begin = 0
        for a, b in pairwise(self.edges(len(segment))):
            t = segment.t[a:b]
            window = rows[begin : begin + b - a - eliminated]
            begin += b - a - eliminated
            yield (t, onto_samples(window, t, eliminated)) if self.initial == "free" else (t[1:], window)

    @property
    def _estimates_a_rate(self) -> bool:
        return self.initial == "first" and self.order == 2

    def _matrix(self, segment: Trajectory, basis: Basis, edges: Ints) -> Floats:
        rate_missing = self.rate is None and (self._estimates_a_rate or self.rates)
        if None in (self.degree, self.half_width) or rate_missing:
            return self.fit_to([segment])._matrix(segment, basis, edges)
        a, b = int(edges[0]), int(edges[-1])
        # Step 2 needs samples on either side of the windows, as far as there are any.
        low, high = self._spans(len(segment), a, b)[-1]
        # The shared operator covers `_beyond` samples after each window, though some weights are zero.
        ahead = min(max(high, b + self._beyond), len(segment))
        terms = np.asfortranarray(self._evaluate(segment, basis, low, ahead))
        target = self._target(segment, a, b)
        heights = np.diff(edges) - self._times
        out = np.empty((int(heights.sum()), terms.shape[1] + target.shape[1]), order="F")
        row = 0
        for first, last, step in self._runs(segment, edges, low, high):
            s, e, height = int(edges[first]), int(edges[last]), int(heights[first:last].sum())
            rows = out[row : row + height]
            row += height
            if step:
                length = (e - s) // (last - first)
                integrals, states = _alike(self, length, step)
                apply_alike(integrals, terms, s - low - self._beyond, length, rows[:, : terms.shape[1]])
                apply_alike(states, target, s - a, length, rows[:, terms.shape[1] :])
            else:
                # Windows at the ends and on uneven grids have weights of their own.
                steps = self._steps(terms, segment.t, len(segment), low, s, e)
                rows[...] = self._eliminated(
                    steps, target[s - a : e - a], segment.t[s:e], edges[first : last + 1] - s
                )
        return out

    def on_device(self, segment: Trajectory, basis: Basis, edges: Ints, space: Space) -> Any:
        a, b = int(edges[0]), int(edges[-1])
        low, high = self._spans(len(segment), a, b)[-1]
        plain = self.smooth is None and not self._estimates_a_rate and not self.rates
        lots = []
        for first, last, step in self._runs(segment, edges, low, high):
            run = edges[first : last + 1]
            length = (int(run[-1]) - int(run[0])) // (last - first)
            # The device computes the rows of windows that share an operator, numpy those of the few others.
            if step and plain and length >= 2 * self._beyond:
                lots.append(self._alike_on_device(segment, basis, run, length, step, space))
            else:
                lots.append(super().on_device(segment, basis, run, space))
        return lots[0] if len(lots) == 1 else space.xp.concat(lots, axis=1)

    def _alike_on_device(
        self, segment: Trajectory, basis: Basis, edges: Ints, length: int, step: float, space: Space
    ) -> Any:
        """(terms + states, k): the rows of windows that share an operator."""
        integrals, states = _alike(self, length, step)
        beyond, windows = self._beyond, len(edges) - 1
        start, stop = int(edges[0]) - beyond, int(edges[-1]) + beyond
        x = segment.on_device(space, start, stop)
        terms = basis.on_device(x, segment.variables, space)
        target = x[: segment.dimension, beyond : stop - start - beyond]
        rows = space.xp.concat(
            [
                windowed(terms, integrals, windows, length, space),
                windowed(target, states, windows, length, space),
            ],
            axis=0,
        )
        return rows if segment.weight == 1.0 else rows * float(np.sqrt(segment.weight))

    @property
    def _times(self) -> int:
        """How many times the terms are integrated, and how many rows of a window are eliminated."""
        return self.order if self.initial == "free" else 1

    @property
    def _beyond(self) -> int:
        """The number of samples on either side of a window on which its integrals depend."""
        return self._times * (self.half_width or 0)

    def _spans(self, samples: int, start: int, stop: int) -> list[tuple[int, int]]:
        """The stretches of samples on which the repeated integral depends, from narrow to wide.

        The first is start … stop − 1 itself; each integral is computed from values on the next stretch.
        """
        spans = [(start, stop)]
        for _ in range(self._times):
            a, b = spans[-1]
            spans.append(reach(samples, a, max(b - 1, a + 1), self.half_width or 1))
        return spans

    def _variables(self, segment: Trajectory, start: int, stop: int) -> Floats:
        values = super()._variables(segment, start, stop)
        if not self.rates or self.rate is None:
            return values
        degree, half_width = self.rate
        rates = derivative(segment.t, segment.x, start, stop, order=1, degree=degree, half_width=half_width)
        d = segment.dimension
        return np.hstack([values[:, :d], rates, values[:, d:]])

    def _target(self, segment: Trajectory, start: int, stop: int) -> Floats:
        if not self._estimates_a_rate or self.rate is None:
            return np.asfortranarray(segment.x[start:stop])
        degree, half_width = self.rate
        rate = derivative(segment.t, segment.x, start, stop, order=1, degree=degree, half_width=half_width)
        return np.asfortranarray(rate)

    def _steps(self, terms: Floats, t: Floats, samples: int, low: int, start: int, stop: int) -> Floats:
        """Increments of the integrated terms from sample to sample; `terms` begins at sample `low`.

        Inner integrals may begin at any sample: that adds a polynomial in t, which is eliminated together
        with the initial state.
        """
        spans = self._spans(samples, start, stop)
        values = terms[spans[-1][0] - low : spans[-1][1] - low]
        for k in range(len(spans) - 1, 0, -1):
            (a, b), (near, far) = spans[k - 1], spans[k]
            weights = interval_weights(t[near:far], degree=self.degree or 1, half_width=self.half_width or 1)
            steps = np.asarray(weights @ values)[a - near : b - 1 - near]
            # Increments are needed of the outermost integral, values of the inner ones.
            if k > 1:
                values = np.zeros((b - a, values.shape[1]))
                np.cumsum(steps, axis=0, out=values[1:])
        return steps

    def _runs(self, segment: Trajectory, edges: Ints, low: int, high: int) -> list[tuple[int, int, float]]:
        """(first, last, step): runs of windows; the step is 0 unless they share one operator.

        Windows of one length on a uniform grid share an operator, unless they are at an end of the segment.
        """
        step = segment.step(low, high)
        lengths = np.diff(edges)
        inner = (edges[:-1] >= self._beyond) & (edges[1:] <= len(segment) - self._beyond)
        shared = np.where(inner & (lengths <= _WINDOWS.shared) & (step is not None), lengths, 0)
        cuts = [0, *(np.flatnonzero(np.diff(shared)) + 1), len(lengths)]
        # Twelve digits, because the same grid in another trajectory differs by its rounding.
        rounded = float(f"{step:.12e}") if step else 0.0
        return [(int(i), int(j), rounded if shared[i] else 0.0) for i, j in pairwise(cuts)]

    def _eliminated(self, steps: Floats, target: Floats, t: Floats, edges: Ints) -> Floats:
        """The rows of windows by steps 3 and 4, from increments of the integrated terms and from states."""
        width = steps.shape[1]
        feedback = (self.feedback or 0.0) if self.initial == "free" else 0.0
        # Terms and states are eliminated together, because the same operator acts on both.
        joined = np.empty((len(t), width + target.shape[1]))
        if feedback and self.order == 1:
            # Whitening needs differences, and the increments are the differences of the integrals.
            joined[:-1, :width] = steps
            joined[:-1, width:] = np.diff(target, axis=0)
            joined[-1] = 0.0
            windows = stacks(joined, t, edges)
            return np.concatenate([whitened_differences(w[:, :-1], at, 1, feedback) for w, at in windows])
        joined[1:, :width] = steps
        joined[:, width:] = target
        rows = []
        for stack, at in stacks(joined, t, edges):
            stack[:, 0, :width] = 0.0
            # Increments become integrals from the first sample of the window.
            running_sums(stack[:, :, :width])
            if self.initial == "first":
                rows.append((stack[:, 1:] - stack[:, :1]).reshape(-1, stack.shape[2]))
            elif feedback:
                # Step 4.
                rows.append(whitened(stack, at, self.order, feedback))
            else:
                # Step 3.
                rows.append(without_polynomials(stack, at, self.order))
        return np.concatenate(rows)


def _degree_and_width(rate: Any) -> tuple[int, int]:
    """The degree and half-width for estimating a rate, or an error."""
    if not isinstance(rate, (tuple, list)) or len(rate) != 2:
        raise DataError(f"Integral: `rate` must be a pair (degree, half-width), but is {short(rate)}.")
    degree, half_width = rate
    return (
        integer(degree, "Integral: the degree of `rate`", least=1),
        integer(half_width, "Integral: the half-width of `rate`", least=1),
    )


@lru_cache(maxsize=64)
def _alike(form: Integral, length: int, step: float) -> tuple[Floats, Floats]:
    """Operators from samples in and around a window on a uniform grid to its rows: design and target."""
    beyond = form._beyond
    t = step * np.arange(float(length + 2 * beyond))
    # The columns of the operators are the rows that unit vectors give, so that the code is the same.
    steps = form._steps(np.eye(len(t)), t, len(t), 0, beyond, beyond + length)
    window = t[beyond : beyond + length]
    rows = form._eliminated(steps, np.eye(length), window, np.array([0, length]))
    return np.ascontiguousarray(rows[:, : len(t)]), np.ascontiguousarray(rows[:, len(t) :])
