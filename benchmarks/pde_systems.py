"""Twelve partial differential equations with known coefficients, and a solution of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from benchmarks.attempt import truth_of
from cindy._arrays import Floats
from cindy.basis import Basis, Derivatives, Factor, Trigonometric
from cindy.data import Field
from cindy.model.spectral import Spectral, Summand, spectral_solution

__all__ = [
    "FieldSystem",
    "allen_cahn",
    "burgers",
    "fisher_kpp",
    "inviscid_burgers",
    "kdv",
    "kuramoto_sivashinsky",
    "lambda_omega",
    "pde_systems",
    "porous_medium",
    "schrodinger",
    "sine_gordon",
    "transport",
    "vorticity",
]

Truth = Mapping[tuple[str, str], float]

_TOLERANCE = 1e-10
"""Of the solutions that are called exact: far below any noise that is added to them."""


@dataclass(frozen=True, eq=False)
class FieldSystem:
    """A partial differential equation, its dictionary, its true coefficients, and one solution of it.

    solution: makes the exact field; called once
    equations: the true coefficient of each (field, term) that is not zero
    known: fields whose equations are known; the others are measured, but no equation of the dictionary moves
        them
    order: 2 for u_tt = F
    """

    name: str
    basis: Basis
    equations: Mapping[tuple[str, str], float]
    solution: Callable[[], Field]
    known: tuple[str, ...]
    order: int = 1

    @cached_property
    def exact(self) -> Field:
        """The solution without noise, to 1e-10 of its size."""
        return _once(self.solution)

    @cached_property
    def coef(self) -> Floats:
        """The true coefficients, (terms, fields)."""
        field = self.exact
        basis = self.basis.on_axes(field.axes)
        return truth_of(basis, field.variables, self.equations, len(field.states))

    def simulate(self, seed: int = 0, *, noise: float = 0.0) -> Field:
        """The solution with white Gaussian noise, of `noise` times the root mean square of each field."""
        field = self.exact
        draw = np.random.default_rng(seed)
        values = {}
        for state in field.states:
            u = field[state]
            values[state] = u + noise * np.sqrt(np.mean(u**2)) * draw.standard_normal(u.shape)
        return field.with_values(field.t, values)


@lru_cache(maxsize=32)
def _once(solution: Callable[[], Field]) -> Field:
    return solution()


def _grid(low: float, high: float, n: int) -> Floats:
    return low + (high - low) * np.arange(n) / n


def _smooth(n: int, modes: int, seed: int, dimensions: int = 1) -> Floats:
    """Smooth random values on a periodic grid, of root mean square 1: a Gaussian spectrum of that many
    modes."""
    draw = np.random.default_rng(seed)
    # Modes are drawn one by one in order of size, so that a finer grid has the same values.
    white = np.zeros((n,) * dimensions)
    x = np.arange(n) * 2 * np.pi / n
    grids = np.meshgrid(*[x] * dimensions, indexing="ij")
    for k in np.ndindex(*(2 * modes + 1,) * dimensions):
        wave = np.array(k) - modes
        a, b = draw.standard_normal(2) * np.exp(-np.sum(wave**2) / (modes / 1.5) ** 2)
        phase = sum(w * g for w, g in zip(wave, grids, strict=True))
        white += a * np.cos(phase) + b * np.sin(phase)
    white -= white.mean()
    return np.asarray(white / np.sqrt(np.mean(white**2)))


def _solved(
    truth: Truth,
    basis: Derivatives,
    start: Mapping[str, Floats],
    axes: Mapping[str, tuple[float, float]],
    t: Floats,
    *,
    order: int = 1,
    every: int = 1,
) -> Field:
    """The solution on a periodic grid; of a finer one every so many samples."""
    states, names = tuple(start), tuple(axes)
    shape = next(iter(start.values())).shape
    periods = tuple(high - low for low, high in axes.values())
    system = Spectral(
        _summands(truth, basis.on_axes(names), states, names),
        states,
        names,
        shape,
        periods,
        lambda _: {},
        order,
    )
    first = np.stack([*start.values(), *(np.zeros(shape),) * (len(states) * (order - 1))])
    found, stopped = spectral_solution(system, first, t, rtol=_TOLERANCE, growth=1e6)
    assert stopped is None, stopped
    values = np.stack(found)[(slice(None), slice(None), *(slice(None, None, every),) * len(shape))]
    coordinates = {
        axis: _grid(low, high, n)[::every] for (axis, (low, high)), n in zip(axes.items(), shape, strict=True)
    }
    fields = {state: np.moveaxis(values[:, i], 0, -1) for i, state in enumerate(states)}
    arrays: dict[str, Any] = {**coordinates, "t": t, **fields}
    return Field(**arrays, periodic=names)


def _summands(
    truth: Truth, basis: Derivatives, states: tuple[str, ...], axes: Sequence[str]
) -> list[Summand]:
    found: list[Summand] = []
    for name, term in zip(basis.names(states), basis.terms(states), strict=True):
        coef = np.array([truth.get((state, name), 0.0) for state in states])
        if coef.any():
            whole = len(term) == 1 and term[0].kind == "derivative"
            orders = tuple(term[0].by.count(axis) if whole else 0 for axis in axes)
            found.append((term[0].of if whole else term, orders, coef))
    return found


def burgers() -> FieldSystem:
    """u_t = −u u_x + 0.1 u_xx: a hump that steepens and spreads."""
    truth = {("u", "(u^2)_x"): -0.5, ("u", "u_xx"): 0.1}
    basis = Derivatives(4, 4)
    x = _grid(-8, 8, 512)

    def made() -> Field:
        return _solved(
            truth, basis, {"u": np.exp(-((x + 2) ** 2))}, {"x": (-8, 8)}, np.linspace(0, 10, 101), every=2
        )

    return FieldSystem("Burgers", basis, truth, made, ("u",))


def inviscid_burgers() -> FieldSystem:
    """u_t = −u u_x from a sine, through the shock at t = 1, by its characteristics."""

    def made() -> Field:
        # Samples lie on both sides of the shock at π, none on it.
        x = (np.arange(256) + 0.5) * 2 * np.pi / 256
        t = np.linspace(0, 2, 201)
        left = np.minimum(x, 2 * np.pi - x)[:, None]
        low, high = np.zeros((len(x), len(t))), np.broadcast_to(left, (len(x), len(t)))
        # Foot a of the characteristic through (x, t): the least root of a + t sin a = x. Beyond its maximum,
        # where cos a = −1/t, the left side falls; the root lies before.
        with np.errstate(divide="ignore", invalid="ignore"):
            top = np.where(t > 1, np.arccos(np.clip(-1.0 / np.maximum(t, 1e-300), -1, 1)), np.pi)
        high = np.minimum(high, top[None, :])
        for _ in range(80):
            middle = 0.5 * (low + high)
            below = middle + t * np.sin(middle) < left
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        u = np.sin(0.5 * (low + high)) * np.where(x < np.pi, 1.0, -1.0)[:, None]
        return Field(u=u, x=x, t=t, periodic="x")

    return FieldSystem("inviscid Burgers", Derivatives(4, 4), {("u", "(u^2)_x"): -0.5}, made, ("u",))


def kdv() -> FieldSystem:
    """u_t = −6 u u_x − u_xxx: a tall soliton overtakes a small one."""
    truth = {("u", "(u^2)_x"): -3.0, ("u", "u_xxx"): -1.0}
    basis = Derivatives(4, 4)
    x = _grid(-20, 20, 512)

    def soliton(speed: float, at: float) -> Floats:
        # With its images on either side: a kink at the ends would make waves of its own.
        away = x - at + 40.0 * np.arange(-2, 3)[:, None]
        return np.asarray(np.sum(0.5 * speed / np.cosh(0.5 * np.sqrt(speed) * away) ** 2, axis=0))

    def made() -> Field:
        start = {"u": soliton(3.0, -12.0) + soliton(1.2, -4.0)}
        return _solved(truth, basis, start, {"x": (-20, 20)}, np.linspace(0, 8, 201), every=2)

    return FieldSystem("Korteweg-de Vries", basis, truth, made, ("u",))


def kuramoto_sivashinsky() -> FieldSystem:
    """u_t = −u u_x − u_xx − u_xxxx: chaos in space and time."""
    truth = {("u", "(u^2)_x"): -0.5, ("u", "u_xx"): -1.0, ("u", "u_xxxx"): -1.0}
    basis = Derivatives(4, 4)
    high = 32 * np.pi
    x = _grid(0, high, 256)

    def made() -> Field:
        start = {"u": np.cos(x / 16) * (1 + np.sin(x / 16))}
        return _solved(truth, basis, start, {"x": (0, high)}, np.linspace(0, 150, 251))

    return FieldSystem("Kuramoto-Sivashinsky", basis, truth, made, ("u",))


def transport() -> FieldSystem:
    """u_t = −u_x + 0.05 u_xx: a shape that is carried along and spreads."""
    truth = {("u", "u_x"): -1.0, ("u", "u_xx"): 0.05}
    basis = Derivatives(4, 4)

    def made() -> Field:
        start = {"u": _smooth(256, 6, 1)}
        return _solved(truth, basis, start, {"x": (0, 2 * np.pi)}, np.linspace(0, 3, 151))

    return FieldSystem("transport", basis, truth, made, ("u",))


def allen_cahn() -> FieldSystem:
    """u_t = 0.05 u_xx + u − u³: phases that part."""
    truth = {("u", "u_xx"): 0.05, ("u", "u"): 1.0, ("u", "u^3"): -1.0}
    basis = Derivatives(4, 4)

    def made() -> Field:
        start = {"u": 0.6 * _smooth(256, 8, 2)}
        return _solved(truth, basis, start, {"x": (0, 4 * np.pi)}, np.linspace(0, 6, 201))

    return FieldSystem("Allen-Cahn", basis, truth, made, ("u",))


def fisher_kpp() -> FieldSystem:
    """u_t = 0.1 u_xx + u − u²: fronts that invade."""
    truth = {("u", "u_xx"): 0.1, ("u", "u"): 1.0, ("u", "u^2"): -1.0}
    basis = Derivatives(4, 4)
    x = _grid(-10, 10, 256)

    def made() -> Field:
        start = {"u": 0.8 * np.exp(-((x + 4) ** 2)) + 0.5 * np.exp(-2 * (x - 3) ** 2)}
        return _solved(truth, basis, start, {"x": (-10, 10)}, np.linspace(0, 8, 161))

    return FieldSystem("Fisher-KPP", basis, truth, made, ("u",))


def schrodinger() -> FieldSystem:
    """i ψ_t = −½ ψ_xx − |ψ|² ψ with ψ = u + i v: a breather."""
    truth = {
        ("u", "v_xx"): -0.5,
        ("u", "u^2 v"): -1.0,
        ("u", "v^3"): -1.0,
        ("v", "u_xx"): 0.5,
        ("v", "u^3"): 1.0,
        ("v", "u v^2"): 1.0,
    }
    basis = Derivatives(3, 4)
    x = _grid(-5, 5, 512)

    def made() -> Field:
        images = x + 10.0 * np.arange(-4, 5)[:, None]
        start = {"u": np.sum(2 / np.cosh(images), axis=0), "v": 0 * x}
        return _solved(truth, basis, start, {"x": (-5, 5)}, np.linspace(0, np.pi, 251), every=2)

    return FieldSystem("nonlinear Schrödinger", basis, truth, made, ("u", "v"))


def sine_gordon() -> FieldSystem:
    """u_tt = u_xx − sin u: humps that swing through each other."""
    truth = {("u", "u_xx"): 1.0, ("u", "sin(u)"): -1.0}
    basis = Derivatives(3, 4, of=Trigonometric(1))
    x = _grid(-15, 15, 256)

    def made() -> Field:
        start = {"u": 4 * np.exp(-((x + 5) ** 2) / 4) - 3 * np.exp(-((x - 4) ** 2) / 3)}
        return _solved(truth, basis, start, {"x": (-15, 15)}, np.linspace(0, 20, 251), order=2)

    return FieldSystem("sine-Gordon", basis, truth, made, ("u",), order=2)


class _Flow(Spectral):
    """Vorticity, moved by the velocity that it makes."""

    def rest(self, t: float, modes: NDArray[np.complex128]) -> NDArray[np.complex128]:
        u, v = self.velocity(modes[0])
        w = self.backward(modes[:1])[0]
        moved = self.multiplier((1, 0)) * scipy.fft.rfftn(u * w) + self.multiplier((0, 1)) * scipy.fft.rfftn(
            v * w
        )
        return np.asarray(-(moved * self.keep)[None])

    def velocity(self, w: NDArray[np.complex128]) -> tuple[Floats, Floats]:
        square = self.waves[0] ** 2 + self.waves[1] ** 2
        stream = np.where(square > 0, w / np.where(square > 0, square, 1.0), 0.0)
        u = scipy.fft.irfftn(self.multiplier((0, 1)) * stream, s=self.shape)
        return np.asarray(u), -np.asarray(scipy.fft.irfftn(self.multiplier((1, 0)) * stream, s=self.shape))


def vorticity() -> FieldSystem:
    """w_t = −(u w)_x − (v w)_y + 0.01 (w_xx + w_yy): eddies in two dimensions, the velocity (u, v)
    measured too."""
    viscosity = 0.01
    truth = {
        ("w", "(w u)_x"): -1.0,
        ("w", "(w v)_y"): -1.0,
        ("w", "w_xx"): viscosity,
        ("w", "w_yy"): viscosity,
    }

    def made() -> Field:
        n, length = 64, 2 * np.pi
        linear = [
            ((Factor("variable", ("w",)),), orders, np.array([viscosity])) for orders in ((2, 0), (0, 2))
        ]
        system = _Flow(linear, ("w",), ("x", "y"), (n, n), (length, length), lambda _: {})
        t = np.linspace(0, 6, 81)
        found, _ = spectral_solution(system, 2.0 * _smooth(n, 4, 3, 2)[None], t, rtol=_TOLERANCE, growth=1e6)
        w = np.stack([f[0] for f in found], axis=-1)
        both = [system.velocity(system.forward(f)[0]) for f in found]
        u, v = (np.stack([pair[i] for pair in both], axis=-1) for i in range(2))
        return Field(w=w, u=u, v=v, x=_grid(0, length, n), y=_grid(0, length, n), t=t, periodic=("x", "y"))

    return FieldSystem("vorticity", Derivatives(2, 2), truth, made, ("w",))


def lambda_omega() -> FieldSystem:
    """Two reacting, diffusing fields in two dimensions whose phases turn: spirals."""
    truth: dict[tuple[str, str], float] = {}
    for state in ("u", "v"):
        truth |= {(state, f"{state}_{axes}"): 0.1 for axes in ("xx", "yy")} | {(state, state): 1.0}
    truth |= {("u", "u^3"): -1.0, ("u", "u v^2"): -1.0, ("u", "u^2 v"): 1.0, ("u", "v^3"): 1.0}
    truth |= {("v", "u^2 v"): -1.0, ("v", "v^3"): -1.0, ("v", "u^3"): -1.0, ("v", "u v^2"): -1.0}
    basis = Derivatives(3, 2)

    def made() -> Field:
        start = {"u": 0.8 * _smooth(64, 3, 4, 2), "v": 0.8 * _smooth(64, 3, 5, 2)}
        axes = {"x": (-10.0, 10.0), "y": (-10.0, 10.0)}
        return _solved(truth, basis, start, axes, np.linspace(0, 8, 101))

    return FieldSystem("λ-ω reaction-diffusion", basis, truth, made, ("u", "v"))


def porous_medium() -> FieldSystem:
    """u_t = 0.3 (u²)_xx − 0.8 (u²)_xy + (u²)_yy: humps that spread faster the higher they are, askew."""
    truth = {("u", "(u^2)_xx"): 0.3, ("u", "(u^2)_xy"): -0.8, ("u", "(u^2)_yy"): 1.0}
    basis = Derivatives(4, 2)

    def made() -> Field:
        x = _grid(-5, 5, 64)
        a, b = np.meshgrid(x, x, indexing="ij")
        humps = np.exp(-((a - 1.5) ** 2 + b**2)) + 0.8 * np.exp(-((a + 2) ** 2 + (b - 1.5) ** 2) / 1.5)
        start = {"u": 0.05 + humps + 0.6 * np.exp(-(a**2 + (b + 2.5) ** 2) / 1.2)}
        return _solved(truth, basis, start, {"x": (-5.0, 5.0), "y": (-5.0, 5.0)}, np.linspace(0, 2.5, 101))

    return FieldSystem("porous medium", basis, truth, made, ("u",))


def pde_systems() -> tuple[FieldSystem, ...]:
    """The twelve, from one dimension to two."""
    one = (burgers, inviscid_burgers, kdv, kuramoto_sivashinsky, transport, allen_cahn, fisher_kpp)
    two = (schrodinger, sine_gordon, vorticity, lambda_omega, porous_medium)
    return tuple(make() for make in (*one, *two))
