"""Late channels: whether one state was measured later, or earlier, than the time stamps say.

A channel that is read τ late holds y_j(t) = x_j(t − τ) + noise, which is x_j(t) − τ F_j(x(t)) to first order.
So a delay is one more unknown of the rows D y − W J (y − x̂) = W ψ(x̂) Ξ + B e, with the column −B F_j: a score
test of τ = 0 (Rao, Proc. Camb. Phil. Soc. 44, 1948). The terms may change with it, since a delay that is not
allowed for makes false ones:

1. At the states of the law that was found, white rows are made for all candidates and for the delay of each
   measured state (`distorted_rows`).
2. From the law's terms with the delay of one state, terms are added and dropped while the criterion falls,
   a delay at the price of a term.
3. The state whose delay lowers the criterion most is told of, if it is by more than models that count as
   almost equal differ. That all states are late together cannot be seen; of a delay of one state and an
   earlier reading of another that explain as much, the delay is told.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cindy._arrays import Ints
from cindy.findings import Finding
from cindy.least_squares import Rows, lengths
from cindy.pipeline.passes import NEAR, Found
from cindy.selection import Supports
from cindy.states import Motion, distorted_rows

__all__ = ["late_channel"]

_MOST_STATES = 12
"""Measured states up to which delays are tested: a bound on work."""


_INEXACT = 1e-2
"""Model error from one sample to the next, in units of σ², beyond which delays are not tested: of Ornstein-
Uhlenbeck processes it would find one in three of three (benchmark: honesty)."""


@dataclass(frozen=True)
class _Delay:
    """The delay of one state, its error, by how much the criterion falls, and the terms with it."""

    state: int
    time: float
    error: float
    gain: float
    terms: int


def late_channel(motion: Motion, found: Found) -> Finding | None:
    """What to say where a delay of one state explains what terms do not, or explains it without them."""
    measured = np.flatnonzero(motion.measured & ~motion.known)
    alone = motion.states == 1 and len(motion.variables) == 1
    shaped = len(found.options.rows) > 0 or len(found.best.fitted.law.unknown) > 0
    # Kicks move the states as a delay would: where the law leaves more than noise, nothing can be said.
    fitted = found.best.fitted
    inexact = bool(np.any(fitted.error * motion.step > _INEXACT * fitted.variance))
    if alone or shaped or inexact or motion.known.any() or motion.parts == 0 or len(measured) > _MOST_STATES:
        return None
    delays = _delays(motion, found, measured)
    best = max(delays, key=lambda one: one.gain, default=None)
    if best is None or best.gain <= NEAR:
        return None
    likely = [one for one in delays if one.gain > best.gain - NEAR and one.time > 0.0]
    best = max(likely, key=lambda one: one.gain, default=best)
    name, when = motion.variables[best.state], "later" if best.time > 0.0 else "earlier"
    fewer = len(found.best.support) - best.terms
    shorter = f", with {fewer} term(s) fewer" if fewer > 0 else ""
    message = (
        f'"{name}" seems to be read {abs(best.time):.3g} ± {1.96 * best.error:.1g} {when} than the other '
        f"channels: with that delay the equations explain the data better{shorter} (the criterion is "
        f"lower by {best.gain:.0f}). Give "
        f'Trajectory(…, delay={{"{name}": {best.time:.3g}}}) if that may be so; '
        "a hidden state causes such a lag too."
    )
    values = {"state": name, "delay": best.time, "error": best.error, "gain": best.gain}
    return Finding("late-channel", message, values)


def _delays(motion: Motion, found: Found, measured: Ints) -> list[_Delay]:
    """The delay of each measured state, as the white rows at the states of the best law have it."""
    objective = distorted_rows(motion, found.best.fitted, motion.candidates, measured, "late")
    if objective is None:
        return []
    terms = len(motion.candidates)
    design = objective.design / lengths(objective.design)
    price = np.append(found.options.prices(motion.candidates), found.options.price)
    own = np.searchsorted(motion.candidates, found.best.support)
    delays = []
    for k, state in enumerate(measured):
        columns = design[:, [*range(terms), terms + k]]
        supports = Supports(columns, objective.target[:, 0], objective.rows, Rows.none(terms + 1), price)
        fit = supports.settle(supports.fit([*own, terms]))
        if len(fit.support) and fit.support[-1] == terms:
            unit = float(lengths(objective.design)[terms + k])
            time, error = float(fit.x[-1]) / unit, float(np.linalg.norm(fit.spread[-1])) / unit
            gain = supports.criterion(supports.fit(own)) - supports.criterion(fit)
            delays.append(_Delay(int(state), time, error, gain, len(fit.support) - 1))
    return delays
