"""The gauge of hidden states, their unit and zero: how it is imposed, and the one with the fewest terms.

For any numbers b and c the state w̃ = w + b + c·z, z the other states, fits the data as well. With
w = w̃ − b − c·z put into the law z' = f(z, w), w' = g(z, w) the coefficients of

    z' = f(z, w̃ − b − c·z),      w̃' = g(z, w̃ − b − c·z) + c·f(z, w̃ − b − c·z)

are polynomials in b and c. In matrices, with ψ(z, w) = ψ(z, w̃) T(b, c), they are Ξ̃ = T Ξ M, M adding c_j
times the equation of z_j to that of w. A start fixes b and c by as many coefficients that are zero (`Pin`),
which `in_gauge` and `pinned` impose. `sparsest_gauge` goes on from the law that was found there:

1. Along one of the numbers b, c_j at a time, find where single coefficients are zero: roots of polynomials
   through a few values.
2. At each root, count the coefficients that differ from zero by more than their errors allow. The root is
   itself uncertain: it moves with the coefficients so that the chosen one stays zero,
   dΞ̃ = T dΞ M − ∂Ξ̃/∂p (∂Ξ̃_i/∂p)⁻¹ (T dΞ M)_i .
3. Move to the root with the fewest, if these are fewer than now. The coefficient that is zero there takes the
   place of the one that fixed this number before. Repeat.

A library that lacks a term of the changed law does not have that gauge: T does not exist, and the root is
left out. For example, Rössler's equations without z are found as x' = w with nine terms, w = −y − z; along
c_y the root c_y = 1 gives x' = w̃ − y and seven. A move costs least squares of the library at 4 points a
term, for a few values of every number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array, vstack

from cindy._arrays import Floats, Ints
from cindy.basis import listed, pretty
from cindy.findings import Finding
from cindy.identification.hidden_starts import Pin, Start
from cindy.identification.inference import LastPass
from cindy.least_squares import Rows, lengths
from cindy.search import NEAR, Options
from cindy.states import Fitted, Motion

_NODES = 7
"""Values of b or c_j through which the polynomials of the coefficients are laid: up to the sixth degree."""
_FURTHEST = 5.0
"""Largest b in spreads of w, and c_j in spreads of w over that of z_j: beyond, w̃ is mostly z_j."""
_APART = 4.0
"""Standard errors by which a coefficient must differ from zero. This only decides whether a gauge is tried:
the search there decides on every term."""
_DEPENDENT = 1e-6
"""Ratio of the smallest to the largest singular value of the unit columns of a law, below which the data do
not tell its terms apart."""
_CLOSED = 1e-7
"""Largest residual of a changed term, relative to its size, with which the library has the gauge."""
_KNOWN = 0.02
"""Largest standard error of a root, as a share of the reach of its number."""
_ROUNDING = 1e-9
"""Share of the largest coefficient, in units of the size of its term, below which one counts as rounding."""
_MOST_MOVES = 8
"""Changes of the gauge of one state: a bound on work, as each takes at least one term away."""


class _Regauged(NamedTuple):
    """A law in another gauge: the gauge of each hidden state, the law by flat index, and all states."""

    pins: tuple[Pin, ...]
    support: Ints
    coef: Floats
    x: tuple[Floats, ...]


def sparsest_gauge(
    motion: Motion, fitted: Fitted, covariance: Floats, pins: tuple[Pin, ...], allowed: Ints
) -> _Regauged | None:
    """The law in the gauge with the fewest terms that single moves lead to; None where no move has fewer.

    covariance: of the coefficients of the law; allowed: flat indices of the candidates
    """
    law = _Law.of(motion, fitted, covariance, allowed)
    states, before = tuple(np.array(x) for x in fitted.x), pins
    for k, pin in enumerate(pins):
        w, shift = motion.variables.index(pin.state), np.zeros(1 + motion.states)
        for _ in range(_MOST_MOVES):
            move = _best_move(law, pins, k, w)
            if move is None:
                break
            law, place, along, amount = move
            pin = replace(pin, zero=np.where(pin.along == along, place, pin.zero))
            pins = (*pins[:k], pin, *pins[k + 1 :])
            shift[along + 1] += amount
        for x in states:
            # In the order in which they were found: a later change refers to the earlier states as changed.
            x[..., w] += shift[0] + x @ shift[1:]
    return None if pins is before else _Regauged(pins, law.support, law.coef.ravel()[law.support], states)


def _best_move(law: _Law, pins: tuple[Pin, ...], k: int, w: int) -> tuple[_Law, int, int, float] | None:
    """The law after the change of one number that leaves the fewest terms; None where none has fewer.

    With it come the coefficient that becomes zero, which number is changed, and by how much.
    """
    best: tuple[_Law, int, int, float] | None = None
    least = len(law.support)
    ones = np.array([pin.one for pin in pins])
    for along in pins[k].along.tolist():
        for place, amount in law.zeros_along(w, along):
            moved = law.moved(w, along, amount, place)
            if moved is None or not np.allclose(moved.coef.ravel()[ones], 1.0, rtol=1e-6):
                continue
            # A later move must not bring back the coefficients that earlier ones have made zero.
            zero = [
                np.where(pin.along == along, place, pin.zero) if pin is pins[k] else pin.zero for pin in pins
            ]
            allowed = np.setdiff1d(law.allowed, np.concatenate(zero))
            if len(moved.support) < least and np.isin(moved.support, allowed).all():
                least, best = len(moved.support), (moved, place, along, amount)
    return best


@dataclass(frozen=True, eq=False)
class _Law:
    """Coefficients (terms, states), a root of their covariance, and points at which terms are compared.

    root: (terms · states, k), so that root rootᵀ is the covariance of the flat coefficients
    allowed: flat indices of the candidates
    """

    motion: Motion
    coef: Floats
    root: Floats
    points: Floats
    allowed: Ints

    @classmethod
    def of(cls, motion: Motion, fitted: Fitted, covariance: Floats, allowed: Ints) -> _Law:
        terms, support = len(motion.basis.names(motion.variables)), fitted.law.support
        flat = np.zeros(terms * motion.states)
        flat[support] = fitted.coef
        root = np.zeros((flat.size, len(support)))
        values, vectors = np.linalg.eigh(covariance)
        root[support] = vectors * np.sqrt(np.maximum(values, 0.0))
        states = np.concatenate([r.points(x) for r, x in zip(motion.records, fitted.x, strict=True)])
        uniform = np.random.default_rng(0).uniform(-2.0, 2.0, (4 * terms, states.shape[1]))
        points = states.mean(axis=0) + uniform * np.maximum(states.std(axis=0), 1e-300)
        return cls(motion, flat.reshape(terms, -1), root, points, allowed)

    @property
    def support(self) -> Ints:
        """Flat indices of the coefficients that are not zero within their errors."""
        error, size = np.linalg.norm(self.root, axis=1), np.abs(self.coef.ravel())
        return np.flatnonzero((size > _APART * error) & (size > 1e-9 * np.max(size)))

    @cached_property
    def sizes(self) -> Floats:
        """(terms,) root mean square of the terms."""
        values = self.motion.basis.evaluate(self.points, self.motion.variables)
        return np.asarray(np.sqrt(np.mean(values**2, axis=0)))

    def mapped(self, w: int, along: int, amount: float) -> tuple[Floats, Floats] | None:
        """T and M of one change; None where the library lacks a term of the changed law."""
        old = self.points.copy()
        old[:, w] -= amount * (1.0 if along < 0 else self.points[:, along])
        basis, variables = self.motion.basis, self.motion.variables
        new, values = basis.evaluate(self.points, variables), basis.evaluate(old, variables)
        used = self.coef.any(axis=1) | self.root.reshape(len(self.coef), -1).any(axis=1)
        size = np.linalg.norm(new, axis=0)
        table = np.zeros((new.shape[1], new.shape[1]))
        table[:, used] = np.linalg.lstsq(new / size, values[:, used], rcond=1e-12)[0] / size[:, None]
        left = np.linalg.norm(new @ table[:, used] - values[:, used], axis=0)
        if np.any(left > _CLOSED * np.linalg.norm(values[:, used], axis=0)):
            return None
        mix = np.eye(self.motion.states)
        if along >= 0:
            mix[along, w] += amount
        return table, mix

    def changed(self, w: int, along: int, amount: float) -> Floats | None:
        """The coefficients after one change."""
        maps = self.mapped(w, along, amount)
        return None if maps is None else maps[0] @ self.coef @ maps[1]

    def reach(self, w: int, along: int) -> float:
        """The largest change of one number that is tried."""
        spread = self.points.std(axis=0)
        return float(_FURTHEST * spread[w] / (1.0 if along < 0 else spread[along]))

    def zeros_along(self, w: int, along: int) -> Iterator[tuple[int, float]]:
        """Step 1: pairs of a coefficient, by flat index, and a value of one number at which it is zero."""
        reach = self.reach(w, along)
        # Polynomials through Chebyshev points are well conditioned; their degree is that of the library in w.
        nodes = reach * np.cos(np.pi * (np.arange(_NODES) + 0.5) / _NODES)
        values = [self.changed(w, along, float(node)) for node in nodes]
        curves = [np.ravel(coef) for coef in values if coef is not None]
        if len(curves) < len(nodes):
            return
        polynomials = np.linalg.solve(np.vander(nodes / reach, _NODES), np.stack(curves))
        largest = np.abs(polynomials).max(axis=0)
        size = np.repeat(self.sizes, self.motion.states) * largest
        for place in np.flatnonzero(size > _ROUNDING * size.max()):
            powers = polynomials[:, place] / largest[place]
            for root in np.roots(np.where(np.abs(powers) > _ROUNDING, powers, 0.0)):
                if abs(root.imag) < 1e-6 and 1e-6 < abs(root.real) < 1.0:
                    yield int(place), float(reach * root.real)

    def moved(self, w: int, along: int, amount: float, place: int) -> _Law | None:
        """The law after one change, with errors for which the coefficient at `place` stays zero."""
        maps = self.mapped(w, along, amount)
        step = 1e-5 * self.reach(w, along)
        beside = [self.changed(w, along, amount + sign * step) for sign in (1.0, -1.0)]
        if maps is None or beside[0] is None or beside[1] is None:
            return None
        table, mix = maps
        slope = np.ravel(beside[0] - beside[1]) / (2.0 * step)
        columns = self.root.reshape(*self.coef.shape, -1)
        root = np.einsum("kt,tjr,ji->kir", table, columns, mix).reshape(self.root.shape)
        if np.linalg.norm(root[place]) > _KNOWN * self.reach(w, along) * abs(slope[place]):
            return None
        # Step 2: the change itself moves with the coefficients, so that the chosen one stays zero.
        root = root - np.outer(slope / slope[place], root[place])
        coef = table @ self.coef @ mix
        coef.ravel()[place] = 0.0
        moved = replace(self, coef=coef, root=root)
        significant = np.zeros(coef.size)
        significant[moved.support] = coef.ravel()[moved.support]
        return replace(moved, coef=significant.reshape(coef.shape))


def gauge_findings(names: tuple[str, ...], pins: tuple[Pin, ...], last: LastPass) -> Iterator[Finding]:
    """Findings on hidden states: their gauge, and whether the data determine their law."""
    motion = last.motion
    terms = motion.basis.names(motion.variables)
    for pin in pins:
        product = terms[pin.one // motion.states]
        places = [
            (terms[int(k) // motion.states], motion.variables[int(k) % motion.states]) for k in pin.zero
        ]
        absent = [term if state == pin.equation else f"{term} in that of {state}" for term, state in places]
        named = ["the constant" if term == "1" else pretty(term) for term in absent]
        occur = f" and {listed(named)} {'do' if len(named) > 1 else 'does'} not occur" if absent else ""
        yield Finding(
            "hidden-gauge",
            f"The data do not determine the unit and the zero of {pin.state}. They are chosen so that in the "
            f"equation of {pin.equation} the coefficient of {pretty(product)} is {pin.value:g}{occur}.",
            {"state": pin.state, "equation": pin.equation, "one": product, "zero": absent},
        )
    pinned = np.searchsorted(motion.candidates, np.array([pin.one for pin in pins], dtype=np.intp))
    columns = last.supports.design[:, np.setdiff1d(last.own.support, pinned)]
    sizes = np.linalg.svd(columns / lengths(columns), compute_uv=False)
    them = "them" if len(names) > 1 else "it"
    if len(sizes) and sizes.min() < _DEPENDENT * sizes.max():
        message = (
            f"The data do not determine the equations with {listed(names)}: other coefficients fit equally "
            f"well. Constrain {them}, or measure {them} in some samples."
        )
        condition = float(sizes.min() / sizes.max())
        yield Finding("hidden-unidentified", message, {"state": ", ".join(names), "condition": condition})


def in_gauge(motion: Motion, start: Start) -> Motion:
    """The motion with the first values of w, the law exact, without what the gauge sets to zero."""
    records = []
    for record, w in zip(motion.records, start.values, strict=True):
        y = record.y.copy()
        y[..., -w.shape[2] :] = w
        records.append(replace(record, y=y))
    return replace(
        motion,
        records=tuple(records),
        candidates=np.setdiff1d(motion.candidates, [int(k) for pin in start.pins for k in pin.zero]),
        memory=np.ones(motion.states),
    )


def pinned(options: Options, start: Start) -> Options:
    """The options with the constraint that each coefficient of φ w is 1, unless a user has fixed it."""
    rows = options.rows
    given = fixed_alone(rows)
    pins = [pin for pin in start.pins if pin.one not in given]
    if not pins:
        return options
    count, values = len(pins), [pin.value for pin in pins]
    places = np.arange(count), [pin.one for pin in pins]
    entries = csr_array(coo_array((np.ones(count), places), shape=(count, rows.matrix.shape[1])))
    more = Rows(
        csr_array(vstack([rows.matrix, entries])),
        np.append(rows.lower, values),
        np.append(rows.upper, values),
        np.append(rows.owner, np.full(count, len(options.texts))),
    )
    return replace(options, rows=more, texts=(*options.texts, "the gauge of the hidden states"))


def fixed_alone(rows: Rows) -> dict[int, float]:
    """The coefficients, by flat index, that a constraint fixes alone, and their values."""
    alone = np.flatnonzero((np.diff(rows.matrix.indptr) == 1) & (rows.lower == rows.upper))
    entries = [(int(rows.matrix.indices[rows.matrix.indptr[k]]), k) for k in alone]
    return {flat: float(rows.lower[k] / rows.matrix.data[rows.matrix.indptr[k]]) for flat, k in entries}


def inexact_findings(names: Sequence[str], rise: float) -> Iterator[Finding]:
    """A finding where equations of hidden states describe the data only with a model error of their own.

    rise: of the criterion, once they are held as exact as those of measured states
    """
    if rise > NEAR:
        message = (
            f"The equations with {listed(names)} leave more than noise unexplained: held as exact as "
            f"those of measured states they have a criterion that is higher by {rise:.0f}. They are an "
            "approximation, or wrong."
        )
        yield Finding("unexplained-motion", message, {"state": ", ".join(names), "rise": rise})
