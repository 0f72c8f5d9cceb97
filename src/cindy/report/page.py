"""Everything the page says, gathered from model and data; the template only arranges it."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from cindy.basis import axis_label, equation_label, listed, pretty
from cindy.data import Trajectory
from cindy.errors import CindyError
from cindy.export import format_value
from cindy.model import Diagnostics, Model, diagnose
from cindy.report import figures, mathml

__all__ = ["contents"]

_PACKAGES = ("cindy", "numpy", "scipy", "highspy", "plotly")
_DENSE = 24
"""Coefficients beyond which equations are set in smaller type."""


def contents(
    model: Model, data: Sequence[Trajectory], *, title: str | None, units: Mapping[str, str]
) -> dict[str, Any]:
    """What the template needs, by name."""
    found = diagnose(model, data)
    compared = figures.compare(model, data)
    path = figures.path(model, found)
    return {
        "title": title or "The equations of " + listed([pretty(s) for s in model.states]),
        "lead": _lead(model, data),
        "equations": _equations(model),
        "dense": model.size > _DENSE,
        "highlights": list(_highlights(model, data, found, compared)),
        "warnings": [*found.warnings, *_stopped(compared)],
        "solutions": _solutions(data, compared),
        "names": [series["name"] for series in compared.series],
        "coefficients": _coefficient_rows(model),
        "has_path": path is not None,
        "path_left_out": path["left_out"] if path else 0,
        "rule": model.settings.get("selection"),
        "residual_of": _residual_of(model),
        "certificate": list(_certificate(model, found)),
        "constraints": model.constraints,
        "violation": _power(model.violation),
        "noise": list(_noise(model, data, found)),
        "settings": list(_settings(model, found)),
        "versions": _versions(),
        "written": datetime.now().astimezone().strftime("%d %B %Y, %H:%M").lstrip("0"),
        "exports": list(_exports(model)),
        "drawn": {
            "states": [axis_label(state, units) for state in model.states],
            "sides": _sides(model),
            "time": axis_label("t", units),
            "left": [_left(model, j) for j in range(len(model.states))],
            "terms": _typeset_terms(model) if path else {},
            "trajectories": compared.series,
            "coefficients": figures.coefficients(model, found),
            "path": path,
            "residuals": figures.residual_series(found),
            "history": figures.history(model),
        },
    }


def _lead(model: Model, data: Sequence[Trajectory]) -> str:
    samples = sum(len(one) for one in data)
    several = f"{len(data):,} trajectories" if len(data) > 1 else "one trajectory"
    return (
        f"Found in {several} with {samples:,} samples: {_count(model.size, 'term')} "
        f"out of {model.coef.size:,} candidates."
    )


def _equations(model: Model) -> list[dict[str, Any]]:
    terms = model.basis.terms(model.variables)
    rows = []
    for j in range(len(model.states)):
        present = np.flatnonzero(model.coef[:, j])
        sides = [
            mathml.summand(model.coef[i, j], model.coef_error[i, j], terms[i], first=k == 0)
            for k, i in enumerate(present)
        ]
        rows.append({"left": _left(model, j), "right": sides or ["<math><mn>0</mn></math>"]})
    return rows


def _left(model: Model, state: int) -> str:
    return mathml.left_side(model.states[state], model.order, discrete=model.formulation.discrete)


def _sides(model: Model) -> list[str]:
    discrete = model.formulation.discrete
    return [equation_label(state, model.order, discrete) for state in model.states]


def _typeset_terms(model: Model) -> dict[int, str]:
    terms = model.basis.terms(model.variables)
    used = np.any([one.support.any(axis=1) for one in model.path], axis=0)
    return {int(i): mathml.term(terms[i]) if terms[i] else "" for i in np.flatnonzero(used)}


def _highlights(
    model: Model, data: Sequence[Trajectory], found: Diagnostics, compared: figures.Comparison
) -> Iterator[tuple[str, str, str]]:
    """(value, name, what it means)."""
    yield _ratio(model.score(list(data))), "R² of the equations", "1 means that they explain all of the data"
    follow = compared.explained
    if np.all(np.isfinite(follow)):
        yield _ratio(float(np.mean(follow))), "R² of the solutions", "data against simulation"
    spread = _spread(data)
    if np.all(np.isfinite(found.noise)):
        share = float(np.median(found.noise / np.where(spread > 0, spread, np.inf)))
        yield f"{100 * share:.2g} %", "noise", "of the spread of a state, typically"
    if np.isfinite(model.gap):
        yield _power(model.gap), "gap", "no model in the region fits better by more"
    if model.constraints:
        yield (
            _power(model.violation),
            "violation",
            f"at most, of {_count(len(model.constraints), 'constraint')}",
        )


def _solutions(data: Sequence[Trajectory], compared: figures.Comparison) -> list[str]:
    """Sentences under the comparison."""
    sentences = []
    if compared.window is not None:
        fit = np.min(compared.through)
        whole = f"explain {max(float(fit), 0):.0%} of a state" if np.isfinite(fit) else "do not reach the end"
        sentences.append(
            f"Each solution is started afresh every {compared.window} samples; over the whole length they "
            f"{whole}, which is the mark of chaos, or of equations that are not quite right."
        )
    if compared.left_out:
        sentences.append(f"{len(compared.series)} of the {len(data)} trajectories are shown.")
    return sentences


def _stopped(compared: figures.Comparison) -> list[str]:
    return [f"A solution did not reach the end of the data: {reason}" for reason in compared.stopped[:3]]


def _coefficient_rows(model: Model) -> list[dict[str, Any]]:
    rows = []
    for j, side in enumerate(_sides(model)):
        for k, i in enumerate(np.flatnonzero(model.coef[:, j])):
            value, error = float(model.coef[i, j]), float(model.coef_error[i, j])
            known = np.isfinite(error) and error > 0
            rows.append(
                {
                    "first": k == 0,
                    "equation": side,
                    "term": pretty(model.terms[i]),
                    "value": _minus(format_value(value, error)),
                    "low": _minus(f"{value - 1.96 * error:.4g}") if known else "",
                    "high": _minus(f"{value + 1.96 * error:.4g}") if known else "",
                    "ratio": f"{abs(value) / error:,.0f}" if known else "",
                }
            )
    return rows


def _residual_of(model: Model) -> str:
    kinds = {
        "integral": "the states less the integral of the right-hand side, from the best initial state",
        "differential": "the derivatives, as estimated from the data, less the right-hand side",
        "discrete": "each sample less what the one before it foretells",
    }
    return kinds[model.formulation.kind]


def _certificate(model: Model, found: Diagnostics) -> Iterator[str]:
    loss = float(np.mean(found.loss))
    if np.isfinite(model.gap) and model.gap < loss:
        yield (
            f"These equations leave {_power(loss)} of the squares unexplained, and no coefficients whatever "
            f"within the region that was searched could do better by more than the gap, {_power(model.gap)}."
        )
    elif np.isfinite(model.gap):
        yield (
            f"These equations leave {_power(loss)} of the squares unexplained. The gap, {_power(model.gap)}, "
            "bounds how much better any coefficients in the region could do; here it is no smaller than what "
            "is left, since only few terms were kept and those were fitted anew."
        )
    if model.result is not None:
        run = model.result
        how = "converged" if run.status == "converged" else f"ended ({run.status})"
        yield (
            f"The search itself {how} after {_count(run.iterations, 'iteration')} in {run.seconds:.2g} s: "
            f"the best fit in the region, with all terms allowed, is known to within {_power(run.gap)}."
        )


def _noise(model: Model, data: Sequence[Trajectory], found: Diagnostics) -> Iterator[dict[str, str]]:
    for j, spread in enumerate(_spread(data)):
        noise = found.noise[j]
        known = np.isfinite(noise)
        yield {
            "state": pretty(model.states[j]),
            "noise": f"{noise:.3g}" if known else "unknown",
            "share": f"{100 * noise / spread:.2g} %" if known and spread > 0 else "",
            "residual": f"{found.rms[j]:.3g}",
        }


def _spread(data: Sequence[Trajectory]) -> Any:
    return np.nanstd(np.vstack([one.x for one in data]), axis=0)


def _settings(model: Model, found: Diagnostics) -> Iterator[tuple[str, str]]:
    yield "basis", f"{model.basis!r}: {_count(len(model.terms), 'term')}"
    yield "formulation", repr(found.formulation)
    if np.isfinite(model.radius):
        yield "radius", f"{model.radius:.6g}"
    for name, value in model.settings.items():
        if name not in ("basis", "formulation", "radius"):
            yield str(name), value if isinstance(value, str) else repr(value)


def _versions() -> list[tuple[str, str]]:
    found = []
    for package in _PACKAGES:
        try:
            found.append((package, version(package)))
        except PackageNotFoundError:  # run from a source tree that was never installed
            found.append((package, "not installed as a package"))
    return [
        *found,
        ("python", platform.python_version()),
        ("system", f"{platform.system()} {platform.machine()}"),
    ]


def _exports(model: Model) -> Iterator[tuple[str, str]]:
    for name, make in (("Text", model.to_text), ("LaTeX", model.to_latex), ("Python", model.to_python)):
        try:
            yield name, make()
        except CindyError as error:  # a Python function in the basis has no formula to write down
            yield name, str(error)


def _ratio(value: float) -> str:
    """R² with as many digits as tell it from 1."""
    if not np.isfinite(value) or value <= 0:
        return _minus(f"{value:.2g}")
    digits = int(np.clip(1 - np.floor(np.log10(max(1 - value, 1e-9))), 2, 6))
    return f"{value:.{digits}f}"


def _power(value: float) -> str:
    """A small number, as 2.3 × 10⁻⁵."""
    if value == 0 or not np.isfinite(value):
        return f"{value:g}"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    if -3 <= int(exponent) <= 3:
        return f"{value:.2g}"
    raised = str(int(exponent)).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
    return f"{mantissa} × 10{raised}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _minus(text: str) -> str:
    return text.replace("-", "−")
