"""What users give in short: texts in the place of objects, a library for each equation, known equations.

Bases, formulations, selections, corrections and weights have short texts, as on the command line.

All equations share one basis, the union of their libraries. Constraints keep terms out of single equations:

1. `basis={"x": A, "y": B}`: the coefficients of terms outside A are zero in the equation of x.
2. `known={"q": "v"}`: the formula is split into the summands of its sum. A summand that is a multiple of a
   term of the libraries is that term; any other is a term of its own. Their coefficients are fixed, and all
   others of that equation are zero.

Where states are fitted, coefficients that are zero are no candidates (`Request.narrowed`), so that an
equation with a small library costs no more than a small basis.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, mul
from typing import Any, NamedTuple, TypeVar

import numpy as np

from cindy._check import did_you_mean, instance, short
from cindy.basis import RUN, TIME, Basis, Custom, Derivatives, Fourier, Polynomial, Sum, Trigonometric
from cindy.data import Trajectory
from cindy.errors import ConstraintError, DataError
from cindy.formulation import Differential, Discrete, Formulation, Integral, Weak
from cindy.problem import Adaptive, Constraint, Names, Row, Uniform, Weights
from cindy.selection import BIC, CrossValidation, Discrepancy, Gap, Selection, Significance, Terms
from cindy.solver import Blended, Correction, Direct, FullyCorrective, Plain

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
    """A formulation from a text: integral, differential, discrete or weak, each with its usual settings;
    "integral:2" for x'' = F(x), "integral:2:rates" for x'' = F(x, x').

    >>> formulation_from_text("integral:2") == Integral(order=2)
    True
    """
    kind, _, order = (part.strip() for part in text.partition(":"))
    order, _, option = (part.strip() for part in order.partition(":"))
    name = choose(kind, {name: name for name in ("integral", "differential", "discrete", "weak")}, where)
    if option not in ("", "rates") or (option and name != "integral"):
        raise DataError(
            f'{where}: after the order of "integral" may come "rates", as in "integral:2:rates", '
            f'but "{text.strip()}" has "{option}".'
        )
    if name in ("discrete", "weak"):
        if order:
            raise DataError(f'{where}: "{name}" has no order.')
        return Discrete() if name == "discrete" else Weak()
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


class Objects(NamedTuple):
    """The arguments of `identify` that users may give as texts, as objects."""

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
    ) -> Objects:
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


@dataclass(frozen=True)
class _Equation(Constraint):
    """What is said of the equation of a state: the terms that it may have, or all of its coefficients.

    text: how the user said it; library: the basis of the terms that are free; None: none is
    inputs: those of the data; of time and run, which are added later, only terms that name them depend
    known: coefficients by term; those of all other terms are zero
    """

    state: str
    text: str
    library: Basis | None = None
    inputs: tuple[str, ...] = ()
    known: tuple[tuple[str, float], ...] = ()

    def rows(self, names: Names) -> Iterator[Row]:
        added = tuple(name for name in names.inputs if name not in self.inputs)
        library = self.library and self.library.apart_from(added)
        free = set(library.names(names.variables)) if library else set[str]()
        j, width, known = names.state(self.state), len(names.states), dict(self.known)
        for i, term in enumerate(names.terms):
            if term not in free:
                value = known.get(term, 0.0)
                yield Row({i * width + j: 1.0}, value, value)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, eq=False)
class Equations:
    """The libraries and known equations that a user gives.

    union: the terms of all libraries, before formulas add theirs; own: the library of each state, if each has
        one
    known: the formula of each equation that is known
    """

    union: Any
    own: Mapping[str, Basis]
    known: Mapping[str, str]

    @classmethod
    def of(cls, basis: Any, known: Any) -> Equations:
        """From the arguments of `identify`."""
        if known is not None and not isinstance(known, Mapping):
            raise DataError(
                f'identify: `known` must be formulas by state, such as {{"q": "v"}}, but is {short(known)}.'
            )
        for state, formula in (known or {}).items():
            if not isinstance(formula, str):
                raise DataError(
                    f"identify: the known equation of {state!r} must be a formula in text, "
                    f"but is {short(formula)}."
                )
        if not isinstance(basis, Mapping):
            return cls(basis, {}, dict(known or {}))
        own = {state: _library(state, part) for state, part in basis.items()}
        if not own:
            raise DataError("identify: `basis` is empty. Give a basis for each state.")
        libraries: list[Basis] = []
        for library in own.values():
            if library not in libraries:
                libraries.append(library)
        union = libraries[0] if len(libraries) == 1 else Sum(tuple(libraries))
        return cls(union, own, dict(known or {}))

    def refuse_fields(self) -> None:
        """Refuse libraries and known equations for fields, whose equations share one library."""
        if self.own or self.known:
            raise DataError(
                "identify: a basis for each equation and known equations are for trajectories, and these "
                "data are fields. Give one basis, and constraints such as fix(state, term, value)."
            )

    def resolved(
        self, basis: Basis, like: Trajectory, variables: tuple[str, ...]
    ) -> tuple[Basis, tuple[Constraint, ...]]:
        """The basis with the terms of known formulas, and a constraint for every equation.

        variables: states, rates where terms may hold them, and inputs
        """
        if not self.own and not self.known:
            return basis, ()
        self._check(like.states)
        laws: list[Constraint] = []
        extra: dict[str, str] = {}
        for state, formula in self.known.items():
            weights: dict[str, float] = {}
            for sign, text in _summands(formula, state):
                match = _multiple_of_term(text, basis, variables, state)
                if match is None:
                    extra[text] = text
                term, factor = match or (text, 1.0)
                # A formula may name a term twice, as v + v does.
                weights[term] = weights.get(term, 0.0) + sign * factor
            laws.append(_Equation(state, f"{state}' = {formula} is known", known=tuple(weights.items())))
        libraries = dict(self.own)
        if extra:
            # Terms of a formula are meant for its equation, and must be no candidates in the others.
            libraries |= {state: basis for state in like.states if state not in libraries}
            basis = basis + Custom(extra)
        for state, library in libraries.items():
            if state not in self.known:
                text = f"the equation of {state} has terms of {library!r}"
                laws.append(_Equation(state, text, library, like.inputs))
        return basis, tuple(laws)

    def _check(self, states: tuple[str, ...]) -> None:
        """Refuse names that are no states, and states without a library."""
        for what, given in (("basis", self.own), ("known", self.known)):
            for state in given:
                if state not in states:
                    raise DataError(
                        f'identify: `{what}` names the state "{state}", which the data do not have. '
                        + did_you_mean(str(state), states)
                    )
        missing = [s for s in states if self.own and s not in self.own and s not in self.known]
        if missing:
            raise DataError(
                f"identify: `basis` has no terms for {', '.join(missing)}. Give a basis for each state, "
                "or its equation in `known`."
            )


def check_agreement(laws: Sequence[Constraint], constraints: Sequence[Constraint], names: Names) -> None:
    """Raise ConstraintError where a constraint of the user contradicts a library or a known equation."""
    fixed = {place: (row.lower, law) for law in laws for row in law.rows(names) for place in row.weights}
    for constraint in constraints if fixed else ():
        for row in constraint.rows(names):
            if not all(place in fixed for place in row.weights):
                continue
            value = sum(weight * fixed[place][0] for place, weight in row.weights.items())
            if not row.lower - 1e-12 <= value <= row.upper + 1e-12:
                other = fixed[next(iter(row.weights))][1]
                raise ConstraintError(
                    f"identify: the constraint {constraint} contradicts what else was said: {other}. "
                    "Leave one of them out."
                )


def _library(state: str, library: Any) -> Basis:
    """The library of a state, as a basis."""
    if isinstance(library, str):
        return basis_from_text(library, where=f"identify: the library of {state}")
    if not isinstance(library, Basis):
        raise DataError(
            f'identify: the library of "{state}" must be a basis such as Polynomial(2), '
            f"but is {short(library)}."
        )
    return library


def _summands(formula: str, state: str) -> list[tuple[int, str]]:
    """The summands of a formula, each with its sign before it."""
    try:
        # Python does not take x', the name of a rate, for a name.
        tree = ast.parse(
            formula.strip().replace("^", "**").replace("'", "\N{MODIFIER LETTER PRIME}"), mode="eval"
        )
    except SyntaxError as error:
        raise DataError(
            f'identify: the known equation of {state} must be a formula such as "v - x*y", '
            f"but {formula[:80]!r} cannot be read ({error.msg})."
        ) from error

    def parts(node: ast.expr, sign: int) -> Iterator[tuple[int, str]]:
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            yield from parts(node.left, sign)
            yield from parts(node.right, sign if isinstance(node.op, ast.Add) else -sign)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
            yield from parts(node.operand, sign if isinstance(node.op, ast.UAdd) else -sign)
        else:
            yield sign, ast.unparse(node).replace("\N{MODIFIER LETTER PRIME}", "'")

    return list(parts(tree.body, 1))


def _multiple_of_term(
    text: str, basis: Basis, variables: tuple[str, ...], state: str
) -> tuple[str, float] | None:
    """The term that a summand is a multiple of, and the factor; None where there is none."""
    timed = variables if TIME in variables else (*variables, TIME)
    # Terms are compared by value, since x*y, y*x and "x y" are one term, at positive points, where logarithms
    # and roots are defined.
    points = np.random.default_rng(0).uniform(0.5, 1.5, (16, len(timed)))
    try:
        constant = float(text)
    except ValueError:
        constant = None
    if constant is None:
        value = Custom({text: text}).evaluate(points, timed)[:, 0]
    else:
        value = np.full(len(points), constant)
    # Terms of single runs are not evaluated, as the runs are not known here.
    if not basis.asks_for(RUN):
        inside = timed if basis.asks_for(TIME) else variables
        columns = basis.evaluate(points[:, : len(inside)], inside)
        for name, column in zip(basis.names(inside), columns.T, strict=True):
            ratio = value / np.where(column == 0, np.nan, column)
            if np.isfinite(ratio).all() and np.ptp(ratio) <= 1e-9 * np.abs(ratio).max():
                return name, float(f"{ratio.mean():.12g}")
    if constant is not None:
        raise DataError(
            f"identify: the known equation of {state} has the constant {text}, but no basis has the term "
            '"1". Add a basis that has it, such as Polynomial(1).'
        )
    return None
