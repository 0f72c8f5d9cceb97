"""Setting: one data set, split by whole trajectories, as the matrices that every method gets; its metrics."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from cindy import systems
from cindy._arrays import Floats
from cindy.data import Trajectory
from cindy.errors import DataError
from cindy.formulation import Differential, Formulation, Integral
from cindy.least_squares import LeastSquares
from cindy.problem import Names
from cindy.summary import accumulate
from cindy.systems import System

__all__ = [
    "FORMULATIONS",
    "PAPER_FORMULATIONS",
    "SYSTEMS",
    "Scores",
    "Setting",
    "equality_rows",
    "measure",
    "prepare",
]


SYSTEMS: dict[str, Callable[[int], System]] = {
    "kuramoto5": lambda seed: systems.kuramoto(5, seed=seed),
    "kuramoto10": lambda seed: systems.kuramoto(10, seed=seed),
    "fput5": lambda seed: systems.fput(5),
    "fput10": lambda seed: systems.fput(10),
    "michaelis": lambda seed: systems.michaelis_menten(),
}
FORMULATIONS = ("differential", "integral", "free", "weak")
"""The paper's two, this library's own, and pysindy's, which builds its matrices itself."""
PAPER_FORMULATIONS = FORMULATIONS[:2]
TRAINING, VALIDATION = 0.7, 0.2


@dataclass(frozen=True, eq=False)
class Setting:
    """Everything a method may see, and the truth that only the metrics may.

    train, valid: the least-squares objective of the training and the validation trajectories, as triangular
        factors: every method that needs A and B up to a rotation of the rows works on these few rows
    flow, path: Ψ(Y) and Γ(Y) of the test trajectories, as triangular factors
    form: the formulation with its windows fixed by the training data
    """

    system: System
    formulation: str
    noise: float
    repetition: int
    form: Formulation
    training: list[Trajectory]
    validation: list[Trajectory]
    train: LeastSquares
    valid: LeastSquares
    flow: Floats
    path: Floats

    @cached_property
    def scale(self) -> Floats:
        """Root mean square of every column of the training design."""
        return rms(self.train)

    @cached_property
    def scaled_train(self) -> LeastSquares:
        return self.train.scaled(self.scale, np.ones(self.train.targets))

    @cached_property
    def least_squares(self) -> Floats:
        """The plain solution in scaled units, (terms, states)."""
        return np.asarray(np.linalg.lstsq(self.scaled_train.design, self.scaled_train.target, rcond=None)[0])

    def physical(self, scaled: Floats) -> Floats:
        """Coefficients of the scaled columns, in physical units."""
        return scaled / self.scale[:, None]

    def validation_loss(self, scaled: Floats) -> float:
        """Mean square of the validation residuals at scaled coefficients."""
        return self.valid.value(self.physical(scaled)) / self.valid.rows

    @cached_property
    def equalities(self) -> Floats:
        """Independent rows C of the physics: C z = 0 for scaled coefficients z, flattened."""
        return equality_rows(self.system, self.scale)

    def rows(self) -> tuple[Floats, Floats]:
        """The training rows themselves, scaled: design and target. For methods that resample them."""
        pairs = [
            pair
            for run in self.training
            for part in run.segments()
            for pair in self.form.rows(part, self.system.basis)
        ]
        return np.vstack([a for a, _ in pairs]) / self.scale, np.vstack([b for _, b in pairs])


def rms(objective: LeastSquares) -> Floats:
    """Root mean square of the columns of the design; 1 for a column of zeros."""
    size = np.sqrt(np.sum(objective.design**2, axis=0) / objective.rows)
    return np.where(size > 0, size, 1.0)


