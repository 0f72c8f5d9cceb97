"""Models and data that the tests of the report share."""

from dataclasses import replace

import numpy as np

from cindy.findings import Finding
from cindy.formulation import Integral
from cindy.model.model import Model, Path
from cindy.solver import Run, Step
from cindy.systems import lotka_volterra

__all__ = ["SYSTEM", "hunters", "true_model"]

SYSTEM = lotka_volterra()


def true_model(system, **more):
    error = np.where(system.coef != 0, 0.01 * np.abs(system.coef), 0.0)
    form = Integral(order=system.order)
    return Model(
        system.coef, system.basis, system.states, **{"coef_error": error, "formulation": form, **more}
    )


def hunters():
    """A model with everything a report may speak of, and the data it is about."""
    data = SYSTEM.simulate(seed=0, noise=0.01, trajectories=4, points=400)
    whole = true_model(SYSTEM)
    steps = [("x", "x"), ("y", "y"), ("x", "x y"), ("y", "x y"), ("x", "x^2"), ("y", "1")]
    models, coef = [], np.zeros(whole.coef.shape)
    for step in steps:
        coef = coef.copy()
        coef[whole.place(*step)] = whole.coef[whole.place(*step)] or 2e-4
        models.append(replace(whole, coef=coef, coef_error=0.01 * np.abs(coef)))
    model = replace(
        models[3],
        noise=np.array([0.01, 0.02]),
        gap=3e-5,
        radius=8.0,
        violation=2e-16,
        path=Path(tuple(models), (5.0, 4.0, 3.0, 1.0, 1.1, 1.2), 3),
        result=Run(
            1e-7, 1e-4, "converged", 3, 3, 0.01, tuple(Step(k, 10.0**-k, 1.0, k, 0.0) for k in range(4))
        ),
        constraints=("x is <conserved> & kept",),
        findings=(Finding("uncoded", "A sentence with <b>marks</b>."),),
        settings={"selection": "Significance(level=0.05)", "tol": 1e-6},
    )
    return model, data
