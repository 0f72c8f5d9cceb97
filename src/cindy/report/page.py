"""The content of the page about a model and trajectories, as values for the template to arrange."""

from __future__ import annotations

import ast
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from cindy._check import counted
from cindy.basis import axis_label, listed, pretty
from cindy.data import Trajectory
from cindy.errors import CindyError
from cindy.export import definition, differential, left_sides, summand
from cindy.findings import Finding, has_finding
from cindy.model import (
    Denoised,
    Diagnostics,
    Model,
    compare_few,
    definitions,
    determination,
    diagnose,
    equation_labels,
    excerpt_of,
    length_of_time,
)
from cindy.report import figures
from cindy.report.explorer import explorer, near_models, terms_as_code
from cindy.report.figures import has_dots, minus, percent, power, terms_of, typeset

_PACKAGES = ("cindy", "numpy", "scipy", "highspy", "plotly")
_DENSE = 24
"""Coefficients beyond which equations are set in smaller type."""
_CALLS = {
    "Significance": "significance at level {level:g}",
    "CrossValidation": "cross-validation in {folds} folds",
    "BIC": "information criterion",
    "Discrepancy": "discrepancy",
    "Terms": "the {k} most important terms",
    "Gap": "gap below {tol:g}",
    "Direct": "direct",
    "FullyCorrective": "fully corrective",
    "Blended": "blended",
    "Plain": "plain",
}
"""Rules and corrections in words, by the name of their class; what they mean stands in settings.html.j2."""
_OPTIONS = {"per_factor": "each further factor of a term costs"}
"""Arguments of rules and corrections in words, where their names are none."""


def contents(
    model: Model, data: Sequence[Trajectory], *, title: str | None, units: Mapping[str, str]
) -> dict[str, Any]:
    """The values of the template, by name."""
    excerpt = excerpt_of(data)
    diagnostics = diagnose(model, excerpt)
    shown = figures.trajectories(model, data)
    base = common(model, diagnostics, title=title, units=units)
    offered = explorer(model, diagnostics, shown, data)
    base["near"] = near_models(model, offered)
    base["drawn"] |= {
        "explorer": offered,
        "trajectories": shown.series,
        "residuals": figures.residual_series(model, diagnostics),
        "densities": figures.density_series(model, data),
    }
    return base | {
        "lead": _lead(model, data),
        "code": terms_as_code(model, offered),
        "highlights": list(_highlights(model, excerpt, diagnostics, shown)),
        "messages": sentences(diagnostics.findings, shown.stopped),
        "solutions": _solutions(model, data, shown),
        "names": shown.names,
        "opened": shown.opened,
        "looked_at": _looked_at(data, excerpt),
        "residual_of": _residual_of(model),
        "noise": list(_noise(model, excerpt, diagnostics)),
        "noise_caption": "Standard deviations of the measurement noise, of the residuals, and of the "
        "forcing that the equations do not explain (per root of time).",
    }


def common(
    model: Model, diagnostics: Diagnostics, *, title: str | None, units: Mapping[str, str]
) -> dict[str, Any]:
    """The values that pages about trajectories and pages about fields share."""
    path = figures.path(model, diagnostics)
    used = np.flatnonzero(sum(candidate.support.any(axis=1) for candidate in model.path))
    names, count = listed([pretty(s) for s in model.states]), len(model.states)
    return {
        "model": model,
        "title": title or f"The equations of {names if count == 1 or len(names) < 70 else f'{count} states'}",
        "equations": _equations(model),
        "dense": model.size > _DENSE,
        # Beside words on the left a phone has no place for right-hand sides, and beside long ones no screen.
        "longest": max(map(len, model.variables)),
        "brackets": figures.brackets(model),
        "rewritten": figures.rewritten(model),
        "coefficients": figures.coefficient_rows(model),
        "definitions": definitions(model),
        "rule": in_words(str(model.settings["selection"]))[0] if "selection" in model.settings else "",
        "certificate": list(_certificate(model, diagnostics)),
        "violation": power(model.violation) if np.isfinite(model.violation) and model.violation else "",
        "near": near_models(model, None),
        "has_error": bool(np.any(np.isfinite(model.model_error))),
        "has_inclusion": bool(np.any(np.isfinite(model.inclusion))),
        "settings": list(_settings(model, diagnostics)),
        "versions": _versions(),
        "written": datetime.now().astimezone().strftime("%d %B %Y, %H:%M").lstrip("0"),
        "exports": list(_exports(model)),
        "drawn": {
            "states": [axis_label(state, units) for state in model.states],
            "sides": equation_labels(model),
            "time": axis_label("t", units),
            "left": _left(model),
            "terms": typeset(model, used),
            "coefficients": figures.coefficients(model, diagnostics),
            "path": path,
            "history": figures.history(model),
            "explorer": None,
            "trajectories": [],
            "residuals": [],
            "densities": [],
            "fields": [],
        },
    }


