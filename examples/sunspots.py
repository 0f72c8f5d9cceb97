"""Three centuries of sunspots: a damped oscillator that random kicks keep going."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import cindy

# The mean number of sunspots in every year from 1700 to 2008.
file = Path(cindy.__file__).parents[2] / "examples" / "measured" / "sunspots.csv"
[measured] = cindy.read(file)

# The root makes fluctuations of high and low years alike; its mean is at rest.
root = np.sqrt(measured.x[:, 0])
data = cindy.Trajectory(measured.t, root - root.mean(), states=("s",))

# Nobody measures s', so CINDy estimates it with the equation s'' = F(s, s').
form = cindy.Integral(order=2, rates=True)
model = cindy.identify(data, cindy.Polynomial(degree=1), formulation=form)
print(model)

pull, damping = -model.coef[1, 0], -model.coef[2, 0]
period = 2 * np.pi / np.sqrt(pull - damping**2 / 4)
print(f"a period of {period:.1f} years, forgotten after {2 / damping:.1f} years")

# Yule (1927) found the same by a regression of a value on the two before.
s = data.x[:, 0]
one, two = np.linalg.lstsq(np.stack([s[1:-1], s[:-2]], axis=1), s[2:], rcond=None)[0]
root = np.log(np.roots([1, -one, -two]).astype(complex))[0]
turn = 2 * np.pi / abs(root.imag)
print(f"by autoregression: {turn:.1f} years, {-1 / root.real:.1f} years")

fig, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
recent = cindy.Trajectory(data.t[-110:], s[-110:], states=("s",))
cindy.plot.trajectories(recent, model, window=11, units={"t": "years"}, ax=ax)
fig.savefig("sunspots.png", dpi=110)
