"""Lorenz's equations from one noisy, chaotic trajectory."""

import matplotlib.pyplot as plt

import cindy

system = cindy.systems.lorenz()
data = system.simulate(seed=1, trajectories=1, points=4000, horizon=20, noise=0.05)

# 20 terms a state to choose from, and nothing else.
basis = cindy.Polynomial(degree=3)
model = cindy.identify(data, basis)
print(model)
print(
    f"{model.size} of {model.coef.size} coefficients; "
    f"windows of {model.formulation.window} samples"
)

# Chaos: a solution follows the data for a while, then only the shape of the
# attractor can agree.
window = 400
print(
    f"R² over {window} samples at a time: "
    f"{model.score(data, 'trajectory', window=window):.3f}"
)

fig, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4), layout="constrained", width_ratios=(1, 1.2)
)
cindy.plot.phase(data, model, states=("x", "z"), window=window, ax=left)
cindy.plot.coefficients(model, ax=right)
fig.savefig("lorenz.png", dpi=110)
