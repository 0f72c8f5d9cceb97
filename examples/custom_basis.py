"""Terms of one's own: growth that saturates, from a formula among many."""

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp

import cindy


def chemostat(t: float, state: list[float]) -> list[float]:
    food, cells = state
    growth = food / (0.5 + food) * cells  # Monod
    return [0.3 * (2.0 - food) - growth, 0.8 * growth - 0.3 * cells]


rng = np.random.default_rng(0)
t = np.linspace(0, 12, 240)
data = []
for start in rng.uniform([0.2, 0.05], [3.0, 1.5], size=(8, 2)):
    x = solve_ivp(chemostat, (0, 12), start, t_eval=t, rtol=1e-10, atol=1e-10).y.T
    data.append(
        cindy.Trajectory(t, x + 0.01 * rng.standard_normal(x.shape), ("food", "cells"))
    )

# Polynomials, and saturating growth with several half-saturations to choose from.
halves = (0.1, 0.25, 0.5, 1.0, 2.0)
monod = cindy.Custom({f"monod({k})": f"food / ({k} + food) * cells" for k in halves})
model = cindy.identify(data, cindy.Polynomial(2) + monod)
print(model)
print(model.to_latex())

# Formulas, unlike Python functions, survive a save and a load.
model.save("chemostat.json")
again = cindy.load("chemostat.json")
print("the same after a load:", np.array_equal(again.coef, model.coef))

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
cindy.plot.trajectories(data[:2], model, ax=left)
cindy.plot.path(model, ax=right)
fig.savefig("custom_basis.png", dpi=110)
