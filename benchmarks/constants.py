"""What constants decide: each is divided and multiplied by four, and data that can fail are fitted again.

The constants are not listed here: every number that a module of the library binds to a name in capitals is
one, and every field of a frozen object that a module makes (`house.constants`, `house.fields`), those of the
leaves excepted. For each of them, for both values and for each kind of
data, a cell holds how many laws are right, the errors, and in how many fits the terms differ from those of
the library as it is. A constant that moves no fit of any kind need not be there.

`python -m benchmarks constants --names selection,states.motion --methods "short,closed orbit" --size 2` takes
the constants of a room or module, some kinds, and so many data sets of each: minutes in place of a day.
"""

import hashlib
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cindy
from benchmarks import chaotic_systems, house
from benchmarks.attempt import truth_of
from benchmarks.cells import Row, Subset, measured
from benchmarks.parameters import LAWS
from benchmarks.pde_systems import pde_systems
from benchmarks.table import write
from cindy import systems
from cindy.selection import EFFORT, trying

__all__ = ["KINDS", "changes", "run"]

Floats = NDArray[np.float64]

LEAVES = ("cli", "export", "plot", "pysindy", "report", "sklearn", "systems")
AS_IT_IS = "as they are"


@dataclass(frozen=True)
class Case:
    """One data set with its dictionary and the truth.

    coef: the true coefficients in the dictionary, (terms, states)
    """

    name: str
    data: Any
    basis: cindy.Basis
    coef: Floats
    form: cindy.Formulation | None = None


def _simulated(name: str, system: systems.System, degree: int | None, seed: int, **settings: Any) -> Case:
    """A bundled system in polynomials to a degree, or in its own dictionary."""
    basis = system.basis if degree is None else cindy.Polynomial(degree)
    coef = truth_of(basis, system.states, system.equations)
    return Case(name, system.simulate(seed, **settings), basis, coef, cindy.Integral(order=system.order))


HARD = (
    "QiChen",
    "KawczynskiStrizhak",
    "HyperBao",
    "Qi",
    "GuckenheimerHolmes",
    "Aizawa",
    "HyperCai",
    "Lorenz",
)
"""Chaotic systems that 40 % noise hides in some draws (`chaotic_missed.md`), and Lorenz's."""


def _chaotic(subset: Subset, seed: int) -> Iterator[Callable[[], Case]]:
    known = chaotic_systems.systems()
    for name in HARD:

        def case(system: chaotic_systems.Chaotic = known[name]) -> Case:
            t, x = chaotic_systems.clean(system, subset.cache)
            data = chaotic_systems.measured_with(system, t, x, 0.4, seed)
            return Case(system.name, data, system.basis, system.coef)

        yield case


def _lorenz(subset: Subset, seed: int) -> Iterator[Callable[[], Case]]:
    settings = {"noise": 0.3, "trajectories": 1, "points": 1000}
    for horizon in (10.0, 20.0, 5.0):
        yield lambda horizon=horizon: _simulated(  # type: ignore[misc]
            f"Lorenz over {horizon:g}", systems.lorenz(), 3, seed, horizon=horizon, **settings
        )


def _parameters(subset: Subset, seed: int) -> Iterator[Callable[[], Case]]:
    for name, law in LAWS.items():

        def case(name: str = name, law: Any = law) -> Case:
            return Case(name, law.simulate(seed, 0.05), law.basis, law.coef)

        yield case


def _short(subset: Subset, seed: int) -> Iterator[Callable[[], Case]]:
    """As in ODEBench: one or two trajectories of 150 samples over ten time units, 5 % noise."""
    settings = {"noise": 0.05, "points": 150, "trajectories": 1, "horizon": 10.0}
    for system, degree in (
        (systems.lotka_volterra(), 4),
        (systems.duffing(), 5),
        (systems.van_der_pol(), 4),
        (systems.sir(), 3),
        (systems.rossler(), 3),
        (systems.lorenz(), 3),
    ):
        yield lambda system=system, degree=degree: _simulated(  # type: ignore[misc]
            system.name, system, degree, seed, **settings
        )


def _clean(subset: Subset, seed: int) -> Iterator[Callable[[], Case]]:
    """Short and nearly clean: one trajectory in steps of 0.002 with 0.2 % noise."""
    for system, degree, horizon in (
        (systems.lorenz(), 5, 0.69),
        (systems.van_der_pol(), 5, 4.5),
        (systems.rossler(), 4, 4.0),
    ):
        yield lambda system=system, degree=degree, horizon=horizon: _simulated(  # type: ignore[misc]
            system.name, system, degree, seed,
            noise=0.002, trajectories=1, points=round(horizon / 0.002), horizon=horizon,
        )  # fmt: skip


