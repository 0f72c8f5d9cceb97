"""Diffusion: the variance of random kicks per unit of time, and how it depends on the state.

A law whose equations are kicked reads dx_i = F_i(x) dt + √q_i(x) dW_i, q_i(x) = Σ_j d_ij φ_j(x) ≥ 0, with φ
the monomials of the states up to degree 2. Kicks act at the state before a step (Itô). With rows r of
covariance S = B Σ Bᵀ + q h and z = S⁻¹ r the likelihood has, for the coefficients of one equation, the score
and the information

    s_j = ½ Σ_k h φ_j(x_k) (z_k² − (S⁻¹)_kk),      I_jl = ½ Σ_k,m h² φ_j(x_k) (S⁻¹)_km² φ_l(x_m) ,

so that a step of scoring is a regression of squared innovations on the terms (Jazwinski 1970 has the filter,
Breusch and Pagan 1979 the test that this becomes without measurement noise). The steps:

1. Begin with the constant q of the fitted law.
2. Score all terms; of all supports of at most three terms, non-negative at the samples, take the one of least
   −2 log p + z*² k.
3. Weigh the rows by the new q(x) and go on from 2 until the support comes back.
4. Errors come from the average information (Gilmour, Thompson, Cullis 1995), which also holds the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from cindy._types import Floats, Ints
from cindy.basis import Polynomial
from cindy.errors import DataError
from cindy.states.autocorrelation import noise_memory
from cindy.states.determinants import inverse_blocks
from cindy.states.fitting import FEW_ROWS
from cindy.states.motion import Fitted, Motion, Whitened

__all__ = ["Diffusion", "Kicks", "estimate_kicks"]

_MONOMIALS = Polynomial(2)
_CLEARLY = 1e-2
"""Model error from one sample to the next, in units of σ², from which it is told (benchmark: oddities)."""
_SURE = 4.0
"""Standard errors by which a diffusion must differ from none."""
_MOST_TERMS = 3
"""Of a diffusion: 1, x and x² of one state."""
_MANY = 21
"""Monomials, those of five states, beyond which an equation has those of its own state alone."""
_LEVEL = 0.05
"""Of significance, shared by the terms tried."""
_ROUNDS = 5
"""Of weighing the rows anew; two or three are typical."""
_FLOOR = 1e-3
"""Of the mean: the least diffusion by which a row is weighed."""


@dataclass(frozen=True, eq=False)
class Diffusion:
    """Variance of random kicks per unit of time, Σ_j d_ji φ_j(x) in equation i.

    terms: names of φ; coef, coef_error: (terms, states), zero where a term is absent or nothing is kicked
    variables: the names that terms are made of

    >>> noise = Diffusion(("1", "x", "x^2"), np.array([[0.5], [0.0], [0.1]]), np.zeros((3, 1)), ("x",))
    >>> noise.variance(np.array([[2.0]]))
    array([[0.9]])
    """

    terms: tuple[str, ...]
    coef: Floats
    coef_error: Floats
    variables: tuple[str, ...]

    def __post_init__(self) -> None:
        names = _MONOMIALS.names(self.variables)
        if self.terms != names or self.coef.shape != self.coef_error.shape or len(self.coef) != len(names):
            raise DataError(
                f"Diffusion: terms must be {', '.join(names)}, those of `variables` to degree 2, with a row "
                f"of `coef` and `coef_error` for each, but there are {len(self.coef)} rows and the terms "
                f"{', '.join(self.terms)}."
            )

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for a file."""
        return {
            "terms": list(self.terms),
            "variables": list(self.variables),
            "coef": self.coef.tolist(),
            "coef_error": self.coef_error.tolist(),
        }

    @property
    def basis(self) -> Polynomial:
        """What `terms` name."""
        return _MONOMIALS

    @property
    def additive(self) -> bool:
        """Whether kicks are of one size everywhere."""
        return not np.any(self.coef[1:])

    def variance(self, x: Floats) -> Floats:
        """(n, states) at states (n, variables), never negative."""
        return np.asarray(np.maximum(_MONOMIALS.evaluate(x, self.variables) @ self.coef, 0.0))


@dataclass(frozen=True, eq=False)
class Kicks:
    """What drives the equations beside their law.

    diffusion: of the equations sought; motion: with rows weighed by it, the same where it is constant
    error: (states,) mean diffusion; correlation: (equations, equations) of the kicks
    """

    diffusion: Diffusion
    motion: Motion
    error: Floats
    correlation: Floats


