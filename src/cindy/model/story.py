"""A model in words: its equations, how much of the data they explain, how certain they are, and warnings."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np

from cindy._arrays import Floats
from cindy._check import counted, units_of_time
from cindy.basis import Language, equation_label, factor_code, pretty, variable_label
from cindy.model.equations import Equations

_FORMULA = Language(prefix="", end="", module="")


@dataclass(frozen=True)
class _Words:
    """How much a summary says, and when it calls models close."""

    width: int = 80
    """Characters in a line."""
    close: float = 6.0
    """Difference of the criterion, in −2 log p, up to which models are close: 6 is 20 times less likely."""
    most: int = 5
    """Terms that are named one by one."""
    summands: int = 40
    """Summands of an equation that a notebook shows."""


_WORDS = _Words()


SURE = 0.95
"""Inclusion probability below which a term is called less sure. Chance adds a term to one data set in 20, and
in 19 of 20 such cases its probability is lower than this (benchmark: honesty, closed orbit)."""


def summary(model: Equations) -> str:
    """Equations, facts, warnings and notes as text."""
    lines = ["Equations", *(f"  {line}" for line in model.to_text().splitlines())]
    lines += [f"  where {line}" for line in definitions(model)]
    lines += ["", "How sure"]
    width = max(len(name) for name, _ in facts(model))
    for name, text in facts(model):
        first, *rest = textwrap.wrap(text, _WORDS.width - width - 4) or [""]
        lines.append(f"  {name:<{width}}  {first}")
        lines += [" " * (width + 4) + line for line in rest]
    warnings, notes = _messages(model)
    lines += ["", "Warnings" if warnings else "No warnings.", *_bullets(warnings)]
    lines += ["", "Notes", *_bullets(notes)] if notes else []
    return "\n".join(lines)


def _messages(model: Equations) -> tuple[list[str], list[str]]:
    """The sentences of the warnings, and those of the notes."""
    findings = model.findings
    return [f.message for f in findings if not f.note], [f.message for f in findings if f.note]


def _bullets(sentences: Sequence[str]) -> Iterator[str]:
    for sentence in sentences:
        yield from textwrap.wrap(sentence, _WORDS.width, initial_indent="  - ", subsequent_indent="    ")


def definitions(model: Equations) -> list[str]:
    """The formulas of terms that have names of their own, such as "uptake = S/(K + S)"."""
    formulas = {}
    for i, term in enumerate(model.basis.terms(model.variables)):
        for factor in term if model.support[i].any() else ():
            formula = factor.symbolic or factor.expression
            if factor.kind == "call" and formula is not None and formula.symbols():
                names = {name: name for name in formula.symbols()}
                text = factor_code(replace(factor, expression=formula, power=1), names, _FORMULA, {})
                # A term that is called by its formula needs no definition.
                if text.replace(" ", "") != factor.name.replace(" ", ""):
                    formulas[factor.name] = text
    return [f"{name} = {text}" for name, text in formulas.items()]


def facts(model: Equations) -> list[tuple[str, str]]:
    """(name, text) of all that is known of a model: fit, terms, noise, constraints and search."""
    return [*_explained(model), *_terms(model), *_noise(model), *_constraints(model), *_search(model)]


def _explained(model: Equations) -> Iterator[tuple[str, str]]:
    explained = model.explained
    if model.diffusion is not None:  # no solution follows random kicks, so a low R² would mean nothing
        return
    if "equations" in explained:
        yield "R² of equations", f"{determination(explained['equations'])} of the motion, step by step"
    if not {"equations", "solutions", "span", "through"} <= set(explained):
        return
    solutions, through = explained["solutions"], explained["through"]
    span = length_of_time(model, explained["span"])
    if np.isnan(solutions):
        return
    partial = {"runs", "of"} <= set(explained)
    checked = f" (checked on {explained['runs']:.0f} of {explained['of']:.0f} runs)" if partial else ""
    allowed = f" where noise allows {determination(explained['allowed'])}" if "allowed" in explained else ""
    if not np.isfinite(solutions):
        text = "none: the solutions blow up"
    elif solutions == through:  # no restart was needed
        text = f"{determination(solutions)}{allowed}, over up to {span}"
    else:
        whole = f"R² is {determination(through)}" if np.isfinite(through) else "the solutions blow up"
        text = (
            f"{determination(solutions)}{allowed}, restarted from the data every {span}; "
            f"without restarts {whole}"
        )
    yield "R² of solutions", text + checked


def length_of_time(model: Equations, span: float) -> str:
    """A length of time with its unit, "3 time units" if that is unknown."""
    length = f"{span:,.0f}" if span >= 1000 else f"{span:.3g}"
    return f"{length} {units_of_time(model.settings.get('time_unit'))}"


def _terms(model: Equations) -> Iterator[tuple[str, str]]:
    yield "terms", f"{model.size} of {model.coef.size} candidates"
    known = np.isfinite(model.inclusion)
    if known.any():
        doubtful = model.support & known & (model.inclusion < SURE)
        outside = ~model.support & known & (model.inclusion > 1 - SURE)
        for name, where in (("less sure", doubtful), ("left out", outside)):
            order = np.argwhere(where)[np.argsort(-model.inclusion[where])][: _WORDS.most]
            shown = [_probability(model, int(i), int(j)) for i, j in order]
            more = int(where.sum()) - len(shown)
            if shown:
                yield name, ", ".join(shown) + (f" and {more} more" if more else "")
    if len(model.near) > 1:
        # The first near model is the model itself.
        above = np.sort(model.near.scores)[1:]
        count = int(np.sum(above <= _WORDS.close))
        others = "1 other model explains" if count == 1 else f"{count} other models explain"
        text = f"{others} the data almost as well"
        if not count:
            text = f"the criterion of the next best model is {above[0]:.1f} higher (10: clearly worse)"
        yield "near", f"{text}; see model.near"


def _probability(model: Equations, i: int, j: int) -> str:
    equation = equation_labels(model, typed=True)[j]
    return f"{_in_sentence(model.terms[i], model.labels[i])} in {equation} ({model.inclusion[i, j]:.0%})"


def _in_sentence(term: str, label: str) -> str:
    """The label of a term for use in a sentence, where "1" would be read as a number."""
    return "the constant" if term == "1" else label


def named_term(model: Equations, i: int) -> str:
    """A term by its label in letters, for use in a sentence."""
    return _in_sentence(model.terms[i], pretty(model.labels[i]))


def equation_labels(model: Equations, *, typed: bool = False) -> list[str]:
    """The left-hand sides of the equations as text: x′, x″, x[k+1] or u_t; x' and x'' if typed."""
    form = model.formulation
    if typed:
        mark = "[k+1]" if form.discrete else "_" + "t" * model.order if form.for_fields else "'" * model.order
        return [variable_label(state) + mark for state in model.states]
    return [equation_label(s, model.order, form.discrete, form.for_fields) for s in model.states]


