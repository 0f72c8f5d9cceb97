"""Identification of partial differential equations from fields, and findings on the result.

1. Faults of the measurements are corrected where that is safe (`screened`).
2. The fields become weak rows, and the rows sums that add up (`WeakRows`).
3. A rule chooses terms; coefficients and errors follow from the noise at every sample (`estimated`), and
   terms that are not worth their price by these errors are dropped (`measured.model_of`). Where noise does
   not explain the residuals, a near model that leaves noise alone takes its place.
4. The residuals of the rows are compared with the noise (`_left_over`).

The cost is one pass over the grid for a basis without parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from cindy._arrays import Floats
from cindy.basis import Basis, pretty
from cindy.data import Field, as_fields
from cindy.errors import DataError
from cindy.evidence import INEXACT, Fault, Unexplained, WeakRows, screened, unexplained
from cindy.findings import Finding
from cindy.formulation import Formulation, Weak
from cindy.identification.field_estimates import estimated, leaves, squares_left
from cindy.identification.field_parameters import FieldSearch
from cindy.identification.measured import model_of
from cindy.model import Model, explained_rows
from cindy.problem import Problem, at_samples
from cindy.search import Settings
from cindy.summary import Summary

_ROUNDING = 4 * float(np.finfo(float).eps)
"""Relative difference of two equal values after a few floating-point operations."""


def identify_fields(
    data: Any,
    basis: Basis,
    form: Formulation | None,
    gather: Callable[..., Summary],
    pose: Callable[..., Problem],
    settings: Settings,
) -> Model:
    """The partial differential equations behind measured fields.

    form: None for Weak(); gather: sums of rows; pose: a problem from the sums
    """
    fields = as_fields(data)
    _check_motion(fields)
    # Step 1. Samples that are left out have no rows, so that the noise below is that of the others.
    screen = screened(fields)

    def posed(basis: Basis) -> tuple[WeakRows, Problem]:
        # Step 2. Rows are made anew for every basis: with unknown parameters its terms change from round to
        # round.
        evidence = WeakRows.of(screen.fields, basis, form or Weak(), screen.noise, screen.filled)
        summary = gather(evidence)
        # Integrals are sums over the grid, so that exact data leave residuals too, which no term explains.
        target = np.sqrt(np.sum(summary.total.target**2, axis=0) / max(summary.total.rows, 1))
        return evidence, pose(summary, floor=INEXACT * target)

    def law(basis: Basis) -> Model:
        evidence, problem = posed(basis)
        summary = problem.summary
        if any(at_samples(c) for c in problem.constraints):
            raise DataError(
                "identify: a conservation law with a tolerance at every sample needs values without noise, "
                "which fields do not give. Leave the tolerance out."
            )
        # Step 3.
        model = model_of(
            problem,
            settings,
            estimator=partial(estimated, evidence=evidence),
            leaves=partial(leaves, evidence=evidence),
        )
        return replace(
            model,
            scale=_scale(fields),
            noise=_noise(evidence),
            # Step 4.
            findings=(*model.findings, *_grid(evidence), *_left_over(model, evidence, summary)),
            settings={**model.settings, "seed": settings.seed},
            explained={"equations": explained_rows(model, summary.total)},
        )

    model = FieldSearch(basis, law, posed).model() if basis.unknowns() else law(basis)
    return replace(model, findings=(*_faults(screen.faults), *model.findings))


def _noise(evidence: WeakRows) -> Floats:
    """(fields,) standard deviation of the noise, as a root mean square over all grids."""
    levels = [list(noise.values()) for noise in evidence.noise]
    return np.asarray(np.sqrt(np.mean(np.square(levels), axis=0)))


def _scale(fields: Sequence[Field]) -> Floats:
    """(fields,) largest values at the first and the last time, as fields may be too large to be read."""
    first = [[float(np.nanmax(np.abs(f.part(0, 1)[s]), initial=0.0)) for s in f.states] for f in fields]
    last = [[float(np.nanmax(np.abs(f.last[s]), initial=0.0)) for s in f.states] for f in fields]
    return np.asarray(np.max([*first, *last], axis=0))


def _check_motion(fields: Sequence[Field]) -> None:
    """Refuse fields that do not change in time."""
    for state in fields[0].states:
        if all(_still(field, state) for field in fields):
            raise DataError(
                f'identify: the field "{state}" does not change in time, so nothing can be learnt about it. '
                "Leave it out, or pass it as an input."
            )


def _still(field: Field, state: str) -> bool:
    """Whether the samples at all times are equal but for rounding; those after a change are not read."""
    low = high = field.first[state][..., 0]
    for begin in range(0, len(field), 8):
        values = field.slab(state, begin, min(begin + 8, len(field)))
        low = np.fmin(low, np.fmin.reduce(values, axis=-1))
        high = np.fmax(high, np.fmax.reduce(values, axis=-1))
        size = np.nanmax(np.maximum(np.abs(low), np.abs(high)), initial=0.0)
        if np.nanmax(high - low, initial=0.0) > _ROUNDING * size:
            return False
    return True


_HOLES = 0.75
"""Share of missing rows that is reported. One hole of a tenth of a plane takes 0.62 of them and does no harm
(tests/test_field_space.py)."""
_MUCH = 0.2
"""Unexplained share of the squares of the rows that is reported where the noise of the rows is not known.
Right equations of `python -m benchmarks pde` leave up to 0.13 beside the noise where that is 100 %, 0.04 at
50 %, nothing at 1 %; velocities that no term explains, beside vorticity, 0.3."""
_TIMES_NOISE = 2.0
"""Residuals, in units of those that noise makes, above which that is reported: below, both look alike."""


def _grid(evidence: WeakRows) -> Iterator[Finding]:
    """A finding where neighbours share their noise, where holes take most rows, and where fronts are."""
    form = evidence.form
    if form.thinned:
        yield Finding(
            "shared-noise",
            f"The noise of neighbouring samples is correlated; only every {form.thinned} sample was used, so "
            "that the noise in them is independent.",
        )
    counts = [rows.counted for rows in evidence.rows]
    whole = sum(count.whole.sum() for count in counts)
    missing = 1 - whole / sum(count.whole.size for count in counts)
    if missing > _HOLES:
        yield Finding(
            "missing-rows",
            f"{missing:.0%} of the rows (sums over boxes of space and time) touch missing values and were "
            "left out. Weak terms may be missed with the rest. Fill small holes, or cut the field.",
            {"share": float(missing)},
        )
    for coarse, done in (
        (False, "These rows were left out: the equations are those of the others"),
        (True, "These are most rows, and they were kept: terms of high order may come from the grid"),
    ):
        if fronts := sum(count.fronts.sum() for count in counts if count.coarse == coarse):
            yield Finding(
                "fronts",
                f"In {max(fronts / whole, 0.01):.0%} of the rows (sums over boxes of space and time) a field "
                f"changes faster than the grid resolves, as at a shock. {done}, and diffusion at such a "
                "front cannot be determined. A finer grid would help.",
                {"share": float(fronts / whole)},
            )


def _faults(faults: Sequence[Fault]) -> Iterator[Finding]:
    """A finding for every fault of the measurements, which says what was done about it."""
    for fault in faults:
        of, where = pretty(fault.state), ", ".join(f"{x:.4g}" for x in fault.where)
        values = {k: v for k, v in asdict(fault).items() if k != "kind"}
        match fault.kind:
            case "false-period":
                message = (
                    f"{of} jumps where the axis {fault.axis} is said to begin again, {fault.size:.2g} "
                    f"times as much as between other samples. {fault.axis} was taken as not periodic."
                )
            case "dead-pixels":
                message = (
                    f"At {fault.count} places{f' ({where})' if where else ''} {of} does not fit between its "
                    "neighbours at most times, as with dead pixels. They were left out, and filled "
                    "from their neighbours where these allow."
                )
            case "saturated-values":
                message = (
                    f"{fault.share:.1%} of the samples of {of} have exactly its largest or smallest value, "
                    "as if they were clipped. They were left out."
                )
            case "outliers":
                message = f"{fault.count} samples of {of} lie far from all neighbours: outliers, left out."
            case "filled-values":
                message = f"{fault.count} missing samples of {of} ({fault.share:.1%}) were filled."
            case "lost-frames":
                done = "The field was cut there." if fault.share else "Check the times of the frames."
                message = (
                    f"After {fault.axis} = {where} the field moves about twice as far as in other steps, as "
                    f"if a frame were missing. {done}"
                )
            case "unequal-pixels":
                message = (
                    f"Neighbouring places of {of} differ by a fixed {fault.axis} of some {fault.size:.1%}, "
                    "which noise does not explain. It looks like terms of high order: calibrate the sensors."
                )
            case _:
                message = (
                    f"Neighbouring frames of {of} differ by some {fault.size:.1%} ({fault.axis}) that all "
                    "places share, as with a light that flickers. No term explains such motion."
                )
        yield Finding(fault.kind, message, values)


def _left_over(model: Model, evidence: WeakRows, summary: Summary) -> Iterator[Finding]:
    """A finding for every field whose equation leaves more than noise, with a map of where."""
    residuals = unexplained(evidence, model.coef)
    if residuals is None:
        yield from _much_left(model, summary)
        return
    for rest in residuals:
        # A report draws the map: a box without rows has no residual.
        drawn = np.where(np.isfinite(rest.map), rest.map, 0.0).tolist()
        yield Finding("unexplained-motion", _message(rest), {**asdict(rest), "map": drawn})


def _message(rest: Unexplained) -> str:
    """How much is not explained, where, and which coefficient would explain it."""
    much = f"{rest.share:.1%} of its motion" if rest.share >= 1e-3 else "a part of its motion"
    message = (
        f"The equation of {pretty(rest.state)} leaves {much} unexplained, which noise does not account for: "
        f"the residuals are {np.sqrt(rest.ratio):.2g} times as large as noise makes them."
    )
    if rest.term == "1":
        message += (
            f" A source that varies along {rest.axis} would explain {rest.taken:.0%} of it: pass a known "
            f"source, or the coordinate {rest.axis}, as an input."
        )
    elif rest.term:
        message += (
            f" A coefficient of {pretty(rest.term)} that varies along {rest.axis} would explain "
            f"{rest.taken:.0%} of it: pass the coordinate {rest.axis} as an input."
        )
    else:
        message += (
            " A term may be missing from the basis, a field was not measured, something random drives the "
            "field, or the measurements are at fault."
        )
    if rest.local:
        place = ", ".join(f"{axis} = {low:.3g} … {high:.3g}" for axis, (low, high) in rest.worst.items())
        message += f" Most is left around {place}."
    return message


def _much_left(model: Model, summary: Summary) -> Iterator[Finding]:
    """A finding where much is left, if the noise of the rows is not known."""
    left, noise = squares_left(summary, model.coef)
    whole = np.sum(summary.total.target**2, axis=0)
    for j in np.flatnonzero((left - noise > _MUCH * whole) & (left > _TIMES_NOISE * noise)):
        share = float((left[j] - noise[j]) / whole[j])
        yield Finding(
            "unexplained-motion",
            f"The equation of {pretty(model.states[j])} leaves {share:.0%} of its motion unexplained, "
            "far more than noise accounts for. A term may be missing from the basis, or a field "
            "that was not measured.",
            {"state": model.states[j], "share": share},
        )
