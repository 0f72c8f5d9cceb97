"""Sensors that measure combinations of states or means over an exposure, and states that are rarely measured.

Read-outs: where columns measure combinations of states, `model/matching.py` solves for the states, and those
that are not determined become hidden states, before the search begins. This module treats sensors that report
the mean over an exposure of length e:

    y_k = (1/e) ∫ x(t) dt over [t_k − e, t_k]  =  x(t_k − e/2) + e²/24 x''(t_k − e/2) + …

1. Shift the samples to the middle of their exposures, t_k − e/2. Sensors of different exposures then share no
   instants, which the search does not need.
2. Identify as usual. The states x̂ of that model lie between the true motion and its averages.
3. Lay a cubic spline through x̂ with the slopes that the equations give, and compute by how much the mean over
   an exposure differs from the value in its middle. Subtract that from the measurements. x̂ has little noise,
   so the noise of the measurements is not amplified, as it would be by deconvolution.
4. Repeat 2 and 3 until the measurements change by a small part of the noise. A motion of frequency ω
   converges as the powers of 1 − sin(ωe/2)/(ωe/2), which is (ωe)²/24 for short exposures (Van Cittert's
   iteration, Z. Phys. 69, 1931).

Rare states: some states are measured so rarely that nothing can be interpolated between their samples. The
search starts from the measured states, interpolated where they are missing. If Lorenz' z is measured in one
sample of 200, the interpolated values do not move as z does, and the search ends in a wrong law. A hidden
state, which is never measured, can be found all the same (`hidden.py`), in a unit and with a zero of its own:

1. Find the law without the samples of the rare state z, with a hidden state w in its place.
2. Fit z = a w + b + c·x to the few samples of z by least squares, x being the other states. If that fails, w
   is not the rare state.
3. Put a w + b + c·x where z was not measured, and search as usual from there.

This costs a second search. It is made only where a state is rare and the law that was found leaves motion
unexplained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cindy._arrays import Floats
from cindy.basis import listed
from cindy.data import Trajectory, each_alone, noise_variance
from cindy.errors import CindyError, DataError
from cindy.findings import Finding, leaves_motion
from cindy.identification.fitted import identify_with_states
from cindy.identification.hidden import hidden_names, identify_with_hidden, with_hidden
from cindy.model import Model, Readouts
from cindy.search import Request
from cindy.states import Motion, Record


@dataclass(frozen=True)
class _Averages:
    """When the correction of means over an exposure has converged."""

    still: float = 0.02
    """Change of the measurements, in units of the noise, below which they have converged. With 0.1 the
    coefficients of a van der Pol oscillator, exposed for a twentieth of its period, are off by four standard
    errors, with 0.02 by two."""
    most: int = 8
    """Models that are fitted: a bound on work. Four are enough for a twentieth of a period."""


_AVERAGES = _Averages()
_RARE = 0.1
"""A state is rare if it is known in less than this share of the samples that have any state."""
_BELONGS = 0.9
"""R² of z = a w + b + c·x over the samples of z, above which w is the rare state (benchmark: hidden)."""


def identify_readouts(
    data: list[Trajectory],
    observe: Any,
    hidden: Any,
    identify: Callable[[list[Trajectory], Any, Floats | None], Model],
    *,
    fitted: bool,
) -> Model:
    """The model of the states that columns measure, alone or in combinations, or as means over an exposure.

    identify: a function of the trajectories of states, the hidden states, and the correlation of the noise
    fitted: whether that function denoises the states
    """
    readouts = Readouts.of(observe, data[0].states, _wanted(hidden))
    if any(readouts.exposure) and not fitted:
        raise DataError(
            "identify: means over an exposure are undone along fitted states. Use Integral(), and leave "
            "`passes` out."
        )
    hidden = _beside(readouts, hidden, data[0])
    columns = readouts.aligned(data)
    if readouts.apart(columns):
        readouts = readouts.in_columns()
    noise = _noise(columns)
    shared = readouts.correlation(noise)
    model = identify(readouts.of_aligned(columns), hidden, shared)
    findings: list[Finding] = [] if shared is None or model.denoised else [readouts.shared_noise()]
    if any(readouts.exposure):
        model, change = _without_averages(
            readouts, columns, noise, model, lambda states: identify(states, hidden, shared)
        )
        if change > _AVERAGES.still:
            longest = max(readouts.exposure)
            message = (
                f"Means over {longest:g} units of time could not be undone: the measurements still change by "
                f"{change:.2g} of the noise. The exposure is too long for this motion, or the law is not "
                "that of these data."
            )
            findings.append(Finding("long-exposure", message, {"exposure": longest, "change": change}))
    settings = {**model.settings, "observe": dict(readouts.formulas)}
    if shared is not None:
        settings["column_noise"] = dict(zip(readouts.formulas, noise.tolist(), strict=True))
    return replace(
        model,
        findings=(*model.findings, *readouts.findings(), *findings),
        settings=settings,
        path=model.path.with_settings(settings),
        near=model.near.with_settings(settings),
    )


def _without_averages(
    readouts: Readouts,
    measured: list[Trajectory],
    noise: Floats,
    model: Model,
    identify: Callable[[list[Trajectory]], Model],
) -> tuple[Model, float]:
    """The model of the values in the middle of exposures, and the last change in units of the noise.

    identify: steps 2 to 4 of the head, a function of the trajectories of states
    """
    if not model.denoised:
        raise DataError(
            "identify: means over an exposure are undone along fitted states, and these data are too many "
            "for that, or too short. Give passes=2, or fewer terms."
        )
    columns, change = measured, np.inf
    for _ in range(_AVERAGES.most - 1):
        states = readouts.of_aligned(columns)
        smooth = model.smoothed or model.smooth(states)
        before = columns
        columns = [
            replace(trajectory, x=trajectory.x - _mean_less_middle(readouts, model, path))
            for trajectory, path in zip(measured, smooth, strict=True)
        ]
        squares = np.concatenate([(a.x - b.x) ** 2 for a, b in zip(columns, before, strict=True)])
        change = float(np.max(np.sqrt(np.nanmean(squares, axis=0)) / noise))
        if change <= _AVERAGES.still:
            break
        model = identify(readouts.of_aligned(columns))
    return model, change


def _mean_less_middle(readouts: Readouts, model: Model, path: Trajectory) -> Floats:
    """(samples, columns): means over exposures less the values in their middle, along a path of states."""
    from scipy.interpolate import CubicHermiteSpline

    known = np.isfinite(path.x).all(axis=1)
    difference = np.zeros((len(path), len(readouts.formulas)))
    if known.sum() < 2:
        return difference
    t, x = path.t[known], path.x[known]
    u = None if path.u is None else np.asarray(path.u)[known]
    values = readouts.columns_of(model.states, x)
    slopes = readouts.columns_of(model.states, model.predict(x, u))
    for j, exposure in enumerate(readouts.exposure):
        if exposure:
            spline = CubicHermiteSpline(t, values[:, j], slopes[:, j])
            total, half = spline.antiderivative(), exposure / 2
            # At the ends half of an exposure lies beyond the data: there the leading term e²/24 x'' is used.
            inside = (t - half >= t[0]) & (t + half <= t[-1])
            beyond = (total(t + half) - total(t - half)) / exposure - values[:, j]
            difference[known, j] = np.where(inside, beyond, exposure**2 / 24.0 * spline(t, 2))
    return difference


def _noise(data: Sequence[Trajectory]) -> Floats:
    """(columns,) standard deviation of the noise, by its roughness at the instants each was measured at."""
    rough = [noise_variance(alone)[0] if alone else 0.0 for alone in each_alone(data)]
    spread = np.nanstd(np.concatenate([run.x for run in data]), axis=0)
    return np.asarray(np.fmax(np.sqrt(rough), np.fmax(1e-6 * spread, 1e-300)))


def _wanted(hidden: Any) -> tuple[str, ...]:
    """The names that a user gives to hidden states; none where only their number is given."""
    if isinstance(hidden, str):
        return (hidden,)
    if not isinstance(hidden, (Sequence, Mapping)):
        return ()
    return tuple(name for name in hidden if isinstance(name, str))


def _beside(readouts: Readouts, hidden: Any, data: Trajectory) -> Any:
    """`hidden` of `identify` with the states that read-outs do not determine; an error where they clash."""
    inputs = [name for name in readouts.named if name in data.inputs]
    if inputs:
        raise DataError(
            f"identify: a formula of `observe` names {inputs[0]}, which is an input of the data. Read-outs "
            "are combinations of states."
        )
    own = readouts.hidden
    if not own:
        return hidden
    if hidden == "auto":
        raise DataError(
            f'identify: the read-outs leave {listed(own)} hidden, and hidden="auto" would leave their number '
            "open. Give `hidden` a number of further states or leave it out."
        )
    if isinstance(hidden, Mapping):
        missing = [name for name in own if name not in hidden]
        if missing:
            raise DataError(
                f"identify: the read-outs leave {listed(own)} hidden, and `hidden` has no formula of the "
                f"first values of {listed(missing)}."
            )
        return hidden
    more = hidden_names(hidden, data) if hidden else ()
    return tuple(dict.fromkeys((*own, *more)))


def with_rare_state(request: Request, motion: Motion, model: Model) -> Model:
    """For a model that leaves motion unexplained: the model found by way of a hidden state, if it is better.

    The model stays as it is where no state is rare.
    """
    rare = _rare_state(request.data)
    if rare is None or request.form.needs_states or request.form.discrete:
        return model
    try:
        guesses = _guesses(request, rare)
        if guesses is None:
            return model
        place = request.data[0].states.index(rare)
        records = [_with_first_values(record, place, guesses, motion.parts) for record in motion.records]
        again = identify_with_states(request, motion.part(records))
    except CindyError:
        # A law with a hidden state in the place of the rare one need not exist; then the model stays.
        return model
    return model if leaves_motion(again.findings) else again


def _rare_state(data: Sequence[Trajectory]) -> str | None:
    """The state that is rarely measured, if there is one such; None where others are rare, too."""
    seen = np.concatenate([np.isfinite(run.x) for run in data])
    share = seen.sum(axis=0) / max(int(seen.any(axis=1).sum()), 1)
    few = np.flatnonzero(share < _RARE)
    return data[0].states[int(few[0])] if len(few) == 1 and len(share) > 1 else None


def _guesses(request: Request, rare: str) -> list[Floats] | None:
    """(samples,) values of the rare state in each trajectory, by the law of a hidden state in its place."""
    place = request.data[0].states.index(rare)
    others = [k for k in range(request.data[0].dimension) if k != place]
    states = tuple(request.data[0].states[k] for k in others)
    without = [replace(run, x=run.x[:, others], states=states) for run in request.data]
    alone = replace(request, data=with_hidden(without, (rare,)), correlation=None)
    hidden = identify_with_hidden(alone, (rare,), None, {})
    if hidden is None or hidden.model.fitted is None:
        return None
    fitted = hidden.model.fitted.states
    tables = [np.column_stack([np.ones(len(fitted[k])), fitted[k]]) for k in range(len(without))]
    measured = [run.x[: len(table), place] for run, table in zip(request.data, tables, strict=True)]
    table, samples = np.concatenate(tables), np.concatenate(measured)
    known = np.isfinite(samples) & np.isfinite(table).all(axis=1)
    if known.sum() <= table.shape[1]:
        return None
    weights = np.linalg.lstsq(table[known], samples[known], rcond=1e-10)[0]
    residual = samples[known] - table[known] @ weights
    if residual.var() > (1 - _BELONGS) * samples[known].var():
        return None
    return [table @ weights for table in tables]


def _with_first_values(record: Record, place: int, guesses: Sequence[Floats], parts: int) -> Record:
    """The record with guesses where the state at a place was not measured."""
    y, missing = record.y.copy(), record.missing[..., place]
    for k, (source, offset) in enumerate(zip(record.source, record.offset, strict=True)):
        guess = guesses[int(source)]
        samples = int(offset) + np.arange(y.shape[1]) / max(parts, 1)
        values = np.interp(samples, np.arange(len(guess)), guess)
        y[k, :, place] = np.where(missing[k], values, y[k, :, place])
    return replace(record, y=y)
