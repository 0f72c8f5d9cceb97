"""Read-outs: sensors that measure combinations of states, y = H x with H known.

1. The formulas of `observe` are read as linear combinations of states: H has a column for each state, and a
   row for each column of the data. A column without a formula is a state itself.
2. Where H determines all states, x = H⁺ y is worked out sample by sample; a state is missing where a read-out
   that it needs is.
3. Otherwise nothing here can tell the states apart, and that is said.

The noise of states that share a read-out is correlated. Estimates stay consistent, but errors take the noise
of the states for independent; a finding says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from cindy._check import did_you_mean, short
from cindy._types import Floats
from cindy.basis import Custom
from cindy.data import Trajectory, as_source
from cindy.errors import DataError
from cindy.findings import Finding
from cindy.model import Model

__all__ = ["observed", "with_readouts"]

_NAME = re.compile(r"[^\W\d]\w*")


def observed(trajectories: Any, observe: Mapping[str, str]) -> tuple[list[Trajectory], bool]:
    """Trajectories of the states, and whether some of them were worked out from several read-outs."""
    if not isinstance(observe, Mapping) or not all(isinstance(v, str) for v in observe.values()):
        raise DataError(
            'identify: `observe` must be formulas by column, such as {"total": "S + ES"}, but is '
            f"{short(observe)}."
        )
    data = as_source(trajectories).whole
    if data is None:
        raise DataError(
            "identify: `observe` needs the data in memory, and these are loaded in parts. "
            "Read them without lazy=True."
        )
    columns = data[0].states
    for name in observe:
        if name not in columns:
            raise DataError(
                f"identify: `observe` names the column {name!r}, and the data have {', '.join(columns)}. "
                + did_you_mean(name, columns)
            )
    formulas = {name: observe.get(name, name) for name in columns}
    states = tuple(dict.fromkeys(n for text in formulas.values() for n in _NAME.findall(text)))
    matrix = np.array([_weights(name, text, states) for name, text in formulas.items()])
    rank = int(np.linalg.matrix_rank(matrix))
    if rank < len(states):
        raise DataError(
            f"identify: the {len(columns)} read-outs {', '.join(columns)} determine {rank} combination(s) of "
            f"the {len(states)} states {', '.join(states)}. Measure more of them, or leave a state that "
            "nobody measured out of the formulas and find it with hidden=1."
        )
    inverse = np.linalg.pinv(matrix) if len(columns) > len(states) else np.linalg.inv(matrix)
    inverse[np.abs(inverse) < 1e-12 * np.abs(inverse).max()] = 0.0
    shared = bool((np.count_nonzero(inverse, axis=1) > 1).any())
    return [replace(one, x=_states(one.x, inverse), states=states) for one in data], shared


def _weights(name: str, text: str, states: tuple[str, ...]) -> Floats:
    """The row of H of one read-out; an error where its formula is not linear."""
    term = Custom({name: text})
    points = np.concatenate([np.zeros((1, len(states))), np.eye(len(states))])
    probe = np.random.default_rng(0).uniform(-2.0, 2.0, (4, len(states)))
    values = np.asarray(term.evaluate(np.concatenate([points, probe]), states))[:, 0]
    weights = values[1 : len(states) + 1] - values[0]
    if abs(values[0]) > 1e-12 or not np.allclose(probe @ weights, values[len(states) + 1 :], atol=1e-9):
        raise DataError(
            f"identify: the read-out {name!r} must be a linear combination of states, but is {text!r}. "
            "Work the states out beforehand, or give terms of your own."
        )
    return np.asarray(weights)


def _states(y: Floats, inverse: Floats) -> Floats:
    """(samples, states): H⁺ y; missing where a read-out that counts is."""
    needed = (inverse != 0).T.astype(np.float64)
    missing = np.isnan(y).astype(np.float64) @ needed > 0
    return np.where(missing, np.nan, np.nan_to_num(y) @ inverse.T)


def with_readouts(model: Model, observe: Mapping[str, str], shared: bool) -> Model:
    """The model that remembers the read-outs, and says where states share their noise."""
    findings = model.findings
    if shared:
        message = (
            "States were worked out from several read-outs and share their noise; the errors of the "
            "coefficients take it for independent."
        )
        findings = (*findings, Finding("shared-readouts", message, {"observe": dict(observe)}))
    return replace(model, findings=findings, settings={**model.settings, "observe": dict(observe)})
