"""A pendulum in front of a camera: from a file to its equations."""

from pathlib import Path

import matplotlib.pyplot as plt

import cindy

file = Path(cindy.__file__).parents[2] / "examples" / "measured" / "pendulum.csv"
runs = cindy.read(file, by="trial")

basis = cindy.Polynomial(1) + cindy.Custom(
    {"sin(angle)": "sin(angle)", "friction": "sign(rate)"}
)
model = cindy.identify(runs, basis, passes=1)
print(model.summary())

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
cindy.plot.trajectories(
    runs[0], model, states=["angle"], units={"angle": "rad", "t": "s"}, ax=left
)
cindy.plot.residuals(model, runs[0], states=["rate"], units={"t": "s"}, ax=right)
fig.savefig("pendulum.png", dpi=110)