def estimate_kicks(motion: Motion, fitted: Fitted) -> Kicks | None:
    """The diffusion of the equations whose unexplained motion is large and has no memory; None without."""
    if not motion.parts or motion.records[0].grid.order != 1 or motion.rows < FEW_ROWS:
        return None
    large = (fitted.error * motion.step > _CLEARLY * fitted.variance) & ~motion.known
    remembered = noise_memory(motion, fitted) if large.any() else []
    if len(remembered) != motion.states:
        return None
    kicked = np.flatnonzero(large & np.array([one.white for one in remembered]))
    if not len(kicked):
        return None
    variables = motion.variables[: motion.states]
    names = _MONOMIALS.names(variables)
    coef = np.zeros((len(names), motion.states))
    coef[0, kicked] = fitted.error[kicked]
    error, weighed = fitted.error, motion
    seen: list[bytes] = []
    for _ in range(_ROUNDS):
        evidence = _Evidence.of(weighed, replace(fitted, error=error), coef, kicked)
        new = coef.copy()
        for i in kicked:
            new[:, i] = evidence.chosen(int(i), _tried(motion, int(i), names))
        if not new[1:].any() and not coef[1:].any():
            break
        coef = new
        weighed, error = _weighed(motion, fitted, coef, kicked)
        key = (coef != 0).tobytes()
        if key in seen[-1:]:
            break
        seen.append(key)
    final = replace(fitted, error=error)
    evidence = _Evidence.of(weighed, final, coef, kicked)
    spread = _errors(weighed, final, coef, kicked)
    if not np.all(np.max(coef[:, kicked] / np.maximum(spread[:, kicked], 1e-300), axis=0) > _SURE):
        return None
    told = Diffusion(names, coef[:, motion.sought], spread[:, motion.sought], variables)
    return Kicks(told, weighed, error, evidence.correlation[np.ix_(motion.sought, motion.sought)])


def _tried(motion: Motion, equation: int, names: Sequence[str]) -> Ints:
    """The monomials that may enter an equation."""
    if len(names) <= _MANY:
        return np.arange(len(names))
    own = motion.variables[equation]
    return np.array([j for j, name in enumerate(names) if name in ("1", own, f"{own}^2")])


def _values(motion: Motion, x: Floats, white: Whitened) -> Floats:
    """(stretches, rows, terms) of the monomials at the states before each step."""
    grid, variables = white.linear.record.grid, motion.variables[: motion.states]
    before = x[:, grid.order - 1 : grid.order - 1 + grid.rows]
    values = _MONOMIALS.evaluate(before.reshape(-1, motion.states), variables)
    return values.reshape(*before.shape[:2], -1)


@dataclass(frozen=True, eq=False)
class _Evidence:
    """What squared innovations say of the coefficients of all monomials, equation by equation.

    now: (terms, states) where the score is taken; score: (states, terms); information: (states, terms, terms)
    points: (n, terms) monomials at some of the rows, where q must not be negative
    """

    now: Floats
    score: Floats
    information: Floats
    points: Floats
    correlation: Floats

    @classmethod
    def of(cls, motion: Motion, fitted: Fitted, now: Floats, kicked: Ints) -> _Evidence:
        d, terms = motion.states, len(now)
        score, information = np.zeros((d, terms)), np.zeros((d, terms, terms))
        points, products = [], np.zeros((d, d))
        for white, x in zip(motion.whitened(fitted), fitted.x, strict=True):
            if white is None:
                continue
            linear = white.linear
            z = _innovations(motion, fitted, white)
            values = _values(motion, x, white)
            near, k, o = inverse_blocks(linear, fitted.variance, fitted.error)
            own = near[:, o == 0][..., np.arange(d), np.arange(d)]
            step = linear.record.grid.step
            standard = (z / np.sqrt(own)).reshape(-1, d)
            products += standard.T @ standard
            points.append(values.reshape(-1, terms))
            for i in kicked:
                score[i] += 0.5 * np.einsum("k,skt,sk->t", step, values, z[..., i] ** 2 - own[..., i])
                weights = 0.5 * step[k] * step[k + o] * near[..., i, i] ** 2 * np.where(o > 0, 2.0, 1.0)
                part = np.einsum("spa,sp,spb->ab", values[:, k], weights, values[:, k + o], optimize=True)
                information[i] += (part + part.T) / 2.0
        every = np.concatenate(points)
        size = np.sqrt(np.diagonal(products))
        return cls(now, score, information, every, products / np.outer(size, size))

    def chosen(self, i: int, tried: Ints) -> Floats:
        """(terms,) of least −2 log p + z*² k among supports whose diffusion is nowhere negative."""
        from scipy.special import ndtri

        price = float(ndtri(1.0 - _LEVEL / (2.0 * len(tried)))) ** 2
        pull = self.score[i] + self.information[i] @ self.now[:, i]
        # Those of one size, times the spread of φ, so that units of the states do not matter to the solution.
        size = np.sqrt(np.maximum(np.diagonal(self.information[i]), 1e-300))
        best, least = self.now[:, i], np.inf
        for count in range(1, _MOST_TERMS + 1):
            for support in combinations(tried, count):
                here = np.array(support)
                matrix = self.information[i][np.ix_(here, here)] / np.outer(size[here], size[here])
                scaled = np.linalg.lstsq(matrix, pull[here] / size[here], rcond=1e-10)[0]
                value = -float(scaled @ (pull[here] / size[here])) + price * count
                if value >= least:
                    continue
                coef = np.zeros(len(pull))
                coef[here] = scaled / size[here]
                if np.min(self.points @ coef) >= 0.0:
                    best, least = coef, value
        return best


