"""Energy that quadratic terms hand around and neither make nor lose, as in fluids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from cindy._check import unique_names
from cindy.basis import Term
from cindy.errors import ConstraintError
from cindy.problem.constraint import Constraint, Row
from cindy.problem.names import Names

__all__ = ["preserve_energy"]


@dataclass(frozen=True)
class EnergyPreserving(Constraint):
    """The quadratic terms conserve E = Σ weight · x²/2.

    Along the motion E' = Σ_i w_i x_i f_i. The quadratic part of f contributes a cubic form, and that is zero
    for every state if and only if the coefficient of each of its monomials is (Schlegel and Noack, On the
    long-term boundedness of Galerkin models, J. Fluid Mech. 765, 2015).
    """

    weights: tuple[tuple[str, float], ...] | None

    def rows(self, names: Names) -> Iterator[Row]:
        """One row a cubic monomial."""
        given = dict.fromkeys(names.states, 1.0) if self.weights is None else dict(self.weights)
        columns = {names.state(state): (state, weight) for state, weight in given.items()}
        sums: dict[tuple[str, ...], dict[int, float]] = defaultdict(dict)
        for i, term in enumerate(names.basis.terms(names.variables)):
            powers = _monomial(term)
            if powers is None or len(powers) != 2:
                continue
            for j, (state, weight) in columns.items():
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
    moves energy between modes and nothing else.

    states: names, or names with weights; all states with weight 1 by default

    >>> import numpy as np, cindy
    >>> runs = cindy.systems.lorenz().simulate(seed=0, noise=0.05, trajectories=2, points=2000, horizon=10.0)
    >>> model = cindy.identify(runs, cindy.Polynomial(2), constraints=[cindy.preserve_energy()])
    >>> bool(abs(model.coef[model.place("y", "x z")] + model.coef[model.place("z", "x y")]) < 1e-9)
    True
    """
    if states is None:
        return EnergyPreserving(None)
    if isinstance(states, Mapping):
        for name, weight in states.items():
            if not np.isfinite(weight) or weight <= 0:
                raise ConstraintError(
                    f'preserve_energy: the weight of "{name}" must be positive, but is {weight!r}.'
                )
        weights = tuple((str(name), float(weight)) for name, weight in states.items())
    else:
        weights = tuple((name, 1.0) for name in unique_names(states, "preserve_energy: `states`"))
    if not weights:
        raise ConstraintError("preserve_energy: name at least one state, or none for all of them.")
    return EnergyPreserving(weights)


def _monomial(term: Term) -> tuple[str, ...] | None:
    """The variables of a product of variables, each as often as its power says; None for other terms."""
    if any(factor.kind != "variable" for factor in term):
        return None
    return tuple(factor.variables[0] for factor in term for _ in range(factor.power))
