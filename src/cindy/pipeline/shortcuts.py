"""Short texts for bases, formulations, selections, corrections and weights, as on the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import add, mul
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cindy._check import did_you_mean, instance, integer, positive, short
from cindy.basis import Basis, Custom, Derivatives, Fourier, Polynomial, Trigonometric
from cindy.errors import DataError
from cindy.formulation import Differential, Discrete, Formulation, Integral
from cindy.problem import Adaptive, Uniform, Weights
from cindy.selection import BIC, CrossValidation, Discrepancy, Gap, Selection, Significance, Terms
from cindy.solver import Blended, Correction, Direct, FullyCorrective, Plain

__all__ = [
    "Settings", "basis_from_text", "check_settings", "choose", "correction_from_text",
    "formulation_from_text", "name_list", "number", "selection_from_text", "weights_from_text", "whole",
]  # fmt: skip

Made = TypeVar("Made")


def number(text: str, where: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise DataError(f'{where}: "{text.strip()}" is not a number.')
    return value


def whole(text: str, where: str) -> int:
    """A whole number."""
    value = number(text, where)
    if value != int(value):
        raise DataError(f'{where}: "{text.strip()}" is not a whole number.')
    return int(value)


def name_list(text: str, where: str) -> tuple[str, ...]:
    """Names separated by commas."""
    names = tuple(part.strip() for part in text.split(","))
    if not all(names):
        raise DataError(f'{where}: "{text}" must be names separated by commas.')
    return names


def basis_from_text(
    text: str,
    terms: Mapping[str, str] | None = None,
    parameters: Mapping[str, Any] | None = None,
    *,
    where: str = "basis",
) -> Basis:
    """A basis from a text such as "poly:3", "trig:2@x,y + poly:1", "fourier:1,2 * poly:1"; * binds before +.

    terms: further terms, by name, as formulas; parameters: ranges of the unknown numbers in them

    >>> basis_from_text("poly:2 + trig:1@x")
    Polynomial(degree=2) + Trigonometric(degree=1).on('x')
    """
    # Sums of products without parentheses suffice for a command line, and need no grammar.
    parts = [_product(part, where) for part in text.split("+")] if text.strip() else []
    if terms or parameters:
        parts.append(Custom(dict(terms or {}), dict(parameters or {})))
    if not parts:
        raise DataError(f'{where}: expected a basis such as "poly:3", but got nothing.')
    return reduce(add, parts)


def _product(text: str, where: str) -> Basis:
    """A basis from the text of a product."""
    return reduce(mul, [_family(part.strip(), where) for part in text.split("*")])


def _family(text: str, where: str) -> Basis:
    """A basis of one family from a text such as "trig:2@x,y"."""
    head, restricted, variables = text.partition("@")
    kind, _, argument = head.strip().partition(":")
    place = f'{where} "{text}"'
    basis = choose(kind, _FAMILIES, place)(argument.strip(), place)
    return basis.on(*name_list(variables, place)) if restricted else basis


def _polynomial(argument: str, where: str) -> Basis:
    degree, _, option = argument.partition(":")
    if option not in ("", "nobias", "nointeraction"):
        raise DataError(f'{where}: after the degree may come "nobias" or "nointeraction", not "{option}".')
    return Polynomial(
        whole(degree or "2", where), bias=option != "nobias", interaction=option != "nointeraction"
    )


def _degree_and_order(argument: str, where: str) -> tuple[int, int]:
    degree, _, order = (argument or "3,4").partition(",")
    return whole(degree, where), whole(order or "2", where)


_FAMILIES: dict[str, Callable[[str, str], Basis]] = {
    "poly": _polynomial,
    "trig": lambda argument, where: Trigonometric(whole(argument or "1", where)),
    "pde": lambda argument, where: Derivatives(*_degree_and_order(argument, where)),
    "fourier": lambda argument, where: Fourier([number(f, where) for f in (argument or "1").split(",")]),
}


def formulation_from_text(text: str, *, where: str = "formulation") -> Formulation:
    """A formulation from a text: integral, differential or discrete, each with its usual settings;
    "integral:2" for x'' = F(x), "integral:2:rates" for x'' = F(x, x').

    >>> formulation_from_text("integral:2") == Integral(order=2)
    True
    """
    kind, _, order = (part.strip() for part in text.partition(":"))
    order, _, option = (part.strip() for part in order.partition(":"))
    name = choose(kind, {name: name for name in ("integral", "differential", "discrete")}, where)
    if option not in ("", "rates") or (option and name != "integral"):
        raise DataError(
            f'{where}: after the order of "integral" may come "rates", as in "integral:2:rates", '
            f'but "{text.strip()}" has "{option}".'
        )
    if name == "discrete":
        if order:
            raise DataError(f'{where}: "discrete" has no order.')
        return Discrete()
    degree = whole(order or "1", where)
    if degree not in (1, 2):
        raise DataError(f"{where}: the order must be 1 or 2, but is {degree}.")
    if name == "differential":
        return Differential(order=degree)
    return Integral(order=degree, rates=option == "rates")


def selection_from_text(text: str, *, where: str = "selection") -> Selection:
    """A rule from a text such as "significance:0.05", "cv:5", "bic", "bic:plain", "gap:1e-6", "terms:7"."""
    kind, _, argument = (part.strip() for part in text.partition(":"))
    return choose(kind, _SELECTIONS, where)(argument, where)


def _rule(
    make: Callable[..., Selection], read: Callable[[str, str], Any], example: str = ""
) -> Callable[[str, str], Selection]:
    """A rule of one number; example: a text with this number, for rules that need it."""

    def rule(argument: str, where: str) -> Selection:
        if example and not argument:
            raise DataError(f'{where}: a number must follow, as in "{example}".')
        return make(read(argument, where)) if argument else make()

    return rule


def _extended(argument: str, where: str) -> bool:
    if argument not in ("plain", "extended"):
        raise DataError(f'{where}: "bic" may be followed by ":plain" or ":extended", not ":{argument}".')
    return argument == "extended"


_SELECTIONS: dict[str, Callable[[str, str], Selection]] = {
    "significance": _rule(Significance, number),
    "cv": _rule(CrossValidation, whole),
    "gap": _rule(Gap, number, "gap:1e-6"),
    "discrepancy": _rule(Discrepancy, number),
    "bic": _rule(BIC, _extended),
    "terms": _rule(Terms, whole, "terms:7"),
}
_CORRECTIONS: dict[str, Callable[[], Correction]] = {
    "direct": Direct,
    "blended": Blended,
    "fully-corrective": FullyCorrective,
    "plain": Plain,
}
_WEIGHTS: dict[str, Callable[[], Weights]] = {"adaptive": Adaptive, "uniform": Uniform}


def correction_from_text(text: str, *, where: str = "correction") -> Correction:
    """A correction by name: direct, blended, fully-corrective, plain."""
    return choose(text, _CORRECTIONS, where)()


def weights_from_text(text: str, *, where: str = "weights") -> Weights:
    """Weights by name: adaptive or uniform."""
    return choose(text, _WEIGHTS, where)()


class Settings(NamedTuple):
    """The settings of `identify` that users may give as texts, as objects."""

    basis: Basis
    formulation: Formulation
    selection: Selection
    correction: Correction | None
    weights: Weights

    @classmethod
    def of(
        cls,
        basis: Basis | str,
        formulation: Formulation | str | None,
        selection: Selection | str | None,
        correction: Correction | str | None,
        weights: Weights | str | None,
    ) -> Settings:
        """Objects for texts, and the usual ones for None."""

        def as_object(name: str, given: Any, read: Callable[..., Any], usual: Any) -> Any:
            if isinstance(given, str):
                return read(given, where=f"identify: `{name}`")
            return usual if given is None else given

        terms = as_object("basis", basis, basis_from_text, None)
        if not isinstance(terms, Basis):
            advice = " Times and states are one argument: identify((t, x), basis)."
            raise DataError(
                f"identify: `basis` must be a basis such as Polynomial(3), but is {short(basis)}."
                + (advice if hasattr(basis, "shape") else "")
            )
        form = as_object("formulation", formulation, formulation_from_text, Integral())
        known = "Integral(), Differential(), Discrete() or, for fields, Weak()"
        instance(form, Formulation, "identify: `formulation`", known)
        return cls(
            terms,
            form,
            as_object("selection", selection, selection_from_text, Significance()),
            as_object("correction", correction, correction_from_text, None),
            as_object("weights", weights, weights_from_text, Adaptive()),
        )


def choose(name: str, known: Mapping[str, Made], where: str) -> Made:
    """The value of a name, in upper or lower case; an error that offers the nearest name otherwise."""
    key = name.strip().lower()
    if key not in known:
        raise DataError(f'{where}: there is no "{name.strip()}". {did_you_mean(key, known)}')
    return known[key]


def check_settings(
    rule: Selection,
    correction: Correction | None,
    tol: float,
    max_iter: int,
    callback: object,
    seed: int = 0,
) -> None:
    """Refuse settings of the solver and of the rule that are not valid, before any data are read."""
    if not isinstance(rule, Selection):
        raise DataError(f"solve: `selection` must be a rule such as Significance(), but is {rule!r}.")
    if correction is not None and not isinstance(correction, Correction):
        raise DataError(f"solve: `correction` must be one such as Direct(), but is {correction!r}.")
    if callback is not None and not callable(callback):
        raise DataError(f"solve: `callback` must be a function of a Step, but is {callback!r}.")
    positive(tol, "solve: `tol`")
    integer(max_iter, "solve: `max_iter`", least=1)
    integer(seed, "identify: `seed`", least=0)
