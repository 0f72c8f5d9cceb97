"""Known physics, in the names of states and terms and in physical units, as linear rows on the coefficients.

    lower ≤ Σ weight · ξ_(term, state) ≤ upper

- A conserved sum Σ w_j x_j gives Σ_j w_j ξ_ij = 0 for every term i, since the terms are linearly independent
  functions of the state.
- Two interchangeable states tie each coefficient to that of the renamed term.
- Quadratic terms that preserve an energy E give one row for every cubic monomial of E'.

Rows are scaled later, together with the columns (`StandardForm`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeGuard

import numpy as np

from cindy._check import did_you_mean, short, unique_names
from cindy.basis import Basis, Term, term_variables
from cindy.errors import ConstraintError
from cindy.formulation import Formulation, Integral


@dataclass(frozen=True)
class Names:
    """The names that constraints may use: the states, and the terms of a basis over states, rates and inputs.

    formulation: of the equations, which says whether terms may hold rates
    """

    basis: Basis
    states: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    formulation: Formulation = field(default_factory=Integral)
    variables: tuple[str, ...] = field(init=False)
    terms: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "variables", self.formulation.variables(self.states, self.inputs))
        object.__setattr__(self, "terms", self.basis.names(self.variables))

    def state(self, name: str) -> int:
        if name not in self.states:
            raise ConstraintError(
                f'a constraint names the state "{name}", which the data do not have. '
                + did_you_mean(str(name), self.states)
            )
        return self.states.index(name)

    def term(self, name: str) -> int:
        if name not in self.terms:
            raise ConstraintError(
                f'a constraint names the term "{name}", which {self.basis!r} does not have. '
                + did_you_mean(str(name), self.terms)
            )
        return self.terms.index(name)

    def flat(self, state: str, term: str) -> int:
        """The flat index of the coefficient of the term in the equation of the state."""
        return self.term(term) * len(self.states) + self.state(state)


Place = tuple[str, str]


@dataclass(frozen=True)
class Row:
    """lower ≤ Σ weight · coefficient ≤ upper, the coefficients by flat index."""

    weights: Mapping[int, float]
    lower: float
    upper: float


class Constraint(ABC):
    """Linear rows on the coefficients. Its text is quoted in findings and errors.

    Values are checked when a constraint is made; names are checked by `rows`, when a `Problem` has them.

    >>> import cindy
    >>> law = cindy.bound("x", "y", lower=0.0)
    >>> isinstance(law, cindy.Constraint), str(law)
    (True, '0 ≤ [x: y]')
    """

    @abstractmethod
    def rows(self, names: Names) -> Iterator[Row]:
        """The rows over the coefficients of a problem with these names."""


@dataclass(frozen=True)
class _Linear(Constraint):
    weights: tuple[tuple[Place, float], ...]
    lower: float
    upper: float
    text: str

    def rows(self, names: Names) -> Iterator[Row]:
        weights: dict[int, float] = {}
        for (state, term), weight in self.weights:
            index = names.flat(state, term)
            weights[index] = weights.get(index, 0.0) + weight
        yield Row(weights, self.lower, self.upper)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Conservation(Constraint):
    """Σ weight · (rate of the state) is `rate`: exactly, or within `tolerance` at every sample."""

    weights: tuple[tuple[str, float], ...]
    rate: float
    tolerance: float | None

    def rows(self, names: Names) -> Iterator[Row]:
        """One row for each term; none with a tolerance, which needs rows for samples (`sample_weights`)."""
        states = [(names.state(state), weight) for state, weight in self.weights]
        if self.tolerance is not None:
            return
        if self.rate != 0.0 and "1" not in names.terms:
            raise ConstraintError(
                f'{self}: a rate other than 0 needs the constant term "1", which {names.basis!r} lacks.'
            )
        # Σ w_j x_j' = Σ_i (Σ_j w_j ξ_ij) ψ_i is zero for all states only if each bracket is zero. A constant
        # rate is the value of the bracket of the term 1.
        for i, term in enumerate(names.terms):
            value = self.rate if term == "1" else 0.0
            yield Row({i * len(names.states) + j: weight for j, weight in states}, value, value)

    def sample_weights(self, names: Names) -> dict[int, float]:
        """The weights by the index of the state, for the rows |Σ weight · ξᵀψ − rate| ≤ tolerance."""
        return {names.state(state): weight for state, weight in self.weights}

    def __str__(self) -> str:
        parts = (state if weight == 1 else f"{weight:g} {state}" for state, weight in self.weights)
        total = " + ".join(parts).replace("+ -", "- ")
        law = f"{total} is conserved" if self.rate == 0 else f"{total} changes at the rate {self.rate:g}"
        return law if self.tolerance is None else f"{law} within {self.tolerance:g} at every sample"


@dataclass(frozen=True)
class Exchange(Constraint):
    """Two states are interchangeable: swapping their names maps one equation onto the other."""

    first: str
    second: str
    scope: Literal["pair", "all"]
    terms: tuple[str, ...] | None

    def rows(self, names: Names) -> Iterator[Row]:
        first, second, width = names.state(self.first), names.state(self.second), len(names.states)
        variables, swap = names.variables, {self.first: self.second, self.second: self.first}
        # Where rates are variables, the rates of the two states are swapped too.
        swap |= {f"{a}'": f"{b}'" for a, b in swap.items() if f"{a}'" in variables and f"{b}'" in variables}
        images = names.basis.renamed(variables, swap)
        wanted = None if self.terms is None else {names.term(t) for t in self.terms}
        for i, term in enumerate(names.basis.terms(variables)):
            inside = set(term_variables(term))
            if wanted is not None and i not in wanted:
                continue
            if self.scope == "pair" and not (inside and inside <= set(swap)):
                continue
            image = int(images[i])
            if image < 0:
                raise ConstraintError(
                    f'{self}: the term "{names.terms[i]}" has no image in {names.basis!r}. '
                    "Add the renamed term to the basis, or name the terms that it holds for with terms=(…)."
                )
            yield from _equal(i * width + first, image * width + second)
            if self.scope == "all" and i < image:
                # Every other equation is its own image: its coefficients of a term and of the renamed term
                # are equal. Each pair of terms needs this once.
                for k in range(width):
                    if k not in (first, second):
                        yield from _equal(i * width + k, image * width + k)

    def __str__(self) -> str:
        which = "" if self.terms is None else f" in {', '.join(self.terms)}"
        everywhere = " in every equation" if self.scope == "all" else ""
        return f"{self.first} and {self.second} are interchangeable{which}{everywhere}"


def at_samples(constraint: Constraint) -> TypeGuard[Conservation]:
    """Whether a constraint holds within a tolerance at every sample, and therefore needs the samples."""
    return isinstance(constraint, Conservation) and constraint.tolerance is not None


def _equal(first: int, second: int) -> Iterator[Row]:
    """The row that ties two coefficients, given by flat index; none if they are the same."""
    if first != second:
        yield Row({first: 1.0, second: -1.0}, 0.0, 0.0)


def fix(state: str, term: str, value: float) -> Constraint:
    """The coefficient of the term in the equation of the state is `value`.

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 6, 200)
    >>> swing = cindy.Trajectory(t, np.stack([np.cos(t), -np.sin(t)], axis=1), ("x", "v"))
    >>> cindy.identify(swing, "poly:1", constraints=[fix("x", "v", 1.0)]).coef[2, 0].item()
    1.0
    """
    number = _finite(value, "fix: `value`")
    return _between({_place((state, term), "fix"): 1.0}, number, number, "fix")


def bound(state: str, term: str, lower: float = -np.inf, upper: float = np.inf) -> Constraint:
    """The coefficient of the term in the equation of the state lies between `lower` and `upper`.

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 6, 200)
    >>> swing = cindy.Trajectory(t, np.stack([np.cos(t), -np.sin(t)], axis=1), ("x", "v"))
    >>> cindy.identify(swing, "poly:1", constraints=[bound("v", "x", upper=-1.5)]).coef[1, 1].round(9).item()
    -1.5
    """
    return _between({_place((state, term), "bound"): 1.0}, lower, upper, "bound")


def tie(first: Place, second: Place, ratio: float = 1.0) -> Constraint:
    """The first coefficient is `ratio` times the second; each is a pair (state, term).

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 6, 200)
    >>> swing = cindy.Trajectory(t, np.stack([np.cos(t), -np.sin(t)], axis=1), ("x", "v"))
    >>> model = cindy.identify(swing, "poly:1", constraints=[tie(("x", "v"), ("v", "x"), -1.0)])
    >>> model.coef[[2, 1], [0, 1]].round(6).tolist()
    [1.0, -1.0]
    """
    left, right = _place(first, "tie"), _place(second, "tie")
    number = _finite(ratio, "tie: `ratio`")
    text = f"[{left[0]}: {left[1]}] = {'' if number == 1 else f'{number:g} '}[{right[0]}: {right[1]}]"
    return _Linear(((left, 1.0), (right, -number)), 0.0, 0.0, text)


def linear(weights: Mapping[Place, float], lower: float = -np.inf, upper: float = np.inf) -> Constraint:
    """A weighted sum of coefficients, {(state, term): weight}, lies between `lower` and `upper`.

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 6, 200)
    >>> swing = cindy.Trajectory(t, np.stack([np.cos(t), -np.sin(t)], axis=1), ("x", "v"))
    >>> opposite = linear({("x", "v"): 1, ("v", "x"): 1}, lower=0.0, upper=0.0)
    >>> model = cindy.identify(swing, "poly:1", constraints=[opposite])
    >>> bool(abs(model.coef[2, 0] + model.coef[1, 1]) < 1e-12)
    True
    """
    return _between(weights, lower, upper, "linear")


def conserve(
    weights: Mapping[str, float] | Iterable[str], rate: float = 0.0, tolerance: float | None = None
) -> Conservation:
    """Σ weight · state is conserved, or changes at a constant rate.

    weights: {state: weight}, or a sequence of states with weight 1
    tolerance: None: the law holds exactly, term by term; a number: within it at every sample

    >>> print(conserve({"S": 1, "ES": 1, "P": 1}))
    S + ES + P is conserved
    """
    states = _several(weights, "conserve: `weights`")
    table = dict(weights) if isinstance(weights, Mapping) else dict.fromkeys(states, 1.0)
    if not table:
        raise ConstraintError("conserve: at least one state is needed, but none was given.")
    pairs = tuple((s, _finite(w, f"conserve: the weight of {s!r}")) for s, w in table.items())
    if not any(weight for _, weight in pairs):
        raise ConstraintError(
            f"conserve: the weights of {', '.join(s for s, _ in pairs)} are all 0, so nothing is conserved."
        )
    if tolerance is not None:
        tolerance = _finite(tolerance, "conserve: `tolerance`")
        if tolerance <= 0:
            raise ConstraintError(
                f"conserve: `tolerance` must be positive, or None for exact, not {tolerance!r}."
            )
    return Conservation(pairs, _finite(rate, "conserve: `rate`"), tolerance)


def exchange(
    first: str,
    second: str,
    scope: Literal["pair", "all"] = "pair",
    terms: Iterable[str] | None = None,
) -> Exchange:
    """Two states are interchangeable: swapping them maps the first equation onto the second.

    scope: "pair": for terms made of the two states alone, without the constant; "all": for every term, and
        every other equation stays the same under the swap
    terms: names of the only terms that this holds for

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 3, 100)
    >>> pair = cindy.Trajectory(t, np.stack([np.exp(-t), 2 * np.exp(-t)], axis=1), ("a", "b"))
    >>> model = cindy.identify(pair, "poly:1:nobias", constraints=[exchange("a", "b")])
    >>> bool(abs(model.coef[0, 0] - model.coef[1, 1]) < 1e-12)
    True
    """
    if not (isinstance(scope, str) and scope in ("pair", "all")):
        raise ConstraintError(f'exchange: `scope` must be "pair" or "all", but is {short(scope)}.')
    first, second = _name(first, "exchange: `first`"), _name(second, "exchange: `second`")
    if first == second:
        raise ConstraintError(f"exchange: two different states are needed, but both are {first!r}.")
    chosen = None if terms is None else tuple(_several(terms, "exchange: `terms`"))
    return Exchange(first, second, scope, chosen)


def _between(weights: Mapping[Place, float], lower: float, upper: float, where: str) -> Constraint:
    if not isinstance(weights, Mapping):
        raise ConstraintError(
            f'{where}: `weights` must be a table {{("state", "term"): weight}}, but is {short(weights)}.'
        )
    if not weights:
        raise ConstraintError(f"{where}: at least one coefficient is needed, but none was given.")
    pairs = tuple((_place(p, where), _finite(w, f"{where}: a weight")) for p, w in weights.items())
    low, high = _limit(lower, f"{where}: `lower`"), _limit(upper, f"{where}: `upper`")
    if np.isnan(low) or np.isnan(high) or low > high or low == np.inf or high == -np.inf:
        raise ConstraintError(f"{where}: no number lies between lower = {lower!r} and upper = {upper!r}.")
    if not (np.isfinite(low) or np.isfinite(high)):
        raise ConstraintError(
            f"{where}: give `lower`, `upper` or both; without either there is no constraint."
        )
    # Findings and errors quote the text, so it shows what the user wrote.
    total = " + ".join(f"{'' if w == 1 else f'{w:g} '}[{s}: {t}]" for (s, t), w in pairs)
    below, above = f"{low:g} ≤ " if np.isfinite(low) else "", f" ≤ {high:g}" if np.isfinite(high) else ""
    text = f"{total} = {low:g}" if low == high else below + total + above
    return _Linear(pairs, low, high, text)


def _place(place: Place, where: str) -> Place:
    if not (isinstance(place, tuple) and len(place) == 2 and all(isinstance(p, str) for p in place)):
        raise ConstraintError(
            f'{where}: a coefficient is a pair ("state", "term"), but {short(place)} is not.'
        )
    return place


def _name(name: str, where: str) -> str:
    if not isinstance(name, str):
        raise ConstraintError(f"{where} must be a name, but is {short(name)}.")
    return name


def _several(names: Iterable[str], where: str) -> list[str]:
    try:
        listed = [names] if isinstance(names, str) else list(names)
    except TypeError:
        raise ConstraintError(f"{where} must be names, but is {short(names)}.") from None
    return [_name(name, f"{where}, each,") for name in listed]


def _limit(value: float, where: str) -> float:
    """A number, or ± infinity."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ConstraintError(f"{where} must be a number, but is {short(value)}.") from None