def _innovations(motion: Motion, fitted: Fitted, white: Whitened) -> Floats:
    """(stretches, rows, states): z = S⁻¹ r."""
    table = motion.table(white, fitted.law, fitted.coef)
    return white.solved(table[:, -1] - table[:, :-1] @ fitted.coef)


def _weighed(motion: Motion, fitted: Fitted, coef: Floats, kicked: Ints) -> tuple[Motion, Floats]:
    """The motion whose rows follow the diffusion, and the mean of it (states,)."""
    values = []
    for white, x in zip(motion.whitened(fitted), fitted.x, strict=True):
        assert white is not None
        values.append(np.maximum(_values(motion, x, white) @ coef, 0.0))
    total = sum(one.sum(axis=(0, 1)) for one in values)
    mean = fitted.error.copy()
    mean[kicked] = (total / sum(one.shape[0] * one.shape[1] for one in values))[kicked]
    records = []
    for record, one in zip(motion.records, values, strict=True):
        factor = np.ones(one.shape)
        factor[..., kicked] = np.maximum(one[..., kicked] / mean[kicked], _FLOOR)
        records.append(replace(record, kicks=factor))
    return motion.part(records), mean


def _errors(motion: Motion, fitted: Fitted, coef: Floats, kicked: Ints) -> Floats:
    """(terms, states) standard errors, noise of the measurements being uncertain too.

    ½ (S_a z)ᵀ S⁻¹ (S_b z), with S_a the derivative of S by a coefficient or by a variance of the noise.
    """
    places = [(int(j), int(i)) for i in kicked for j in np.flatnonzero(coef[:, i])]
    noisy = np.flatnonzero(motion.measured & (fitted.variance > 10.0 * motion.floor))
    total = np.zeros((len(places) + len(noisy),) * 2)
    for white, x in zip(motion.whitened(fitted), fitted.x, strict=True):
        if white is None:
            continue
        record = white.linear.record
        z, values = _innovations(motion, fitted, white), _values(motion, x, white)
        columns = np.zeros((*z.shape, len(total)))
        for place, (j, i) in enumerate(places):
            columns[..., i, place] = record.grid.step[:, None].T * values[..., j] * z[..., i]
        back = white.linear.noise_of(z)
        for place, i in enumerate(noisy.tolist(), start=len(places)):
            only = np.zeros_like(back)
            only[..., i] = (
                fitted.variance[i] * np.where(record.missing, 0.0, record.spread)[..., i] * back[..., i]
            )
            columns[..., place] = white.linear.moved(only)
        table = white.white(columns)
        total += 0.5 * table.T @ table
    size = np.sqrt(np.maximum(np.diagonal(total), 1e-300))
    covariance = np.linalg.pinv(total / np.outer(size, size), rcond=1e-10) / np.outer(size, size)
    error = np.zeros(coef.shape)
    for place, (j, i) in enumerate(places):
        error[j, i] = np.sqrt(max(covariance[place, place], 0.0))
    return error
