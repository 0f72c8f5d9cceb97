"""pysindy's feature libraries as bases, and its constraint matrices as rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add, mul
from typing import Any, Literal

import numpy as np
from pysindy import feature_library as theirs
from pysindy.feature_library.base import BaseFeatureLibrary
from scipy.sparse import csr_array

from cindy._check import floats
from cindy.basis import Basis, Custom, Factor, Fourier, Functions, Polynomial, Term, product
from cindy.errors import ConstraintError, DataError
from cindy.least_squares import Rows
from cindy.problem import Constraint, Names, Row, at_samples

Variables = tuple[str, ...]


@dataclass(frozen=True)
class Library(Basis):
    """A feature library of pysindy as a basis: its features in their order, a repeated feature once.

    Monomials, sines and cosines become terms like those of `Polynomial` and `Fourier`: they have the same
    names, exact derivatives, and are exported. Functions of a `CustomLibrary` and libraries of the user are
    called as they are. A file keeps only a description of the library; after `import cindy.pysindy`, read it
    with `cindy.load(path, functions={description: library})`.

    >>> import pysindy
    >>> Library(pysindy.PolynomialLibrary(degree=2, interaction_only=True)).names(("x", "y"))
    ('1', 'x', 'y', 'x y')
    """

    library: Any

    def __post_init__(self) -> None:
        if not isinstance(self.library, BaseFeatureLibrary):
            raise DataError(f"Library: expected a feature library of pysindy, but got {self.library!r}.")

    def terms(self, variables: Variables) -> tuple[Term, ...]:
        return tuple(dict.fromkeys(terms_of(self.library, variables)))

    @property
    def description(self) -> str:
        """The text that a file keeps, and `load` asks for."""
        return _described(self.library)

    def to_dict(self) -> dict[str, Any]:
        return {"basis": "Library", "library": self.description}

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        description = data["library"]
        if description not in functions:
            raise DataError(
                f"basis: {description} is a feature library of pysindy, which a file cannot hold. "
                f"Pass it along: functions={{{description!r}: …}}."
            )
        return cls(functions[description])

    def __repr__(self) -> str:
        return f"Library({self.description})"


def terms_of(library: Any, variables: Variables) -> list[Term]:
    """The features of a library over the variables as terms, in its order and with repetitions."""
    if isinstance(library, theirs.PolynomialLibrary):
        monomials = _polynomial(library).terms(variables)
        products_only = library.interaction_only
        return [t for t in monomials if not products_only or all(factor.power == 1 for factor in t)]
    if isinstance(library, theirs.FourierLibrary):
        return list(_waves(library, variables))
    if isinstance(library, theirs.CustomLibrary):
        return [(factor,) if factor else () for factor in _calls(library, variables)]
    parts = _parts(library, variables)
    if parts is None:
        return [(factor,) for factor in _columns(library, variables)]
    terms: list[Term] = []
    for factors in parts:
        listed = [terms_of(part, names) for part, names in factors]
        terms += [
            product([f for term in combination for f in term], variables)
            for combination in itertools.product(*listed)
        ]
    return terms


def basis_of(library: Any, variables: Variables) -> Basis:
    """A basis of CINDy's own families that has all features of a pysindy library, and possibly more."""
    if isinstance(library, theirs.PolynomialLibrary):
        return _polynomial(library)
    if isinstance(library, theirs.FourierLibrary):
        return Fourier(library.n_frequencies)
    if isinstance(library, theirs.CustomLibrary):
        calls = [
            Custom({f.name: f.function}).on(*f.variables) if f and f.function else Polynomial(0)
            for f in _calls(library, variables)
        ]
        return reduce(add, calls)
    parts = _parts(library, variables)
    if parts is None:
        return Library(library)
    products = [[_on(part, names, variables) for part, names in factors] for factors in parts]
    return reduce(add, [reduce(mul, factors) for factors in products])


def _on(library: Any, names: Variables, variables: Variables) -> Basis:
    """The basis of a library over some of the variables."""
    basis = basis_of(library, names)
    return basis if names == variables else basis.on(*names)


def _polynomial(library: Any) -> Polynomial:
    return Polynomial(library.degree, bias=library.include_bias, interaction=library.include_interaction)


def _waves(library: Any, variables: Variables) -> Iterator[Term]:
    kinds: list[Literal["sin", "cos"]] = ["sin"] if library.include_sin else []
    kinds += ["cos"] if library.include_cos else []
    for k in range(1, library.n_frequencies + 1):
        for name in variables:
            for kind in kinds:
                yield (Factor(kind, (name,), frequency=float(k)),)


