"""Partial differential equations: right terms and errors against noise, and pysindy's weak form beside
them; short records of transport and heat, and what such data can tell at best."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cindy
from benchmarks.cells import Subset, measured
from benchmarks.pde_systems import FieldSystem, pde_systems
from benchmarks.table import write

__all__ = ["run"]

Floats = NDArray[np.float64]

NOISE = (0.01, 0.1, 0.25, 0.5, 1.0)
SEEDS = tuple(range(430, 435))
PEERLESS = ("sine-Gordon", "porous medium")
"""A second derivative by time and (u²)_xx are not among the peer's terms."""
WIDTHS = (1 / 40, 1 / 20, 1 / 12, 1 / 8, 1 / 6, 1 / 4)
"""Half-widths of the peer's domains, as shares of each axis."""
PLANE_WIDTHS = (1 / 12, 1 / 8, 1 / 6)
"""In the plane, where rows of the peer take ten times as long."""
PEERED_NOISE = (0.01, 0.1, 0.5)
THRESHOLDS = np.logspace(-3, 0.5, 14)
DOMAINS = 300
IN_THE_PLANE = {"vorticity": (2, 2), "λ-ω reaction-diffusion": (3, 2)}
"""Degree and order of the peer's terms there, as cindy has them; on a line 3 and 4."""
DRAWS = 20


def run(subset: Subset) -> None:
    """The twelve equations, short records, and the peer; `--methods cindy` leaves the peer out."""
    systems = {s.name: s for s in pde_systems() if not subset.names or s.name in subset.names}
    levels, seeds = subset.pick("noise", NOISE), subset.pick("seeds", SEEDS)
    cells = [
        {"equation": name, "noise": noise, "draw": seed}
        for name in systems
        for noise in levels
        for seed in seeds
    ]

    def fitted(equation: str, noise: float, draw: int) -> dict[str, Any]:
        return _cell(_ours(systems[equation], noise, draw))

    every = [
        cell
        for cell in measured("pde_cells", cells, fitted, subset)
        if cell["equation"] in systems and cell["noise"] in levels and cell["draw"] in seeds
    ]
    rows = [
        _row(system, [cell for cell in every if cell["equation"] == name]) for name, system in systems.items()
    ]
    total = {f"{level:.0%}": sum(c["right"] for c in every if c["noise"] == level) for level in levels}
    rows.append({"equation": "all", "terms": "", **total, "z": _z(every)})
    within = sum(c["within"] for c in every) / max(sum(c["coefficients"] for c in every), 1)
    notes = (
        f"Right terms exactly, of {len(seeds)} draws of the noise ({min(seeds)} to {max(seeds)}; "
        f"{len(seeds) * len(systems)} in the last row), and the median relative error of the coefficients, "
        f"cindy {cindy.__version__}. No setting changes between equations. z: root mean square of the "
        "coefficients' errors in units of their standard errors, all levels together; "
        f"{within:.0%} of them lie within 2."
    )
    write("pde", "Partial differential equations in noise", rows, notes, folder=subset.out)
    methods = subset.pick("methods", ("cindy", "pysindy"))
    if "cindy" in methods and not subset.seeds:
        _short_records(subset)
    if "pysindy" in methods:
        _peers_beside(subset, systems, levels, seeds[0])


def _peers_beside(subset: Subset, systems: dict[str, FieldSystem], levels: list[float], seed: int) -> None:
    cells = []
    for name in systems:
        some = [] if name in PEERLESS else [noise for noise in levels if noise in PEERED_NOISE]
        cells += [{"equation": name, "noise": noise, "draw": seed} for noise in some[name in IN_THE_PLANE :]]

    def beside(equation: str, noise: float, draw: int) -> dict[str, Any]:
        return _peer_row(systems[equation], noise, draw)

    write(
        "pde_peers",
        "Beside pysindy's WeakPDELibrary",
        measured("pde_peers", cells, beside, subset),
        "One draw of the noise, in the same run. pysindy with STLSQ is given the true terms to "
        f"choose the best of {len(WIDTHS)} widths and {len(THRESHOLDS)} thresholds by, {DOMAINS} domains, "
        "monomials to degree 3 and derivatives to order 4; in the plane (vorticity and λ-ω), where its rows "
        f"take long to make, {len(PLANE_WIDTHS)} widths, two levels of noise, and the degree and order that "
        "cindy has there. cindy chooses for itself. Sine-Gordon and porous medium cannot be said in its "
        "terms. Seconds: of one run, and for pysindy of the whole sweep. Version: that of cindy.",
        folder=subset.out,
    )


def _row(system: FieldSystem, cells: list[dict[str, Any]]) -> dict[str, Any]:
    """One row of the table, from the cells of an equation."""
    row: dict[str, Any] = {"equation": system.name, "terms": system.coef.shape[0]}
    for noise in sorted({cell["noise"] for cell in cells}):
        here = [cell for cell in cells if cell["noise"] == noise]
        row[f"{noise:.0%}"] = sum(cell["right"] for cell in here)
        row[f"error {noise:.0%}"] = float(np.median([cell["error"] for cell in here]))
    row["z"] = _z(cells)
    row["s"] = float(np.median([cell["s"] for cell in cells]))
    return row


