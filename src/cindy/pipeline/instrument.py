"""Faults of instruments: a channel that is read late, a gain that drifts, a clock that drifts.

Each is one more unknown of the rows D y − W J (y − x̂) = W ψ(x̂) Ξ + B e, with a column of its own
(`distorted_rows`): a score test that its size is zero (Rao, Proc. Camb. Phil. Soc. 44, 1948). The terms
may change with it, since a fault that is not allowed for makes false ones:

1. At the states of the law that was found, white rows are made for all candidates, for the delay and the gain
   of each measured state, and for the clock (`distorted_rows`).
2. From the law's terms with one fault, terms are added and dropped while the criterion falls, a fault at the
   price of a term.
3. The fault that lowers the criterion most is told of, if it is by more than models that count as almost
   equal differ. That all states are late together cannot be seen; of a delay of one state and an earlier
   reading of another that explain as much, the delay is told.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cindy._arrays import Ints
from cindy.findings import Finding
from cindy.least_squares import Rows, lengths
from cindy.pipeline.passes import NEAR, Found
from cindy.selection import Supports
from cindy.states import Distortion, Motion, distorted_rows

__all__ = ["instrument_fault"]

_MOST_STATES = 12
"""Measured states up to which faults are tested: a bound on work."""


_INEXACT = 1e-2
"""Model error from one sample to the next, in units of σ², beyond which only the clock is tested: a delay
would be found in three of three Ornstein-Uhlenbeck processes (benchmark: honesty)."""


@dataclass(frozen=True)
class _Fault:
    """A distortion, its size and error, by how much the criterion falls with it, and the terms beside it."""

    distortion: Distortion
    size: float
    error: float
    gain: float
    terms: int

    @property
    def interval(self) -> str:
        return f"{abs(self.size):.3g} ± {1.96 * self.error:.1g}"


def instrument_fault(motion: Motion, found: Found) -> Finding | None:
    """What to say where a fault of an instrument explains what terms do not, or explains it without them."""
    measured = np.flatnonzero(motion.measured & ~motion.known)
    shaped = len(found.options.rows) > 0 or len(found.best.fitted.law.unknown) > 0
    if shaped or motion.known.any() or motion.parts == 0 or len(measured) > _MOST_STATES:
        return None
    faults = _faults(motion, found, measured)
    best = max(faults, key=lambda one: one.gain, default=None)
    if best is None or best.gain <= NEAR:
        return None
    if best.distortion.kind == "late":
        delays = [one for one in faults if one.distortion.kind == "late" and one.size > 0.0]
        likely = [one for one in delays if one.gain > best.gain - NEAR]
        best = max(likely, key=lambda one: one.gain, default=best)
    return _told(motion, best, len(found.best.support) - best.terms)


def _told(motion: Motion, fault: _Fault, fewer: int) -> Finding:
    """The finding on a fault; fewer: terms that the law needs less with it."""
    shorter = f", with {fewer} term(s) fewer" if fewer > 0 else ""
    better = (
        f"With that the equations explain the data better{shorter} (the criterion is lower by "
        f"{fault.gain:.0f})."
    )
    values = {"error": fault.error, "gain": fault.gain}
    if fault.distortion.kind == "clock":
        message = (
            f"The clock seems to change its rate by {fault.interval} of it along a run: the motion becomes "
            f"{'faster' if fault.size > 0.0 else 'slower'} in all states alike. {better} Correct the time "
            "stamps if that may be so; else something that changes with time speeds up the law."
        )
        return Finding("drifting-clock", message, {"change": fault.size, **values})
    name = motion.variables[fault.distortion.state]
    if fault.distortion.kind == "gain":
        message = (
            f'The gain of "{name}" seems to {"rise" if fault.size > 0.0 else "fall"} by {fault.interval} of '
            f"it along a run. {better} Calibrate the channel if that may be so; else a coefficient changes "
            "with time."
        )
        return Finding("drifting-gain", message, {"state": name, "change": fault.size, **values})
    message = (
        f'"{name}" seems to be read {fault.interval} {"later" if fault.size > 0.0 else "earlier"} than the '
        f'other channels. {better} Give Trajectory(…, delay={{"{name}": {fault.size:.3g}}}) if that may be '
        "so; a hidden state causes such a lag too."
    )
    return Finding("late-channel", message, {"state": name, "delay": fault.size, **values})


def _faults(motion: Motion, found: Found, measured: Ints) -> list[_Fault]:
    """The size of each fault that is worth its price, from the white rows at the states of the best law."""
    fitted = found.best.fitted
    alone = motion.states == 1 and len(motion.variables) == 1
    tested = [Distortion("clock")]
    # Kicks are in the columns of gains and delays as well as in what is left. That of the clock follows from
    # the states before a kick.
    if not np.any(fitted.error * motion.step > _INEXACT * fitted.variance):
        tested += [Distortion("gain", int(j)) for j in measured]
        tested += [] if alone else [Distortion("late", int(j)) for j in measured]
    objective = distorted_rows(motion, fitted, motion.candidates, tested)
    if objective is None:
        return []
    terms, size = len(motion.candidates), lengths(objective.design)
    design = objective.design / size
    price = np.append(found.options.prices(motion.candidates), found.options.price)
    own = np.searchsorted(motion.candidates, found.best.support)
    faults = []
    for k, distortion in enumerate(tested):
        columns = design[:, [*range(terms), terms + k]]
        supports = Supports(columns, objective.target[:, 0], objective.rows, Rows.none(terms + 1), price)
        fit = supports.settle(supports.fit([*own, terms]))
        if len(fit.support) and fit.support[-1] == terms:
            unit = float(size[terms + k])
            error = float(np.linalg.norm(fit.spread[-1])) / unit
            gain = supports.criterion(supports.fit(own)) - supports.criterion(fit)
            faults.append(_Fault(distortion, float(fit.x[-1]) / unit, error, gain, len(fit.support) - 1))
    return faults