def _finite(value: float, where: str) -> float:
    number = _limit(value, where)
    if not np.isfinite(number):
        raise ConstraintError(f"{where} must be a finite number, but is {short(value)}.")
    return number


@dataclass(frozen=True)
class _EnergyPreserving(Constraint):
    """The quadratic terms conserve E = Σ weight · x²/2.

    Along the motion E' = Σ_i w_i x_i f_i. The quadratic part of f contributes a cubic form, and that is zero
    for every state if and only if the coefficient of each of its monomials is (Schlegel and Noack, On the
    long-term boundedness of Galerkin models, J. Fluid Mech. 765, 2015).
    """

    weights: tuple[tuple[str, float], ...] | None

    def rows(self, names: Names) -> Iterator[Row]:
        """One row for each cubic monomial of E'."""
        given = dict.fromkeys(names.states, 1.0) if self.weights is None else dict(self.weights)
        columns = {names.state(state): (state, weight) for state, weight in given.items()}
        sums: dict[tuple[str, ...], dict[int, float]] = defaultdict(dict)
        for i, term in enumerate(names.basis.terms(names.variables)):
            powers = _monomial(term)
            if powers is None or len(powers) != 2:
                continue
            for j, (state, weight) in columns.items():
                # The monomial x_a x_b of equation j adds w_j ξ to the coefficient of x_a x_b x_j in E'.
                sums[tuple(sorted((*powers, state)))][i * len(names.states) + j] = weight
        if not sums:
            raise ConstraintError(f"{self}: {names.basis!r} has no quadratic terms that this could be about.")
        for weights in sums.values():
            yield Row(weights, 0.0, 0.0)

    def __str__(self) -> str:
        if self.weights is None:
            return "quadratic terms preserve the energy of all states"
        total = " + ".join(f"{s}²" if w == 1 else f"{w:g} {s}²" for s, w in self.weights)
        return f"quadratic terms preserve the energy ({total})/2"


