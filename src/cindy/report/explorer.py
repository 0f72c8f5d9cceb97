"""The explorer of the page: the numbers and the code by which it refits and simulates other models.

The page refits a support S by itself. With [R | y], the triangle of the white rows, and the equalities
A c = b among the constraints it solves

    min ‖R_S c − y‖²   subject to   A_S c = b,

as the search does at the same states, so that the coefficients agree. For that the page needs

1. the candidate coefficients on offer: those of the model, of its path and of the near models, then those
   whose columns explain most of the residuals, until there are `_MOST_COLUMNS`;
2. the triangle of their rows, in full precision;
3. the terms as JavaScript. The code of the exports writes it from numbers and places in arrays alone, so that
   no name of the user becomes part of it.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from cindy._arrays import Floats, Ints
from cindy._check import counted
from cindy.basis import TIME, Language, Plan, Term, statements
from cindy.data import Trajectory
from cindy.errors import CindyError, DataError
from cindy.export import definition
from cindy.model import Denoised, Diagnostics, Model, difference
from cindy.report.figures import Shown, lowered, plain, terms_of, typeset

_MOST_COLUMNS = 120
"""Candidate coefficients on offer: their triangle takes 80 kB of the page."""
_MOST_MODELS = 40
"""Near models and models of the path in the list of the page."""
JAVASCRIPT = Language(
    prefix="const ",
    end=";",
    module="Math.",
    absolute="abs",
    extreme="Math.",
    choice="({0} ? {1} : {2})",
    equal="({0}) === ({1})",
    unequal="({0}) !== ({1})",
)


def explorer(
    model: Model, diagnostics: Diagnostics, shown: Shown, data: Sequence[Trajectory]
) -> dict[str, Any] | None:
    """The numbers of the explorer; None without trajectories, or with too many coefficients for a page."""
    if not shown.series or not 0 < model.size <= _MOST_COLUMNS:
        return None
    blocks = _blocks(model, diagnostics)
    places = _offered(model, blocks)
    number = {int(place): k for k, place in enumerate(places)}
    rows = sorted({int(place) // len(model.states) for place in places})
    own = np.flatnonzero(model.coef)
    return {
        "columns": [divmod(int(place), len(model.states)) for place in places],
        "terms": typeset(model, rows),
        "labels": {i: model.labels[i] for i in rows},
        "names": {i: model.terms[i] for i in rows},
        "blocks": [_packed(columns, matrix, number) for columns, matrix in blocks],
        "equalities": _equalities(diagnostics, number),
        "own": [
            [number[int(k)], float(model.coef.ravel()[k]), _or_none(model.coef_error.ravel()[k])] for k in own
        ],
        "root": _root(model),
        "inclusion": plain(model.inclusion.ravel()[places], 3),
        "models": _others(model, number),
        "parameters": [
            [n, e.value, _or_none(e.error), definition(n, e.value, e.error)[0]]
            for n, e in model.parameters.items()
        ],
        "order": model.order,
        "discrete": model.formulation.discrete,
        "rates": len(model.rates),
        "clock": model.inputs.index(TIME) if TIME in model.inputs else -1,
        "held": data[0].hold == "zero",
        "span": shown.compared.span if shown.compared.window else None,
        "file": _file(model),
    }


def terms_as_code(model: Model, offered: dict[str, Any] | None) -> str:
    """JavaScript of a function (v, p, o) that writes the terms at variables v and parameters p into o.

    A term that is a Python function has no source. It is left out, and the page does not simulate models that
    have it. Empty without an explorer.
    """
    if offered is None:
        return ""
    variables = [f"v[{k}]" for k in range(len(model.variables))]
    parameters = {name: f"p[{k}]" for k, name in enumerate(model.parameters)}
    # A parameter that is in no term of the model is no unknown of it, and stands there as its number.
    parameters = {**_fixed(model.basis.terms(model.variables)), **parameters}
    terms, writable = terms_of(model), []

    def code(places: Sequence[int]) -> list[str]:
        plan, outputs = Plan.of([terms[i] for i in places], model.variables), [f"o[{i}]" for i in places]
        return statements(plan, np.eye(len(places)), JAVASCRIPT, variables, outputs, parameters=parameters)

    # Step 3. A term without source raises an error, and is found by writing each of them alone.
    for i in offered["terms"]:
        try:
            code([i])
            writable.append(i)
        except DataError:
            continue
    return "const cindyTerms = (v, p, o) => {\n" + "\n".join(code(writable)) + "\n};"


def _fixed(terms: Sequence[Term]) -> dict[str, str]:
    """The parameters inside terms, each with its value as a number of JavaScript."""
    factors = [factor for term in terms for factor in term]
    values = {name: repr(value) for factor in factors for name, value in factor.values}
    return values | (_fixed([factor.of for factor in factors]) if factors else {})


def _blocks(model: Model, diagnostics: Diagnostics) -> list[tuple[Ints, Floats]]:
    """(flat places, [design | target]) of rows with noise of size 1: one block, or one for each equation."""
    rows, count = diagnostics.rows, len(model.states)
    if isinstance(rows, Denoised):
        return [(rows.columns, np.hstack([rows.white.design, rows.white.target]))]
    blocks = []
    for j in range(count):
        own = rows.equation(j, model.coef)
        left = own.target - own.design @ model.coef[own.terms, j]
        free = max(own.rows - int(np.count_nonzero(model.coef[:, j])), 1)
        # In units of the residual of the model, so that the loss of the page is χ².
        noise = float(np.linalg.norm(left)) / np.sqrt(free) or 1.0
        blocks.append((own.terms * count + j, np.column_stack([own.design, own.target]) / noise))
    return blocks


def _offered(model: Model, blocks: Sequence[tuple[Ints, Floats]]) -> Ints:
    """Flat places of the coefficients on offer, in increasing order (step 1)."""
    flat, gain = model.coef.ravel(), np.full(model.coef.size, -1.0)
    for columns, matrix in blocks:
        design, target = matrix[:, :-1], matrix[:, -1]
        left = target - design @ flat[columns]
        length = np.maximum(np.linalg.norm(design, axis=0), 1e-300)
        # An estimate of what each term would explain, without a refit of the others.
        gain[columns] = np.square(design.T @ left / length)
    with_rows = gain >= 0
    # Models come first; the list is cut off where the page is full.
    wanted = [np.flatnonzero(candidate.coef) for candidate in (model, *model.near.models, *model.path.models)]
    order = np.concatenate([*wanted, np.argsort(-gain, kind="stable")])
    first = list(dict.fromkeys(int(place) for place in order if with_rows[place]))[:_MOST_COLUMNS]
    return np.sort(np.array(first, dtype=np.intp))


def _packed(columns: Ints, matrix: Floats, number: dict[int, int]) -> dict[str, Any]:
    """The triangle of the columns on offer and the target, row by row, as base64 of float64 (step 2)."""
    offered = [k for k, place in enumerate(columns) if int(place) in number]
    # The triangle is all that least squares on any of these columns needs.
    factor = np.linalg.qr(matrix[:, [*offered, matrix.shape[1] - 1]], mode="r")
    upper = np.concatenate([row[k:] for k, row in enumerate(factor)])
    return {
        "columns": [number[int(columns[k])] for k in offered],
        "rows": len(factor),
        "triangle": base64.b64encode(upper.astype("<f8").tobytes()).decode(),
    }


def _equalities(diagnostics: Diagnostics, number: dict[int, int]) -> list[list[Any]]:
    """[[[column, weight], …], goal] for every equality among the constraints."""
    rows = diagnostics.rows
    if not isinstance(rows, Denoised) or rows.constraints is None or not len(rows.constraints):
        return []
    equal = rows.constraints.equalities
    equalities = []
    for k, goal in enumerate(equal.goal):
        row = csr_array(equal.matrix[[k]])
        weights = zip(rows.columns[row.indices].tolist(), row.data.tolist(), strict=True)
        equalities.append([[[number[p], w] for p, w in weights if p in number], float(goal)])
    return [equality for equality in equalities if equality[0]]


def _others(model: Model, number: dict[int, int]) -> list[dict[str, Any]]:
    """Near models and models of the path, if all of their coefficients are on offer."""
    near = [
        (f"near, worse by {score:.1f}: {difference(model, other, typed=False)}", k, other)
        for k, (other, score) in enumerate(zip(model.near.models, model.near.scores, strict=True))
    ]
    path = [(f"path, {counted(other.size, 'term')}", None, other) for other in model.path.models]
    chosen, models = np.flatnonzero(model.coef).tolist(), []
    for name, k, other in [*near, *path]:
        places = np.flatnonzero(other.coef).tolist()
        if set(places) <= set(number) and places != chosen:
            models.append({"name": name, "near": k, "places": [number[place] for place in places]})
    return models[:_MOST_MODELS]


def near_models(model: Model, offered: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Near models: how much worse they are, what differs, and their index in the explorer."""
    index = {offer["near"]: k for k, offer in enumerate((offered or {"models": []})["models"])}
    rows = []
    for k, (other, score) in enumerate(zip(model.near, model.near.scores, strict=True)):
        changes = difference(model, other, most=6, typed=False)
        if changes:
            rows.append({"worse": f"{score:.1f}", "changes": lowered(model, changes), "number": index.get(k)})
    return rows[:8]


def _root(model: Model) -> list[list[float | None]] | None:
    """A root of the covariance of coefficients and then parameters; None if it is unknown."""
    if model.covariance is None or not np.isfinite(model.covariance).all():
        return None
    # Not Cholesky's factor, which fails where a constraint makes the covariance singular.
    values, vectors = np.linalg.eigh(model.covariance)
    return [plain(row, 8) for row in vectors * np.sqrt(np.maximum(values, 0.0))]


def _file(model: Model) -> dict[str, Any] | None:
    """The model as a file whose coefficients the page replaces; None if it cannot be saved."""
    try:
        return replace(model.with_coef(model.coef), findings=()).to_dict()
    except CindyError:
        return None


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