@dataclass(frozen=True)
class _Positional:
    """A function called by position, whatever the names of its parameters; a variable may come twice."""

    function: Callable[..., Any]
    positions: tuple[int, ...]

    def __call__(self, *columns: Any) -> Any:
        return self.function(*(columns[i] for i in self.positions))


def _calls(library: Any, variables: Variables) -> Iterator[Factor | None]:
    """The functions of a CustomLibrary on all choices of variables; None for the constant."""
    if library.include_bias:
        yield None
    choices = itertools.combinations if library.interaction_only else itertools.combinations_with_replacement
    for i, function in enumerate(library.functions):
        for chosen in choices(variables, function.__code__.co_argcount):
            naming = library.function_names[i] if library.function_names else None
            name = naming(*chosen) if naming else f"f{i}({','.join(chosen)})"
            # f(x, x) is a function of x alone: an argument that comes twice is one variable.
            distinct = tuple(dict.fromkeys(chosen))
            call = _Positional(function, tuple(distinct.index(variable) for variable in chosen))
            yield Factor("call", distinct, function=call, name=name)


def _pointwise(library: Any) -> Any:
    """The library that a PDE or weak library applies at each point; None for other libraries."""
    if isinstance(library, theirs.SINDyPILibrary):
        raise DataError("Library: a library with derivatives among its features makes implicit equations.")
    if not isinstance(library, (theirs.PDELibrary, theirs.WeakPDELibrary)):
        return None
    if library.num_derivatives:
        raise DataError(
            "Library: spatial derivatives among the features make a partial differential equation, "
            "which is not a basis over states. Use derivative_order=0."
        )
    return library.function_library


def _parts(library: Any, variables: Variables) -> list[list[tuple[Any, Variables]]] | None:
    """A library as a sum of products of libraries, each over some of the variables; None if it is neither."""
    if isinstance(library, theirs.ConcatLibrary):
        return [[(part, variables)] for part in library.libraries]
    inner = _pointwise(library)
    if inner is not None:
        constant = [theirs.PolynomialLibrary(degree=0)] if library.include_bias else []
        return [[(part, variables)] for part in (*constant, inner)]
    if not isinstance(library, (theirs.TensoredLibrary, theirs.GeneralizedLibrary)):
        return None
    inputs = getattr(library, "inputs_per_library", None)
    parts = [(part, _some(inputs, i, variables)) for i, part in enumerate(library.libraries)]
    if isinstance(library, theirs.TensoredLibrary):
        return [parts]
    # Libraries that are left out of the sum may still be factors of products.
    sums = [[part] for i, part in enumerate(parts) if i not in library.exclude_libraries]
    chosen = [np.flatnonzero(row) for row in library.tensor_array or ()]
    return sums + [[parts[i] for i in row] for row in chosen]


def _some(inputs: Sequence[Sequence[int]] | None, number: int, variables: Variables) -> Variables:
    """The variables of a part of a library, by their indices; all where none are given."""
    if inputs is None:
        return variables
    return tuple(variables[i] for i in dict.fromkeys(inputs[number]))


@dataclass(frozen=True)
class _Column:
    """One feature of a library whose formulas are not known."""

    library: Any
    index: int

    def __call__(self, *columns: Any) -> Any:
        return np.asarray(self.library.transform(np.column_stack(columns)))[:, self.index]


def _columns(library: Any, variables: Variables) -> Iterator[Factor]:
    """The features of a library whose formulas are not known, each as a function of all variables."""
    fitted = _fitted(library, len(variables))
    for i, name in enumerate(fitted.get_feature_names(list(variables))):
        yield Factor("call", variables, function=_Column(fitted, i), name=name)


@lru_cache(maxsize=64)
def _fitted(library: Any, variables: int) -> Any:
    """A copy that is fitted to so many variables; the given library is not changed."""
    return deepcopy(library).fit(np.zeros((2, variables)))


def _described(library: Any) -> str:
    inner = getattr(library, "libraries", None)
    if inner is not None:
        return f"{type(library).__name__}([{', '.join(map(_described, inner))}])"
    if isinstance(library, (theirs.PolynomialLibrary, theirs.FourierLibrary)):
        return " ".join(repr(library).split())
    return type(library).__name__


Order = Literal["target", "feature"]

_MOST_NAMED = 4
"""Coefficients of a row that its text names at most."""


