"""The options of `cindy fit`, from the command line and from cindy.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from cindy._check import did_you_mean
from cindy.cli import laws, texts
from cindy.errors import DataError

__all__ = ["FitSettings", "read_settings"]


@dataclass(frozen=True)
class FitSettings:
    """Everything `cindy fit` may be told, as texts and numbers; None where nothing was said."""

    data: list[str] = field(default_factory=list)
    time: str | None = None
    dt: float | None = None
    by: str | None = None
    states: str | None = None
    inputs: str | None = None
    hold: str | None = None
    periodic: str | None = None
    basis: str = "poly:2"
    term: list[str] = field(default_factory=list)
    parameter: list[str] = field(default_factory=list)
    formulation: str = "integral"
    order: int | None = None
    window: int | None = None
    initial: str | None = None
    selection: str | None = None
    correction: str | None = None
    weights: str | None = None
    radius: float | None = None
    tol: float | None = None
    seed: int | None = None
    passes: int | None = None
    conserve: list[str] = field(default_factory=list)
    exchange: list[str] = field(default_factory=list)
    fix: list[str] = field(default_factory=list)
    bound: list[str] = field(default_factory=list)
    tie: list[str] = field(default_factory=list)
    linear: list[str] = field(default_factory=list)
    energy: list[str] = field(default_factory=list)
    out: str | None = None
    report: str | None = None
    figures: str | None = None

    @property
    def constraint_texts(self) -> dict[str, list[str]]:
        """The constraints as they were typed, by kind."""
        return {kind: getattr(self, kind) for kind in laws.KINDS}

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `cindy.identify`; what was not said keeps its default there."""
        form = texts.formulation(self.formulation, order=self.order, window=self.window, initial=self.initial)
        given: dict[str, Any] = {
            "formulation": form,
            "constraints": laws.constraints(self.constraint_texts),
        }
        for name in ("selection", "correction", "weights"):
            text = getattr(self, name)
            if text is not None:
                given[name] = getattr(texts, name)(text)
        for name in ("radius", "tol", "seed", "passes"):
            if getattr(self, name) is not None:
                given[name] = getattr(self, name)
        return given

    def terms(self) -> dict[str, str]:
        """The further terms: "name=formula", or a formula that is its own name."""
        found = {}
        for text in self.term:
            name, equals, formula = text.partition("=")
            found[name.strip()] = (formula if equals else name).strip()
        return found

    def parameters(self) -> dict[str, tuple[float, float] | float]:
        """The numbers to be found inside terms: "K=0.01:10", a range, or "K=0.5", about where it is."""
        found: dict[str, tuple[float, float] | float] = {}
        for text in self.parameter:
            where = f'--parameter "{text}"'
            name, equals, ends = (part.strip() for part in text.partition("="))
            if not (name and equals and ends):
                raise DataError(f'{where}: expected a name and a range, as in "K=0.01:10".')
            values = [texts.number(end, where) for end in ends.split(":")]
            if len(values) > 2:
                raise DataError(f'{where}: a range has two ends, as in "K=0.01:10".')
            found[name] = values[0] if len(values) == 1 else (values[0], values[1])
        return found


def read_settings(file: Path | None, typed: Mapping[str, Any]) -> FitSettings:
    """The settings of a file, overruled by what was typed.

    typed: by name; None and an empty list count as not typed
    """
    known = {f.name: f for f in fields(FitSettings)}
    said = {} if file is None else _from_toml(file, known)
    said.update({name: value for name, value in typed.items() if value not in (None, [], ())})
    return FitSettings(**said)


def _from_toml(file: Path, known: Mapping[str, Any]) -> dict[str, Any]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"Cannot read the settings in {file}: {error}.") from error
    # The options stand at the top, or under [fit] where a file has other tables too.
    options = table.get("fit", table)
    if not isinstance(options, dict):
        raise DataError(f"{file}: [fit] must be a table of options.")
    found: dict[str, Any] = {}
    for key, value in options.items():
        name = key.replace("-", "_")
        if name not in known:
            raise DataError(f'{file}: there is no option "{key}". {did_you_mean(name, known)}')
        found[name] = _typed(value, str(known[name].type), f"{file}: {key}")
    return found


def _typed(value: Any, kind: str, where: str) -> Any:
    """The value as its option wants it: a text, a number, or a list of texts (one may stand alone)."""
    if kind.startswith("list"):
        many = [value] if isinstance(value, str) else value
        if isinstance(many, list) and all(isinstance(v, str) for v in many):
            return many
        raise DataError(f"{where} must be a text or a list of texts, but is {value!r}.")
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    right = {
        "int": isinstance(value, int) and number,
        "float": number,
        "str": isinstance(value, str),
    }
    wanted = kind.split(" ")[0]
    if not right[wanted]:
        name = {"int": "a whole number", "float": "a number", "str": "a text"}[wanted]
        raise DataError(f"{where} must be {name}, but is {value!r}.")
    return value
