"""Equations as a person reads them in a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from cindy.basis import term_label, variable_label
from cindy.export.number import format_value
from cindy.export.right_hand_sides import RightHandSides

__all__ = ["to_text"]


def to_text(
    equations: RightHandSides,
    *,
    align: bool = True,
    parameters: Mapping[str, tuple[float, float]] | None = None,
) -> str:
    """One line per state, such as "x' = -10.00(1) x + 10.00(1) y"; a name cannot break its line.

    parameters: (value, error) of numbers inside terms by name, a line each below the equations
    align: whether equality signs and first digits stand below each other
    """
    order, errors = equations.order, equations.with_errors
    mark = "[k+1]" if equations.discrete else "_" + "t" * order if equations.axes else "'" * order
    left = [_printable(variable_label(state)) + mark for state in equations.states]
    below = dict(parameters or {})
    right = [_right_hand_side(equations, j) for j in range(len(left))]
    left += [_printable(name) for name in below]
    right += [format_value(value, error if errors else None) for value, error in below.values()]
    width = max(map(len, left)) if align else 0
    signed = align and any(side.startswith("-") for side in right)
    return "\n".join(
        f"{name:<{width}} = {' ' if signed and not side.startswith('-') else ''}{side}"
        for name, side in zip(left, right, strict=True)
    )


def _right_hand_side(equations: RightHandSides, equation: int) -> str:
    pieces: list[str] = []
    for value, error, term in equations.summands(equation):
        lead = " - " if value < 0 else " + "
        if not pieces:
            lead = lead.replace("+", "").strip()
        number = format_value(abs(value), error)
        pieces.append(
            lead + (f"{number} {_printable(term_label(term, equations.variables))}" if term else number)
        )
    return "".join(pieces) or "0"


def _printable(text: str) -> str:
    """The text with line breaks and control characters written out, so that a name stays on its line."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
