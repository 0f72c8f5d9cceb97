"""The options of `cindy fit`, declared once: for the command line, for cindy.toml and for `identify`.

Nothing heavy is imported before an option is read, so that `cindy --help` answers at once.
"""

# ruff: noqa: RUF009  (every call below makes a dataclass field)

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from cindy.errors import DataError


def _panel(name: str) -> Callable[..., Any]:
    """A function that makes fields for options in a panel of the help; `many` options may be repeated."""

    def option(text: str, default: Any = None, *, many: bool = False) -> Any:
        about = {"panel": name, "help": text}
        if many:
            return field(default_factory=list, metadata=about)
        return field(default=default, metadata=about)

    return option


_data, _terms, _physics = _panel("Data"), _panel("Equations"), _panel("Known physics")
_search, _written = _panel("Search"), _panel("Output")


@dataclass(frozen=True)
class FitSettings:
    """The options of `cindy fit` as texts and numbers; None if not given."""

    data: list[str] = field(default_factory=list)
    time: str | None = _data(
        "Column of the time, or several to join (default: the one called t, time, year or date)."
    )
    dt: float | None = _data("Time between two rows, if no column holds the time.")
    time_unit: str | None = _data(
        "Unit for dates: second, minute, hour, day, week or year (default: second)."
    )
    by: str | None = _data('Column that separates trajectories, or several, as "subject,dose".')
    states: str | None = _data('Columns of the states, as "x,y" (default: all others).')
    inputs: str | None = _data('Columns of known inputs, as "u".')
    hold: str | None = _data(
        "What inputs do between samples: zero (held), linear or band (band-limited; default: linear)."
    )
    delay: list[str] = _data('How much later than the others a column was read, as "p=0.02".', many=True)
    periodic: str | None = _data('Periodic axes of a field, as "x,y".')
    basis: str = _terms(
        '"poly:3", "pde:3,4" (degree, order), "trig:2@x,y", "fourier:1,2", joined by + and *.', "poly:2"
    )
    term: list[str] = _terms('A further term, as "decay=x*exp(-y)".', many=True)
    parameter: list[str] = _terms(
        'A number to be found in such terms, and its range: "K=0.01:10".', many=True
    )
    formulation: str = _terms(
        "integral, differential or discrete; \"integral:2:rates\" for x'' = F(x, x'); weak for fields.",
        "integral",
    )
    order: int | None = _terms("1 for x' = F, 2 for x'' = F.")
    window: int | None = _terms("Samples that share one initial state; 0: whole trajectories.")
    initial: str | None = _terms('Initial states: "free" (estimated) or "first" (the first sample).')
    hidden: str | None = _terms(
        'States that nobody measured: how many, their names as "w,v", "auto", or a first guess "w=x\' + x".'
    )
    observe: list[str] = _terms('What a column measures, as "total=S + ES".', many=True)
    known: list[str] = _physics('An equation that is known, as "q=v" for q\' = v.', many=True)
    conserve: list[str] = _physics('A conserved sum, as "S + ES + P" or "A + 2 B = 0.5".', many=True)
    exchange: list[str] = _physics('Two interchangeable states, as "x1,x2".', many=True)
    fix: list[str] = _physics('A known coefficient, as "x:y=0.5".', many=True)
    bound: list[str] = _physics('A bound, as "x:y>=0" or "0<=x:y<=3".', many=True)
    tie: list[str] = _physics('Equal or proportional coefficients, as "x:y = -1 y:x".', many=True)
    linear: list[str] = _physics('Any linear constraint, as "x:y + 2 y:x <= 3".', many=True)
    energy: list[str] = _physics(
        'States whose energy the quadratic terms preserve, as "x,y,z" or "all".', many=True
    )
    selection: str | None = _search(
        "Rule that selects the terms: significance:0.05, cv:5, bic, gap:1e-6, discrepancy or terms:7 "
        "(default: significance:0.05)."
    )
    correction: str | None = _search(
        "What the solver does after each new term: direct, blended, fully-corrective or plain "
        "(default: direct)."
    )
    weights: str | None = _search(
        "Weights of the coefficients in the l1 ball: adaptive or uniform (default: adaptive)."
    )
    radius: float | None = _search("Radius of the l1 ball, in scaled units (default: from the data).")
    tol: float | None = _search(
        "Gap at which the solver stops, relative to the loss without any term (default: 1e-6)."
    )
    seed: int | None = _search("Seed of random numbers (default: 0).")
    passes: int | None = _search(
        "1: never denoise the states; 2: always (default: denoise them unless that takes very long)."
    )
    least: str | None = _search(
        "best: return a model, with a warning, even if none is better than chance (default: significant)."
    )
    out: str | None = _written("Where to write the model (JSON).")
    report: str | None = _written("Where to write the report (HTML).")
    figures: str | None = _written("Folder for figures (PNG).")

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `cindy.identify`, without options that were not given."""
        from cindy.cli import texts
        from cindy.identification import correction_from_text, selection_from_text, weights_from_text

        form = texts.formulation(self.formulation, order=self.order, window=self.window, initial=self.initial)
        laws = [read(text) for kind, read in texts.KINDS.items() for text in getattr(self, kind)]
        given: dict[str, Any] = {"formulation": form, "constraints": laws}
        readers = {
            "selection": selection_from_text,
            "correction": correction_from_text,
            "weights": weights_from_text,
        }
        for name in (*readers, "radius", "tol", "seed", "passes", "least"):
            value = getattr(self, name)
            if value is not None:
                given[name] = readers[name](value, where=f"--{name}") if name in readers else value
        if self.observe:
            given["observe"] = dict(_pair(text, "--observe") for text in self.observe)
        if self.known:
            pairs = [_pair(text, "--known") for text in self.known]
            given["known"] = {state.removesuffix("'"): formula for state, formula in pairs}
        if self.hidden is not None:
            given["hidden"] = _hidden(self.hidden)
        return given

    def delays(self) -> dict[str, float]:
        """By how much each column was read later than the others, in units of time."""
        from cindy.identification import number

        pairs = [_pair(text, "--delay", 'a number, as in "p=0.02"') for text in self.delay]
        return {name: number(lag, "--delay") for name, lag in pairs}

    def terms(self) -> dict[str, str]:
        """Formulas of the further terms by name, from "name=formula" or a formula that is its own name."""
        terms = {}
        for text in self.term:
            name, equals, formula = text.partition("=")
            terms[name.strip()] = (formula if equals else name).strip()
        return terms

    def parameters(self) -> dict[str, tuple[float, float] | float]:
        """The unknown numbers inside terms: ranges from "K=0.01:10", first values from "K=0.5"."""
        from cindy.identification import number

        parameters: dict[str, tuple[float, float] | float] = {}
        for text in self.parameter:
            where = f'--parameter "{text}"'
            name, ends = _pair(text, "--parameter", 'a range, as in "K=0.01:10"')
            values = [number(end, where) for end in ends.split(":")]
            if len(values) > 2:
                raise DataError(f'{where}: a range has two ends, as in "K=0.01:10".')
            parameters[name] = values[0] if len(values) == 1 else (values[0], values[1])
        return parameters


def _pair(text: str, option: str, value: str = 'a formula, as in "total=S + ES"') -> tuple[str, str]:
    """The name and the value of a text such as "total=S + ES"."""
    name, equals, given = (part.strip() for part in text.partition("="))
    if not (name and equals and given):
        raise DataError(f'{option} "{text}": expected a name and {value}.')
    return name, given


def _hidden(text: str) -> Any:
    """How many states, their names, or the first values of one, as `identify` takes them."""
    if "=" in text:
        return dict([_pair(text, "--hidden")])
    names = tuple(name.strip() for name in text.split(","))
    if len(names) > 1:
        return names
    return int(text) if text.strip().isdecimal() else names[0]


def read_settings(file: Path | None, typed: Mapping[str, Any]) -> FitSettings:
    """The settings of a file, overridden by options of the command line.

    typed: the options by name; None and an empty list mean that an option was not given
    """
    given = {} if file is None else _from_toml(file)
    given.update({name: value for name, value in typed.items() if value not in (None, [], ())})
    return FitSettings(**given)


def _from_toml(file: Path) -> dict[str, Any]:
    from cindy._check import did_you_mean

    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"Cannot read the settings in {file}: {error}.") from error
    # The options are at the top level, or in the table [fit] of a file with other tables.
    options = table.get("fit", table)
    if not isinstance(options, dict):
        raise DataError(f"{file}: [fit] must be a table of options.")
    types = {option.name: str(option.type) for option in fields(FitSettings)}
    settings: dict[str, Any] = {}
    for key, value in options.items():
        name = key.replace("-", "_")
        if name not in types:
            raise DataError(f'{file}: there is no option "{key}". {did_you_mean(name, types)}')
        settings[name] = _typed(value, types[name], f"{file}: {key}")
    return settings


def _typed(value: Any, kind: str, where: str) -> Any:
    """The value, checked for the type of its option: a text, a number, or a list of texts (or one text)."""
    if kind.startswith("list"):
        many = [value] if isinstance(value, str) else value
        if isinstance(many, list) and all(isinstance(v, str) for v in many):
            return many
        raise DataError(f"{where} must be a text or a list of texts, but is {value!r}.")
    kinds: dict[str, tuple[tuple[type, ...], str]] = {
        "int": ((int,), "a whole number"),
        "float": ((int, float), "a number"),
        "str": ((str,), "a text"),
    }
    wanted, name = kinds[kind.split(" ")[0]]
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise DataError(f"{where} must be {name}, but is {value!r}.")
    return value
