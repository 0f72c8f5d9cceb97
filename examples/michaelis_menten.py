"""Michaelis and Menten's law from substrate and product, K inside a term."""

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp

import cindy


def mechanism(t: float, state: list[float]) -> list[float]:
    """E + S ⇌ ES → E + P with little enzyme, of which nothing is measured."""
    s, es, _ = state
    bound, released, turned = 1000 * (0.01 - es) * s, 270 * es, 100 * es
    return [released - bound, bound - released - turned, turned]


rng = np.random.default_rng(0)
t = np.linspace(0, 5, 300)
data = []
for start in (0.5, 1.5, 3.0):
    y = solve_ivp(
        mechanism, (0, 5), [start, 0, 0], "Radau", t, rtol=1e-8, atol=1e-10
    ).y.T
    data.append(
        cindy.Trajectory(
            t, y[:, [0, 2]] + 0.02 * rng.standard_normal((300, 2)), ("S", "P")
        )
    )

# K is looked for between 0.01 and 10; what S loses, P gains.
uptake = cindy.Custom({"S/(K + S)": "S/(K + S)"}, parameters={"K": (0.01, 10)})
model = cindy.identify(
    data, cindy.Polynomial(2) + uptake, constraints=[cindy.conserve(["S", "P"])]
)
print(model)
print("the mechanism says: rate 1, K =", (270 + 100) / 1000)
value, error = model.parameters["K"]
print(f"K = {value:.3f} ± {error:.3f}")

# The two move together: a larger K asks for a larger rate.
sizes = np.sqrt(np.diagonal(model.covariance))
print(
    "correlation of rate and K:",
    (model.covariance / np.outer(sizes, sizes))[1, 2].round(2),
)

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
cindy.plot.trajectories(data[:2], model, ax=left)
s = np.linspace(0, 3, 100)
right.plot(s, s / (0.37 + s), label="mechanism")
right.plot(s, -model.predict(np.stack([s, 0 * s], axis=1))[:, 0], "--", label="found")
right.set(xlabel="S", ylabel="rate")
right.legend()
fig.savefig("michaelis_menten.png", dpi=110)
