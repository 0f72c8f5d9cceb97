"""Irregular samples, missing values and a long gap: nothing is repaired first."""

import matplotlib.pyplot as plt
import numpy as np

import cindy

# Van der Pol's oscillator, three runs, each measured at 500 random times of its own.
rng = np.random.default_rng(0)
times = [np.sort(rng.uniform(0, 20, 500)) for _ in range(3)]
system = cindy.systems.van_der_pol()
data = []
for one in system.simulate(seed=2, times=times, noise=0.02):
    x = one.x.copy()
    x[(one.t > 6) & (one.t < 9)] = np.nan  # the recorder was off
    x[rng.random(len(x)) < 0.05, 0] = np.nan  # a sensor drops out now and then
    data.append(cindy.Trajectory(one.t, x, one.states))

lost = np.mean([np.isnan(one.x).any(axis=1).mean() for one in data])
print(
    f"{lost:.0%} of the samples lack a value; "
    f"{sum(len(one.segments()) for one in data)} stretches remain"
)

model = cindy.identify(data, cindy.Polynomial(3))
print(model)
for sentence in model.warnings:
    print("Note:", sentence)

fig, (top, bottom) = plt.subplots(
    2, 1, figsize=(9, 6), layout="constrained", height_ratios=(1.5, 1)
)
cindy.plot.trajectories(data[:1], model, ax=top)
cindy.plot.coefficients(model, truth=system.coef, ax=bottom)
fig.savefig("gaps.png", dpi=110)
