"""Balls dropped from a bridge: one g for all, a drag for each."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cindy

file = Path(cindy.__file__).parents[2] / "examples" / "measured" / "falling_balls.csv"
heights = cindy.read(file, by="run", states=["height"])

# A camera sees heights. The velocity is the slope of a parabola through eleven of them.
runs = []
for one in heights:
    around = [slice(max(0, k - 5), k + 6) for k in range(len(one))]
    v = [
        np.polyfit(one.t[s] - one.t[k], one.x[s, 0], 2)[1] for k, s in enumerate(around)
    ]
    # The last few see the ball land.
    runs.append(
        cindy.Trajectory(one.t[:-7], v[:-7], ("v",), name=one.name.removeprefix("run "))
    )

basis = cindy.Polynomial(0) + cindy.PerRun(cindy.Custom({"drag": "v"}))
brakes = [
    cindy.bound("v", f"[{run.name}] drag", upper=0.0) for run in runs
]  # drag only slows
model = cindy.identify(runs, basis, constraints=brakes, passes=1)
g = model.place("v", "1")
print(f"g = {-model.coef[g]:.2f} ± {model.coef_error[g]:.2f} m/s²")
for run in runs[::3]:
    place = model.place("v", f"[{run.name}] drag")
    drag, error = abs(model.coef[place]), model.coef_error[place]
    print(f"{run.name:>24}: drag {drag:.3f} ± {error:.3f} 1/s")

fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
for run in runs[::3]:
    line = model.simulate(run.x[0], run.t, run=run.name)
    ax.plot(run.t, run.x, ".", ms=4, alpha=0.5)
    ax.plot(line.t, line.x, lw=1.4, color=ax.lines[-1].get_color(), label=run.name)
ax.set(xlabel="t (s)", ylabel="velocity (m/s)")
ax.legend(frameon=False, fontsize="small")
fig.savefig("falling_balls.png", dpi=110)