def _noise(model: Equations) -> Iterator[tuple[str, str]]:
    if model.denoised:
        yield "states", "denoised: estimated together with the equations"
    elif model.result is not None and not model.formulation.for_fields:
        yield "states", "as measured, not denoised: noise inside the terms biases the coefficients"
    if np.any(np.isfinite(model.noise)):
        yield "noise", _by_state(model, model.noise) + " (standard deviation)"
    if np.any(model.noise_memory > 1.0):
        yield "noise memory", _by_state(model, model.noise_memory) + " samples (1: white)"
    if np.any(np.isfinite(model.model_error)):
        forcing = _by_state(model, model.model_error)
        yield "unexplained", forcing + " (forcing beyond the equations, per √time)"


def _by_state(model: Equations, values: Floats) -> str:
    """The values with the names of their states, less unknown ones, such as the noise of a hidden state."""
    named = zip(model.states, values, strict=True)
    return ", ".join(f"{variable_label(s)} {v:.2g}" for s, v in named if np.isfinite(v))


def _constraints(model: Equations) -> Iterator[tuple[str, str]]:
    for text in model.constraints:
        yield "constraint", text
    # Coefficients that were set by hand were not compared with the constraints.
    if model.constraints and np.isfinite(model.violation):
        exactly = "none: the constraints hold exactly"
        yield "violation", f"{model.violation:.1e} at most" if model.violation else exactly


def _search(model: Equations) -> Iterator[tuple[str, str]]:
    if np.isfinite(model.gap):
        yield (
            "optimality gap",
            f"{model.gap:.1e}: other coefficients within the radius explain at most this share more",
        )
    if np.isfinite(model.radius):
        yield "radius", f"{model.radius:.4g}"
    if model.result is not None:
        run = model.result
        yield "solver", f"{run.status}, {counted(run.iterations, 'iteration')}, {run.seconds:.2f} s"


def determination(value: float) -> str:
    """R² as text, with enough digits to differ from 1."""
    if not np.isfinite(value) or value <= 0:
        return f"{value:.2g}"
    # 0.9997 and 0.99997 leave shares unexplained that differ by a factor of ten; both would round to 1.00.
    digits = int(np.clip(1 - np.floor(np.log10(max(1 - value, 1e-9))), 2, 6))
    return f"{value:.{digits}f}"