def preserve_energy(states: Iterable[str] | Mapping[str, float] | None = None) -> Constraint:
    """The quadratic terms neither make nor lose energy: they conserve Σ weight · x²/2.

    Linear and constant terms may still feed and damp it, as in the Navier-Stokes equations, where convection
    only moves energy between modes.

    states: names, or {name: weight}; None: all states with weight 1

    >>> import numpy as np, cindy
    >>> runs = cindy.systems.lorenz().simulate(seed=0, noise=0.05, trajectories=2, points=2000, horizon=10.0)
    >>> model = cindy.identify(runs, cindy.Polynomial(2), constraints=[cindy.preserve_energy()])
    >>> bool(abs(model.coef[model.place("y", "x z")] + model.coef[model.place("z", "x y")]) < 1e-9)
    True
    """
    if states is None:
        return _EnergyPreserving(None)
    if isinstance(states, Mapping):
        for name, weight in states.items():
            _name(name, "preserve_energy: a state")
            if _finite(weight, f'preserve_energy: the weight of "{name}"') <= 0:
                raise ConstraintError(
                    f'preserve_energy: the weight of "{name}" must be positive, but is {weight!r}.'
                )
        weights = tuple((str(name), float(weight)) for name, weight in states.items())
    else:
        weights = tuple((name, 1.0) for name in unique_names(states, "preserve_energy: `states`"))
    if not weights:
        raise ConstraintError("preserve_energy: name at least one state, or none for all of them.")
    return _EnergyPreserving(weights)


def _monomial(term: Term) -> tuple[str, ...] | None:
    """The variables of a product of variables, each as often as its power says; None for other terms."""
    if any(factor.kind != "variable" for factor in term):
        return None
    return tuple(factor.variables[0] for factor in term for _ in range(factor.power))
