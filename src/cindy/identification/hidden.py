"""Hidden states: states that nobody measured, estimated together with the law.

The states are (x, w), w missing at every sample, and the search is the usual one with the law held exact.
The data do not determine w: for any numbers a, b, c the state a w + b + c·x has the same x. And the end of
the search depends on the first values of w. Both are settled by fixing what w is (its gauge) in the equation
of one state s that is there already:

    s' = φ w + (terms that are not φ, φ times another state),      φ = 1 or a state

The coefficient of φ w is 1, and those of φ and φ times any other state are zero, which leaves no freedom to
w. For a pendulum measured by its angle w is the rate, q' = w; for Lorenz without z it is 28 − z,
y' = x w − y. A second hidden state stands in the equation of another measured state or of the first hidden
one: a cascade. For SEIR measured by I alone w1 is the rate of I, I' = w1, and w2 stands for the susceptible,
w1' = I w2 − (σ + γ) w1.

1. Make starts in every gauge that the library has terms for, or from a user's formulas (`hidden_starts.py`).
   Rank them by −2 log p after a few steps at a large model error.
2. Search from the best few, each in its own gauge, and search again from the end, with the equations of
   hidden states held as exact as those of measured ones. The law with the least criterion, −2 log p and the
   prices of its terms, is the best.
3. With several hidden states do the same in other gauges, from the states that the best law has fitted.
4. Change to the gauge in which the law has the fewest terms, and search from there (`hidden_gauge.py`).
5. Weight each measurement by its own noise, which may grow with the state or differ between runs, and search
   once more.
6. The criterion must be less than that of the law with one hidden state less, or with none and a free model
   error; otherwise a finding says that the state is not needed.

The cost is that of the searches, about ten with one hidden state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cindy._arrays import Floats
from cindy._check import short
from cindy.basis import TIME, listed
from cindy.data import Trajectory, noise_variance
from cindy.errors import DataError
from cindy.findings import Finding
from cindy.identification.hidden_gauge import (
    fixed_alone,
    gauge_findings,
    in_gauge,
    inexact_findings,
    pinned,
    sparsest_gauge,
)
from cindy.identification.hidden_starts import (
    Start,
    finely_divided,
    start_from_formulas,
    starts_in_gauges,
    walked,
)
from cindy.identification.inference import LastPass
from cindy.model import Model
from cindy.search import NEAR, Found, Look, Options, Request, Search, each_by_its_own, first_starts, search
from cindy.states import LEVELS, Motion, at_level, deviance, drift_of_data, first_objective, start_of

_MOST = 5
"""Hidden states that may be asked for: each needs one more derivative of noisy samples."""
_MOST_AUTO = 3
"""Hidden states that are tried with hidden="auto": a bound on work."""
_STARTS = 4
"""Gauges from whose starts the search is made: a bound on work (benchmark: hidden)."""
_AS_NOISE = 1.5
"""No further start is searched from once the residuals of a law have less than this many times the variance
of the noise, estimated by roughness. Right laws have 0.95 to 1.07 (benchmark: hidden)."""
_HELD = 0.3
"""Standard deviation that the first values of w are given as measurements, as a share of their spread."""
_AS_EXACT = 4.0
"""Ratio of variances up to which two are taken for the same: noise estimated by roughness is as uncertain."""
_EXACT_SEARCHES = 3
"""Searches for the exact law: a bound on work."""


@dataclass(frozen=True, eq=False)
class Discovery:
    """A law with hidden states.

    data: the trajectories with the estimates of the hidden states
    criterion: −2 log p, in noise of one size for each state, and prices
    """

    model: Model
    data: list[Trajectory]
    criterion: float

    def told(self, gain: float, kicked: bool) -> Model:
        """The model with a finding on its hidden states, whose terms lower the criterion by `gain`."""
        names = self.model.hidden
        terms = np.count_nonzero(self.model.coef, axis=0).tolist()
        still = [name for name in names if not terms[self.model.states.index(name)]]
        if still:
            message = f"{_named(still)} constant: no term changes {_them(still)}. Leave {_them(still)} out."
            finding = Finding("hidden-not-needed", message, {"state": ", ".join(still), "gain": 0.0})
        elif gain > NEAR:
            by = f" by {gain:.0f}" if np.isfinite(gain) else ""
            message = (
                f"{_named(names, 'was', 'were')} estimated together with the equations. The criterion "
                f"(−2 log p plus a price per term) of the model with {_them(names)} is lower{by}."
            )
            finding = Finding("hidden-state", message, {"state": ", ".join(names), "gain": gain})
        else:
            finding = not_needed(names, gain, kicked)
        return replace(self.model, findings=(*self.model.findings, finding))


@dataclass(frozen=True, eq=False)
class _Law:
    """Where the search from a start ended, in the gauge of that start.

    loose: with the large variances that rough first values need
    exact: the search from there, with equations of hidden states held as exact as those of measured ones.
    Only these can be compared: for SEIR by I alone at 5 % noise a wrong law is better by 50 units while it is
    loose, and worse by 16 once it is exact (benchmark: hidden).
    """

    motion: Motion
    start: Start
    loose: Found
    exact: Found


def hidden_names(hidden: Any, like: Trajectory) -> tuple[str, ...]:
    """The names of the hidden states that a user asks for; DataError if `hidden` is not valid."""
    if isinstance(hidden, (bool, bytes)) or not isinstance(hidden, (int, str, Sequence, Mapping)):
        raise DataError(
            f'identify: `hidden` must be a number of states, their names or "auto", but is {short(hidden)}.'
        )
    for name, formula in hidden.items() if isinstance(hidden, Mapping) else ():
        if not isinstance(formula, str):
            raise DataError(
                f"identify: the first values of the hidden state {name!r} must be a formula in the measured "
                f'states and their rates, such as "x + 2*x\'", but are {short(formula)}.'
            )
    if isinstance(hidden, int):
        # One name more than allowed is enough for the error below: 10**9 names would fill the memory.
        count = min(hidden, _MOST + 1)
        names: tuple[str, ...] = ("w",) if count == 1 else tuple(f"w{k + 1}" for k in range(count))
    else:
        names = (hidden,) if isinstance(hidden, str) else tuple(hidden)
    for name in names:
        if not isinstance(name, str) or not name.isidentifier():
            raise DataError(f"identify: a hidden state must have a name such as w, but {name!r} is none.")
        if name in (*like.variables, TIME):
            kind = "a state of the data" if name in like.states else "an input of the data"
            kind = kind if name in like.variables else "the time"
            raise DataError(
                f'identify: the hidden state "{name}" has the name of {kind}. Rename it, or leave it out of '
                "`hidden`: what `observe` gives is not hidden."
            )
    if not 1 <= len(names) <= _MOST or len(set(names)) < len(names):
        raise DataError(
            f"identify: `hidden` must be one to {_MOST} states with names of their own, but is "
            f"{short(hidden)}. More than {_MOST} no record of a few states tells."
        )
    return names


def auto_names(like: Trajectory) -> Iterator[tuple[str, ...]]:
    """Names of one hidden state, of two, and so on, that no variable of the data has."""
    letter = next(letter for letter in ("w", "hidden", "w_hidden") if letter not in like.variables)
    yield (letter,)
    for count in range(2, _MOST_AUTO + 1):
        yield tuple(f"{letter}{k + 1}" for k in range(count))


def with_hidden(data: Sequence[Trajectory], names: tuple[str, ...]) -> list[Trajectory]:
    """The trajectories with states that are missing at every sample."""
    return [
        replace(run, x=np.hstack([run.x, np.full((len(run), len(names)), np.nan)]), states=run.states + names)
        for run in data
    ]


def identify_with_hidden(
    request: Request, names: tuple[str, ...], passes: int | None, formulas: Mapping[str, str]
) -> Discovery | None:
    """The model with hidden states, the last states of the request; None where no fit converges.

    formulas: a user's formulas of their first values; empty where these are to be estimated
    """
    _check(request, names, passes)
    motion = finely_divided(request)
    if motion is None or not motion.records:
        raise DataError(
            f"identify: hidden states ({', '.join(names)}) are found with fitted states: use Integral(), and "
            "trajectories of ten samples at least."
        )
    seen = _without_last(request.data, len(names))
    noise = noise_variance(seen)
    physics = request.physics(motion)
    motion, options = request.narrowed(motion, physics), request.options(motion, physics)
    sought, given = Sought(motion, options, noise), fixed_alone(options.rows)
    # Step 1.
    if formulas:
        starts = [start_from_formulas(motion, formulas)]
    else:
        starts = sought.ranked(starts_in_gauges(motion, names, np.sqrt(noise), given))
    if not starts:
        raise DataError(
            f"identify: no term that may stand in the equation of a measured state holds {listed(names)}, "
            "alone or times a state, and so the data cannot tell of it. Give a basis or constraints that "
            "leave such a term."
        )
    # Step 2.
    best = sought.best_of(starts)
    if best is not None and len(best.start.pins) > 1 and sought.leaves_noise(best.loose):
        # Step 3.
        best = sought.from_fitted_states(best, names, given)
    if best is None:
        return None
    # Step 4.
    gauged, found, start = best.motion, best.exact, best.start
    inexact = tuple(inexact_findings(names, found.best.criterion - best.loose.best.criterion))
    last = LastPass.of(physics, gauged, found, request.settings.callback)
    sparser = None if len(options.rows) else sought.in_sparsest_gauge(start, last)
    if sparser is not None:
        gauged, found, start = sparser
    # Step 5. The law without hidden states is judged in noise of one size, and so is this one.
    criterion, look = found.best.criterion, each_by_its_own(Look(gauged, found), found.best.fitted.variance)
    gauged, found = look.motion, look.found or found
    last = LastPass.of(physics, gauged, found, request.settings.callback)
    model = last.model()
    findings = (*inexact, *look.findings, *model.findings, *gauge_findings(names, start.pins, last))
    settings = request.settings.to_dict() | {"hidden": dict(formulas) or list(names)}
    model = replace(model, findings=findings, settings=settings)
    return Discovery(model, _filled(request.data, model, len(names)), criterion)


@dataclass(frozen=True, eq=False)
class Sought:
    """The search for laws with hidden states.

    motion: of measured and hidden states, in no gauge; noise: variance of the noise of the measured ones
    """

    motion: Motion
    options: Options
    noise: Floats

    @property
    def scatter(self) -> float:
        """The standard deviation of −2 log p."""
        return float(np.sqrt(2.0 * self.motion.rows))

    def leaves_noise(self, found: Found) -> bool:
        """Whether the residuals of a law are no larger than noise."""
        return bool(np.all(found.best.fitted.variance[: len(self.noise)] < _AS_NOISE * self.noise))

    def begun(self, start: Start) -> tuple[Search, Floats]:
        """The search in the gauge of a start, and the variances to begin with."""
        gauged = in_gauge(self.motion, start)
        variance = np.append(self.noise, ((_HELD * gauged.spread) ** 2)[len(self.noise) :])
        return Search(gauged, pinned(self.options, start)), variance

    def best_of(self, starts: Iterable[Start], best: _Law | None = None) -> _Law | None:
        """The law of least criterion that starts lead to; later ones are left out once it is good enough."""
        for start in starts:
            gauged, loose = self.searched(start)
            # A law that is worse by more than the standard deviation of −2 log p is not expected to catch up.
            most = np.inf if best is None else best.loose.best.criterion + self.scatter
            if loose is None or loose.best.criterion > most:
                continue
            law = _Law(gauged, start, loose, _law_exact(gauged, loose, self.noise))
            if best is None or law.exact.best.criterion < best.exact.best.criterion:
                best = law
                # In a gauge that cannot hold the right law many terms may leave no more than noise, and in
                # another one few. That is not tried where two starts agree on a law with no more terms than a
                # linear one may have (benchmark: hidden).
                linear = len(loose.best.support) <= gauged.states**2
                if self.leaves_noise(loose) and loose.agreed and linear:
                    break
        return best

    def from_fitted_states(
        self, best: _Law, names: tuple[str, ...], given: Mapping[int, float]
    ) -> _Law | None:
        """The best law from starts in other gauges, made from the states that a law with several has fitted.

        Derivatives of derivatives of noisy samples are rough first values, and the first law that is found
        has a gauge in which they happen to be good. The states of that law have no noise. For SEIR by I alone
        at 5 % it has six terms, with I' = I w1; from its states follow the right five (benchmark: hidden).
        """
        fitted = [x[..., : len(self.noise)] for x in best.loose.best.fitted.x]
        starts = starts_in_gauges(self.motion, names, np.sqrt(self.noise), given, fitted)
        likeliest = self.likeliest(starts)
        worst = likeliest.pop(best.start.gauge, (np.inf, best.start))[0] + self.scatter
        others = sorted((pair for pair in likeliest.values() if pair[0] < worst), key=lambda pair: pair[0])
        return self.best_of([start for _, start in others[: _STARTS // 2]], best)

    def first_deviance(self, start: Start) -> float:
        """−2 log p of a start after a short fit at the first, large level of model error.

        A wrong start is far off already here: for Lorenz' equations without x at 5 % noise −2 log p is 3,800
        to 12,800 units above that of the right start, and a search from a wrong one takes twenty times as
        long.
        """
        loop, variance = self.begun(start)
        first = next(first_starts(loop, variance, noisy=not loop.motion.quiet(variance)), None)
        if first is None:
            return np.inf
        try:
            fitted = at_level(loop.motion, first, loop.solve, LEVELS[0])
        except DataError:
            # On the way a state has left the domain of a term.
            return np.inf
        return deviance(loop.motion, fitted) if fitted.alive else np.inf

    def likeliest(self, starts: Iterable[Start]) -> dict[tuple[int, ...], tuple[float, Start]]:
        """By gauge, the least −2 log p of its starts, and the start that has it.

        Later starts are less promising: one must be more likely by more than the standard deviation of
        −2 log p.
        """
        best: dict[tuple[int, ...], tuple[float, Start]] = {}
        for start in starts:
            value = self.first_deviance(start)
            if start.gauge not in best or value < best[start.gauge][0] - self.scatter:
                best[start.gauge] = value, start
        return best

    def ranked(self, starts: Sequence[Start]) -> list[Start]:
        """The most likely starts, the least −2 log p first: all in the first gauge, one in each other gauge.

        From Rössler's z at 5 % noise the right gauge has the least −2 log p, but the first values from which
        the search finds the law need not: in three of ten draws they did not (benchmark: hidden).
        """
        gauges = []
        for value, start in self.likeliest(starts).values():
            own = [(value, start)]
            if len(start.pins) > 1:
                loop, variance = self.begun(start)
                others = walked(loop.motion, start, variance, loop.solve)
                own += [(self.first_deviance(other), other) for other in others]
            gauges.append(sorted(own, key=lambda pair: pair[0]))
        gauges = sorted(gauges, key=lambda own: own[0][0])[:_STARTS]
        return [start for own in gauges[:1] for _, start in own] + [own[0][1] for own in gauges[1:]]

    def searched(self, start: Start) -> tuple[Motion, Found | None]:
        """The motion in the gauge of a start, and where the search from its first values ends."""
        loop, variance = self.begun(start)
        gauged = loop.motion
        if start.pins:
            return gauged, search(gauged, loop.options, variance)
        # First values by a user's formula are rough. The search therefore begins with all terms of the
        # library, a large variance for all samples and an exact law: the states then come to lie on a
        # solution of the whole library, and the variance falls to the residuals of that solution, before
        # terms are chosen.
        held = (_HELD * gauged.spread) ** 2
        coef = loop.solve(first_objective(gauged, drift_of_data(gauged, held)), gauged.candidates)
        whole = loop.fit(start_of(gauged, gauged.candidates, coef, held), LEVELS[-2:])
        return gauged, search(gauged, loop.options, held, known=whole)

    def in_sparsest_gauge(self, start: Start, last: LastPass) -> tuple[Motion, Found, Start] | None:
        """The search from the same law in the gauge with the fewest terms; None where no law is better."""
        fitted = last.found.best.fitted
        other = sparsest_gauge(last.motion, fitted, last.covariance, start.pins, self.motion.candidates)
        if other is None:
            return None
        values = tuple(x[..., -len(other.pins) :] for x in other.x)
        there = replace(start, pins=other.pins, values=values)
        moved, options = in_gauge(self.motion, there), pinned(self.options, there)
        # The unit of the hidden states is the same: with their variance as it was −2 log p can be compared.
        first = replace(start_of(moved, other.support, other.coef, fitted.variance), x=other.x)
        found = search(moved, options, fitted.variance, first)
        if found is None or found.best.criterion >= last.found.best.criterion:
            return None
        return moved, found, there


def _law_exact(motion: Motion, found: Found, noise: Floats) -> Found:
    """The search again from its end, the equations of hidden states held as exact as those of measured ones.

    Rough first values need a large model error, which can take the place of true terms. Where the noise is
    small it can even lead through every sample. The residuals are then far smaller than the noise, and the
    noise by roughness counts in their place. If the exact law leaves far more than that, as where a small
    effect has no term, its own residuals say how exact the hidden equations are, and the search is repeated.

    noise: (measured states,) variance of the noise by roughness
    """
    seen, last = motion.measured, found
    floor = np.append(noise, np.zeros(motion.states - len(noise)))
    for again in range(_EXACT_SEARCHES):
        fitted = last.best.fitted
        spread = np.concatenate([x.reshape(-1, motion.states) for x in fitted.x]).std(axis=0)
        variance = np.where(fitted.variance < floor / _AS_EXACT, floor, fitted.variance)
        hidden = np.min((variance / spread**2)[seen]) * spread**2
        if not again:
            hidden = np.minimum(variance, hidden)
        elif np.all(hidden[~seen] < _AS_EXACT * variance[~seen]):
            break
        variance = np.where(seen, variance, hidden)
        result = search(motion, found.options, variance, replace(fitted, variance=variance, settled=False))
        if result is None or (again and result.best.criterion > last.best.criterion):
            break
        last = result
    return last


def criterion_without(request: Request, hidden: int) -> tuple[float, bool]:
    """−2 log p and the prices of the best law in measured states alone, its model error free; whether kicked.

    Infinite where there is no such law, as where all terms hold the hidden state.
    """
    seen = _without_last(request.data, hidden)
    plain, noise = replace(request, data=seen, known={}), noise_variance(seen)
    try:
        motion = finely_divided(plain)
        assert motion is not None
        found = search(motion, plain.options(motion, plain.physics(motion)), noise)
    except DataError:
        return np.inf, False
    if found is None:
        return np.inf, False
    return found.best.criterion, bool(motion.kicked(found.best.fitted).any())


def not_needed(names: Sequence[str], gain: float, kicked: bool = False) -> Finding:
    """The finding that hidden states are not worth their terms; kicked: whether kicks take their place."""
    if gain > 0:
        than = f"higher by only {gain:.1f}, and {NEAR:.0f} is the least that counts"
    else:
        than = f"lower by {-gain:.0f}" if np.isfinite(gain) else "lower"
    without, advice = _them(names), "."
    if kicked:
        without += ", in which random kicks drive the measured states,"
        advice = ", unless you know that there are no kicks: then the equations lack another term or state."
    message = (
        f"{_named(names)} not needed: the criterion (−2 log p plus a price per term) of the model without "
        f"{without} is {than}. Leave {_them(names)} out{advice}"
    )
    return Finding("hidden-not-needed", message, {"state": ", ".join(names), "gain": gain})


def _named(names: Sequence[str], singular: str = "is", plural: str = "are") -> str:
    """The subject of a sentence and its verb."""
    plain = len(names) == 1
    return f"The hidden state{'' if plain else 's'} {listed(names)} {singular if plain else plural}"


def _them(names: Sequence[str]) -> str:
    return "them" if len(names) > 1 else "it"


def _without_last(data: Sequence[Trajectory], count: int) -> list[Trajectory]:
    return [replace(run, x=run.x[:, :-count], states=run.states[:-count]) for run in data]


def _check(request: Request, names: Sequence[str], passes: int | None) -> None:
    """Refuse settings under which hidden states cannot be estimated."""
    where = f"identify: hidden states ({', '.join(names)})"
    if passes == 1:
        raise DataError(
            f"{where} are found with fitted states, but with passes=1 they are not. Leave `passes` out."
        )
    if request.pieces.source.whole is None:
        raise DataError(f"{where} need the data in memory, and these are read in parts.")
    if request.form.needs_states or request.form.order != 1 or request.form.discrete:
        raise DataError(f"{where} need equations of first order in time: use Integral().")
    if request.basis.unknowns():
        raise DataError(
            f"{where} cannot be found beside parameters inside terms. Give these values: basis.at({{…}})."
        )


def _filled(data: Sequence[Trajectory], model: Model, count: int) -> list[Trajectory]:
    """The data with the estimates of the hidden states."""
    assert model.fitted is not None
    filled = list(data)
    for number, states in model.fitted.states.items():
        x = np.array(data[number].x)
        x[: len(states), -count:] = states[:, -count:]
        filled[number] = replace(data[number], x=x)
    return filled
