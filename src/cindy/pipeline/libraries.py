"""A library for each equation, and equations that are known.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cindy._check import did_you_mean, short
from cindy.basis import RUN, TIME, Basis, Custom, Sum
from cindy.data import Trajectory
from cindy.errors import ConstraintError, DataError
from cindy.pipeline.shortcuts import basis_from_text
from cindy.problem import Constraint, Names, Row

__all__ = ["Equations", "check_agreement"]

_POINTS = 16
"""Random points at which a summand of a formula is compared with the terms of the libraries."""


@dataclass(frozen=True)
class Equation(Constraint):
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

    shared: the basis of all equations, if there is one; own: otherwise the library of each state
    known: the formula of each equation that is known
    """

    shared: Basis | str | None
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
            raise DataError("identify: `basis` holds no library. Give one for each state.")
        return cls(None, own, dict(known or {}))

    @property
    def union(self) -> Any:
        """The terms of all libraries, before formulas add theirs."""
        if self.shared is not None or not self.own:
            return self.shared
        libraries: list[Basis] = []
        for library in self.own.values():
            if library not in libraries:
                libraries.append(library)
        return libraries[0] if len(libraries) == 1 else Sum(tuple(libraries))

    def refuse_fields(self) -> None:
        """Refuse libraries and known equations for fields, whose equations share one library."""
        if self.own or self.known:
            raise DataError(
                "identify: a library for each equation and known equations are for trajectories, and these "
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
            laws.append(Equation(state, f"{state}' = {formula} is known", known=tuple(weights.items())))
        libraries = dict(self.own)
        if extra:
            # Terms of a formula are meant for its equation, and must be no candidates in the others.
            libraries |= {state: basis for state in like.states if state not in libraries}
            basis = basis + Custom(extra)
        for state, library in libraries.items():
            if state not in self.known:
                text = f"the equation of {state} has terms of {library!r}"
                laws.append(Equation(state, text, library, like.inputs))
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
                f"identify: `basis` has no library for {', '.join(missing)}. Give one for each state, "
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
    points = np.random.default_rng(0).uniform(0.5, 1.5, (_POINTS, len(timed)))
    try:
        constant = float(text)
    except ValueError:
        constant = None
    if constant is None:
        value = Custom({text: text}).evaluate(points, timed)[:, 0]
    else:
        value = np.full(_POINTS, constant)
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
            f"identify: the known equation of {state} has the constant {text}, but no library has the term "
            '"1". Add a basis that has it, such as Polynomial(1).'
        )
    return None
