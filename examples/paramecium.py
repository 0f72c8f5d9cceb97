"""Gause's Paramecium, 1934: two species alone and together, three short runs."""

from pathlib import Path

import matplotlib.pyplot as plt

import cindy

file = Path(cindy.__file__).parents[2] / "examples" / "measured" / "paramecium.csv"
runs = cindy.read(file, by="Treatment")

# Without animals nothing grows, so there is no constant; growth, its limit and
# competition are of degree two.
model = cindy.identify(runs, "poly:2:nobias", passes=None)
print(*model.equations(), sep="\n")
print(f"R² of solutions over all 24 days: {model.score(runs, 'trajectory'):.2f}")

fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained", sharey=True)
for ax, run in zip(axes, runs, strict=True):
    cindy.plot.trajectories(run, model, units={"t": "days"}, ax=ax)
    ax.set_title(run.name.removeprefix("Treatment "), loc="right", fontsize="medium")
fig.savefig("paramecium.png", dpi=110)
