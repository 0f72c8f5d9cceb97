"""A driven system: the force is measured too, and gets no equation of its own."""

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp

import cindy


def force(t: float) -> float:
    return np.sin(1.3 * t) + 0.5 * np.sin(3.1 * t)


def swing(t: float, state: list[float]) -> list[float]:
    x, v = state
    return [v, -x - 0.2 * v - 0.5 * x**3 + 2.0 * force(t)]


t = np.linspace(0, 40, 2000)
exact = solve_ivp(swing, (0, 40), [0.5, 0.0], t_eval=t, rtol=1e-10, atol=1e-10).y.T
measured = exact + 0.02 * np.random.default_rng(0).standard_normal(exact.shape)

data = cindy.Trajectory(t, measured, states=("x", "v"), u=force(t), inputs=("f",))
model = cindy.identify(data, cindy.Polynomial(3))
print(model)


# The model answers to a force that it has never seen.
def step(s: float) -> float:
    return 1.0 if s > 5 else 0.0


answer = model.simulate([0.0, 0.0], np.linspace(0, 30, 600), u=step)
true = solve_ivp(
    lambda s, z: [z[1], -z[0] - 0.2 * z[1] - 0.5 * z[0] ** 3 + 2.0 * step(s)],
    (0, 30), [0.0, 0.0], t_eval=answer.t, max_step=0.05,
).y[0]  # fmt: skip
print(
    f"largest error in the answer to a step: {np.abs(answer.x[:, 0] - true).max():.3f}"
)

fig, (top, bottom) = plt.subplots(2, 1, figsize=(9, 6), layout="constrained")
cindy.plot.trajectories(data, model, states=("x",), ax=top)
bottom.plot(answer.t, true, lw=4, color="0.8", label="true answer to a step")
bottom.plot(answer.t, answer.x[:, 0], color=cindy.plot.COLOURS[0], label="the model's")
bottom.set(xlabel="t", ylabel="x")
bottom.legend(frameon=False)
fig.savefig("driven.png", dpi=110)