def form_of(name: str, order: int) -> Formulation:
    """A formulation by name, its windows left to the data; weak forms are judged by the integral one."""
    if name not in FORMULATIONS:
        raise DataError(f"prepare: the formulation must be one of {FORMULATIONS}, but is {name!r}.")
    if name == "differential":
        return Differential(order=order)
    if name == "free":
        # Rows as they come: whitening for noise that drifts is part of this library's own method.
        return Integral(order=order, feedback=0.0)
    return Integral(order=order, initial="first")


def prepare(
    system: str,
    formulation: str,
    noise: float,
    repetition: int,
    *,
    trajectories: int | None = None,
    points: int | None = None,
    spread: str = "pooled",
) -> Setting:
    """Simulate, add noise, split 70/20/10 by trajectory, and build the matrices.

    The repetition seeds everything: natural frequencies, initial states, noise.
    Within one repetition all levels of noise share their pattern.
    """
    if system not in SYSTEMS:
        raise DataError(f"prepare: the system must be one of {tuple(SYSTEMS)}, but is {system!r}.")
    truth = SYSTEMS[system](repetition)
    runs = truth.simulate(
        repetition,
        noise=noise,
        trajectories=trajectories,
        points=points,
        spread="trajectory" if spread == "trajectory" else "pooled",
    )
    first = max(1, round(TRAINING * len(runs)))
    second = max(first + 1, round((TRAINING + VALIDATION) * len(runs)))
    training, validation, testing = runs[:first], runs[first:second], runs[second:]
    if not testing:
        raise DataError(
            f"prepare: 3 trajectories are the least that can be split, but there are {len(runs)}."
        )
    form = form_of(formulation, truth.order).fit_to(training)
    tests = [
        objective(testing, truth, form_of(name, truth.order).fit_to(training)).design
        for name in PAPER_FORMULATIONS
    ]
    return Setting(
        system=truth,
        formulation=formulation,
        noise=noise,
        repetition=repetition,
        form=form,
        training=training,
        validation=validation,
        train=objective(training, truth, form),
        valid=objective(validation, truth, form),
        flow=tests[0],
        path=tests[1],
    )


def objective(runs: list[Trajectory], system: System, form: Formulation) -> LeastSquares:
    return accumulate(runs, system.basis, formulation=form, blocks=1).total


def equality_rows(system: System, scale: Floats) -> Floats:
    """Independent rows C with C · flat(z) = 0, where z are the coefficients of columns divided by `scale`."""
    names = Names(system.basis, system.states)
    found = [row.weights for law in system.constraints() for row in law.rows(names)]
    rows = np.zeros((len(found), len(names.terms) * len(system.states)))
    for row, weights in zip(rows, found, strict=True):
        row[list(weights)] = list(weights.values())
    rows /= np.repeat(scale, len(system.states))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    # Ties around a circle repeat each other, and peers that invert C Cᵀ cannot take repeats.
    r, order = scipy.linalg.qr(rows.T, mode="r", pivoting=True)
    rank = int(np.sum(np.abs(np.diag(r)) > 1e-10))
    return np.asarray(rows[np.sort(order[:rank])])


@dataclass(frozen=True)
class Scores:
    """How far a model is from the truth.

    recovery: E_R = ‖Ω − Ξ‖
    flow: E_D = ‖Ψ(Y_test)(Ω − Ξ)‖
    path: E_T = ‖Γ(Y_test)(Ω − Ξ)‖
    extra, missing: S_E and S_M, the entries of Ω that should be zero, or should not
    """

    recovery: float
    flow: float
    path: float
    extra: int
    missing: int


def measure(coef: Floats, setting: Setting) -> Scores:
    """The metrics of physical coefficients, (terms, states)."""
    truth = setting.system.coef
    error = coef - truth
    return Scores(
        recovery=float(np.linalg.norm(error)),
        flow=float(np.linalg.norm(setting.flow @ error)),
        path=float(np.linalg.norm(setting.path @ error)),
        extra=int(np.count_nonzero((coef != 0) & (truth == 0))),
        missing=int(np.count_nonzero((coef == 0) & (truth != 0))),
    )
