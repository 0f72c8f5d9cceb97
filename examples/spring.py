"""A cart on a spring: rates smoothed out of positions, and positions alone."""

from pathlib import Path

import matplotlib.pyplot as plt

import cindy

file = Path(cindy.__file__).parents[2] / "examples" / "measured" / "spring.csv"
both = cindy.read(file, by="trial")
model = cindy.identify(both, "poly:3", passes=1)
print("position and velocity:", *model.equations(), sep="\n  ")

# The velocity was smoothed out of the position. The position alone, as x'' = F(x),
# knows nothing of that.
alone = cindy.read(file, by="trial", states=["x"])
second = cindy.identify(alone, "poly:3", formulation="integral:2", passes=1)
print("position alone:", *second.equations(), sep="\n  ")
print(f"R² of its solutions: {second.score(alone, 'trajectory'):.2f}")

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
cindy.plot.trajectories(alone[0], second, units={"x": "mm", "t": "s"}, ax=left)
cindy.plot.phase(both[0], model, units={"x": "mm", "v": "mm/s"}, ax=right)
fig.savefig("spring.png", dpi=110)
