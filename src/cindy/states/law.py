"""Law: the terms of a support, evaluated and differentiated at states."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats
from cindy.basis import Basis, Dictionary, Parameter, Plan, Term, differentiate_by_parameter

__all__ = ["Law"]

Ints = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Law:
    """F(x) = Σ ξ_ij ψ_i(x) in equation j, over the support's pairs (i, j) and those that are given.

    variables: names of states, then inputs; states: how many equations there are
    support: (k,) flat indices i · states + j of the coefficients to be fitted, increasing
    given: (m,) flat indices of coefficients that are known beforehand, all of them 1
    unknown: parameters inside terms that are fitted too. The numbers of the law, `coef` below, are then
        (k + p,): the coefficients, and the places of the parameters; others are where the basis has them
    """

    basis: Basis
    variables: tuple[str, ...]
    states: int
    support: Ints
    given: Ints
    unknown: tuple[Parameter, ...] = ()

    @property
    def numbers(self) -> int:
        """How many numbers are fitted."""
        return len(self.support) + len(self.unknown)

    def at(self, coef: Floats) -> Law:
        """The same law with its parameters where they are: coefficients alone are left to be fitted."""
        if not self.unknown:
            return self
        return _at(self, tuple(float(place) for place in coef[len(self.support) :]))

    def tangents(self, points: Floats, coef: Floats) -> Floats:
        """(n, states, p): Σ ξ_ij ∂ψ_i/∂(place of the parameter) in equation j, at points (n, variables)."""
        law, d = self.at(coef), self.states
        every = self.basis.at(self.values_of(coef)).terms(self.variables)
        columns: dict[Term, int] = {}
        dense = self.table(coef)
        entries = []
        for p, one in enumerate(self.unknown):
            scale = one.slope(self.values_of(coef)[one.name])
            for row, i in enumerate(law.terms):
                for factor, slope in differentiate_by_parameter(every[i], one.name, self.variables):
                    entries.append((columns.setdefault(slope, len(columns)), p, factor * scale * dense[row]))
        weights = np.zeros((len(columns), d, len(self.unknown)))
        for column, p, added in entries:
            weights[column, :, p] += added
        table = np.empty((len(points), len(columns)), order="F")
        Plan.of(tuple(columns), self.variables).run(points, table)
        return (table @ weights.reshape(len(columns), -1)).reshape(len(points), d, len(self.unknown))

    def values_of(self, coef: Floats) -> dict[str, float]:
        """The parameters by name."""
        places = coef[len(self.support) :]
        return {one.name: one.value(float(u)) for one, u in zip(self.unknown, places, strict=True)}

    @cached_property
    def pairs(self) -> Ints:
        """Flat indices of all coefficients: those to be fitted, then those given."""
        return np.concatenate([self.support, self.given])

    @cached_property
    def terms(self) -> Ints:
        """The terms that occur."""
        return np.unique(self.pairs // self.states)

    @cached_property
    def columns(self) -> Ints:
        """Where the term of each pair stands among `terms`."""
        return np.searchsorted(self.terms, self.pairs // self.states)

    @cached_property
    def targets(self) -> Ints:
        """The equation of each pair."""
        return self.pairs % self.states

    @cached_property
    def _dictionary(self) -> Dictionary:
        every = self.basis.terms(self.variables)
        return Dictionary.of(tuple(every[i] for i in self.terms), self.variables, repr(self.basis))

    def table(self, coef: Floats) -> Floats:
        """(terms, states) of the terms that occur."""
        dense = np.zeros((len(self.terms), self.states))
        dense[self.columns, self.targets] = np.concatenate(
            [coef[: len(self.support)], np.ones(len(self.given))]
        )
        return dense

    def values(self, points: Floats) -> Floats:
        """(n, terms): of the terms that occur, at points (n, variables)."""
        out = np.empty((len(points), len(self.terms)), order="F")
        if len(self.terms):
            self._dictionary.plan.run(points, out)
        return out

    def jacobian(self, points: Floats, coef: Floats) -> Floats:
        """(n, states, states): ∂F_a / ∂x_c at points (n, variables) for coefficients (k,)."""
        if self.unknown:
            return self.at(coef).jacobian(points, coef[: len(self.support)])
        d = self.states
        if not len(self.terms):
            return np.zeros((len(points), d, d))
        plan, slopes = self._dictionary.slopes
        dense = self.table(coef)
        weights = np.zeros((len(plan.terms), d, d))
        for term, variable, coefficient, column in slopes:
            if variable < d:
                weights[column, :, variable] += coefficient * dense[term]
        if not len(plan.terms):
            return np.zeros((len(points), d, d))
        table = np.empty((len(points), len(plan.terms)), order="F")
        plan.run(points, table)
        return (table @ weights.reshape(len(plan.terms), d * d)).reshape(len(points), d, d)

    def pulled(self, points: Floats, weights: Floats) -> Floats:
        """(k,): Σ_m Σ_j ∂ψ_k/∂x_j weights[m, j, i] for every pair (k, i) of the support.

        points: (n, variables); weights: (n, states, states)
        """
        d = self.states
        plan, slopes = self._dictionary.slopes
        total = np.zeros((len(self.terms), d))
        if len(plan.terms):
            table = np.empty((len(points), len(plan.terms)), order="F")
            plan.run(points, table)
            sums = (table.T @ weights.reshape(len(points), d * d)).reshape(-1, d, d)
            for term, variable, coefficient, column in slopes:
                if variable < d:
                    total[term] += coefficient * sums[column, variable]
        free = len(self.support)
        return np.asarray(total[self.columns[:free], self.targets[:free]])


@lru_cache(maxsize=8)
def _at(law: Law, places: tuple[float, ...]) -> Law:
    values = {one.name: one.value(u) for one, u in zip(law.unknown, places, strict=True)}
    return Law(law.basis.at(values), law.variables, law.states, law.support, law.given)
