"""Motion driven by noise: drift terms, their errors and the diffusion, beside a regression of increments.

`python -m benchmarks kicks --names "van der pol" --noise 0.02 --seeds 0,1` runs some of the cells. PyDaddy,
which knows one or two states and no measurement noise, is compared where it is installed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

import cindy
from benchmarks.cells import Row, Subset, measured
from benchmarks.table import write
from cindy import systems

__all__ = ["run"]

Floats = NDArray[np.float64]
Found = tuple[Floats, Floats, Floats, Floats]
"""Coefficients and their errors, mean diffusion and its error, NaN where there is none or it has several."""
SEEDS = tuple(range(20))
NOISE = (0.0, 0.02, 0.1)
METHODS = ("cindy", "increments", "whole path", *(["pydaddy"] if find_spec("pydaddy") else []))
PARTS = 10
"""Steps of the simulation between two samples."""


@dataclass(frozen=True)
class Kicked:
    """dx = F(x) dt + √q(x) dW: F and q at one state (states,), and the coefficients of F by (state, term).

    slope: ∂q_i/∂x_i
    push: by an input that is switched, in the drift of the first state
    positions: whether the first state alone is measured, and the second is its rate
    """

    drift: Callable[[Floats], Floats]
    diffusion: Callable[[Floats], Floats]
    start: tuple[float, ...]
    truth: dict[tuple[str, str], float]
    step: float
    samples: int
    degree: int
    slope: Callable[[Floats], Floats] = np.zeros_like
    push: float = 0.0
    positions: bool = False

    @property
    def states(self) -> tuple[str, ...]:
        return ("x",) if self.positions else ("x", "y", "z")[: len(self.start)]

    @property
    def variables(self) -> tuple[str, ...]:
        """What terms hold."""
        return (*self.states, "x'") if self.positions else (*self.states, "u") if self.push else self.states

    def path(self, seed: int) -> Floats:
        """(samples · PARTS, states): Heun's rule for the drift, Milstein's for kicks that depend on x."""
        rng = np.random.default_rng(seed)
        x, h = np.array(self.start), self.step / PARTS
        out = np.empty((self.samples, PARTS, len(x)))
        pushed = np.zeros(len(x))
        for k in range(len(out)):
            pushed[0] = self.push * switched(k * self.step)
            for i, change in enumerate(np.sqrt(h) * rng.standard_normal((PARTS, len(x)))):
                out[k, i] = x
                noise = np.sqrt(self.diffusion(x)) * change
                slope = self.slope(x)
                force = self.drift(x) + pushed
                ahead = self.drift(x + h * force + noise) + pushed
                x = x + h * (force + ahead) / 2 + noise + slope * (change**2 - h) / 4
        return out.reshape(-1, len(x))


@lru_cache(maxsize=1)
def _path(name: str, seed: int) -> Floats:
    """One path serves all levels of noise and all methods, whose cells come one after the other."""
    return SYSTEMS[name].path(seed)


def switched(t: Floats | float) -> Any:
    """An input that is on or off, held for ten to forty steps."""
    return np.sign(np.sin(0.7 * np.floor(np.asarray(t) + 1e-9) + 0.3))


def _lorenz(x: Floats) -> Floats:
    return np.array([10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]])


def _prey(x: Floats) -> Floats:
    return np.array([x[0] - x[0] * x[1], -x[1] + x[0] * x[1]])


SYSTEMS: dict[str, Kicked] = {
    "ornstein-uhlenbeck": Kicked(lambda x: -x, np.ones_like, (0.0,), {("x", "x"): -1.0}, 0.05, 4000, 3),
    "double well": Kicked(
        lambda x: x - x**3,
        lambda x: np.full_like(x, 0.5),
        (1.0,),
        {("x", "x"): 1.0, ("x", "x^3"): -1.0},
        0.05,
        8000,
        5,
    ),
    "multiplicative": Kicked(
        lambda x: -x, lambda x: 0.5 + 0.5 * x**2, (0.0,), {("x", "x"): -1.0}, 0.05, 4000, 3, lambda x: x
    ),
    "van der pol": Kicked(
        lambda x: np.array([x[1], 2 * (1 - x[0] ** 2) * x[1] - x[0]]),
        lambda x: np.array([0.0, 0.25]),
        (1.0, 0.0),
        {("x", "y"): 1.0, ("y", "y"): 2.0, ("y", "x"): -1.0, ("y", "x^2 y"): -2.0},
        0.02,
        3000,
        3,
    ),
    "lorenz": Kicked(
        _lorenz,
        lambda x: np.full(3, 4.0),
        (1.0, 2.0, 25.0),
        systems.lorenz().equations,
        0.01,
        4000,
        2,
    ),
    "predators and prey": Kicked(
        _prey,
        lambda x: 0.01 * x**2,
        (1.0, 0.6),
        {("x", "x"): 1.0, ("x", "x y"): -1.0, ("y", "y"): -1.0, ("y", "x y"): 1.0},
        0.02,
        3000,
        2,
        lambda x: 0.02 * x,
    ),
    "driven": Kicked(
        lambda x: -x, np.ones_like, (0.0,), {("x", "x"): -1.0, ("x", "u"): 2.0}, 0.05, 4000, 2, push=2.0
    ),
    "heater": Kicked(
        lambda x: -0.5 * x, lambda x: np.full_like(x, 0.09), (0.0,), {("x", "x"): -0.5, ("x", "u"): 1.0},
        0.05, 4000, 2, push=1.0,
    ),
    "position": Kicked(
        lambda x: np.array([x[1], -x[0] - 0.5 * x[1]]),
        lambda x: np.array([0.0, 1.0]),
        (1.0, 0.0),
        {("x", "x"): -1.0, ("x", "x'"): -0.5},
        0.05,
        4000,
        2,
        positions=True,
    ),
}  # fmt: skip


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """Cells of all systems, levels of noise and draws, and a table of them."""
    cells = [
        {"data": name, "noise": noise, "method": method, "seed": seed}
        for seed in subset.pick("seeds", SEEDS)
        for name in subset.pick("names", tuple(SYSTEMS))
        for noise in subset.pick("noise", NOISE)
        for method in subset.pick("methods", METHODS)
        if method == "cindy" or not (SYSTEMS[name].push or SYSTEMS[name].positions)
        if method != "whole path" or noise == 0.0
        if method != "pydaddy" or len(SYSTEMS[name].start) < 3
    ]
    rows = measured("kicks_cells", cells, _cell, subset)
    table = []
    for name in SYSTEMS:
        for noise in NOISE:
            for method in dict.fromkeys(str(row["method"]) for row in rows):
                mine = [
                    r for r in rows if (r["data"], float(r["noise"]), r["method"]) == (name, noise, method)
                ]
                if mine:
                    table.append(_summed(name, noise, method, mine))
    notes = (
        "Right terms: draws whose drift has exactly the true terms. z: root mean square of (coefficient − "
        "truth) / standard error over true terms that were found; where a law has one term, chance moves it "
        "from 1 by 1/√(2 draws). Diffusion: median relative error of the mean variance per unit of time; "
        "bias: its mean with its sign; allowed: the standard error that the information of the data leaves "
        "each equation, where the diffusion is one number. Increments: least squares of (x[k+1] − x[k]) / h "
        "on terms at x[k], terms dropped by their t-values, which knows of no measurement noise. Whole path: "
        "what chance makes of z in these draws, by the estimate that is told the terms, the diffusion and "
        f"the path at {PARTS} times as many instants without noise. PyDaddy "
        "1.0: drift of the same degree, diffusion of degree 2, thresholds tuned by itself, no errors. "
        "Samples: " + ", ".join(f"{name} {one.samples:,}" for name, one in SYSTEMS.items()) + "."
    )
    write("kicks", "Motion driven by noise", table, notes, folder=subset.out)


def _summed(name: str, noise: float, method: str, rows: list[Row]) -> Row:
    squares = sum(float(r["squares"]) for r in rows)
    count = sum(int(r["count"]) for r in rows)
    ratios, spreads = (
        np.array([value for r in rows for value in str(r[key]).split()], float)
        for key in ("ratios", "spreads")
    )
    ratios = ratios[np.isfinite(ratios)]
    return {
        "data": name,
        "noise": f"{noise:.0%}",
        "method": method,
        "draws": len(rows),
        "right terms": sum(int(r["right"]) for r in rows),
        "z": f"{np.sqrt(squares / count):.2f}" if count else "",
        "diffusion": f"{np.median([float(r['diffusion']) for r in rows]):.1%}" if len(ratios) else "",
        "bias": f"{np.mean(ratios) - 1.0:+.1%}" if len(ratios) else "",
        "allowed": f"{np.nanmedian(spreads):.1%}" if np.isfinite(spreads).any() else "",
        "seconds": f"{np.median([float(r['seconds']) for r in rows]):.1f}",
    }


def _cell(data: str, noise: float, method: str, seed: int) -> Row:
    system = SYSTEMS[data]
    whole = _path(data, seed)
    x = whole[::PARTS]
    actual = np.mean([system.diffusion(one) for one in x], axis=0)
    if system.positions:
        x, actual = x[:, :1], actual[1:]
    rng = np.random.default_rng(seed + 1000)
    y = x + float(noise) * x.std(axis=0) * rng.standard_normal(x.shape)
    began = time.process_time()
    work = {
        "cindy": _identified,
        "increments": _regressed,
        "whole path": _followed,
        "pydaddy": _characterised,
    }[method]
    coef, error, found, spread = work(system, whole if method == "whole path" else y)
    seconds = time.process_time() - began
    truth = np.zeros(coef.shape)
    names = cindy.Polynomial(system.degree).names(system.variables)
    for (state, term), value in system.truth.items():
        truth[names.index(term), system.states.index(state)] = value
    both = (truth != 0) & (coef != 0) & (error > 0)
    z = (coef - truth)[both] / error[both]
    kicked = actual > 0
    each = [(names.index(term), system.states.index(state)) for state, term in system.truth]
    return {
        "right": int(np.array_equal(coef != 0, truth != 0)),
        "terms": int(np.count_nonzero(coef)),
        "squares": float(z @ z),
        "count": len(z),
        "z": " ".join(f"{(coef - truth)[p] / error[p]:.3f}" if both[p] else "-" for p in each),
        "diffusion": float(np.mean(np.abs(found[kicked] / actual[kicked] - 1.0))),
        "ratios": " ".join(f"{ratio:.4f}" for ratio in (found[kicked] / actual[kicked])),
        "spreads": " ".join(f"{ratio:.4f}" for ratio in (spread[kicked] / actual[kicked])),
        "seconds": seconds,
    }


def _identified(system: Kicked, y: Floats) -> Found:
    t, basis = system.step * np.arange(len(y)), cindy.Polynomial(system.degree)
    driven: dict[str, Any] = {}
    if system.push:
        driven = {"u": switched(t)[:, None], "inputs": ("u",), "hold": "zero"}
    form = cindy.Integral(order=2, rates=True) if system.positions else None
    try:
        model = cindy.identify(cindy.Trajectory(t, y, system.states, **driven), basis, formulation=form)
    except cindy.NoModelError:
        empty = np.zeros((len(basis.names(system.variables)), y.shape[1]))
        return empty, empty, np.zeros(y.shape[1]), np.full(y.shape[1], np.nan)
    spread = np.full(y.shape[1], np.nan)
    if model.diffusion is not None and model.diffusion.additive:
        spread = model.diffusion.coef_error[0]
    return model.coef, model.coef_error, np.nan_to_num(model.model_error) ** 2, spread


def _regressed(system: Kicked, y: Floats) -> Found:
    """Least squares of increments, the weakest term dropped while its t-value is below that of chance."""
    powers = [
        c for n in range(system.degree + 1) for c in combinations_with_replacement(range(y.shape[1]), n)
    ]
    values = np.stack([np.prod(y[:-1, list(c)], axis=1) for c in powers], axis=1)
    rates = np.diff(y, axis=0) / system.step
    coef, error = np.zeros((len(powers), y.shape[1])), np.zeros((len(powers), y.shape[1]))
    least = float(ndtri(1.0 - 0.05 / (2.0 * coef.size)))
    diffusion = np.zeros(y.shape[1])
    for i, rate in enumerate(rates.T):
        kept = np.arange(len(powers))
        while len(kept):
            solution = np.linalg.lstsq(values[:, kept], rate, rcond=None)[0]
            left = rate - values[:, kept] @ solution
            variance = left @ left / (len(left) - len(kept))
            spread = np.sqrt(variance * np.diagonal(np.linalg.inv(values[:, kept].T @ values[:, kept])))
            weakest = int(np.argmin(np.abs(solution) / spread))
            if abs(solution[weakest]) >= least * spread[weakest]:
                coef[kept, i], error[kept, i] = solution, spread
                break
            kept = np.delete(kept, weakest)
        diffusion[i] = np.mean((rate - values @ coef[:, i]) ** 2) * system.step
    return coef, error, diffusion, np.full(len(diffusion), np.nan)


def _followed(system: Kicked, x: Floats) -> Found:
    """The most likely coefficients of the true terms, a path and its diffusion being known throughout.

    Ξ + (∫ ψ ψᵀ/q dt)⁻¹ ∫ ψ/q dM, M being what the drift leaves of the path, integrated as it was simulated.
    """
    basis, h = cindy.Polynomial(system.degree), system.step / PARTS
    names, values = basis.names(system.states), basis.evaluate(x[:-1], system.states)
    diffusion, force = (np.array([of(one) for one in x]) for of in (system.diffusion, system.drift))
    diffusion, left = diffusion[:-1], np.diff(x, axis=0) - h * (force[1:] + force[:-1]) / 2
    coef, error = (np.zeros((len(names), len(system.states))) for _ in range(2))
    for i, state in enumerate(system.states):
        held = {names.index(term): value for (one, term), value in system.truth.items() if one == state}
        kept = list(held)
        coef[kept, i] = list(held.values())
        if not diffusion[:, i].any():
            continue
        weighed = values[:, kept] / diffusion[:, i, None]
        inverse = np.linalg.inv(weighed.T @ values[:, kept] * h)
        coef[kept, i] += inverse @ (weighed.T @ left[:, i])
        error[kept, i] = np.sqrt(np.diagonal(inverse))
    return coef, error, np.full(len(system.states), np.nan), np.full(len(system.states), np.nan)


def _characterised(system: Kicked, y: Floats) -> Found:
    """PyDaddy, which has no standard errors."""
    import pydaddy

    found = pydaddy.Characterize(list(y.T), t=system.step, show_summary=False)
    pairs = [("F", "G")] if y.shape[1] == 1 else [("F1", "G11"), ("F2", "G22")]
    names = cindy.Polynomial(system.degree).names(system.states)
    coef, diffusion = np.zeros((len(names), y.shape[1])), np.zeros(y.shape[1])
    for i, (drift, noise) in enumerate(pairs):
        fitted = found.fit(drift, order=system.degree, tune=True)
        most = range(system.degree + 1)
        powers = (
            [(n, m) for m in most for n in range(len(most) - m)] if len(pairs) > 1 else [(n, 0) for n in most]
        )
        for (n, m), value in zip(powers, fitted.coeffs, strict=True):
            parts = [f"{s}^{p}" if p > 1 else s for s, p in (("x", n), ("y", m)) if p]
            coef[names.index(" ".join(parts) or "1"), i] = value
        diffusion[i] = np.mean(found.fit(noise, order=2, tune=True)(*y.T))
    return coef, np.zeros(coef.shape), diffusion, np.full(len(diffusion), np.nan)
