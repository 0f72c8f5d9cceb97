"""The reference systems of the paper and of textbooks, and the data set of the demonstration."""

from collections.abc import Callable, Mapping
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from cindy import _check
from cindy._arrays import Floats
from cindy.basis import Polynomial, Trigonometric
from cindy.errors import DataError
from cindy.systems.system import System

MOST_STATES = 10_000
"""States of a chain of oscillators: writing down so many equations takes a second."""

Box = tuple[float | list[float], float | list[float]]
"""Lower and upper bounds of the initial states."""


def uniform(
    low: float | list[float], high: float | list[float], d: int
) -> Callable[[np.random.Generator, int], Floats]:
    """A function that draws independent, uniform initial states (count, d)."""
    return lambda rng, count: rng.uniform(low, high, size=(count, d))


def _finite(where: str, **values: float) -> None:
    """Raise unless every parameter is a finite number."""
    for name, value in values.items():
        _check.number(value, f"{where}: `{name}`")


def numbered(d: int) -> tuple[str, ...]:
    """The names x1 … xd."""
    return tuple(f"x{i + 1}" for i in range(d))


def kuramoto(
    d: int = 5,
    *,
    coupling: float = 2.0,
    forcing: float = 0.2,
    frequencies: Floats | None = None,
    seed: int = 0,
) -> System:
    """d phase oscillators: ẋᵢ = ωᵢ + (K/d) Σⱼ sin(xⱼ − xᵢ) + h sin xᵢ, with ω uniform on [0, 1].

    `frequencies` (d,) fixes ω; otherwise `seed` draws it.

    >>> system = kuramoto(5)
    >>> system.coef.shape, int((system.coef != 0).sum())
    ((56, 5), 50)
    """
    _check.integer(d, "kuramoto: `d`", least=2, most=MOST_STATES)
    _finite("kuramoto", coupling=coupling, forcing=forcing)
    _check.integer(seed, "kuramoto: `seed`", least=0)
    if frequencies is None:
        omega = np.random.default_rng(seed).uniform(0.0, 1.0, d)
    else:
        omega = _check.floats(frequencies, "kuramoto: `frequencies`", ndim=1)
        if len(omega) != d:
            raise DataError(f"kuramoto: `frequencies` must hold {d} numbers, but holds {len(omega)}.")
    states = numbered(d)

    def rhs(x: Any) -> Any:
        # Double precision is enough for sines and ten times as fast; sums keep the precision of x.
        phase = np.asarray(x, dtype=np.float64)
        sine, cosine = np.sin(phase), np.cos(phase)
        # Σⱼ sin(xⱼ − xᵢ) = cos xᵢ Σ sin xⱼ − sin xᵢ Σ cos xⱼ needs d sines instead of d².
        pull = sine.sum(axis=-1, keepdims=True) * cosine - cosine.sum(axis=-1, keepdims=True) * sine
        return omega + coupling / d * pull + forcing * sine

    equations: dict[tuple[str, str], float] = {}
    for i, x in enumerate(states):
        equations[x, "1"] = float(omega[i])
        equations[x, f"sin({x})"] = forcing
        for j, y in enumerate(states):
            if i < j:
                equations[x, f"cos({x}) sin({y})"] = coupling / d
                equations[x, f"sin({x}) cos({y})"] = -coupling / d
            elif j < i:
                equations[x, f"sin({y}) cos({x})"] = coupling / d
                equations[x, f"cos({y}) sin({x})"] = -coupling / d
    return System(
        name=f"kuramoto{d}",
        states=states,
        basis=Trigonometric(degree=2),
        rhs=rhs,
        equations=equations,
        initial=uniform(0.0, 2 * np.pi, d),
        horizon=10.0,
        trajectories=40,
        points=6000,
        physics=tuple(("exchange", pair) for pair in combinations(states, 2)),
    )


def fput(d: int = 5, *, amplitude: float = 0.1, beta: float = 0.7) -> System:
    """d equal masses in a row, cubic springs, fixed ends; order 2, started at rest within ±amplitude.

    ẍᵢ = (xᵢ₊₁ − 2xᵢ + xᵢ₋₁) + β[(xᵢ₊₁ − xᵢ)³ − (xᵢ − xᵢ₋₁)³]

    >>> [int((fput(d).coef != 0).sum()) for d in (5, 10)]
    [42, 92]
    """
    _check.integer(d, "fput: `d`", least=2, most=MOST_STATES)
    _finite("fput", beta=beta)
    states = numbered(d)

    def rhs(x: Any) -> Any:
        walls = np.zeros_like(x[..., :1])
        # The fixed ends are two more masses that do not move.
        stretch = np.diff(np.concatenate([walls, x, walls], axis=-1), axis=-1)
        return np.diff(stretch * (1.0 + beta * stretch * stretch), axis=-1)

    equations: dict[tuple[str, str], float] = {}
    for i, x in enumerate(states):
        equations[x, x] = -2.0
        equations[x, f"{x}^3"] = -2.0 * beta
        for j in (i - 1, i + 1):
            if 0 <= j < d:
                y, first = states[j], min(i, j)
                # (y − x)³ = y³ − 3 y² x + 3 y x² − x³, with factors in the order of the states.
                equations[x, y] = 1.0
                equations[x, f"{y}^3"] = beta
                equations[x, f"{x} {y}^2" if first == i else f"{y}^2 {x}"] = -3.0 * beta
                equations[x, f"{x}^2 {y}" if first == i else f"{y} {x}^2"] = 3.0 * beta
    return System(
        name=f"fput{d}",
        states=states,
        order=2,
        basis=Polynomial(degree=3),
        rhs=rhs,
        equations=equations,
        initial=uniform(-_check.positive(amplitude, "fput: `amplitude`"), amplitude, d),
        horizon=1.0,
        trajectories=150,
        points=900 * d,
        physics=tuple(("exchange", pair) for pair in pairwise(states)),
    )


