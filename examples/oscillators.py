"""Coupled oscillators that are alike: a symmetry cuts the error."""

import matplotlib.pyplot as plt
import numpy as np

import cindy

# Kuramoto: x_i' = w_i + (2/3) Σ_j sin(x_j - x_i) + 0.2 sin x_i, in sines and
# cosines of the phases.
system = cindy.systems.kuramoto(3)
basis = cindy.Trigonometric(degree=2)

# Any two oscillators may change places, their own frequencies (the constant term)
# excepted.
alike = [
    cindy.exchange("x1", "x2"),
    cindy.exchange("x1", "x3"),
    cindy.exchange("x2", "x3"),
]

for name, known in (("free", []), ("alike", alike)):
    errors, right = [], 0
    for seed in range(3):
        data = system.simulate(seed=seed, trajectories=10, points=600, noise=0.01)
        model = cindy.identify(data, basis, constraints=known)
        errors.append(
            np.linalg.norm(model.coef - system.coef) / np.linalg.norm(system.coef)
        )
        right += np.array_equal(model.support, system.coef != 0)
    print(
        f"{name}: right terms in {right} of 3 data sets, "
        f"median error {np.median(errors):.1%}"
    )
print("the last model, told that they are alike:", *model.equations(), sep="\n  ")

fig, (top, bottom) = plt.subplots(
    2, 1, figsize=(9, 6), layout="constrained", height_ratios=(1.6, 1)
)
cindy.plot.trajectories(data[:2], model, ax=top)
cindy.plot.sparsity(model, truth=system.coef, ax=bottom)
fig.savefig("oscillators.png", dpi=110)
