"""Four years of weather in Seattle: an equation with random kicks."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cindy

# The warmest temperature of every day from 2012 to 2015, in degrees Celsius.
file = Path(cindy.__file__).parents[2] / "examples" / "measured" / "seattle.csv"
[measured] = cindy.read(file)
day, warmest = measured.t, measured.x[:, 0]

# What the season explains, two harmonics of the year, is taken away first.
turns = 2 * np.pi * np.outer(day, [1, 2]) / 365.25
season = np.column_stack([np.ones_like(day), np.cos(turns), np.sin(turns)])
anomaly = warmest - season @ np.linalg.lstsq(season, warmest, rcond=None)[0]

data = cindy.Trajectory(day, anomaly, states=("T",))
model = cindy.identify(data, cindy.Polynomial(degree=3))
print(model)
print(f"weather is forgotten after {-1 / model.coef[1, 0]:.1f} days")

low, high = np.sqrt(model.diffusion.variance(np.array([[-5.0], [5.0]]))[:, 0])
print(f"kicks: {low:.1f} K a day when it is 5 K too cold, {high:.1f} when 5 K too warm")

# A regression of increments takes the pull over a whole day for that at its begin.
slope = anomaly[:-1] @ np.diff(anomaly) / (anomaly[:-1] @ anomaly[:-1])
print(f"a regression of increments: {slope:.2f} T")

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
month = cindy.Trajectory(day[:60], anomaly[:60], states=("T",))
units = {"T": "K", "t": "days"}
cindy.plot.trajectories(month, model, window=20, units=units, ax=left)
cindy.plot.density(data, model, units=units, ax=right)
fig.savefig("weather.png", dpi=110)
