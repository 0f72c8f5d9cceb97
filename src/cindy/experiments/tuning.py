"""Tuning: the parameters of a method, chosen on the validation set with optuna."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cindy._types import Floats

__all__ = ["Range", "Tuned", "tune"]


EDGE = 0.02


@dataclass(frozen=True)
class Range:
    """A logarithmic interval of a parameter.

    closed: ends beyond which the method cannot change any more (a threshold below the smallest
        coefficient keeps everything, one above the largest drops everything): a value there is not an edge
    """

    low: float
    high: float
    closed: tuple[str, ...] = ()

    def edge(self, value: float) -> str:
        """The open end that `value` stands at, within 2 % of the range; empty where there is none."""
        place = np.log(value / self.low) / np.log(self.high / self.low)
        end = "low" if place < EDGE else "high" if place > 1.0 - EDGE else ""
        return "" if end in self.closed else end


@dataclass(frozen=True, eq=False)
class Tuned:
    """The best model that was tried, its parameters, and whether one of them wants to leave its range."""

    coef: Floats
    parameters: Mapping[str, float]
    loss: float
    trials: int
    edge: str
    note: str = ""


def tune(
    fit: Callable[[Mapping[str, float]], Floats],
    loss: Callable[[Floats], float],
    ranges: Mapping[str, Range],
    *,
    trials: int,
    seed: int,
) -> Tuned:
    """Fit `trials` times and keep what has the smallest loss.

    Half of the trials lie on a line through the ranges from end to end, so that no
    optimum is missed by chance; the tree-structured Parzen estimator places the rest.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    spread = trials // 2
    study = optuna.create_study(
        sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=spread, multivariate=len(ranges) > 1)
    )
    for parameters in _spread(ranges, spread, seed):
        study.enqueue_trial(parameters)
    best: dict[str, Any] = {"loss": np.inf}

    def attempt(trial: Any) -> float:
        chosen = {k: trial.suggest_float(k, r.low, r.high, log=True) for k, r in ranges.items()}
        coef = fit(chosen)
        value = loss(coef)
        if not np.isfinite(value):
            return float("inf")
        if value < best["loss"]:
            best.update(loss=value, coef=coef, parameters=chosen)
        return value

    study.optimize(attempt, n_trials=trials)
    if "coef" not in best:
        raise ArithmeticError(f"none of the {trials} trials gave a finite validation loss")
    edges = [f"{k}:{end}" for k, r in ranges.items() if (end := r.edge(best["parameters"][k]))]
    return Tuned(best["coef"], best["parameters"], float(best["loss"]), trials, " ".join(edges))


def _spread(ranges: Mapping[str, Range], count: int, seed: int) -> list[dict[str, float]]:
    """`count` points: evenly spaced in every parameter, the parameters shuffled against each other."""
    rng = np.random.default_rng(seed)
    points: list[dict[str, float]] = [{} for _ in range(count)]
    for k, (name, r) in enumerate(ranges.items()):
        at = (np.arange(count) + 0.5) / count
        at = at if k == 0 else rng.permutation(at)
        for point, place in zip(points, at, strict=True):
            point[name] = float(r.low * (r.high / r.low) ** place)
    return points
