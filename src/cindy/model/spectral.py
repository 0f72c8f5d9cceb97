"""Solutions of u_t = L u + N(u) on periodic axes of space, by exponential time differencing.

L is the linear part, which is a small matrix for every wavenumber, and N the rest.

1. Over a step h the linear part is solved exactly, by φ₀(h L) = e^{h L}, and N enters with the weights
   φ₁ … φ₃ of the Runge-Kutta scheme ETDRK4 (Cox and Matthews, J. Comput. Phys. 176, 2002).
2. The φ functions come from their series and repeated doubling. That avoids divisions by eigenvalues near
   zero, which would lose all digits (Kassam and Trefethen, SIAM J. Sci. Comput. 26, 2005).
3. Products are computed on the grid, without the modes that would fold back as aliases (Orszag's rule).
4. Each stretch between two times is computed in n, 2 n, … steps and extrapolated to steps of length zero.
   n is doubled until the last extrapolation changes less than the tolerance.

A step costs a few Fourier transforms for each term.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import factorial

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats
from cindy.basis import Factor, Term, call

Complexes = NDArray[np.complex128]
Summand = tuple[Term, tuple[int, ...], Floats]

_TAYLOR = 14
"""Highest power of the series for arguments up to 1/2: the next adds 0.5^15 / 15!, below rounding."""
_LOOSE_RTOL = 1e-7
"""Tolerance from which two computations of a stretch are cheaper than four of a higher order."""
_HOPELESS = 0.1
"""Relative error, at a sixteenth of the most steps, from which the solution is given up. With fewer steps the
error may be that of unstable steps; trying all of them would take a minute if the solution blows up."""


@dataclass(frozen=True, eq=False)
class Spectral:
    """Right-hand sides on a periodic grid.

    summands: (function, orders of its derivative by axis, coefficients (states,))
    states, shape, periods: of the grid; axes: their names
    known: inputs as a function of time, by name
    order: 2 for u_tt = F, with rates after the fields
    """

    summands: Sequence[Summand]
    states: tuple[str, ...]
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    periods: tuple[float, ...]
    known: Callable[[float], dict[str, Floats]]
    order: int = 1

    @cached_property
    def waves(self) -> list[Floats]:
        """The wavenumbers along every axis, shaped to broadcast; of the last axis those from zero on."""
        *others, last = zip(self.shape, self.periods, strict=True)
        numbers = [np.fft.fftfreq(n, length / n) for n, length in others]
        numbers.append(np.fft.rfftfreq(last[0], last[1] / last[0]))
        return list(np.meshgrid(*(2 * np.pi * each for each in numbers), indexing="ij", sparse=True))

    def multiplier(self, orders: Sequence[int]) -> Complexes:
        """The factor of a derivative for every mode; 0 for the fastest at odd orders, as it has no phase."""
        total = np.ones([1] * len(self.shape), dtype=complex)
        for k, order in enumerate(orders):
            if order:
                factor = (1j * self.waves[k]) ** order
                if order % 2 and self.shape[k] % 2 == 0:
                    factor = np.where(
                        np.abs(self.waves[k]) >= np.abs(self.waves[k]).max() * (1 - 1e-12), 0.0, factor
                    )
                total = total * factor
        return total

    @cached_property
    def modes(self) -> tuple[int, ...]:
        return (*self.shape[:-1], self.shape[-1] // 2 + 1)

    @cached_property
    def linear(self) -> Complexes:
        """(modes …, D, D): the linear part, D = states · order."""
        d = len(self.states)
        matrix = np.zeros((*self.modes, d * self.order, d * self.order), dtype=complex)
        for term, orders, coef in self.summands:
            if _is_linear(term, self.states):
                j = self.states.index(term[0].variables[0])
                at = np.broadcast_to(self.multiplier(orders), self.modes)
                for i in map(int, np.flatnonzero(coef)):
                    matrix[..., d * (self.order - 1) + i, j] += coef[i] * at
        if self.order == 2:
            for i in range(d):
                matrix[..., i, d + i] = 1.0
        return matrix

    @cached_property
    def keep(self) -> Floats:
        """1 for modes that no alias of a product reaches, 0 for others (step 3)."""
        degree = max((sum(f.power for f in term) for term, _, _ in self._curved), default=1)
        # A product of p fields has p times their wavenumbers, of which those beyond the grid fold back. Two
        # thirds of the modes stay clean for squares.
        share = 2.0 / (min(degree, 3) + 1.0)
        inside = np.ones(self.modes, dtype=bool)
        for k, wave in enumerate(self.waves):
            most = np.pi * self.shape[k] / self.periods[k]
            inside &= np.abs(wave) <= share * most * (1 + 1e-12)
        return inside.astype(float)

    @cached_property
    def _curved(self) -> list[Summand]:
        return [s for s in self.summands if not _is_linear(s[0], self.states) and np.any(s[2])]

    def forward(self, values: Floats) -> Complexes:
        return np.asarray(np.fft.rfftn(values, axes=range(1, values.ndim)))

    def backward(self, modes: Complexes) -> Floats:
        return np.asarray(np.fft.irfftn(modes, s=self.shape, axes=range(1, modes.ndim)))

    def rest(self, t: float, modes: Complexes) -> Complexes:
        """N, the part that is not linear, (D, modes …)."""
        d = len(self.states)
        out = np.zeros_like(modes)
        if not self._curved:
            return out
        # Step 3: products on the grid, and their modes without aliases.
        values = dict(zip(self.states, self.backward(modes[:d]), strict=True)) | self.known(t)
        where = dict(zip(self.states, modes[:d], strict=True))
        for terms, multipliers in self._operators:
            modes_of = np.fft.rfftn(self._evaluated(terms, values, where))
            for i, factor in multipliers:
                out[d * (self.order - 1) + i] += factor * modes_of
        return out

    @cached_property
    def _operators(self) -> list[tuple[Term, list[tuple[int, Complexes]]]]:
        """Every function once, with the factors of its modes in each equation."""
        by_term: dict[Term, dict[int, Complexes]] = {}
        for term, orders, coef in self._curved:
            factors = by_term.setdefault(term, {})
            for i in map(int, np.flatnonzero(coef)):
                factor = coef[i] * self.keep * self.multiplier(orders)
                factors[i] = factors[i] + factor if i in factors else factor
        return [(term, list(factors.items())) for term, factors in by_term.items()]

    def _evaluated(self, term: Term, values: dict[str, Floats], modes: dict[str, Complexes]) -> Floats:
        product = values_of(term, values, lambda factor: self._slope(factor, values, modes))
        return np.broadcast_to(product, self.shape)

    def _slope(self, factor: Factor, values: dict[str, Floats], modes: dict[str, Complexes]) -> Floats:
        orders = [factor.by.count(axis) for axis in self.axes]
        inner = modes.get(factor.of[0].variables[0]) if _is_linear(factor.of, self.states) else None
        if inner is None:
            inner = np.fft.rfftn(self._evaluated(factor.of, values, modes))
        return np.asarray(self.backward((self.multiplier(orders) * inner)[None])[0])

    def stepper(self, h: float) -> Callable[[float, Complexes], Complexes]:
        """One step of length h (step 1)."""
        half, whole = self._phi(0.5 * h), self._phi(h)
        e2, a = half[0], 0.5 * h * half[1]
        e1 = whole[0]
        first = h * (whole[1] - 3.0 * whole[2] + 4.0 * whole[3])
        middle = h * (2.0 * whole[2] - 4.0 * whole[3])
        last = h * (4.0 * whole[3] - whole[2])

        def step(t: float, u: Complexes) -> Complexes:
            n0 = self.rest(t, u)
            moved = self._times(e2, u)
            first_stage = moved + self._times(a, n0)
            n1 = self.rest(t + 0.5 * h, first_stage)
            second_stage = moved + self._times(a, n1)
            n2 = self.rest(t + 0.5 * h, second_stage)
            third_stage = self._times(e2, first_stage) + self._times(a, 2.0 * n2 - n0)
            n3 = self.rest(t + h, third_stage)
            return (
                self._times(e1, u)
                + self._times(first, n0)
                + self._times(middle, n1 + n2)
                + self._times(last, n3)
            )

        return step

    @cached_property
    def _coupled(self) -> bool:
        size = self.linear.shape[-1]
        return bool(np.any(self.linear[..., ~np.eye(size, dtype=bool)]))

    def _times(self, matrix: Complexes, u: Complexes) -> Complexes:
        if not self._coupled:
            return np.asarray(matrix * u)
        return np.asarray(np.einsum("ij...,j...->i...", matrix, u))

    def _phi(self, h: float) -> list[Complexes]:
        """φ₀ … φ₃ of h times the linear part: (D, D, modes …), or (D, modes …) where nothing is coupled."""
        if self._coupled:
            functions = _phi_functions(h * self.linear, coupled=True)
            return [np.ascontiguousarray(np.moveaxis(f, (-2, -1), (0, 1))) for f in functions]
        diagonal = np.moveaxis(np.diagonal(self.linear, axis1=-2, axis2=-1), -1, 0)
        return _phi_functions(h * diagonal, coupled=False)


def _phi_functions(z: Complexes, *, coupled: bool) -> list[Complexes]:
    """φ_k(z) = Σ_j z^j / (j + k)!, k = 0 … 3, by the series of z / 2^s, and φ_k(2z) from φ_j(z) (step 2)."""
    # The scaling makes |z| / 2^s at most 1/2, where few terms of the series are enough.
    largest = float(np.abs(z).sum(axis=-1).max() if coupled else np.abs(z).max())
    doublings = max(0, int(np.ceil(np.log2(max(largest, 1e-300) / 0.5))))
    small = z / 2.0**doublings

    def times(a: Complexes, b: Complexes) -> Complexes:
        return np.asarray(a @ b if coupled else a * b)

    unit = np.broadcast_to(np.eye(z.shape[-1], dtype=complex), z.shape) if coupled else np.ones_like(z)
    functions = []
    for k in range(4):
        total = np.zeros_like(z)
        for j in range(_TAYLOR, -1, -1):
            # Horner's rule.
            total = times(total, small) + unit / factorial(j + k)
        functions.append(total)
    for k in range(doublings):
        # Repeated squaring loses a digit every three times; a single number has its own exponential instead.
        e = functions[0] if coupled else np.exp(small * 2.0**k)
        functions = [times(e, e)] + [
            (times(e, functions[m]) + sum(functions[j] / factorial(m - j) for j in range(1, m + 1))) / 2.0**m
            for m in range(1, 4)
        ]
    return functions if coupled else [np.exp(z), *functions[1:]]


def values_of(term: Term, values: Mapping[str, Floats], derivative: Callable[[Factor], Floats]) -> Floats:
    """A term on a grid, from values of its variables; `derivative` gives factors that are derivatives."""
    product: Floats | None = None
    for factor in term:
        arguments = [values[name] for name in factor.variables]
        if factor.kind == "derivative":
            base = derivative(factor)
        elif factor.kind == "variable":
            base = arguments[0]
        elif factor.kind == "call":
            columns = np.broadcast_arrays(*arguments)
            flat = call(factor, [column.ravel() for column in columns], finite=False)
            base = flat.reshape(columns[0].shape)
        else:
            base = getattr(np, factor.kind)(factor.frequency * arguments[0])
        # Products, not powers: numpy's power is twenty times slower.
        for _ in range(factor.power):
            product = base if product is None else product * base
    return np.ones(1) if product is None else product


def _is_linear(term: Term, states: tuple[str, ...]) -> bool:
    return (
        len(term) == 1
        and term[0].kind == "variable"
        and term[0].power == 1
        and term[0].variables[0] in states
    )


def spectral_solution(
    system: Spectral,
    start: Floats,
    t: Floats,
    *,
    rtol: float,
    growth: float,
    most: int = 1 << 14,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[Floats], str | None]:
    """The fields at the times t from `start` (D, space …), and why they ended early if they did (step 4)."""
    rows = 2 if rtol >= _LOOSE_RTOL else 4
    weights = [_extrapolation(rows - 1), _extrapolation(rows)]
    steppers = lru_cache(maxsize=24)(system.stepper)
    space = tuple(range(1, start.ndim))
    scale = np.maximum(np.sqrt(np.mean(start**2, axis=space)), 1e-300)
    bound = growth * (float(np.max(np.abs(start))) or 1.0)
    u = system.forward(start)
    out, count = [start], 1
    with np.errstate(all="ignore"):
        for k in range(1, len(t)):
            # Steps of an even grid differ by rounding. Rounded further they share one stepper, which is
            # expensive to build.
            length = float(f"{t[k] - t[k - 1]:.12e}")
            # Step 4.
            while True:
                runs = [
                    _run(steppers(length / (j * count)), j * count, t[k - 1], length, u)
                    for j in range(1, rows + 1)
                ]
                modes = sum(w * run for w, run in zip(weights[1], runs, strict=True))
                less = sum(w * run for w, run in zip(weights[0], runs[:-1], strict=True))
                values = system.backward(modes)
                # The difference of extrapolations of neighbouring order is the error of the lower order.
                apart = np.sqrt(np.mean(system.backward(modes - less) ** 2, axis=space))
                size = np.maximum(np.sqrt(np.mean(values**2, axis=space)), scale)
                error = float(np.max(apart / size))
                if error <= rtol:
                    break
                count *= 2
                if count > most // 16 and not error < _HOPELESS:
                    where = f"t = {t[k - 1]:g} … {t[k]:g}"
                    return out, f"the solution blows up between {where}"
                if count > most:
                    where = f"t = {t[k - 1]:g} … {t[k]:g}"
                    return out, f"the solution blows up, or needs more than {most} steps, between {where}"
            if not np.isfinite(values).all() or np.abs(values).max() > bound:
                return out, f"the solution exceeds {growth:g} times its first values after t = {t[k - 1]:g}"
            u = modes
            out.append(values)
            # Half as many steps are enough too, since the difference is of order h^(rows + 2).
            if error < rtol / 2.0 ** (rows + 4) and count > 1:
                count //= 2
            if progress is not None:
                progress(k, len(t) - 1)
    return out, None


def _extrapolation(rows: int) -> Floats:
    """Richardson's weights of the results with 1, 2, …, rows times n steps: they cancel errors h⁴, h⁵, …"""
    h = 1.0 / np.arange(1, rows + 1)
    powers = np.vstack([np.ones(rows), *(h ** (4 + j) for j in range(rows - 1))])
    return np.linalg.solve(powers, np.eye(rows)[0])


def _run(
    step: Callable[[float, Complexes], Complexes], count: int, t: float, length: float, u: Complexes
) -> Complexes:
    for j in range(count):
        u = step(t + length * j / count, u)
    return u