def _orbits(subset: Subset, seed: int) -> Iterator[Callable[[], Case]]:
    """Closed orbits and limit cycles, on which terms of higher degree repeat others."""
    for frequency, noise in ((2.0, 0.01), (1.0, 0.05)):

        def circle(frequency: float = frequency, noise: float = noise) -> Case:
            t = 0.02 * np.arange(1000)
            x = np.stack([np.cos(frequency * t), -frequency * np.sin(frequency * t)], axis=1)
            noisy = x + noise * x.std(axis=0) * np.random.default_rng([seed, 7]).standard_normal(x.shape)
            coef = np.zeros((10, 2))
            coef[2, 0], coef[1, 1] = 1.0, -(frequency**2)
            basis = cindy.Polynomial(3)
            return Case(f"circle {frequency:g}", cindy.Trajectory(t, noisy, ("x", "v")), basis, coef)

        yield circle
    yield lambda: _simulated(
        "prey", systems.lotka_volterra(), 3, seed, noise=0.05, trajectories=1, points=400, horizon=20.0
    )
    yield lambda: _simulated(
        "van der pol", systems.van_der_pol(damping=2.0), 3, seed,
        noise=0.1, trajectories=1, points=600, horizon=20.0,
    )  # fmt: skip


LOUD = ("Burgers", "Korteweg-de Vries", "Kuramoto-Sivashinsky", "Fisher-KPP", "inviscid Burgers")


def _fields(subset: Subset, seed: int) -> Iterator[Callable[[], Case]]:
    known = {system.name: system for system in pde_systems()}
    for name in LOUD:

        def case(system: Any = known[name]) -> Case:
            form = cindy.Weak(order=system.order)
            return Case(system.name, system.simulate(seed, noise=1.0), system.basis, system.coef, form)

        yield case


KINDS: dict[str, Callable[[Subset, int], Iterator[Callable[[], Case]]]] = {
    "chaotic 40 %": _chaotic,
    "lorenz 30 %": _lorenz,
    "parameters 5 %": _parameters,
    "short": _short,
    "nearly clean": _clean,
    "closed orbit": _orbits,
    "fields 100 %": _fields,
}
SEEDS = (0, 1)


@dataclass(frozen=True)
class Change:
    """A constant and another value for it."""

    constant: house.Constant
    value: Any

    @property
    def name(self) -> str:
        return self.constant.where

    @contextmanager
    def made(self) -> Iterator[None]:
        """The other value in the module that binds the constant, and in those that import it from there."""
        home = import_module(f"cindy.{self.constant.module}")
        holder, _, field = self.constant.name.rpartition(".")
        if holder:
            yield from self._replaced(home, holder, field)
            return
        before = getattr(home, self.constant.name)
        holders = [home, *self._importers()]
        for module in holders:
            setattr(module, self.constant.name, self.value)
        try:
            yield
        finally:
            for module in holders:
                setattr(module, self.constant.name, before)

    def _replaced(self, home: ModuleType, holder: str, field: str) -> Iterator[None]:
        """The object with another value of one field, in the place of the one that the module made."""
        before = getattr(home, holder)
        if before is EFFORT:
            # Other modules hold this very object.
            with trying(**{field: self.value}):
                yield
            return
        setattr(home, holder, replace(before, **{field: self.value}))
        try:
            yield
        finally:
            setattr(home, holder, before)

    def _importers(self) -> list[ModuleType]:
        module, name = re.escape(self.constant.module), self.constant.name
        taken = re.compile(rf"from cindy\.{module} import (?:\([^)]*|[^\n]*)\b{name}\b")
        loaded = [module for name, module in list(sys.modules.items()) if name.startswith("cindy.")]
        return [module for module in loaded if module.__file__ and taken.search(_text(module.__file__))]