def _z(cells: list[dict[str, Any]]) -> float:
    """Root mean square of the errors of coefficients in units of their standard errors."""
    count = sum(cell["coefficients"] for cell in cells)
    return float(np.sqrt(sum(cell["squares"] for cell in cells) / count)) if count else float("nan")


def _cell(outcome: _Outcome) -> dict[str, Any]:
    z = outcome.z[np.isfinite(outcome.z)]
    return {
        "right": int(outcome.right),
        "error": outcome.error,
        "coefficients": len(z),
        "squares": float(np.sum(z**2)),
        "within": int(np.sum(np.abs(z) < 2)),
        "s": outcome.seconds,
    }


@dataclass(frozen=True)
class _Outcome:
    """z: the errors of the coefficients in units of their standard errors, where the terms are right."""

    right: bool
    error: float
    z: Floats
    seconds: float


def _size(outcomes: list[_Outcome]) -> float:
    z = np.concatenate([np.zeros(0), *(o.z for o in outcomes)])
    return float(np.sqrt(np.mean(z**2))) if len(z) else float("nan")


def _ours(system: FieldSystem, noise: float, seed: int) -> _Outcome:
    field = system.simulate(seed, noise=noise)
    columns = [field.states.index(state) for state in system.known]
    return _outcome(field, system.basis, system.coef[:, columns], columns, system.order)


def _outcome(
    field: cindy.Field, basis: cindy.Derivatives, truth: Floats, columns: list[int], order: int = 1
) -> _Outcome:
    began = time.process_time()
    try:
        model = cindy.identify(field, basis, formulation=cindy.Weak(order=order))
    except cindy.DataError:
        return _Outcome(False, 1.0, np.zeros(0), time.process_time() - began)
    seconds = time.process_time() - began
    coef, error = model.coef[:, columns], model.coef_error[:, columns]
    right = bool(((coef != 0) == (truth != 0)).all())
    z = ((coef - truth) / np.where(error > 0, error, np.nan))[truth != 0] if right else np.zeros(0)
    return _Outcome(right, float(np.linalg.norm(coef - truth) / np.linalg.norm(truth)), z, seconds)


def _short_records(subset: Subset) -> None:
    """Transport and heat on the grids and at the noise of WeakIDENT's data (Tang et al., J. Comput. Phys.
    483, 2023)."""
    rows = []
    for name, make, truth, noise, theirs in (
        ("transport", _humps, {"u_x": -1.0, "u_xx": 0.05}, 0.5, 0.0075),
        ("heat", _ripples, {"u_xx": 0.5 / np.pi}, 0.1, 0.0015),
    ):
        if subset.names and name not in subset.names:
            continue
        x, t, u = make()
        sigma = noise * float(np.sqrt(np.mean((u - 0.5 * (u.max() + u.min())) ** 2)))
        basis = cindy.Derivatives(6, 6)
        names = basis.on_axes(("x",)).names(("u",))
        coef = np.array([[truth.get(term, 0.0)] for term in names])
        outcomes = []
        for seed in range(DRAWS):
            shaken = u + sigma * np.random.default_rng(1000 + seed).standard_normal(u.shape)
            outcomes.append(_outcome(cindy.Field(u=shaken, x=x, t=t), basis, coef, [0]))
        errors = np.array([o.error for o in outcomes])
        rows.append(
            {
                "equation": name,
                "grid": f"{len(x)} × {len(t)}",
                "noise": f"{noise:.0%}",
                "right": sum(o.right for o in outcomes),
                "median error": float(np.median(errors)),
                "rms error": float(np.sqrt(np.mean(errors**2))),
                "bound": _bound(x, t, u, truth, sigma),
                "WeakIDENT": theirs,
                "z": _size(outcomes),
                "s": float(np.median([o.seconds for o in outcomes])),
            }
        )
    write(
        "pde_short",
        "Short records: transport and heat",
        rows,
        f"Exact solutions on the grids of WeakIDENT's data, at its noise, its 43 terms, {DRAWS} draws. "
        "Bound: the least root mean square error of any estimate without bias that does not know the first "
        "field (Cramér and Rao); the median of normal errors is two thirds of it. WeakIDENT: an error that "
        "was reported for its own data.",
        folder=subset.out,
    )


def _humps() -> tuple[Floats, Floats, Floats]:
    """u_t = −u_x + 0.05 u_xx: humps that hardly move while they spread."""
    x, t = np.linspace(0, 1, 257), 1e-4 * np.arange(300)
    u = np.zeros((len(x), len(t)))
    for height, place, width in (
        (0.93, 0.09, 0.026),
        (-0.4, 0.26, 0.03),
        (-0.4, 0.44, 0.03),
        (0.93, 0.62, 0.026),
    ):
        spread = width**2 + 2 * 0.05 * t
        u += height * width / np.sqrt(spread) * np.exp(-((x[:, None] - place - t) ** 2) / (2 * spread))
    return x, t, u


