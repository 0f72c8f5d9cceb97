"""Two reacting fields, a tenth missing: the equations, and a forecast."""

import matplotlib.pyplot as plt
import numpy as np

import cindy

# Two substances that react and spread in the plane, 40 × 40 pixels, 61 frames.
x = np.linspace(0, 20, 40, endpoint=False)
turn = 2 * np.pi * x / 20
start = {
    "u": np.cos(turn)[:, None] + 0 * x,
    "v": np.sin(turn)[:, None] * np.cos(turn) + 0.3 * np.sin(turn),
}
basis = cindy.Derivatives(degree=3, order=2)
known = basis.on_axes(("x", "y"))
law = {
    ("u", "u"): 1,
    ("u", "u^3"): -1,
    ("u", "u v^2"): -1,
    ("u", "u^2 v"): 1,
    ("u", "v^3"): 1,
}
law |= {
    ("v", "v"): 1,
    ("v", "u^2 v"): -1,
    ("v", "v^3"): -1,
    ("v", "u^3"): -1,
    ("v", "u v^2"): -1,
}
law |= {(s, f"{s}_{a}"): 0.3 for s in "uv" for a in ("xx", "yy")}
empty = np.zeros((len(known.names(("u", "v"))), 2))
truth = cindy.Model(empty, known, ("u", "v"), formulation=cindy.Weak()).with_coef(law)
grid = {"x": x, "y": x, "periodic": ("x", "y")}
first = cindy.Field(**{s: u[..., None] for s, u in start.items()}, **grid, t=[0.0])
film = truth.simulate(first, np.linspace(0, 6, 61))

# The camera adds a tenth of noise, and a clip holds down a tenth of the plane.
rng = np.random.default_rng(0)
noisy = {
    s: film[s] + 0.1 * film[s].std() * rng.standard_normal(film.shape)
    for s in film.states
}
clip = (x[:, None] - 14) ** 2 + (x - 6) ** 2 < 0.1 * 20**2 / np.pi
field = cindy.Field(**noisy, **grid, t=film.t, mask=clip)

# Both substances are known to spread alike in all directions.
alike = [cindy.tie((s, f"{s}_xx"), (s, f"{s}_yy")) for s in "uv"]
model = cindy.identify(field, basis, constraints=alike)
print(field)
print(model)
print(f"R² of the equations {model.score(field):.4f}")

later = model.simulate(film.first, film.t)
fig, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
pictures = (
    ("data", field["u"]),
    ("model", later["u"]),
    ("ten times the error", 10 * (later["u"] - film["u"])),
)
for ax, (title, values) in zip(axes, pictures, strict=True):
    mesh = ax.pcolormesh(
        x, x, values[..., -1].T, vmin=-1, vmax=1, cmap="RdBu_r", shading="nearest"
    )
    ax.set(
        title=f"u at t = {film.t[-1]:g}: {title}",
        xlabel="x",
        ylabel="y",
        aspect="equal",
    )
fig.colorbar(mesh, ax=axes)
fig.savefig("spots.png", dpi=110)
