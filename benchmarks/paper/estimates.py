"""How well derivatives and integrals can be estimated from noisy samples (appendix C of the paper)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.paper.figures import subplots
from cindy._arrays import Floats
from cindy.calculus import cumulative, derivative_weights, interval_weights
from cindy.data import Trajectory
from cindy.formulation import Differential
from cindy.systems import fput, integrate

__all__ = ["COLUMNS", "draw_estimates", "estimate_errors"]


COLUMNS = ("quantity", "rule", "noise", "repetition", "relative_error")
QUANTITIES = {
    "first": "first derivative",
    "second": "second derivative",
    "integral": "integral of the dictionary",
}
STYLES = {
    "central differences": ("#D55E00", "o"),
    "local polynomial": ("#000000", "s"),
    "trapezoid": ("#D55E00", "o"),
    "Simpson": ("#E69F00", "^"),
}
FINER = 8


def estimate_errors(
    noises: Sequence[float], repetitions: int, *, trajectories: int = 60
) -> list[dict[str, Any]]:
    """Relative errors in the Frobenius norm on FPUT with d = 5: 40 samples of 3 s a trajectory.

    The integral is that of the dictionary along the trajectory, since that is what
    the integral formulation needs.
    """
    system = fput(5)
    t = np.linspace(0.0, 3.0, 40)
    rows: list[dict[str, Any]] = []
    for repetition in range(repetitions):
        rng = np.random.default_rng(repetition)
        x, v, a, gamma = _exact(system.initial(rng, trajectories), t)
        pattern = rng.standard_normal(x.shape)
        for noise in noises:
            y = x + noise * x.std(axis=(0, 1)) * pattern
            for quantity, rule, error in _errors(t, y, v, a, gamma):
                rows.append(dict(zip(COLUMNS, (quantity, rule, noise, repetition, error), strict=True)))
    return rows


def _exact(start: Floats, t: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """States, velocities, accelerations (runs, times, states) and the integral of the dictionary."""
    system, d = fput(5), start.shape[1]
    fine = np.linspace(t[0], t[-1], FINER * (len(t) - 1) + 1)
    rest = np.hstack([start, np.zeros_like(start)])
    z = integrate(lambda z: np.concatenate([z[:, d:], system.rhs(z[:, :d])], axis=1), rest, fine)
    z = np.moveaxis(z, 1, 0)
    weights = interval_weights(fine, degree=8, half_width=4)
    gamma = [cumulative(system.basis.evaluate(run[:, :d], system.states), weights)[::FINER] for run in z]
    x, v = z[:, ::FINER, :d], z[:, ::FINER, d:]
    return x, v, system.rhs(x), np.array(gamma)


def _errors(t: Floats, y: Floats, v: Floats, a: Floats, gamma: Floats) -> list[tuple[str, str, float]]:
    system = fput(5)
    runs = [Trajectory(t, run) for run in y]
    found: list[tuple[str, str, float]] = []
    for order, name, truth in ((1, "first", v), (2, "second", a)):
        form = Differential(order=order).fit_to(runs)
        assert form.degree is not None
        assert form.half_width is not None
        local = derivative_weights(t, order=order, degree=form.degree, half_width=form.half_width)
        for rule, weights in (
            ("central differences", derivative_weights(t, order=order, degree=2, half_width=1)),
            ("local polynomial", local),
        ):
            found.append((name, rule, _relative(np.array([weights @ run for run in y]), truth)))
    steps, samples = np.diff(t)[:, None], len(t)
    rules: dict[str, Any] = {
        "trapezoid": steps / 2 * (np.eye(samples - 1, samples) + np.eye(samples - 1, samples, 1)),
        "Simpson": interval_weights(t, degree=2, half_width=1),
        "local polynomial": interval_weights(t, degree=6, half_width=3),
    }
    for rule, weights in rules.items():
        values = [cumulative(system.basis.evaluate(run, system.states), weights) for run in y]
        found.append(("integral", rule, _relative(np.array(values), gamma)))
    return found


def _relative(estimate: Floats, truth: Floats) -> float:
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))


def draw_estimates(rows: Sequence[dict[str, str]]) -> Any:
    """Relative error against noise, a panel for each quantity."""
    figure, axes = subplots(1, len(QUANTITIES), size=(14.0, 4.4))
    for ax, (quantity, label) in zip(axes[0], QUANTITIES.items(), strict=True):
        mine = [r for r in rows if r["quantity"] == quantity]
        for rule in dict.fromkeys(r["rule"] for r in mine):
            noises = sorted({float(r["noise"]) for r in mine})
            means = [
                np.mean(
                    [float(r["relative_error"]) for r in mine if r["rule"] == rule and float(r["noise"]) == n]
                )
                for n in noises
            ]
            colour, marker = STYLES[rule]
            ax.loglog(noises, means, color=colour, marker=marker, label=rule)
        ax.set_title(label)
        ax.set_xlabel("noise level $\\eta$")
        ax.legend(frameon=False)
    low = min(ax.get_ylim()[0] for ax in axes[0])
    high = max(ax.get_ylim()[1] for ax in axes[0])
    for ax in axes[0]:
        ax.set_ylim(low, high)
    axes[0, 0].set_ylabel("relative error")
    figure.suptitle("Fermi-Pasta-Ulam-Tsingou, d = 5: 60 trajectories of 40 samples over 3 s")
    return figure
