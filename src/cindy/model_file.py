"""Models as JSON files, readable by people and by other languages; reading executes nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cindy.basis import basis_from_dict
from cindy.errors import DataError
from cindy.formulation import formulation_from_dict
from cindy.model import Model, Path, Run
from cindy.solver import Step
from cindy.whole_file import write_text

__all__ = ["from_dict", "load", "save", "to_dict"]

Floats = NDArray[np.float64]

_FORMAT = "cindy-model"
_VERSION = 1


def save(model: Model, path: str | PathLike[str]) -> None:
    """Write the model as JSON, whole or not at all."""
    write_text(path, json.dumps(to_dict(model), indent=1, ensure_ascii=False, allow_nan=False), "the model")


def load(path: str | PathLike[str], *, functions: Mapping[str, Callable[..., Any]] | None = None) -> Model:
    """The model that `Model.save` wrote. Nothing in the file is executed.

    functions: the Python functions of a `Custom` basis by name, which a file cannot hold
    """
    file = FilePath(path)
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"Cannot read the model {file}: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is not a model file: it is not text ({error.reason}).") from error
    try:
        return from_dict(json.loads(text, parse_constant=_no_constant), functions=functions)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        said = f"the entry {error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise DataError(f"{file} is not a model file, or is damaged: {said}.") from error
    except (RecursionError, OverflowError) as error:
        raise DataError(f"{file} is not a model file: {type(error).__name__} on reading it.") from error


def to_dict(model: Model) -> dict[str, Any]:
    """The model as plain values. Coefficients stand by name, as [value, standard error]."""
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "equations": model.equations(),
        "states": list(model.states),
        "inputs": list(model.inputs),
        "basis": model.basis.to_dict(),
        "formulation": model.formulation.to_dict(),
        "coefficients": _by_name(model),
        "noise": [_number(v) for v in model.noise],
        "scale": [_number(v) for v in model.scale],
        "gap": _number(model.gap),
        "radius": _number(model.radius),
        "violation": _number(model.violation),
        "constraints": list(model.constraints),
        "warnings": list(model.warnings),
        "settings": _plain(model.settings),
        "result": None if model.result is None else _run_to_dict(model.result),
        "path": {
            "chosen": model.path.chosen,
            "scores": [_number(s) for s in model.path.scores],
            "models": [
                {"coefficients": _by_name(m), "gap": _number(m.gap), "violation": _number(m.violation)}
                for m in model.path
            ],
        },
    }


def from_dict(data: Any, *, functions: Mapping[str, Callable[..., Any]] | None = None) -> Model:
    """The model that `to_dict` described; raises `DataError`, `KeyError` or `TypeError` on anything else."""
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise DataError(f'"format" must be "{_FORMAT}"')
    if data.get("version") != _VERSION:
        raise DataError(
            f"it is of version {data.get('version')!r}, and this library reads version {_VERSION}"
        )
    states, inputs = _names(data["states"], "states"), _names(data["inputs"], "inputs")
    basis = basis_from_dict(data["basis"], functions)
    formulation = formulation_from_dict(_mapping(data["formulation"], "formulation"))
    row = {name: i for i, name in enumerate(basis.names(states + inputs))}

    def model(part: Mapping[str, Any], **more: Any) -> Model:
        coef, error = _matrices(part["coefficients"], states, row)
        return Model(
            coef,
            basis,
            states,
            inputs=inputs,
            coef_error=error,
            formulation=formulation,
            radius=_float(data["radius"], "radius"),
            gap=_float(part["gap"], "gap"),
            violation=_float(part["violation"], "violation"),
            **more,
        )

    described = _mapping(data["path"], "path")
    path = Path(
        tuple(model(_mapping(part, "path")) for part in described["models"]),
        tuple(_float(s, "scores") for s in described["scores"]),
        described["chosen"] if isinstance(described["chosen"], int) else None,
    )
    return model(
        data,
        noise=np.array([_float(v, "noise") for v in data["noise"]]),
        scale=np.array([_float(v, "scale") for v in data["scale"]]),
        constraints=_names(data["constraints"], "constraints"),
        warnings=_names(data["warnings"], "warnings"),
        settings=_mapping(data["settings"], "settings"),
        result=None if data["result"] is None else _run_from_dict(_mapping(data["result"], "result")),
        path=path,
    )


def _by_name(model: Model) -> dict[str, dict[str, list[float | str | None]]]:
    """For every state, the terms that are present: {term: [value, standard error]}."""
    return {
        state: {
            model.terms[i]: [_number(model.coef[i, j]), _number(model.coef_error[i, j])]
            for i in np.flatnonzero(model.coef[:, j])
        }
        for j, state in enumerate(model.states)
    }


def _matrices(data: Any, states: tuple[str, ...], row: Mapping[str, int]) -> tuple[Floats, Floats]:
    coef, error = np.zeros((len(row), len(states))), np.zeros((len(row), len(states)))
    by_state = _mapping(data, "coefficients")
    if set(by_state) != set(states):
        raise DataError(f"the coefficients must be those of {', '.join(states)}")
    for j, state in enumerate(states):
        for term, pair in _mapping(by_state[state], "coefficients").items():
            if term not in row:
                raise DataError(
                    f'the equation of {state} has the term "{term}", which the basis does not have'
                )
            if not isinstance(pair, list) or len(pair) != 2:
                raise DataError(f'the coefficient of "{term}" must be [value, error], but is {pair!r}')
            coef[row[term], j], error[row[term], j] = (_float(v, f'coefficient of "{term}"') for v in pair)
    return coef, error


def _run_to_dict(run: Run) -> dict[str, Any]:
    history = {name: [_number(getattr(s, name)) for s in run.history] for name in Step._fields}
    counts = {"status": str(run.status), "iterations": run.iterations, "oracle_calls": run.oracle_calls}
    numbers = {name: _number(getattr(run, name)) for name in ("gap", "objective", "seconds")}
    return {**counts, **numbers, "history": history}


def _run_from_dict(data: Mapping[str, Any]) -> Run:
    columns = _mapping(data["history"], "history")
    rows = zip(*([_float(v, "history") for v in columns[name]] for name in Step._fields), strict=True)
    history = tuple(Step(int(k), gap, value, int(atoms), s) for k, gap, value, atoms, s in rows)
    gap, objective, seconds = (_float(data[name], name) for name in ("gap", "objective", "seconds"))
    counts = (int(data["iterations"]), int(data["oracle_calls"]))
    return Run(gap, objective, str(data["status"]), *counts, seconds, history)


def _number(value: Any) -> float | str | None:
    """JSON has no NaN and no infinity: null and "inf" stand for them."""
    number = float(value)
    if math.isfinite(number):
        return number
    return None if math.isnan(number) else str(number)


def _float(value: Any, what: str) -> float:
    if value is None:
        return math.nan
    if value in ("inf", "-inf") or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return float(value)
    raise DataError(f"{what} must be a number, but is {str(value)[:40]!r}")


def _names(value: Any, what: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise DataError(f'"{what}" must be a list of texts')
    return tuple(value)


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f'"{what}" must be an object, but is {str(value)[:40]!r}')
    return value


def _plain(value: Any) -> Any:
    """Settings as JSON: numbers and texts as they are, anything else by its repr."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, (float, np.floating)):
        return _number(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, Sequence):
        return [_plain(v) for v in value]
    return repr(value)


def _no_constant(name: str) -> float:
    raise DataError(f"it holds {name}, which is not JSON")