_CELL = "text-align: left; padding: 0.15em 0.4em; border: none; background: none"


def as_html(model: Equations, known: Sequence[tuple[str, str]]) -> str:
    """The model as HTML, without scripts or anything to load; `known` are the facts to show.

    Equations are plain letters and not MathML, because untrusted notebooks, and pages that show notebooks,
    remove the tags of MathML and would leave x2 of x² and "dharedt" of a rate.
    """
    rows = [_equation(line, partial=model.formulation.for_fields) for line in model.to_text().splitlines()]
    rows += [("where", _letters(line)) for line in definitions(model)]
    known = known if model.warnings else [*known, ("warnings", "none")]
    cells = [(f"<b>{escape(name)}</b>", escape(text)) for name, text in known]
    warnings, notes = _messages(model)
    lists = _listed("Warnings", warnings) + _listed("Notes", notes)
    return f"<div>{_table(rows, '115%')}{_table(cells, '90%')}{lists}</div>"


def _equation(line: str, *, partial: bool) -> tuple[str, str]:
    """Both sides of an equation as HTML; a long right-hand side is cut off."""
    left, _, right = line.partition(" = ")
    summands = re.split(r"(?= [+-] )", right.strip())
    more = f" … ({len(summands)} terms)" if len(summands) > _WORDS.summands else ""
    sides = _letters(left.strip()), _letters("".join(summands[: _WORDS.summands])) + more
    # Derivatives of fields, and increments of random forces, have the name of an axis or a state below them.
    lower = r"_(\w+)" if partial else r"(?<=\bdW)_(\w+)"
    left, right = (re.sub(lower, r"<sub>\1</sub>", side) for side in sides)
    return f"{left} =", right


def _letters(text: str) -> str:
    """A formula in letters: raised exponents, lowered numbers, Greek letters, primes and minus signs."""
    powers = re.sub(r"(?<=[\d)])e([+-]?\d+)", r"·10^\1", text)
    return escape(pretty(powers).replace("'", "′").replace("-", "−"), quote=False)


def _listed(head: str, sentences: Sequence[str]) -> str:
    typed = [re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(sentence)) for sentence in sentences]
    items = "".join(f"<li>{sentence}</li>" for sentence in typed)
    return f"<details open><summary>{head}</summary><ul>{items}</ul></details>" if items else ""


def models_as_html(
    models: Sequence[Equations], scores: Sequence[float], chosen: int | None, head: str
) -> str:
    """Compared models as an HTML table: score, number of terms, and difference from the chosen model."""
    reference = models[chosen or 0] if models else None
    rows: list[tuple[str, ...]] = [
        (f"<b>{escape(head)}</b>", "<b>terms</b>", "<b>compared with the chosen model</b>")
    ]
    for k, (model, score) in enumerate(zip(models, scores, strict=True)):
        if k == (chosen or 0):
            rows.append((f"<b>{score:.4g}</b>", f"<b>{model.size}</b>", "<b>chosen</b>"))
        elif k < 3 * _WORDS.most:  # nobody reads a table as long as a page
            change = difference(reference, model) or "the same terms"
            rows.append((f"{score:.4g}", str(model.size), _letters(change)))
    left_out = len(models) + 1 - len(rows)
    if left_out:
        rows.append((f"… {left_out} more", "", ""))
    return _table(rows, "100%")


def difference(before: Equations | None, after: Equations, most: int = 4, *, typed: bool = True) -> str:
    """The terms that one model has and another has not: "+ x^2 in x', − x in y'"; x² in x′ if not typed."""
    if before is None:
        return ""
    changes = [
        *(("+", i, j) for i, j in np.argwhere(after.support & ~before.support)),
        *(("−", i, j) for i, j in np.argwhere(before.support & ~after.support)),
    ]
    labels = after.labels if typed else map(pretty, after.labels)
    names = [_in_sentence(term, label) for term, label in zip(after.terms, labels, strict=True)]
    sides = equation_labels(after, typed=typed)
    listed = [f"{sign} {names[i]} in {sides[j]}" for sign, i, j in changes[:most]]
    return ", ".join(listed) + (f", … ({len(changes)} in all)" if len(changes) > most else "")


def _table(rows: Sequence[Sequence[str]], size: str) -> str:
    """Cells as an HTML table with a style of its own: notebooks shrink tables and shade every second row."""
    lines = (
        '<tr style="background: none">'
        + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in row)
        + "</tr>"
        for row in rows
    )
    return f'<table style="font-size: {size}; margin: 0.3em 0">{"".join(lines)}</table>'
