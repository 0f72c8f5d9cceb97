"""A fitted model of pysindy as one of ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pysindy
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from cindy._types import Floats
from cindy.errors import DataError
from cindy.formulation import Differential, Discrete
from cindy.model import Model
from cindy.pysindy.libraries import basis_of, terms_of
from cindy.pysindy.optimizer import ConditionalGradient

__all__ = ["from_pysindy"]


def from_pysindy(model: Any) -> Model:
    """A fitted `pysindy.SINDy` or `DiscreteSINDy` as a `Model`: to simulate, export, save.

    Coefficients, names and inputs are taken over, a feature that stands in the library twice as one term.
    Errors, gap and violation are those of `ConditionalGradient`, and unknown for other optimizers.
    """
    if not isinstance(model, (pysindy.SINDy, pysindy.DiscreteSINDy)):
        raise DataError(f"from_pysindy: expected a fitted pysindy.SINDy or DiscreteSINDy, but got {model!r}.")
    check_is_fitted(model)
    theirs = np.asarray(model.coefficients(), dtype=np.float64)
    names = tuple(model.feature_names)
    states = names[: len(names) - model.n_control_features_]
    if len(theirs) != len(states):
        raise DataError(
            f"from_pysindy: the model has {len(theirs)} equations for {len(states)} states, so its "
            "equations are not those of the states. Implicit models cannot be taken over."
        )
    terms = terms_of(model.feature_library, names)
    if len(terms) != theirs.shape[1]:
        raise DataError(
            f"from_pysindy: the library has {len(terms)} features, but the coefficients {theirs.shape[1]}."
        )
    basis = basis_of(model.feature_library, names)
    place = {term: i for i, term in enumerate(basis.terms(names))}
    rows = np.array([place[term] for term in terms], dtype=np.intp)
    optimizer = model.optimizer
    ours = isinstance(optimizer, ConditionalGradient)
    return Model(
        _gathered(theirs, rows, len(place)),
        basis,
        states,
        inputs=names[len(states) :],
        coef_error=_errors(optimizer, rows, len(place))
        if ours
        else np.full((len(place), len(states)), np.nan),
        formulation=Discrete() if isinstance(model, pysindy.DiscreteSINDy) else Differential(),
        gap=optimizer.gap_ if ours else np.nan,
        radius=optimizer.radius_ if ours else np.nan,
        violation=optimizer.violation_ if ours else 0.0,
        result=optimizer.result_ if ours else None,
        constraints=tuple(optimizer.constraints_) if ours else (),
        settings={"optimizer": " ".join(repr(optimizer).split())},
    )


def _gathered(values: Floats, rows: NDArray[np.intp], terms: int) -> Floats:
    """(targets, features) as (terms, targets), features of the same term added up."""
    table = np.zeros((terms, len(values)))
    np.add.at(table, rows, values.T)
    return table


def _errors(optimizer: ConditionalGradient, rows: NDArray[np.intp], terms: int) -> Floats:
    # Of a feature that stands there twice at most one is kept: the data cannot tell the two apart.
    return _gathered(optimizer.coef_error_, rows, terms)
