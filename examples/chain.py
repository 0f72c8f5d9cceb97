"""A chain of masses on nonlinear springs: second order, from positions alone."""

import matplotlib.pyplot as plt
import numpy as np

import cindy

# Fermi-Pasta-Ulam-Tsingou: four masses, cubic springs, fixed ends; 30 releases from
# rest, 1 % noise.
system = cindy.systems.fput(4, amplitude=1.0)
data = system.simulate(seed=0, trajectories=30, points=3000, horizon=3.0, noise=0.01)

# x'' = F(x): the integral form integrates twice, so the fit needs neither
# velocities nor accelerations.
model = cindy.identify(data, cindy.Polynomial(3), formulation=cindy.Integral(order=2))
print(model)
right = np.array_equal(model.support, system.coef != 0)
print(f"{model.size} of {model.coef.size} coefficients; the right ones: {right}")

# From a release that it has not seen, and four times as long as any that it has.
start, t = np.array([[0.8, 0.0, -0.5, 0.3]]), np.linspace(0, 12, 300)
exact = system.simulate(initial=start, times=t)[0].x
ahead = model.simulate(start[0], t, v0=np.zeros(4)).x
print(f"largest error of a position until t = 12: {np.abs(ahead - exact).max():.3f}")

fig, (top, bottom) = plt.subplots(
    2, 1, figsize=(9, 6.4), layout="constrained", height_ratios=(1.3, 1)
)
cindy.plot.trajectories(data[:1], model, ax=top)
cindy.plot.sparsity(model, truth=system.coef, ax=bottom)
fig.savefig("chain.png", dpi=110)
