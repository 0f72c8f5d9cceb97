"""Models as JSON files, readable by people and by other languages; reading executes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np

from cindy._arrays import Floats
from cindy._check import file_path, short
from cindy._files import no_constant, to_float, to_mapping, to_names
from cindy.basis import Basis
from cindy.errors import DataError
from cindy.findings import Finding
from cindy.formulation import formulation_from_dict
from cindy.model.equations import Estimate
from cindy.model.model import FORMAT, VERSION, Model, Path
from cindy.solver import Run, Step
from cindy.states import Diffusion


def load(path: str | PathLike[str], *, functions: Mapping[str, Callable[..., Any]] | None = None) -> Model:
    """The model that `Model.save` wrote. Nothing in the file is executed.

    functions: the Python functions of a `Custom` basis by name, which a file cannot hold

    >>> import tempfile
    >>> from pathlib import Path as File
    >>> from cindy.basis import Polynomial
    >>> model = Model([[0.0], [-2.0]], Polynomial(1), ("x",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(File(folder) / "model.json")
    ...     print(load(File(folder) / "model.json"))
    x' = -2 x
    """
    file = file_path(path, "load: `path`")
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"Cannot read the model {file}: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is not a model file: it is not text ({error.reason}).") from error
    except UnicodeEncodeError as error:
        raise DataError(f"Cannot read the model {short(path)}: no file can have this name.") from error
    try:
        return from_dict(json.loads(text, parse_constant=no_constant), functions=functions)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        reason = f"the entry {error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise DataError(f"{file} is not a model file, or is damaged: {reason}.") from error
    except (RecursionError, OverflowError) as error:
        raise DataError(f"{file} is not a model file: {type(error).__name__} on reading it.") from error


def from_dict(data: Any, *, functions: Mapping[str, Callable[..., Any]] | None = None) -> Model:
    """The model that `Model.to_dict` described; `DataError`, `KeyError` or `TypeError` on anything else."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise DataError(f'"format" must be "{FORMAT}"')
    if data.get("version") != VERSION:
        raise DataError(f"it is of version {data.get('version')!r}, and this library reads version {VERSION}")
    states, inputs = to_names(data["states"], "states"), to_names(data["inputs"], "inputs")
    basis = Basis.from_dict(data["basis"], functions)
    formulation = formulation_from_dict(to_mapping(data["formulation"], "formulation"))
    # Coefficients are stored by name, so that the order of the terms may differ between versions.
    row = {name: i for i, name in enumerate(basis.names(formulation.variables(states, inputs)))}

    settings = to_mapping(data["settings"], "settings")
    arrays = {name: data[name] for name in ("noise", "scale")}
    arrays |= {name: data.get(name) for name in ("noise_memory", "model_error", "covariance")}

    def model(part: Mapping[str, Any], **more: Any) -> Model:
        coef, error = _matrices(part["coefficients"], states, row)
        # Every model that was compared has numbers of its own inside its terms.
        parameters = _parameters(part.get("parameters", {}))
        return Model(
            coef,
            basis.at({name: estimate.value for name, estimate in parameters.items()})
            if parameters
            else basis,
            states,
            parameters=parameters,
            settings=settings,
            inputs=inputs,
            coef_error=error,
            formulation=formulation,
            radius=to_float(data["radius"], "radius"),
            gap=to_float(part["gap"], "gap"),
            violation=to_float(part["violation"], "violation"),
            **more,
        )

    return model(
        data,
        diffusion=_diffusion(data.get("diffusion")),
        inclusion=_inclusion(data.get("inclusion"), states, row),
        **{name: None if value is None else _numbers(value, name) for name, value in arrays.items()},
        constraints=to_names(data["constraints"], "constraints"),
        findings=_findings(data),
        denoised=bool(data.get("denoised", to_mapping(data.get("near", {}), "near").get("models"))),
        explained={
            name: to_float(value, "explained")
            for name, value in to_mapping(data.get("explained") or {}, "explained").items()
        },
        result=None if data["result"] is None else _run_from_dict(to_mapping(data["result"], "result")),
        path=_path(data, "path", model),
        near=_path(data, "near", model) if "near" in data else Path(),
    )


def _path(data: Mapping[str, Any], name: str, model: Callable[[Mapping[str, Any]], Model]) -> Path:
    """The models that were compared; model: the function from the description of one."""
    described = to_mapping(data[name], name)
    chosen = described.get("chosen")
    return Path(
        tuple(model(to_mapping(part, name)) for part in described["models"]),
        tuple(to_float(s, "scores") for s in described["scores"]),
        chosen if isinstance(chosen, int) else None,
        str(described.get("criterion", "")),
    )


def _findings(data: Mapping[str, Any]) -> tuple[Finding, ...]:
    """The findings; files from before version 0.3 hold sentences without a code."""
    if "findings" not in data:
        return tuple(Finding("uncoded", text) for text in to_names(data["warnings"], "warnings"))
    parts = [to_mapping(part, "findings") for part in data["findings"]]
    return tuple(
        Finding(part["code"], part["message"], to_mapping(part["values"], "values")) for part in parts
    )


def _numbers(value: Any, what: str) -> Floats:
    """A list of numbers, or of lists of numbers, as an array."""
    if not isinstance(value, list):
        raise DataError(f'"{what}" must be a list')
    return np.array([_numbers(v, what) if isinstance(v, list) else to_float(v, what) for v in value])


def _diffusion(data: Any) -> Diffusion | None:
    if data is None:
        return None
    part = to_mapping(data, "diffusion")
    coef, error = (_numbers(part[name], f"diffusion: {name}") for name in ("coef", "coef_error"))
    together = part.get("correlation")
    together = None if together is None else _numbers(together, "diffusion: correlation")
    terms, variables = (to_names(part[name], name) for name in ("terms", "variables"))
    return Diffusion(terms, coef, error, variables, together)


def _parameters(data: Any) -> dict[str, Estimate]:
    parameters = to_mapping(data, "parameters")
    return {name: _estimate(pair, f'the parameter "{name}"') for name, pair in parameters.items()}


def _estimate(pair: Any, what: str) -> Estimate:
    if not isinstance(pair, list) or len(pair) != 2:
        raise DataError(f"{what} must be [value, error], but is {pair!r}")
    return Estimate(*(to_float(v, what) for v in pair))


def _inclusion(data: Any, states: tuple[str, ...], row: Mapping[str, int]) -> Floats | None:
    """(terms, states) inclusion probabilities from their names; zero where the file has none."""
    if data is None:
        return None
    table = np.zeros((len(row), len(states)))
    for place, _, value in _entries(data, "inclusion", states, row):
        table[place] = to_float(value, "inclusion")
    return table


def _matrices(data: Any, states: tuple[str, ...], row: Mapping[str, int]) -> tuple[Floats, Floats]:
    """The coefficients and their standard errors, (terms, states) each, from their names."""
    coef, error = np.zeros((len(row), len(states))), np.zeros((len(row), len(states)))
    for place, term, pair in _entries(data, "coefficients", states, row):
        coef[place], error[place] = _estimate(pair, f'the coefficient of "{term}"')
    return coef, error


def _entries(
    data: Any, what: str, states: tuple[str, ...], row: Mapping[str, int]
) -> Iterator[tuple[tuple[int, int], str, Any]]:
    """(place in a table of terms and states, term, value) of what a file has by state and term."""
    by_state = to_mapping(data, what)
    if set(by_state) != set(states):
        raise DataError(f"the {what} must be those of {', '.join(states)}")
    for j, state in enumerate(states):
        for term, value in to_mapping(by_state[state], what).items():
            if term not in row:
                raise DataError(
                    f'the {what} of {state} name the term "{term}", which the basis does not have'
                )
            yield (row[term], j), term, value


def _run_from_dict(data: Mapping[str, Any]) -> Run:
    columns = to_mapping(data["history"], "history")
    # Files of earlier versions lack columns that were added later, which have defaults.
    names = [name for name in Step._fields if name in columns or name not in Step._field_defaults]
    rows = zip(*([to_float(v, "history") for v in columns[name]] for name in names), strict=True)
    steps = (dict(zip(names, row, strict=True)) for row in rows)
    history = tuple(
        Step(**{k: int(v) if k in ("iteration", "atoms") else v for k, v in step.items()}) for step in steps
    )
    gap, objective, seconds = (to_float(data[name], name) for name in ("gap", "objective", "seconds"))
    counts = (int(data["iterations"]), int(data["oracle_calls"]))
    return Run(gap, objective, str(data["status"]), *counts, seconds, history)
