"""A model as a notebook shows it: equations that the browser typesets, and what to beware of."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from cindy.model.equations import Equations

__all__ = ["shown"]

_MOST = 40
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
            for k, i in enumerate(present[:_MOST])
        ]
        right = " ".join(sides) or "<math><mn>0</mn></math>"
        more = f" … ({len(present)} terms)" if len(present) > _MOST else ""
        form = model.formulation
        left = left_side(state, model.order, discrete=form.discrete, partial=form.for_fields)
        style = "text-align: left; padding: 0.15em 0.4em; border: none"
        rows.append(f'<tr><td style="{style}">{left}</td><td style="{style}">{right}{more}</td></tr>')
    told = "; ".join(f"{escape(name)}: {escape(text)}" for name, text in known)
    warned = "".join(f"<li>{escape(sentence)}</li>" for sentence in warnings)
    beware = f"<details open><summary>Beware</summary><ul>{warned}</ul></details>" if warned else ""
    return f"<div><table>{''.join(rows)}</table><p><small>{told}</small></p>{beware}</div>"
