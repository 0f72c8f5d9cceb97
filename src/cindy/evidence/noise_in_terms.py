"""Noise inside the terms: functions without its bias, and rows without what it adds to their Gram matrix.

Two steps remove the bias of measurement noise from the weak rows.

1. `Unbiased` evaluates a function g of noisy values so that its mean over the noise is g of the true values.
   With Gaussian noise of standard deviation σ the mean of g is exp(σ²/2 ∂²) g, so exp(−σ²/2 ∂²) g has the
   mean g. For powers these are Hermite polynomials, Σ_j (−σ²/2)^j n! / (j! (n − 2j)!) y^(n − 2j); for other
   analytic functions the mean of g(y + iσz) over a standard normal z, by quadrature.
2. `calibration` maps the rows [X | Y]. With G = XᵀX and C the known mean of what noise adds to
   [X | Y]ᵀ[X | Y],

       X → X (I − G⁻¹ C_xx),   Y → Y − X G⁻¹ C_xy

   makes least squares solve (G − C_xx) ξ = XᵀY − C_xy, the equations without noise (total least squares
   with known covariance; Fuller, Measurement Error Models, 1987).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import product as cartesian
from typing import Any

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.basis import Factor, Term, call, product
from cindy.errors import DataError
from cindy.least_squares import LeastSquares, lengths, triangle

_ROUNDING = 1e-10
"""Singular values of the terms below this share of the largest are rounding errors."""
_NODES = 9
"""Nodes of the quadrature over the noise: exact to degree 17, and to 1e-9 for sin(y) at a noise of 1."""


def hermite(y: Floats, power: int, variance: Floats | float) -> Floats:
    """The power of y without the bias of noise of this variance.

    >>> float(hermite(np.array(3.0), 2, 1.0))
    8.0
    """
    # A three-term recursion: H_{n+1} = y H_n − n σ² H_{n−1}.
    before, now = np.zeros_like(y), np.ones_like(y)
    for n in range(power):
        before, now = now, y * now - n * variance * before
    return now


@dataclass(eq=False)
class Unbiased:
    """Terms at noisy samples, each without the bias that noise gives it.

    values: by name of a variable, arrays of one shape
    noise: standard deviation by name; 0 for exact values
    slopes: by derivative factor, its estimate at the samples and the variance of this estimate
    """

    values: Mapping[str, Floats]
    noise: Mapping[str, float]
    slopes: Mapping[Factor, tuple[Floats, Floats]] = field(default_factory=dict)
    _powers: dict[tuple[str, int], Floats] = field(default_factory=dict)
    _known: dict[Term, Floats] = field(default_factory=dict)

    def __call__(self, term: Term) -> Floats:
        """The term at every sample, which is kept."""
        if term not in self._known:
            self._known[term] = self._of(term)
        return self._known[term]

    def _of(self, term: Term) -> Floats:
        curved = [f for f in term if f.kind in ("sin", "cos", "call")]
        mixed = {name for f in curved for name in f.variables if self.noise.get(name, 0.0) > 0}
        averaged = list(curved) if mixed else []
        averaged += [f for f in term if f.kind == "variable" and f.variables[0] in mixed]
        parts = [self._alone(factor) for factor in term if factor not in averaged]
        if averaged:
            parts.append(self._averaged(averaged, sorted(mixed)))
        return reduce(np.multiply, parts) if parts else np.ones(next(iter(self.values.values())).shape)

    def _alone(self, factor: Factor) -> Floats:
        """A factor whose noise no function in the term shares."""
        if factor.kind == "variable":
            return self._power(factor.variables[0], factor.power)
        if factor.kind == "derivative":
            estimate, variance = self.slopes[factor.base]
            return hermite(estimate, factor.power, variance)
        return np.asarray(_evaluated(factor, self.values))

    def covariance(self, g: Term, h: Term) -> Floats:
        """The unbiased covariance of the noise of two terms at every sample."""
        # ĝ ĥ has the mean g h + cov and (g h)^ the mean g h, so the true values drop out.
        return self(g) * self(h) - self._of(product((*g, *h), tuple(self.values)))

    def _power(self, name: str, power: int) -> Floats:
        if power == 1:
            return self.values[name]
        if (name, power) not in self._powers:
            variance = self.noise.get(name, 0.0) ** 2
            self._powers[name, power] = hermite(self.values[name], power, variance)
        return self._powers[name, power]

    def _averaged(self, factors: list[Factor], names: list[str]) -> Floats:
        """The mean over imaginary noise in the named variables."""
        z, w = np.polynomial.hermite_e.hermegauss(_NODES)
        w = w / w.sum()
        total: Any = 0.0
        for nodes in cartesian(range(_NODES), repeat=len(names)):
            moved: dict[str, Any] = dict(self.values)
            weight = 1.0
            for name, k in zip(names, nodes, strict=True):
                # exp(−σ²/2 ∂²) g(y) = E g(y + iσz): imaginary noise removes the bias of real noise.
                moved[name] = self.values[name] + 1j * self.noise[name] * z[k]
                weight *= w[k]
            part: Any = weight
            for factor in factors:
                part = part * _evaluated(factor, moved)
            total = total + np.real(part)
        return np.asarray(total, dtype=np.float64)


def _evaluated(factor: Factor, values: Mapping[str, Any]) -> Any:
    """The factor at values that may be complex."""
    columns = [values[name] for name in factor.variables]
    if factor.kind == "variable":
        base = columns[0]
    elif factor.kind in ("sin", "cos"):
        base = getattr(np, factor.kind)(factor.frequency * columns[0])
    elif any(np.iscomplexobj(c) for c in columns):
        base = _complex_call(factor, columns)
    else:
        shape = columns[0].shape
        base = call(factor, [np.ascontiguousarray(c).ravel() for c in columns]).reshape(shape)
    return base**factor.power


def _complex_call(factor: Factor, columns: list[Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            if factor.expression is not None:
                result = factor.expression.evaluate(dict(zip(factor.variables, columns, strict=True)))
            else:
                assert factor.function is not None
                flat = [np.asarray(c).ravel() for c in columns]
                result = np.asarray(factor.function(*flat)).reshape(np.shape(columns[0]))
    except Exception as error:
        raise DataError(
            f"Derivatives: the function {factor.name!r} cannot be corrected for noise, because it does not "
            f"take complex numbers ({error}). Use formulas that do, or give noise=0 to Weak."
        ) from error
    return result


@dataclass(frozen=True, eq=False)
class Whitened:
    """Whitening of the columns of a design X by its singular values.

    G = XᵀX is not formed, since its condition number is the square of that of X.
    """

    design: Floats

    @cached_property
    def size(self) -> Floats:
        """(terms,) lengths of the columns."""
        return lengths(self.design)

    @cached_property
    def _svd(self) -> tuple[Floats, Floats]:
        """Right singular vectors of the scaled columns divided by, and times, their singular values."""
        _, values, turn = np.linalg.svd(self.design / self.size, full_matrices=False)
        known = values > _ROUNDING * values[0]
        return turn[known].T / values[known], turn[known].T * values[known]

    def without_noise(self, noise: Floats) -> Floats:
        """I − G⁻¹ C, for the part C of the Gram matrix that noise adds.

        C is an estimate, but the share of noise in a direction lies between none and all: the eigenvalues of
        G⁻¹ C are clipped to [0, 1].
        """
        white, back = self._svd
        # The share of noise in each whitened direction of the terms.
        share, directions = np.linalg.eigh(white.T @ (noise / np.outer(self.size, self.size)) @ white)
        fraction = white @ (directions * np.clip(share, 0.0, 1.0)) @ directions.T @ back.T
        return np.asarray((np.eye(len(self.size)) - fraction) * self.size[None, :] / self.size[:, None])

    def solve(self, right: Floats) -> Floats:
        """G⁻¹ times a right-hand side (terms, k)."""
        white, _ = self._svd
        return np.asarray(white @ (white.T @ (right / self.size[:, None])) / self.size[:, None])


def calibration(blocks: tuple[LeastSquares, ...], spurious: Floats, among: Ints | None = None) -> Floats:
    """(terms + states, terms + states): the matrix that removes the bias of noise from blocks of rows.

    G is that of finitely many rows. In directions that hold only noise, the estimated share of noise scatters
    about one, and what is clipped remains as bias. With fewer terms there are fewer such directions.

    spurious: C, what noise adds to the Gram matrix of all blocks
    among: the terms that are used; the columns of others become zero; None: all terms
    """
    terms = blocks[0].terms
    among = np.arange(terms) if among is None else among
    # C is known for all blocks together, so that G is that of all blocks too.
    total = triangle(np.vstack([b.factor for b in blocks]))
    whitened = Whitened(triangle(total[:, among]))
    matrix = np.zeros((total.shape[1],) * 2)
    matrix[terms:, terms:] = np.eye(total.shape[1] - terms)
    matrix[np.ix_(among, among)] = whitened.without_noise(spurious[np.ix_(among, among)])
    matrix[among, terms:] = -whitened.solve(spurious[among, terms:])
    return matrix


def calibrated(blocks: tuple[LeastSquares, ...], matrix: Floats) -> tuple[LeastSquares, ...]:
    """The blocks times the matrix of `calibration`."""
    return tuple(LeastSquares(triangle(b.factor @ matrix), b.terms, b.rows) for b in blocks)