def _ripples() -> tuple[Floats, Floats, Floats]:
    """u_t = u_xx / 2π: waves that fade."""
    x, t = -5 + 10 * np.arange(234) / 234, np.linspace(0, 0.5, 501)
    u = np.zeros((len(x), len(t)))
    draw = np.random.default_rng(0)
    for k in 2 * np.pi / 10 * np.arange(1, 8):
        a, b = 0.45 * draw.standard_normal(2)
        u += np.exp(-(k**2) * t / (2 * np.pi)) * (a * np.cos(k * x) + b * np.sin(k * x))[:, None]
    return x, t, u


def _bound(x: Floats, t: Floats, u: Floats, truth: dict[str, float], sigma: float) -> float:
    """The least relative root mean square error, wave by wave: each moves by t times its rate, and what its
    unknown amplitude explains of that is taken out."""
    waves = 2j * np.pi * np.fft.fftfreq(len(x), float(x[1] - x[0]))
    modes = np.fft.fft(u, axis=0, norm="ortho")
    power = np.abs(modes) ** 2
    mean = (power @ t) / np.maximum(power.sum(axis=1), 1e-300)
    away = (t - mean[:, None]) * modes
    slopes = [(waves[:, None] ** term.count("x") * away).ravel() for term in truth]
    information = np.real(np.array([[np.vdot(a, b) for b in slopes] for a in slopes])) / sigma**2
    size = np.linalg.norm(list(truth.values()))
    return float(np.sqrt(np.trace(np.linalg.inv(information))) / size)


_PEER_TERMS = {"(u^2)_x": ("u u_x", 2.0), "(w u)_x": ("u w_x", 1.0), "(w v)_y": ("v w_y", 1.0)}
"""Terms in the words of the peer; as the velocity (u, v) has no divergence, (u w)_x + (v w)_y is
u w_x + v w_y."""


def _peer_row(system: FieldSystem, noise: float, seed: int) -> dict[str, Any]:
    mine = _ours(system, noise, seed)
    field = system.simulate(seed, noise=noise)
    wanted: dict[tuple[str, str], float] = {}
    for (state, term), value in system.equations.items():
        name, factor = _PEER_TERMS.get(term, (term, 1.0))
        wanted[state, name] = value * factor
    best, seconds = (True, np.inf), []
    began = time.process_time()
    widths = PLANE_WIDTHS if system.name in IN_THE_PLANE else WIDTHS
    for every, taken in _peers(field, *IN_THE_PLANE.get(system.name, (3, 4)), widths):
        seconds.append(taken)
        found = {key: value for key, value in every.items() if key[0] in system.known}
        both = set(found) | set(wanted)
        apart = np.sqrt(sum((found.get(k, 0.0) - wanted.get(k, 0.0)) ** 2 for k in both))
        error = float(apart / np.sqrt(sum(v**2 for v in wanted.values())))
        best = min(best, (set(found) != set(wanted), error))
    return {
        "cindy right": mine.right,
        "cindy error": mine.error,
        "cindy s": mine.seconds,
        "pysindy right": not best[0],
        "pysindy error": best[1],
        "pysindy s": float(np.median(seconds)),
        "sweep s": time.process_time() - began,
        "version": cindy.__version__,
    }


def _peers(
    field: cindy.Field, degree: int, order: int, widths: tuple[float, ...]
) -> Iterator[tuple[dict[tuple[str, str], float], float]]:
    """The terms of every setting of the peer, by state and name as here, and the seconds each took."""
    import pysindy

    axes = [*(field.coordinate(axis) for axis in field.axes), field.t]
    u = np.stack([field[state] for state in field.states], axis=-1)
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    for width in widths:
        began = time.process_time()
        np.random.seed(0)  # noqa: NPY002 (pysindy draws its domains from the global state)
        library = pysindy.WeakPDELibrary(
            function_library=pysindy.PolynomialLibrary(degree=degree, include_bias=False),
            derivative_order=order,
            spatiotemporal_grid=grid,
            K=DOMAINS,
            H_xt=[width * np.ptp(x) for x in axes],
            p=6,
            include_bias=True,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library.fit([u])
            design = np.asarray(library.transform([u])[0])
            target = np.asarray(library.convert_u_dot_integral(u))
            names = [_ours_of(name) for name in library.get_feature_names(list(field.states))]
            made = time.process_time() - began
            for threshold in THRESHOLDS:
                began = time.process_time()
                optimizer = pysindy.STLSQ(threshold=threshold, alpha=1e-5, normalize_columns=True)
                coef = np.atleast_2d(optimizer.fit(design, target).coef_)
                found = {
                    (state, name): float(c)
                    for state, row in zip(field.states, coef, strict=True)
                    for name, c in zip(names, row, strict=True)
                    if c != 0
                }
                yield found, made + time.process_time() - began


def _ours_of(name: str) -> str:
    """pysindy writes u_1 for u_x, uu_1 for u u_x and u^2u_11 for u² u_xx."""
    head, _, tail = name.partition("_")
    axes = "".join("xyz"[int(digit) - 1] for digit in tail)
    if not tail:
        return name
    return f"{head[:-1]} {head[-1]}_{axes}".strip()