def spring_masses(
    *, mass: float = 1.0, left: float = 1.0, between: float = 0.5, right: float = 1.0
) -> System:
    """Two equal masses between walls, on three springs; order 2, started at rest within ±1.

    >>> spring_masses().coef
    array([[ 0. ,  0. ],
           [-1.5,  0.5],
           [ 0.5, -1.5]])
    """
    _check.positive(mass, "spring_masses: `mass`")
    _finite("spring_masses", left=left, between=between, right=right)

    def rhs(x: Any) -> Any:
        pull = between * (x[..., 1] - x[..., 0])
        return np.stack([pull - left * x[..., 0], -pull - right * x[..., 1]], axis=-1) / mass

    return System(
        name="springs",
        states=("x1", "x2"),
        order=2,
        basis=Polynomial(degree=1),
        rhs=rhs,
        equations={
            ("x1", "x1"): -(left + between) / mass,
            ("x1", "x2"): between / mass,
            ("x2", "x1"): between / mass,
            ("x2", "x2"): -(right + between) / mass,
        },
        initial=uniform(-1.0, 1.0, 2),
        horizon=10.0,
        trajectories=10,
        points=1500,
        physics=(("tie", (("x1", "x2"), ("x2", "x1"))),),
    )


def _classic(
    name: str,
    equations: Mapping[str, Mapping[str, float]],
    box: Box,
    *,
    degree: int = 2,
    horizon: float = 8.0,
    trajectories: int = 10,
    points: int = 4000,
    **options: Any,
) -> System:
    """A polynomial system of order 1 from its equations: state → term → coefficient."""
    states = tuple(equations)
    laws = [[(_factors(term, states), value) for term, value in law.items()] for law in equations.values()]

    def rhs(x: Any) -> Any:
        columns = []
        for law in laws:
            total = np.zeros_like(x[..., 0])
            for factors, value in law:
                product: Any = value
                for i in factors:
                    product = product * x[..., i]
                total = total + product
            columns.append(total)
        return np.stack(columns, axis=-1)

    return System(
        name=name,
        states=states,
        basis=Polynomial(degree=degree),
        rhs=rhs,
        equations={(state, term): value for state, law in equations.items() for term, value in law.items()},
        initial=uniform(*box, len(states)),
        horizon=horizon,
        trajectories=trajectories,
        points=points,
        **options,
    )


def _factors(term: str, states: tuple[str, ...]) -> list[int]:
    """The indices of the states in a monomial, each repeated as often as its power.

    >>> _factors("x^2 y", ("x", "y"))
    [0, 0, 1]
    """
    factors: list[int] = []
    for factor in () if term == "1" else term.split():
        state, _, power = factor.partition("^")
        factors += [states.index(state)] * int(power or 1)
    return factors


def michaelis_menten(*, binding: float = 0.01, release: float = 1.0, catalysis: float = 1.0) -> System:
    """Enzyme kinetics, S + E ⇌ ES → E + P, by mass action.

    >>> int((michaelis_menten().coef != 0).sum())
    7
    """
    _finite("michaelis_menten", binding=binding, release=release, catalysis=catalysis)
    equations = {
        "E": {"E S": -binding, "ES": release + catalysis},
        "S": {"E S": -binding, "ES": release},
        "ES": {"E S": binding, "ES": -(release + catalysis)},
        "P": {"ES": catalysis},
    }
    totals = ({"S": 1, "ES": 1, "P": 1}, {"E": 1, "ES": 1})
    laws = tuple(("conserve", (total,)) for total in totals)
    return _classic(
        "michaelis", equations, (0.0, 1.0), horizon=0.01, trajectories=150, points=6000, physics=laws
    )


def lorenz(*, sigma: float = 10.0, rho: float = 28.0, beta: float = 8.0 / 3.0) -> System:
    """Lorenz's model of convection; chaotic with the default parameters.

    >>> lorenz().simulate(trajectories=1, points=5)[0].x.shape
    (5, 3)
    """
    _finite("lorenz", sigma=sigma, rho=rho, beta=beta)
    equations = {
        "x": {"x": -sigma, "y": sigma},
        "y": {"x": rho, "y": -1.0, "x z": -1.0},
        "z": {"z": -beta, "x y": 1.0},
    }
    return _classic(
        "lorenz", equations, ([-15.0, -15.0, 10.0], [15.0, 15.0, 40.0]), horizon=4.0, points=10_000
    )


