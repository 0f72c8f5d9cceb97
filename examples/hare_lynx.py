"""Hare and lynx, 1900-1920: what 21 counts can tell, and what they cannot."""

import matplotlib.pyplot as plt
import numpy as np

import cindy

# Pelts in thousands a year, Hudson's Bay Company.
hare = """30 47.2 70.2 77.4 36.3 20.6 18.1 21.4 22 25.4 27.1 40.3 57 76.6 52.3 19.5
11.2 7.6 14.6 16.2 24.7"""
lynx = """4 6.1 9.8 35.2 59.4 41.7 19 13 8.3 9.1 7.4 8 12.3 19.5 45.7 51.1 29.7 15.8 9.7
10.1 8.6"""
counts = np.array([hare.split(), lynx.split()], dtype=float).T
years = np.arange(1900, 1921)

# Errors of counts are relative, so the states are logarithms: h = log H, l = log L.
# Then h' = H'/H is the
# growth of one hare, and the equations of Lotka and Volterra read h' = a - b L, l'
# = d H - c.
data = cindy.Trajectory(years, np.log(counts), states=("h", "l"))
small = cindy.Polynomial(0) + cindy.Custom({"H": "exp(h)", "L": "exp(l)"})
squares = cindy.Custom({"H^2": "exp(2*h)", "H L": "exp(h + l)", "L^2": "exp(2*l)"})

model = cindy.identify(data, small)
print("out of 1, H, L:", *model.equations(), sep="\n  ")
other = cindy.identify(data, small + squares)
print("with squares to choose from as well:", *other.equations(), sep="\n  ")
for name, one in (("the first", model), ("the second", other)):
    whole = one.score(data, "trajectory")
    print(
        f"{name} explains {one.score(data):.0%} equation by equation; "
        f"over all 21 years R² = {whole:.2f}"
    )

# A longer run of the first model: the length of its cycle can be held against the
# ten years of the record.
run = model.simulate(data.x[0], np.linspace(1900, 2000, 5001))
level = run.x[:, 0] - run.x[:, 0].mean()
up = run.t[1:][(level[:-1] < 0) & (level[1:] >= 0)]
print(f"its cycle: {np.diff(up).mean():.1f} years")

fig, (left, right) = plt.subplots(
    1, 2, figsize=(11, 4), layout="constrained", sharey=True
)
for ax, one, title in ((left, model, "out of 1, H, L"), (right, other, "with squares")):
    for j, colour in enumerate(cindy.plot.COLOURS[:2]):
        ax.plot(years, data.x[:, j], "o", ms=5, color=colour, alpha=0.6)
    cindy.plot.trajectories(data, one, ax=ax)
    ax.set(xlabel="year", ylabel="log of thousands of pelts", xticks=years[::5])
    ax.set_title(title, loc="right", fontsize="medium")
fig.savefig("hare_lynx.png", dpi=110)