@cache
def _text(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


def changes(beginnings: Sequence[str] = ()) -> list[Change]:
    """Both changes of every constant that decides something, or of those whose names begin so."""
    chosen = []
    for constant in [*house.constants(), *house.fields()]:
        if constant.module.partition(".")[0] in LEAVES:
            continue
        if beginnings and not constant.where.startswith(tuple(beginnings)):
            continue
        chosen += [Change(constant, value) for value in _others(constant.value)]
    return chosen


def _others(value: Any) -> list[Any]:
    """A quarter of a number and four times as much, whole numbers at least 1; none for zero."""
    if isinstance(value, tuple):
        lower, higher = (tuple(_scaled(part, by) for part in value) for by in (0.25, 4.0))
        return [other for other in (lower, higher) if other != value]
    return [other for by in (0.25, 4.0) if (other := _scaled(value, by)) != value]


def _scaled(value: Any, by: float) -> Any:
    return max(1, round(value * by)) if isinstance(value, int) and value > 0 else type(value)(value * by)


def run(subset: Subset = Subset()) -> None:  # noqa: B008
    """One cell a change and kind of data; a table that says what each change moves."""
    kinds = subset.pick("methods", tuple(KINDS))
    planned: dict[tuple[str, str], Change] = {(c.name, repr(c.value)): c for c in changes(subset.names)}
    seeds = tuple(subset.pick("seeds", SEEDS))
    cases = {kind: _Lazy(kind, subset, seeds) for kind in kinds}
    cells = [
        {
            "kind": kind,
            "size": subset.size,
            "seeds": " ".join(map(str, seeds)),
            "constant": name,
            "value": value,
        }
        for name, value in [(AS_IT_IS, ""), *planned]
        for kind in kinds
    ]

    def work(kind: str, size: int, seeds: str, constant: str, value: str) -> Row:
        if constant == AS_IT_IS:
            return _fitted(cases[kind].all())
        data = cases[kind].all()
        with planned[constant, value].made():
            return _fitted(data)

    rows = measured("constants_cells", cells, work, subset)
    write(
        "constants",
        "Constants, a quarter and four times as large",
        _moved(rows),
        "Every number at the top of a module that is not a leaf, divided and multiplied by four (whole "
        "numbers at least 1). A number is how many fits have exactly the true terms; in brackets, how many "
        "have other terms than with the library as it is, and by what factor the mean of the errors "
        "‖Ξ − Ξ*‖/‖Ξ*‖ differs; a dot where nothing differs.",
        folder=subset.out,
        show=False,
    )


class _Lazy:
    """The data sets of a kind, made when the first cell asks for them."""

    def __init__(self, kind: str, subset: Subset, seeds: Sequence[int]) -> None:
        self.make = [
            make for seed in seeds for make in list(KINDS[kind](subset, seed))[: subset.size or None]
        ]
        self.cases: list[Case] | None = None

    def all(self) -> list[Case]:
        if self.cases is None:
            self.cases = [make() for make in self.make]
        return self.cases


def _fitted(cases: Sequence[Case]) -> Row:
    """How all data sets of a kind are fitted; `terms` tells supports apart without listing them."""
    began = time.process_time()
    right, errors, terms = 0, [], []
    for case in cases:
        try:
            coef = np.asarray(cindy.identify(case.data, case.basis, formulation=case.form).coef)
        except (cindy.CindyError, ArithmeticError, ValueError, IndexError) as error:
            # A value that breaks the code is a result too.
            coef = np.zeros_like(case.coef)
            terms.append(type(error).__name__)
        else:
            terms.append(hashlib.sha1((coef != 0).tobytes()).hexdigest()[:8])
        right += np.array_equal(coef != 0, case.coef != 0)
        errors.append(max(float(np.linalg.norm(coef - case.coef) / np.linalg.norm(case.coef)), 1e-16))
    return {
        "right": right,
        "of": len(cases),
        "error": float(np.exp(np.mean(np.log(errors)))),
        "seconds": time.process_time() - began,
        "terms": " ".join(terms),
    }


def _moved(rows: Sequence[Row]) -> list[Row]:
    """One line a change: what it does to each kind of data, beside the library as it is."""
    plain = {(r["kind"], r["size"], r["seeds"]): r for r in rows if r["constant"] == AS_IT_IS}
    values = {constant.where: constant.value for constant in [*house.constants(), *house.fields()]}
    table: dict[tuple[str, str], Row] = {}
    for row in rows:
        before = plain.get((row["kind"], row["size"], row["seeds"]))
        if before is None:
            continue
        moved = sum(a != b for a, b in zip(_words(row), _words(before), strict=True))
        line = table.setdefault(
            (row["constant"], str(row["value"])),
            {
                "constant": row["constant"],
                "value": values.get(row["constant"], ""),
                "changed to": row["value"],
            },
        )
        factor = row["error"] / before["error"]
        if row["constant"] == AS_IT_IS:
            line[row["kind"]] = f"{row['right']} of {row['of']}"
        elif moved or abs(factor - 1.0) > 0.01:
            line[row["kind"]] = f"{row['right']} ({moved}, × {factor:.2f})"
        else:
            line[row["kind"]] = "·"
    return list(table.values())


def _words(row: Mapping[str, Any]) -> list[str]:
    return str(row["terms"]).split()