def constraint_rows(lhs: Any, rhs: Any, inequalities: int, *, order: Order, terms: int, targets: int) -> Rows:
    """The rows lhs w ≤ rhs for the first `inequalities` of them, and lhs w = rhs for the others.

    lhs: (rows, terms · targets), dense or sparse; in the order "feature" the coefficient of term i
        for target j stands at i · targets + j, in the order "target" at j · terms + i
    """
    if hasattr(lhs, "tocsr"):
        matrix = csr_array(lhs.astype(np.float64))
    else:
        matrix = csr_array(floats(np.atleast_2d(lhs), "ConditionalGradient: `constraint_lhs`", ndim=2))
    if matrix.shape[1] != terms * targets:
        raise ConstraintError(
            f"ConditionalGradient: `constraint_lhs` must have a column for each of the {terms} features × "
            f"{targets} targets = {terms * targets} coefficients, but has {matrix.shape[1]}. (An ensemble "
            "that leaves out library terms cannot be combined with constraints: they would speak of others.)"
        )
    goal = floats(np.ravel(rhs), "ConditionalGradient: `constraint_rhs`", ndim=1)
    if len(goal) != matrix.shape[0]:
        raise ConstraintError(
            "ConditionalGradient: `constraint_rhs` must have an entry for each of the "
            f"{matrix.shape[0]} rows of `constraint_lhs`, but has {len(goal)}."
        )
    if order == "target":
        # pysindy's order "target" lists all features of one target after the other, CINDy all targets of one
        # feature after the other.
        columns = np.arange(terms * targets).reshape(targets, terms).T.ravel()
        matrix = csr_array(matrix[:, columns])
    lower = goal.copy()
    lower[:inequalities] = -np.inf
    return Rows(matrix, lower, goal, np.arange(len(goal), dtype=np.intp))


def constraint_texts(rows: Rows, targets: int) -> list[str]:
    """Each row as a sentence about `coef_`, whose entries are [target, feature]."""
    texts = []
    for k in range(len(rows)):
        row = csr_array(rows.matrix[[k]])
        parts = [
            f"{weight:+.6g} coef_[{i % targets}, {i // targets}]"
            for i, weight in zip(row.indices[:_MOST_NAMED], row.data[:_MOST_NAMED], strict=True)
        ]
        more = " …" if row.nnz > _MOST_NAMED else ""
        sign = "=" if rows.lower[k] == rows.upper[k] else "≤"
        texts.append(f"row {k}: {' '.join(parts) or '0'}{more} {sign} {rows.upper[k]:.6g}")
    return texts


def constraint_matrices(
    constraints: Sequence[Constraint], library: Any, states: Sequence[str], inputs: Sequence[str] = ()
) -> dict[str, Any]:
    """Constraints by name as the arguments that `ConditionalGradient` and pysindy's `ConstrainedSR3` take.

    >>> import pysindy
    >>> from cindy import fix
    >>> given = constraint_matrices([fix("y", "x", 28.0)], pysindy.PolynomialLibrary(1), ["x", "y"])
    >>> given["constraint_lhs"], given["constraint_rhs"], given["constraint_order"]
    (array([[0., 0., 0., 1., 0., 0.]]), array([28.]), 'feature')

    library: the feature library of the model; states, inputs: its feature names
    """
    names = Names(Library(library), tuple(states), tuple(inputs))
    features = terms_of(library, names.states + names.inputs)
    place = {term: i for i, term in enumerate(dict.fromkeys(features))}
    # A feature that stands in the library twice is one term: its coefficient is the sum of both.
    spread = np.zeros((len(place), len(features)))
    spread[[place[term] for term in features], np.arange(len(features))] = 1.0
    rows: list[Row] = []
    for constraint in constraints:
        if at_samples(constraint):
            raise ConstraintError(
                f"{constraint}: a tolerance speaks of samples, which an optimizer of pysindy does not see. "
                "Use cindy.identify()."
            )
        rows += constraint.rows(names)
    # pysindy has rows a·ξ ≤ b and a·ξ = b, inequalities first. A range becomes two inequalities.
    upper = [(r, 1.0, r.upper) for r in rows if r.lower < r.upper and np.isfinite(r.upper)]
    lower = [(r, -1.0, -r.lower) for r in rows if r.lower < r.upper and np.isfinite(r.lower)]
    equal = [(r, 1.0, r.upper) for r in rows if r.lower == r.upper]
    matrix = np.zeros((len(upper) + len(lower) + len(equal), len(place) * len(names.states)))
    for k, (row, sign, _) in enumerate([*upper, *lower, *equal]):
        matrix[k, list(row.weights)] = sign * np.array(list(row.weights.values()))
    table = matrix.reshape(len(matrix), len(place), len(names.states))
    return {
        "constraint_lhs": np.einsum("kts,tf->kfs", table, spread).reshape(len(matrix), -1),
        "constraint_rhs": np.array([goal for _, _, goal in (*upper, *lower, *equal)]),
        "constraint_order": "feature",
        "equality_constraints": bool(equal),
        "inequality_constraints": bool(upper or lower),
        "constraint_separation_index": len(upper) + len(lower),
    }
