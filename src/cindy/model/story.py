"""A model in words: equations, how much they explain, how sure they are, what to beware of."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from html import escape

import numpy as np

from cindy.basis import variable_label
from cindy.model.equations import Equations

__all__ = ["SURE", "determination", "facts", "shown", "told"]


_WIDTH = 100
"""Of a line, in characters."""
_CLOSE = 6.0
"""Units of −2 log p: a model that is so much worse is twenty times less likely."""
SURE = 0.95
"""Inclusion below which a term is called less sure: what chance has added, in one data set of 20, is told
in 19 of 20 such cases (benchmark: honesty, closed orbit)."""
_MOST = 5
"""Terms that are named one by one."""


def told(model: Equations) -> str:
    """Everything a model knows about itself."""
    parts = ["Equations", *(f"  {line}" for line in model.equations()), "", "How sure"]
    width = max(len(name) for name, _ in facts(model))
    for name, text in facts(model):
        lines = textwrap.wrap(text, _WIDTH - width - 4) or [""]
        parts.append(f"  {name:<{width}}  {lines[0]}")
        parts += [" " * (width + 4) + line for line in lines[1:]]
    if model.warnings:
        parts += ["", "Beware"]
        for sentence in model.warnings:
            parts += textwrap.wrap(sentence, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(parts)


def facts(model: Equations) -> list[tuple[str, str]]:
    """(name, what is known), in the order in which a reader asks."""
    return [*_explained(model), *_terms(model), *_noise(model), *_laws(model), *_search(model)]


def _explained(model: Equations) -> Iterator[tuple[str, str]]:
    known = model.explained
    if "equations" in known:
        yield (
            "R² of equations",
            f"{determination(known['equations'])}: the share of the data that they explain, step by step",
        )
    if not {"equations", "solutions", "span", "through"} <= set(known):
        return
    span, solutions, through = known["span"], known["solutions"], known["through"]
    if np.isnan(solutions):
        return
    of = f" (of {known['runs']:.0f} runs out of {known['of']:.0f})" if {"runs", "of"} <= set(known) else ""
    if solutions == through:
        over = f"over up to {span:.3g} time units at a stretch"
        yield "R² of solutions", f"{determination(solutions)}, {over}{of}"
    else:
        whole = determination(through) if np.isfinite(through) else "a blow-up"
        yield (
            "R² of solutions",
            f"{determination(solutions)}, started afresh every {span:.3g} time units; "
            f"without that, {whole}{of}",
        )


def _terms(model: Equations) -> Iterator[tuple[str, str]]:
    yield "terms", f"{model.size} of {model.coef.size} possible"
    known = np.isfinite(model.inclusion)
    if known.any():
        doubtful = model.support & known & (model.inclusion < SURE)
        outside = ~model.support & known & (model.inclusion > 1 - SURE)
        for name, where in (("less sure", doubtful), ("left out", outside)):
            order = np.argwhere(where)[np.argsort(-model.inclusion[where])][:_MOST]
            shown = [_probability(model, int(i), int(j)) for i, j in order]
            more = int(where.sum()) - len(shown)
            if shown:
                yield name, ", ".join(shown) + (f" and {more} more" if more else "")
    if len(model.near) > 1:
        above = np.sort(model.near.scores)[1:]
        count = int(np.sum(above <= _CLOSE))
        if count:
            yield (
                "near",
                f"{count} other model{'s' * (count > 1)} explain the data almost as well: see model.near",
            )
        else:
            yield "near", f"no other model comes closer than {above[0]:.1f} units of −2 log p: see model.near"


def _probability(model: Equations, i: int, j: int) -> str:
    equation = variable_label(model.states[j]) + "'" * model.order
    return f"{model.labels[i]} in {equation} ({model.inclusion[i, j]:.0%})"


def _noise(model: Equations) -> Iterator[tuple[str, str]]:
    if model.denoised:
        yield "states", "fitted together with the equations"
    elif model.result is not None and not model.formulation.for_fields:
        yield (
            "states",
            "as measured, in one pass: noise inside the terms is a bias that more data do not lessen",
        )
    if np.all(np.isfinite(model.noise)):
        yield "noise", _by_state(model, model.noise) + " (standard deviation)"
    if np.any(model.noise_memory > 1.0):
        yield "noise memory", _by_state(model, model.noise_memory) + " samples (1: white)"
    if np.any(np.isfinite(model.model_error)):
        yield (
            "model error",
            _by_state(model, model.model_error) + " (per root of time: what no term explains)",
        )


def _by_state(model: Equations, values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    return ", ".join(f"{variable_label(s)} {v:.2g}" for s, v in zip(model.states, values, strict=True))


def _laws(model: Equations) -> Iterator[tuple[str, str]]:
    for text in model.constraints:
        yield "law", text
    if model.constraints:
        yield "violation", f"{model.violation:.1e} at most"


def _search(model: Equations) -> Iterator[tuple[str, str]]:
    if np.isfinite(model.gap):
        yield "gap", f"{model.gap:.3g} of the loss without a model; nothing in the region fits better by more"
    if np.isfinite(model.radius):
        yield "radius", f"{model.radius:.4g}"
    if model.result is not None:
        run = model.result
        yield "run", f"{run.status}, {run.iterations} iterations, {run.seconds:.2f} s"


def determination(value: float) -> str:
    """R² with as many digits as tell it from 1."""
    if not np.isfinite(value) or value <= 0:
        return f"{value:.2g}"
    digits = int(np.clip(1 - np.floor(np.log10(max(1 - value, 1e-9))), 2, 6))
    return f"{value:.{digits}f}"


_SUMMANDS = 40
"""Summands an equation; a notebook is no place for more."""


def shown(model: Equations, known: Sequence[tuple[str, str]], warnings: Sequence[str]) -> str:
    """HTML without scripts or anything from elsewhere."""
    from cindy.export import left_side, summand  # with `import cindy` it would cost a tenth of its time

    terms = model.basis.terms(model.variables)
    dots = any("·" in label for label in model.labels)
    rows = []
    for j, state in enumerate(model.states):
        present = np.flatnonzero(model.coef[:, j])
        sides = [
            summand(model.coef[i, j], model.coef_error[i, j], terms[i], first=k == 0, dots=dots)
            for k, i in enumerate(present[:_SUMMANDS])
        ]
        right = " ".join(sides) or "<math><mn>0</mn></math>"
        more = f" … ({len(present)} terms)" if len(present) > _SUMMANDS else ""
        form = model.formulation
        left = left_side(state, model.order, discrete=form.discrete, partial=form.for_fields)
        style = "text-align: left; padding: 0.15em 0.4em; border: none"
        rows.append(f'<tr><td style="{style}">{left}</td><td style="{style}">{right}{more}</td></tr>')
    told = "; ".join(f"{escape(name)}: {escape(text)}" for name, text in known)
    warned = "".join(f"<li>{escape(sentence)}</li>" for sentence in warnings)
    beware = f"<details open><summary>Beware</summary><ul>{warned}</ul></details>" if warned else ""
    return f"<div><table>{''.join(rows)}</table><p><small>{told}</small></p>{beware}</div>"