def sentences(findings: Sequence[Finding], more: Sequence[str] = ()) -> dict[str, Any]:
    """The verdict, the warnings and the notes of the findings, with names set as code."""
    warnings = dict.fromkeys([*(finding.message for finding in findings if not finding.note), *more])
    verdict = ""
    if has_finding(findings, "not-explained", "not-significant"):
        verdict = "Do not use these equations: they do not explain the data."
    elif has_finding(findings, "not-predictive"):
        verdict = "Do not predict with these equations: their solutions leave the data."
    return {
        "verdict": verdict,
        "warnings": [_with_code(sentence) for sentence in warnings],
        "notes": [_with_code(finding.message) for finding in findings if finding.note],
    }


def _with_code(sentence: str) -> Markup:
    """A sentence with the text between backticks set as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(sentence))))


def _lead(model: Model, data: Sequence[Trajectory]) -> str:
    samples = sum(len(run) for run in data)
    several = f"{len(data):,} trajectories" if len(data) > 1 else "one trajectory"
    hidden = listed([pretty(state) for state in model.hidden])
    unseen = f" {hidden} was not measured: CINDy estimated it together with the equations." if hidden else ""
    return (
        f"Found in {several} with {samples:,} samples: {counted(model.size, 'term')} "
        f"out of {model.coef.size:,} candidates.{unseen}"
    )


def _equations(model: Model) -> list[dict[str, Any]]:
    terms, dots = terms_of(model), has_dots(model)
    rows = []
    for j, left in enumerate(_left(model)):
        present = np.flatnonzero(model.coef[:, j])
        sides = [
            summand(model.coef[i, j], model.coef_error[i, j], terms[i], first=k == 0, dots=dots)
            for k, i in enumerate(present)
        ]
        whole = sides or ["<math><mn>0</mn></math>"]
        if model.diffusion is not None:
            kicks = model.diffusion.summands(j)
            left, whole = differential(
                model.states[j], model.order, sides, kicks, alone=len(model.states) == 1
            )
        rows.append({"left": left, "right": whole})
    for name, (value, error) in model.parameters.items():
        left, right = definition(name, value, error)
        rows.append({"left": left, "right": [right]})
    return rows


def _left(model: Model) -> list[str]:
    form = model.formulation
    return left_sides(model.states, model.order, discrete=form.discrete, partial=form.for_fields)


def _highlights(
    model: Model, data: Sequence[Trajectory], diagnostics: Diagnostics, shown: figures.Shown
) -> Iterator[tuple[str, str, str]]:
    """(value, name, what it means)."""
    if model.diffusion is None:
        # Which states R² compares is said, since noise of measured ones lowers it.
        about = "from one measured state to the next, where noise lowers it"
        if model.denoised:
            about = "from one denoised state to the next, so noise hardly lowers it"
        yield minus(determination(float(np.mean(1 - diagnostics.loss)))), "R² of the equations", about
        yield from _of_solutions(model, data, len(shown.series) + shown.left_out)
    else:
        # No solution follows random kicks; the band of paths with kicks can be compared with the data.
        if np.isfinite(shown.inside):
            yield f"{100 * shown.inside:.0f} %", "of the data in the band", "which should hold 90 % of them"
        sizes = np.sqrt(model.diffusion.coef[0]) if model.diffusion.additive else model.model_error
        shares = ", ".join(f"{size:.2g}" for size in sizes[:4])
        yield shares, "size of the kicks", "standard deviation per root of time, on average"
    spread = np.nanstd(np.vstack([run.x for run in data]), axis=0)
    relative = diagnostics.noise / np.where(spread > 0, spread, np.inf)
    measured = np.array([state not in model.hidden for state in model.states])
    if measured.any() and np.all(np.isfinite(diagnostics.noise[measured])):
        # The median, since one state that hardly moves would make a mean huge.
        share = float(np.median(relative[measured]))
        yield percent(share), "noise", "of the spread of a state, in the median"
    if np.any(np.isfinite(model.inclusion)) and model.size:
        least = float(np.nanmin(np.where(model.support, model.inclusion, np.nan)))
        yield f"{100 * least:.0f} %", "least sure term", "inclusion probability among the models compared"
    yield from certificate(model)


def _of_solutions(model: Model, data: Sequence[Trajectory], count: int) -> Iterator[tuple[str, str, str]]:
    """R² of solutions on data of `count` runs, by the same comparison as the summary of the model."""
    compared, runs = compare_few(model, data)
    explained, allowed = float(np.mean(compared.explained)), float(np.mean(compared.allowed))
    of = f", checked on {runs} of {count} runs" if runs < count else ""
    limit = f"where noise allows {determination(allowed)}; " if compared.rough else ""
    if np.isfinite(explained):
        how = "restarted from the data every" if compared.window else "over up to"
        yield (
            minus(determination(explained)),
            "R² of the solutions",
            f"{limit}simulation {how} {length_of_time(model, compared.span)}{of}",
        )
    elif not np.isnan(explained):
        yield "none", "R² of the solutions", f"the solutions blow up{of}"


def certificate(model: Model) -> Iterator[tuple[str, str, str]]:
    """(value, name, what it means) of how well the convex problem was solved."""
    if np.isfinite(model.gap):
        yield (
            percent(model.gap),
            "optimality gap",
            "of the squares of the data: other coefficients within the radius explain at most this much more",
        )
    if model.constraints and np.isfinite(model.violation):
        many = counted(len(model.constraints), "constraint")
        if model.violation == 0:
            yield "none", "violation", f"{many} hold{'s' * (len(model.constraints) == 1)} exactly"
        else:
            yield power(model.violation), "violation", f"at most, of {many}"


def _solutions(model: Model, data: Sequence[Trajectory], shown: figures.Shown) -> list[str]:
    """Sentences under the comparison."""
    sentences, compared = [], shown.compared
    if model.hidden:
        hidden = listed([pretty(state) for state in model.hidden])
        sentences.append(f"{hidden} was not measured: its dots are estimates.")
    if model.diffusion is not None:
        restarts = f" They are restarted every {compared.window} samples." if compared.window else ""
        sentences.append(
            f"These solutions follow the drift alone.{restarts} The band contains 90 % of the measurements "
            f"of paths with random kicks from the same start, and {100 * shown.inside:.0f} % of the data."
            if np.isfinite(shown.inside)
            else "These solutions follow the drift alone. All paths with random kicks blow up."
        )
    elif compared.window is not None:
        fit = float(np.min(compared.through))
        share = (
            f"explain {100 * max(fit, 0):.0f} % of a state" if np.isfinite(fit) else "do not reach the end"
        )
        sentences.append(
            f"They are restarted every {compared.window} samples ({length_of_time(model, compared.span)}), "
            f"which is how long this model predicts. Without restarts they {share}: the system is "
            "chaotic, or the equations are not exactly right."
        )
    if shown.left_out:
        sentences.append(
            f"{len(shown.series)} of the {len(data)} trajectories are shown, spread evenly over the data."
        )
    if shown.cut:
        sentences.append("Only the beginning of long trajectories is shown.")
    return sentences


def _looked_at(data: Sequence[Trajectory], excerpt: Sequence[Trajectory]) -> str:
    """A sentence on the samples from which residuals and R² are computed; empty if these are all."""
    used, total = sum(len(run) for run in excerpt), sum(len(run) for run in data)
    if used == total:
        return ""
    return f"Residuals and R² are those of {used:,} of the {total:,} samples, spread evenly over the data."


def _residual_of(model: Model) -> str:
    """What the residuals of the page are, for a sentence."""
    if model.denoised and model.diffusion is not None:
        # The denoised states of a kicked model may follow the data, and take part of the noise along.
        return (
            "the measurements less the denoised states, which follow random kicks closely. Neighbouring "
            "residuals are then correlated negatively although the equations are right"
        )
    if model.denoised:
        return "the measurements less the denoised states"
    kinds = {
        "integral": "the states less the integral of the right-hand side, from the best initial state",
        "differential": "the derivatives, as estimated from the data, less the right-hand side",
        "discrete": "each sample less its prediction from the one before",
    }
    return kinds[model.formulation.kind]


def _certificate(model: Model, diagnostics: Diagnostics) -> Iterator[str | Markup]:
    """Sentences about how well the convex problem was solved."""
    # On the rows of the convex problem, whose loss the gap is about; R² weights them otherwise.
    loss = diagnostics.rows.relative_loss(model.coef)
    if np.isfinite(model.gap):
        yield (
            "The certificate is about how well the optimisation was solved, not about whether the terms are "
            "right."
        )
        weighted = ", weighted by the noise," if isinstance(diagnostics.rows, Denoised) else ""
        beside = (
            Markup(' The slider of <a href="#path">smaller and larger models</a> shows that of each.')
            if len(model.path)
            else ""
        )
        kicked = model.diffusion is not None
        remark = " This includes the random kicks, which no equation explains." if kicked else ""
        if weighted and not kicked:
            remark = " R² of the equations counts all states alike and has no weights."
        yield Markup(
            "<b>Residual:</b> {} of the squares of the data{} stay unexplained by these equations ({}).{}{}"
        ).format(percent(loss), weighted, counted(model.size, "term"), remark, beside)
        yield Markup(
            "<b>Optimality gap:</b> any other coefficients within the radius, for all candidate terms at "
            "once, could explain at most {} of the squares more."
        ).format(percent(model.gap))
        # Readers compare the two numbers, and would see a contradiction here.
        if model.gap >= loss:
            yield (
                "That is no less than what the equations leave unexplained, because few terms were selected "
                "and then refitted. A larger model would fit more closely, noise included."
            )
        shown = "The band of paths, the density" if kicked else "R², the residuals"
        yield f"{shown} and new data show whether the terms are right."
    if model.result is not None:
        run = model.result
        how = "converged" if run.status == "converged" else f"ended ({run.status})"
        fell = " The figure shows how its own gap fell, in units of its objective." * (len(run.history) > 1)
        yield f"The search {how} after {counted(run.iterations, 'iteration')} in {run.seconds:.2g} s.{fell}"


def _noise(model: Model, data: Sequence[Trajectory], diagnostics: Diagnostics) -> Iterator[dict[str, str]]:
    """The rows of the table of noise."""
    spreads = np.nanstd(np.vstack([run.x for run in data]), axis=0)
    for j, (state, spread) in enumerate(zip(model.states, spreads, strict=True)):
        if state in model.hidden:
            row = noise_row(state, np.nan, spread, np.nan) | {"noise": "not measured"}
        else:
            row = noise_row(state, diagnostics.noise[j], spread, diagnostics.rms[j])
        error = float(model.model_error[j])
        yield row | {"error": power(error) if np.isfinite(error) else ""}


def noise_row(state: str, noise: float, spread: float, residual: float) -> dict[str, str]:
    """A row of the table of noise; NaN where a number is unknown."""
    known = np.isfinite(noise)
    return {
        "state": pretty(state),
        "noise": power(float(noise)) if known else "unknown",
        "share": percent(noise / spread) if known and spread > 0 else "",
        "residual": power(float(residual)) if np.isfinite(residual) else "",
        "error": "",
    }


def _settings(model: Model, diagnostics: Diagnostics) -> Iterator[tuple[str, str, str]]:
    """(name, value, meaning) of the options of the run; the template has the usual meanings by their keys."""
    form, kind = diagnostics.formulation.to_dict(), model.formulation.kind
    several = counted(model.coef.size // len(model.states), "candidate term")
    names = listed([pretty(name) for name in model.labels], most=8)
    code = _with_code(f"{several} for each equation; in Python, `{model.basis!r}`")
    yield "basis", figures.lowered(model, names), code
    yield "formulation", kind, kind
    if form.get("order") == 2:
        yield "order", "2", "x″ = F(x, x′)" if model.rates else "x″ = F(x)"
    if kind in ("integral", "differential"):
        states = "denoised" if model.denoised else "measured"
        yield "states", states, states
    for name, value in form.items():
        # Denoised states are fitted to all samples, whatever the rows for measured states are.
        if not model.denoised and name not in ("kind", "order", "rates") and value is not None:
            yield name.replace("_", " "), _plain(value), name
    for name, value in model.settings.items():
        if name in ("selection", "correction"):
            yield name, *in_words(str(value))
        elif name not in ("basis", "formulation", "radius"):
            yield name.replace("_", " "), _plain(value), name
    if np.isfinite(model.radius):
        yield "radius", _plain(model.radius), "radius"


def in_words(call: str) -> tuple[str, str]:
    """A rule or a correction, which settings keep as its call in Python: in words, and the name of its class.

    >>> in_words("Significance(level=0.01, per_factor=4.0)")
    ('significance at level 0.01 (each further factor of a term costs 4)', 'Significance')
    """
    try:
        made = ast.parse(call, mode="eval").body
        assert isinstance(made, ast.Call)
        kind, given = ast.unparse(made.func), {k.arg: ast.literal_eval(k.value) for k in made.keywords}
        value = _CALLS[kind].format_map(given)
    except (SyntaxError, ValueError, KeyError, AssertionError):
        return call, ""  # a class of the user, or arrays among the arguments
    more = [(name, part) for name, part in given.items() if f"{{{name}" not in _CALLS[kind]]
    shown = [
        _OPTIONS.get(str(name), str(name).replace("_", " ")) + ("" if part is True else f" {_plain(part)}")
        for name, part in more
        if part not in (None, False)
    ]
    return value + (f" ({', '.join(shown)})" if shown else ""), kind


def _plain(value: Any) -> str:
    """A value of the settings without brackets and quotes; small and large numbers as powers of ten."""
    if isinstance(value, Mapping):
        return "; ".join(f"{pretty(str(name))} = {_plain(part)}" for name, part in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_plain, value))
    if isinstance(value, float) and value:
        return power(value) if not 1e-3 <= abs(value) < 1e4 else f"{value:.4g}"
    return str(value)


def _versions() -> list[tuple[str, str]]:
    """The versions of the packages on which the numbers of the page depend, and the system."""
    versions = []
    for package in _PACKAGES:
        try:
            versions.append((package, version(package)))
        except PackageNotFoundError:  # run from a source tree that was never installed
            versions.append((package, "not installed as a package"))
    return [
        *versions,
        ("python", platform.python_version()),
        ("system", f"{platform.system()} {platform.machine()}"),
    ]


def _exports(model: Model) -> Iterator[tuple[str, str, str]]:
    """(name, text, why there is none)."""
    latex = partial(model.to_latex, errors=True)
    for name, make in (("Text", model.to_text), ("LaTeX", latex), ("Python", model.to_python)):
        try:
            yield name, make(), ""
        except CindyError as error:  # a Python function in the basis has no formula to write down
            yield name, "", str(error)
