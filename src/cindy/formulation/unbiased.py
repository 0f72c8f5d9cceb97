"""Functions of noisy values whose mean over the noise is the function of the true values.

With Gaussian noise of standard deviation σ the mean of g over the noise is exp(σ²/2 ∂²) g, so exp(−σ²/2 ∂²)
g has the mean g itself. For powers these are Hermite polynomials, Σ_j (−σ²/2)^j n! / (j! (n − 2j)!) y^(n −
2j); for other analytic functions the mean of g(y + iσz) over a standard normal z, by quadrature.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product as cartesian
from typing import Any

import numpy as np

from cindy._types import Floats
from cindy.basis import Factor, Term, call
from cindy.errors import DataError

__all__ = ["Unbiased", "hermite"]


_NODES = 9
"""Of the quadrature over the noise: exact for polynomials of degree 17, to 1e-9 for sin(y) at a noise of
1."""


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
    noise: standard deviation by name; 0 for what is known exactly
    slopes: by derivative factor, its estimate at the samples and the variance of that
    """

    values: Mapping[str, Floats]
    noise: Mapping[str, float]
    slopes: Mapping[Factor, tuple[Floats, Floats]] = field(default_factory=dict)
    _powers: dict[tuple[str, int], Floats] = field(default_factory=dict)

    def __call__(self, term: Term) -> Floats:
        """The term at every sample."""
        curved = [f for f in term if f.kind in ("sin", "cos", "call")]
        mixed = {name for f in curved for name in f.variables if self.noise.get(name, 0.0) > 0}
        result: Floats | None = None
        late = list(curved) if mixed else []
        for factor in term:
            if factor.kind == "variable" and factor.variables[0] not in mixed:
                part = self._power(factor.variables[0], factor.power)
            elif factor.kind == "derivative":
                estimate, variance = self.slopes[factor.base]
                part = hermite(estimate, factor.power, variance)
            elif factor.kind == "variable":
                late.append(factor)
                continue
            elif mixed:
                continue
            else:
                part = _evaluated(factor, self.values)
            result = part if result is None else result * part
        if late:
            part = self._averaged(late, sorted(mixed))
            result = part if result is None else result * part
        return np.ones(next(iter(self.values.values())).shape) if result is None else result

    def _power(self, name: str, power: int) -> Floats:
        y, variance = self.values[name], self.noise.get(name, 0.0) ** 2
        if power < 2:
            return hermite(y, 0, variance) if power == 0 else y
        if (name, power) not in self._powers:
            # The recursion of `hermite`, on what lower powers left behind.
            before: Floats | float = self._power(name, power - 2) if power > 2 else 1.0
            self._powers[name, power] = y * self._power(name, power - 1) - (power - 1) * variance * before
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
                moved[name] = self.values[name] + 1j * self.noise[name] * z[k]
                weight *= w[k]
            part: Any = weight
            for factor in factors:
                part = part * _evaluated(factor, moved)
            total = total + np.real(part)
        return np.asarray(total, dtype=np.float64)


def _evaluated(factor: Factor, values: Mapping[str, Any]) -> Any:
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
                made = factor.expression.evaluate(dict(zip(factor.variables, columns, strict=True)))
            else:
                assert factor.function is not None
                flat = [np.asarray(c).ravel() for c in columns]
                made = np.asarray(factor.function(*flat)).reshape(np.shape(columns[0]))
    except Exception as error:
        raise DataError(
            f"Derivatives: the function {factor.name!r} cannot be corrected for noise, because it does "
            f"not take complex "
            f"numbers ({error}). Use formulas that do, or give noise=0 to Weak."
        ) from error
    return made
