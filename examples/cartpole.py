"""A cart-pole: its equations from measured positions, and a swing-up with them."""

import casadi
import do_mpc
import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp

import cindy


def rig(t, state, force):
    """The machine, unknown to what follows: 0.6 kg cart, pole of 0.2 kg and 0.4 m."""
    _, angle, v, w = state
    s, c, pivot = np.sin(angle), np.cos(angle), 0.05 * w
    push = force(t) - 0.4 * v + 0.08 * w**2 * s + 0.2 * 9.81 * s * c + pivot * c
    a = push / (0.6 + 0.2 * s**2)
    return [v, w, a, -(a * c + 9.81 * s + pivot / 0.2) / 0.4]


# Three runs, pushed to and fro; positions to 1 mm, angles to 0.2°, no rates at all.
rng, t, runs = np.random.default_rng(0), np.arange(0, 6, 0.02), []
for angle in (0.1, 2.5, -1.5):
    waves = np.outer(t, rng.uniform(1.2, 7.5, 5)) + rng.uniform(0, 6, 5)
    F = 6 * np.sin(waves).mean(axis=1)
    hand = (lambda s, F=F: np.interp(s, t, F),)
    options = {"t_eval": t, "args": hand, "rtol": 1e-9, "max_step": 0.02}
    exact = solve_ivp(rig, (0, 6), [0, angle, 0, 0], **options).y[:2].T
    read = exact + rng.normal(size=exact.shape) * (0.001, 0.0035)
    runs.append(cindy.Trajectory(t, read, ("x", "theta"), u=F, inputs=("F",)))

# Lagrange's equations of a cart with a pole are divided by d = r + sin(theta)^2, where
# r is a ratio of masses that nobody has weighed; s and c are sine and cosine.
tops = {"F": "F", "x'": "x'", "theta'": "theta'"}
tops |= {"s": "sin(theta)", "theta'^2 s": "theta'^2*sin(theta)"}
tops |= {f"{name} c": f"{top}*cos(theta)" for name, top in tops.items()}
terms = {f"{name}/d": f"{top}/(r + sin(theta)^2)" for name, top in tops.items()}
library = cindy.Polynomial(1) + cindy.Custom(terms, parameters={"r": (0.5, 20)})
form = cindy.Integral(order=2, rates=True)
model = cindy.identify(runs, library, formulation=form)
print(model)

# Model predictive control with these equations: 2 s ahead, a new force every 50 ms.
law, plan = model.to_casadi(), do_mpc.model.Model("continuous")
names = ("x", "theta", "v", "w")
x, theta, v, w = state = [plan.set_variable("_x", name) for name in names]
slopes = law(casadi.vertcat(*state), plan.set_variable("_u", "F"))
for k, name in enumerate(names):
    plan.set_rhs(name, slopes[k])
plan.setup()
mpc = do_mpc.controller.MPC(plan)
mpc.settings.n_horizon, mpc.settings.t_step = 40, 0.05
mpc.settings.supress_ipopt_output()
far = 10 * (1 + casadi.cos(theta)) + x**2
mpc.set_objective(lterm=far, mterm=10 * far + v**2 + w**2)
mpc.set_rterm(F=0.005)
for side, sign in (("lower", -1.0), ("upper", 1.0)):
    mpc.bounds[side, "_x", "x"] = sign
    mpc.bounds[side, "_u", "F"] = 8 * sign
mpc.setup()

path = [np.array([0.0, 0.1, 0.0, 0.0])]
mpc.x0 = path[0]
mpc.set_initial_guess()
for _ in range(60):
    push = float(mpc.make_step(path[-1][:, None])[0, 0])
    constant = (lambda s, push=push: push,)
    path.append(solve_ivp(rig, (0, 0.05), path[-1], args=constant, rtol=1e-8).y[:, -1])
upright = np.degrees(np.pi - abs(path[-1][1]))
print(f"after 3 s the pole is {abs(upright):.0f}° from upright")

fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
cindy.plot.trajectories(runs[1], model, states=["theta"], ax=left)
for k, (x, theta, *_) in enumerate(path[:32]):
    tip = (x + 0.4 * np.sin(theta), -0.4 * np.cos(theta))
    colour = plt.cm.viridis(1 - k / 32)
    right.plot([x, tip[0]], [0, tip[1]], color=colour, marker="o", markevery=[1])
right.set(aspect="equal", xlabel="x (m)", ylabel="height (m)")
right.set_title("swung up in 1.6 s; dark is late", loc="left")
fig.savefig("cartpole.png", dpi=110)
