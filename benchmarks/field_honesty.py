"""Fields that must say what they do not know: good ones, laws outside the library, and faulty measurements.

Every case is a field of 96 × 101 values on a ring, from a solution that is exact to some 1e-8, with white
noise of 1 or 5 % of its standard deviation, and the terms of `Derivatives(3, 4)`. Parameters, first fields
and noise are drawn afresh for every seed.

Good fields obey a law of the library, and an alarm there is a false one. Laws outside it have coefficients
that vary in space or time, sources, fractional and nonlocal operators, reactions and diffusivities that are
no polynomials, a field that was not measured, or random forcing. Faults are those of pixels, frames, range
and period. A case is silent where no alarm was given and the law is wrong: other terms, or a coefficient off
by more than 5 standard errors and 3 %.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cindy
from benchmarks.cells import Row, Subset, measured
from benchmarks.table import write

__all__ = ["run"]

Floats = NDArray[np.float64]
Draw = np.random.Generator

SIZE, TIMES, LENGTH = 96, 101, 3.0
X = np.arange(SIZE) * 2 * np.pi / SIZE
T = np.linspace(0.0, LENGTH, TIMES)
K = np.fft.rfftfreq(SIZE, 1.0 / SIZE)
SUBSTEPS = 20
"""Steps of the integrator between two frames."""
NOISE = (0.01, 0.05)
SEEDS = {"good": range(2600, 2610), "outside": range(2600, 2604), "faults": range(2600, 2603)}
BASIS = cindy.Derivatives(3, 4)
HARMLESS = {"dependent-terms", "shared-noise", "fronts", "missing-rows", "outliers", "filled-values"}
"""Findings that are no alarm about the law."""


@dataclass(frozen=True)
class Law:
    """u_t = Σ linear symbol(k) û + rest(u, t); truth: coefficients by name, where the library holds it."""

    symbol: NDArray[np.complex128]
    rest: Callable[[Floats, float], Floats]
    start: Floats
    truth: dict[str, float]
    kick: Callable[[float], Floats] | None = None


def slope(u: Floats, order: int = 1) -> Floats:
    return np.fft.irfft((1j * K) ** order * np.fft.rfft(u), SIZE)


def waves(draw: Draw) -> Floats:
    return np.asarray(sum(draw.normal() * np.sin(m * X + draw.uniform(0, 6)) / m for m in range(1, 7)))


def solved(law: Law, substeps: int = SUBSTEPS) -> Floats:
    """(x, t): by the integrating factor of the linear part and Runge-Kutta of order 4 for the rest."""
    step = (T[1] - T[0]) / substeps
    half, whole = np.exp(0.5 * step * law.symbol), np.exp(step * law.symbol)
    smooth = np.where(np.abs(K) <= SIZE / 3, 1.0, 0.0)

    def rate(v: NDArray[np.complex128], t: float) -> NDArray[np.complex128]:
        return np.asarray(smooth * np.fft.rfft(law.rest(np.fft.irfft(v, SIZE), t)))

    v = smooth * np.fft.rfft(law.start)
    frames = [np.fft.irfft(v, SIZE)]
    for k in range((TIMES - 1) * substeps):
        t = k * step
        a = step * rate(v, t)
        b = step * rate(half * (v + 0.5 * a), t + 0.5 * step)
        c = step * rate(half * v + 0.5 * b, t + 0.5 * step)
        d = step * rate(whole * v + half * c, t + step)
        v = whole * v + (whole * a + 2 * half * (b + c) + d) / 6
        if law.kick is not None:
            v = v + np.fft.rfft(law.kick(step))
        if (k + 1) % substeps == 0:
            frames.append(np.fft.irfft(v, SIZE))
    return np.stack(frames, axis=1)


def nothing(u: Floats, t: float) -> Floats:
    return np.zeros_like(u)


def carried(draw: Draw) -> Law:
    """Transport and diffusion."""
    c, d = draw.uniform(0.7, 1.3), draw.uniform(0.06, 0.14)
    return Law(-c * 1j * K - d * K**2, nothing, waves(draw), {"u_x": -c, "u_xx": d})


def burgers(draw: Draw) -> Law:
    d = draw.uniform(0.08, 0.16)
    return Law(-d * K**2 + 0j, lambda u, t: -0.5 * slope(u * u), waves(draw), {"(u^2)_x": -0.5, "u_xx": d})


def fisher(draw: Draw) -> Law:
    d, r = draw.uniform(0.06, 0.14), draw.uniform(0.8, 1.6)
    start = 0.5 + 0.25 * waves(draw) / 1.2
    return Law(-d * K**2 + 0j, lambda u, t: r * (u - u * u), start, {"u_xx": d, "u": r, "u^2": -r})


def allen_cahn(draw: Draw) -> Law:
    d, r = draw.uniform(0.04, 0.1), draw.uniform(0.8, 1.5)
    return Law(-d * K**2 + 0j, lambda u, t: r * (u - u**3), waves(draw), {"u_xx": d, "u": r, "u^3": -r})


def dispersed(draw: Draw) -> Law:
    """Transport, dispersion and a little diffusion."""
    c, b, d = draw.uniform(0.5, 1.0), draw.uniform(0.02, 0.05), draw.uniform(0.03, 0.06)
    symbol = -c * 1j * K + b * 1j * K**3 - d * K**2
    return Law(symbol, nothing, waves(draw), {"u_x": -c, "u_xxx": -b, "u_xx": d})


def fading(draw: Draw) -> Law:
    c, d, a = draw.uniform(0.7, 1.3), draw.uniform(0.05, 0.1), draw.uniform(0.3, 0.6)
    return Law(-c * 1j * K - d * K**2 - a, nothing, waves(draw), {"u_x": -c, "u_xx": d, "u": -a})


GOOD = {f.__name__: f for f in (carried, burgers, fisher, allen_cahn, dispersed, fading)}


def _besides(draw: Draw, rest: Callable[[Floats, float], Floats]) -> Law:
    """Transport and diffusion, and something more."""
    law = carried(draw)
    return Law(law.symbol, rest, law.start, {})


def speed_in_space(draw: Draw) -> Law:
    a, b = draw.uniform(0.25, 0.5), draw.uniform(0, 6)
    return _besides(draw, lambda u, t: -a * np.sin(X + b) * slope(u))


def diffusivity_in_space(draw: Draw) -> Law:
    a, b = draw.uniform(0.04, 0.06), draw.uniform(0, 6)
    return _besides(draw, lambda u, t: a * np.cos(X + b) * slope(u, 2))


def growth_in_space(draw: Draw) -> Law:
    a, b = draw.uniform(0.4, 0.8), draw.uniform(0, 6)
    return _besides(draw, lambda u, t: a * np.sin(X + b) * u)


def speed_in_time(draw: Draw) -> Law:
    a, b = draw.uniform(0.25, 0.5), draw.uniform(1.5, 3)
    return _besides(draw, lambda u, t: -a * np.sin(b * t) * slope(u))


def source_in_space_and_time(draw: Draw) -> Law:
    a, b = draw.uniform(0.3, 0.6), draw.uniform(1.5, 3)
    return _besides(draw, lambda u, t: a * np.cos(b * t) * np.sin(X))


def source_in_space(draw: Draw) -> Law:
    a, b = draw.uniform(0.2, 0.5), draw.uniform(0, 6)
    return _besides(draw, lambda u, t: a * np.sin(2 * X + b))


def fractional(draw: Draw) -> Law:
    law, a = carried(draw), draw.uniform(0.15, 0.3)
    return Law(-1j * K - a * np.abs(K) ** draw.uniform(1.2, 1.7), nothing, law.start, {})


def nonlocal_jump(draw: Draw) -> Law:
    a, n = draw.uniform(0.5, 1.0), int(draw.integers(9, 18))
    return _besides(draw, lambda u, t: a * (np.roll(u, n) - u))


def sine_reaction(draw: Draw) -> Law:
    a, b = draw.uniform(0.8, 1.2), draw.uniform(2.5, 4)
    return Law(-0.08 * K**2 + 0j, lambda u, t: a * np.sin(b * u), waves(draw), {})


def saturating_uptake(draw: Draw) -> Law:
    a, b = draw.uniform(1.0, 2.0), draw.uniform(0.1, 0.3)
    start = 1.2 + 0.5 * waves(draw)
    return Law(-0.06 * K**2 - 0.5j * K, lambda u, t: -a * u / (b + np.abs(u)), start, {})


def bent_diffusivity(draw: Draw) -> Law:
    """A diffusivity exp(−b u) that no polynomial of degree 3 follows."""
    a, b, start = draw.uniform(0.04, 0.08), draw.uniform(1.5, 2.5), 0.8 * waves(draw)
    return Law(-0.5j * K, lambda u, t: slope(a * np.exp(-b * u) * slope(u)), start, {})


def random_forcing(draw: Draw) -> Law:
    law, a = carried(draw), draw.uniform(0.15, 0.3)
    own = np.random.default_rng(int(draw.integers(1 << 30)))

    def kick(step: float) -> Floats:
        return (
            a
            * np.sqrt(step)
            * np.asarray(sum(own.normal() * np.cos(m * X + own.uniform(0, 6)) for m in range(1, 5)))
        )

    return Law(law.symbol, nothing, law.start, {}, kick)


def switched(draw: Draw) -> Law:
    """A speed that changes at one time."""
    a, when = draw.uniform(0.2, 0.4), draw.uniform(1.0, 2.0)
    return _besides(draw, lambda u, t: -(a if t > when else 0.0) * slope(u))


def patch(draw: Draw) -> Law:
    """A sink in a part of space."""
    a, b = draw.uniform(0.6, 1.0), draw.uniform(0, 6)
    inside = np.exp(4 * (np.cos(X + b) - 1))
    return _besides(draw, lambda u, t: -a * inside * u)


def hidden_field(draw: Draw) -> Law:
    """A source that moves and fades as a second field would."""
    a, other, speed = draw.uniform(0.5, 1.0), waves(draw), draw.uniform(-0.8, 0.8)
    there = np.fft.rfft(other)

    def rest(u: Floats, t: float) -> Floats:
        return a * np.fft.irfft(there * np.exp((-speed * 1j * K - 0.05 * K**2) * t), SIZE)

    return _besides(draw, rest)


OUTSIDE = {
    f.__name__: f
    for f in (
        speed_in_space,
        diffusivity_in_space,
        growth_in_space,
        speed_in_time,
        source_in_space_and_time,
        source_in_space,
        fractional,
        nonlocal_jump,
        sine_reaction,
        saturating_uptake,
        bent_diffusivity,
        random_forcing,
        switched,
        patch,
        hidden_field,
    )
}


@dataclass(frozen=True)
class Fault:
    """before: what happens to the field; after: to its noisy samples; columns: how many are kept."""

    before: Callable[[Floats, Draw], Floats] = lambda u, draw: u
    after: Callable[[Floats, Draw], Floats] = lambda u, draw: u
    columns: int = SIZE


def _offsets(u: Floats, draw: Draw) -> Floats:
    return u + 0.1 * u.std() * draw.normal(size=(SIZE, 1))


def _gains(u: Floats, draw: Draw) -> Floats:
    return u * (1 + 0.05 * draw.normal(size=(SIZE, 1)))


def _dead(u: Floats, draw: Draw) -> Floats:
    u = u.copy()
    u[draw.choice(SIZE, 3, replace=False)] = 0.0
    return u


def _clipped(u: Floats, draw: Draw) -> Floats:
    return np.clip(u, np.quantile(u, 0.05), np.quantile(u, 0.93))


def _dropped(u: Floats, draw: Draw) -> Floats:
    """Frames that are missing untold: the others are taken for evenly spaced."""
    lost = draw.choice(np.arange(15, TIMES - 15), 3, replace=False)
    return np.delete(u, lost, axis=1)


def _drifting_gain(u: Floats, draw: Draw) -> Floats:
    return u * (1 + draw.uniform(0.15, 0.3) * np.sin(draw.uniform(1.0, 2.0) * T))


def _flicker(u: Floats, draw: Draw) -> Floats:
    return u * (1 + 0.03 * draw.normal(size=(1, TIMES)))


def _outliers(u: Floats, draw: Draw) -> Floats:
    return np.where(draw.uniform(size=u.shape) < 0.01, u + 3 * u.std() * draw.normal(size=u.shape), u)


def _holes(u: Floats, draw: Draw) -> Floats:
    return np.where(draw.uniform(size=u.shape) < 0.02, np.nan, u)


FAULTS = {
    "offset pixels": Fault(before=_offsets),
    "unequal gains": Fault(before=_gains),
    "dead pixels": Fault(after=_dead),
    "clipped": Fault(before=_clipped),
    "saturated sensor": Fault(after=_clipped),
    "dropped frames": Fault(after=_dropped),
    "false period": Fault(columns=60),
    "drifting gain": Fault(before=_drifting_gain),
    "flicker": Fault(before=_flicker),
    "outliers": Fault(after=_outliers),
}


def made(
    kind: str, name: str, noise: float, seed: int, substeps: int = SUBSTEPS
) -> tuple[cindy.Field, dict[str, float]]:
    """A field, and the law that it should have; empty where the library lacks it."""
    # Every case draws for itself, whatever others there are.
    draw = np.random.default_rng([seed, sum(map(ord, name)), round(1000 * noise)])
    fault = FAULTS[name] if kind == "faults" else Fault()
    law = (
        list(GOOD.values())[seed % 3](draw)
        if kind == "faults"
        else (GOOD if kind == "good" else OUTSIDE)[name](draw)
    )
    u = solved(law, substeps)
    u = fault.before(u, draw)
    u = fault.after(u + noise * u.std() * draw.normal(size=u.shape), draw)
    part = u[: fault.columns]
    field = cindy.Field(u=part, x=X[: len(part)], t=T[: part.shape[1]], periodic="x")
    return field, law.truth


def _case(kind: str, name: str, noise: float, seed: int) -> Row:
    field, truth = made(kind, name, noise, seed)
    try:
        model = cindy.identify(field, BASIS)
    except cindy.CindyError as error:
        return {"right": 0, "alarm": 1, "codes": "refused", "equation": str(error)[:60], "share": 1.0}
    alarms = [f.code for f in model.findings if f.code not in HARMLESS]
    others = [f.code for f in model.findings if f.code in HARMLESS]
    return {
        "right": int(_right(model, truth)),
        "alarm": int(bool(alarms)),
        "codes": " ".join(dict.fromkeys([*alarms, *(f"({c})" for c in others)])),
        "equation": model.equations()[0].replace(",", ";"),
        "share": 1.0 - model.explained["equations"],
    }


def _right(model: cindy.Model, truth: dict[str, float]) -> bool:
    terms = {model.terms[k]: k for k in np.flatnonzero(model.coef[:, 0])}
    if set(terms) != set(truth):
        return False
    for name, k in terms.items():
        off = abs(model.coef[k, 0] - truth[name])
        if off > 5 * model.coef_error[k, 0] and off > 0.03 * abs(truth[name]):
            return False
    return True


def run(subset: Subset) -> None:
    """One table by case, and one line a kind."""
    kinds = subset.pick("methods", list(SEEDS))
    known = {"good": list(GOOD), "outside": list(OUTSIDE), "faults": list(FAULTS)}
    cells: list[Row] = [
        {"kind": kind, "name": name, "noise": noise, "seed": seed}
        for kind in kinds
        for name in known[kind]
        if not subset.names or name in subset.names
        for noise in subset.pick("noise", NOISE)
        for seed in (subset.seeds or SEEDS[kind])
    ]
    rows = measured("field_honesty_cells", cells, _case, subset)
    table: list[dict[str, Any]] = []
    for kind in known:
        for name in (*known[kind], "all"):
            part = [r for r in rows if r["kind"] == kind and name in (r["name"], "all")]
            if part:
                silent = sum(not r["alarm"] and not r["right"] for r in part)
                table.append(
                    {
                        "kind": kind,
                        "case": name,
                        "fields": len(part),
                        "right": "" if kind == "outside" else sum(r["right"] for r in part),
                        "alarm": sum(r["alarm"] for r in part),
                        "silent": silent if kind != "good" else "",
                    }
                )
    write(
        "field_honesty",
        "Fields that must say what they do not know",
        table,
        "Right: the terms exactly, and no coefficient off by more than 5 standard errors and 3 %. Alarm: a "
        "finding about law or data. Silent: neither. Grid 96 × 101, noise of 1 and 5 % of the standard "
        "deviation, Derivatives(3, 4), no setting changed between cases.",
        folder=subset.out,
        how="counts",
    )
