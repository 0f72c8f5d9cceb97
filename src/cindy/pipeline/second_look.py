"""A second look: the search once more where measurements, or what is left of them, are not as was assumed.

Noise is taken for white, of one size a state, and without outliers. The first model found tells whether that
holds; where it does not, each measurement counts by its own noise, or terms must matter beside an error that
is no noise at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cindy._types import Floats
from cindy.basis import listed
from cindy.findings import Finding
from cindy.pipeline.passes import Found, search
from cindy.states import Motion, doubted, growing, leaves_noise, without_outliers

__all__ = ["Look", "second_look"]

_SMOOTH = Finding(
    "smooth-residual",
    "What these equations leave unexplained is not noise but smooth, as from the tolerance of a solver, a "
    "filter or a missing term: only terms that matter more than it were kept.",
)


@dataclass(frozen=True, eq=False)
class Look:
    """What was found in a motion, and what there is to say about the measurements."""

    motion: Motion
    found: Found | None
    findings: tuple[Finding, ...] = ()

    def again(self, motion: Motion, variance: Floats, finding: Finding) -> Look:
        """The search once more, from where it ended."""
        assert self.found is not None
        found = search(motion, self.found.options, variance, self.found.best.fitted) or self.found
        return Look(motion, found, (*self.findings, finding))


def second_look(first: Look, variance: Floats) -> Look:
    """What is found when the measurements are taken for what they are."""
    if first.found is None or not len(first.found.best.support):
        return first
    if first.found.options.likely is not None:
        return replace(first, findings=(*first.findings, _SMOOTH))
    fitted = first.found.best.fitted
    # Where the law is wrong by more than the noise, it cannot judge the measurements.
    wrong = bool(np.any(fitted.error * first.motion.step > fitted.variance))
    # Nor do errors of rounding have a size of their own.
    exact = bool(np.all(fitted.variance < 10.0 * first.motion.floor))
    look = first if wrong or exact else _each_by_its_own(first, variance)
    assert look.found is not None
    if leaves_noise(look.motion, look.found.best.fitted):
        return look
    resolved = first.found.options.resolved(first.motion.rows // first.motion.states)
    found = search(first.motion, resolved, variance, known=first.found.best)
    if found is None or not len(found.best.support):
        return look
    return Look(first.motion, found, (*first.findings, _SMOOTH))


def _each_by_its_own(look: Look, variance: Floats) -> Look:
    """Measurements weighted by their noise: what grows with the state, outliers, unequal trajectories."""
    assert look.found is not None
    uneven, which = growing(look.motion, look.found.best.fitted)
    if which:
        names = listed([look.motion.variables[j] for j in which])
        message = f"The noise of {names} grows with the state; each measurement is weighted by its own noise."
        states = [look.motion.variables[j] for j in which]
        look = look.again(uneven, variance, Finding("growing-noise", message, {"states": states}))
    assert look.found is not None
    clean, count = without_outliers(look.motion, look.found.best.fitted)
    if count:
        message = (
            f"{count} measurement(s) lie more than 6 standard deviations from the fitted states "
            "and were left out as outliers."
        )
        look = look.again(clean, variance, Finding("outliers", message, {"count": count}))
    assert look.found is not None
    unequal = doubted(look.motion, look.found.best.fitted)
    if unequal is not None:
        message = "The trajectories differ in their noise; each is weighted by its own noise."
        look = look.again(unequal, variance, Finding("unequal-noise", message))
    return look