def rossler(*, a: float = 0.2, b: float = 0.2, c: float = 5.7) -> System:
    """Rössler's system; chaotic with the default parameters.

    >>> import cindy
    >>> system = cindy.systems.rossler()
    >>> data = system.simulate(seed=0, trajectories=4, points=600, noise=0.01)
    >>> model = cindy.identify(data, system.basis)
    >>> bool((model.support == (system.coef != 0)).all())
    True
    """
    _finite("rossler", a=a, b=b, c=c)
    equations = {
        "x": {"y": -1.0, "z": -1.0},
        "y": {"x": 1.0, "y": a},
        "z": {"1": b, "z": -c, "x z": 1.0},
    }
    return _classic("rossler", equations, ([-6.0, -6.0, 0.0], [6.0, 6.0, 2.0]), horizon=10.0, points=10_000)


def lotka_volterra(
    *, growth: float = 1.0, predation: float = 0.5, gain: float = 0.5, death: float = 1.0
) -> System:
    """The model of prey and predators by Lotka and Volterra.

    >>> import cindy
    >>> data = cindy.systems.lotka_volterra(predation=0.8).simulate(trajectories=2, points=200, noise=0.02)
    >>> data[0]
    Trajectory(100 samples of x, y over t = 0 … 8)
    >>> model = cindy.identify(data, "poly:2")
    >>> round(float(model.coef[model.place("x", "x y")]), 1)
    -0.8
    """
    _finite("lotka_volterra", growth=growth, predation=predation, gain=gain, death=death)
    equations = {"x": {"x": growth, "x y": -predation}, "y": {"y": -death, "x y": gain}}
    return _classic("lotka_volterra", equations, (0.5, 4.0))


def van_der_pol(*, damping: float = 1.0) -> System:
    """Van der Pol's oscillator as a first-order system: ẋ = y, ẏ = μ(1 − x²)y − x.

    >>> import cindy
    >>> [run] = cindy.systems.van_der_pol(damping=2.0).simulate(trajectories=1, points=400, horizon=40.0)
    >>> bool(1.9 < abs(run.x[200:, 0]).max() < 2.1)  # from any start to a limit cycle
    True
    """
    _finite("van_der_pol", damping=damping)
    equations = {"x": {"y": 1.0}, "y": {"x": -1.0, "y": damping, "x^2 y": -damping}}
    return _classic("van_der_pol", equations, (-3.0, 3.0), degree=3)


def duffing(*, linear: float = -1.0, cubic: float = 1.0, damping: float = 0.3) -> System:
    """Duffing's oscillator without forcing, as a first-order system: ẋ = y, ẏ = −δy − αx − βx³.

    >>> import cindy
    >>> [run] = cindy.systems.duffing().simulate(initial=[[2.0, 0.0]], horizon=80.0)
    >>> run.x[-1].round(3).tolist()  # friction lets it come to rest in one of two wells
    [1.0, 0.0]
    """
    _finite("duffing", linear=linear, cubic=cubic, damping=damping)
    equations = {"x": {"y": 1.0}, "y": {"y": -damping, "x": -linear, "x^3": -cubic}}
    return _classic("duffing", equations, (-2.0, 2.0), degree=3)


def sir(*, infection: float = 1.5, recovery: float = 0.4) -> System:
    """An epidemic: susceptible, infected, recovered; every trajectory is a town of a different size.

    >>> import cindy
    >>> system = cindy.systems.sir()
    >>> data = system.simulate(seed=0, trajectories=4, points=600, noise=0.01)
    >>> model = cindy.identify(data, system.basis, constraints=system.constraints())
    >>> bool(model.violation < 1e-9)  # S + I + R is conserved
    True
    """
    _finite("sir", infection=infection, recovery=recovery)
    equations = {
        "S": {"S I": -infection},
        "I": {"S I": infection, "I": -recovery},
        "R": {"I": recovery},
    }
    # With towns of one size S + I + R would be constant, and so collinear with the constant term.
    towns = ([0.5, 0.01, 0.0], [2.0, 0.3, 0.5])
    conserved = (("conserve", ({"S": 1, "I": 1, "R": 1},)),)
    return _classic("sir", equations, towns, trajectories=20, physics=conserved)


KINETICS = Path(__file__).with_name("kinetics.csv")
"""Concentrations in 24 runs of an enzyme reaction, every 0.1 time units, 1 % noise: those that
`tests/test_cli.py` simulates."""


def kinetics() -> System:
    """The reaction behind the data; binding is faster than in the paper, so that every rate is visible."""
    return michaelis_menten(binding=2.0, release=0.5, catalysis=1.0)
