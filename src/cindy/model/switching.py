"""Switching: equations with sign, abs, max, min, comparisons or where, solved from switch to switch.

Such terms are smooth except where a switching function g(x) changes its sign: sign(v) at v = 0, max(a, b) at
a = b. An integrator that steps across loses its order. Where both sides push towards the surface g = 0, as
dry friction does to a body at rest, it chatters and makes no progress. Here every switch is a symbol s_k,

    sign(g) = s,   |g| = s g,   max(a, b) = (a + b)/2 + s (a − b)/2,   [a > b] = (1 + s)/2,

which is +1 or −1 on either side. The solution is found so (A. F. Filippov, Differential equations with
discontinuous right-hand sides, 1988):

1. With all s fixed the equations are smooth; integrate them until some s_k g_k becomes negative.
2. Locate that time on the integrator's own polynomial.
3. With f⁺ and f⁻ the right-hand sides for s_k = ±1 and ġ = ∇g · f: if ġ has one sign for both, cross. If
   ġ⁺ < 0 < ġ⁻, slide: keep to the surface with the combination of f⁺ and f⁻ that leaves ġ = 0,
   f = (f⁺ + f⁻)/2 + s (f⁺ − f⁻)/2 with −1 < s < 1.
4. Sliding ends where s reaches ±1, located in the same way.

Several surfaces may be slid along at once; their s then solve a linear system.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cindy._arrays import Floats
from cindy.basis import COMPARISONS, TIME, Expression, Factor, Term, compile_rhs

Compiled = Callable[[float, Any, Any], list[float]]
Signal = Callable[[float], Sequence[float]]


@dataclass(frozen=True)
class _Surface:
    """How crossings of a switching surface are located."""

    on_surface: float = 1e-10
    """|g|, relative to its size, up to which a solution starts on the surface."""
    beyond: float = 1e-12
    """Rounding that is no crossing: of g relative to its size, and of s."""
    looks: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0)
    """Places within a step at which signs are tested: a solution that grazes a surface may have come back at
    the end of the step."""
    least_steps: int = 200
    """Fewest steps of a solution: at rest an integrator takes steps as long as it may, and would miss a force
    that comes and goes within one of them."""
    at_once: int = 100
    """Switches without progress in time after which the solution is given up."""


_SURFACE = _Surface()


@dataclass(frozen=True, eq=False)
class Switches:
    """Compiled equations in which every switch is a symbol, its mode s.

    rhs: (t, x, u + modes) → the right-hand sides; surfaces: likewise → g of every mode
    slopes: likewise → ∂g/∂x and then ∂g/∂u of every mode, flat
    count: of the modes; variables: those of the terms, the first `given` of which are in x
    """

    count: int
    variables: tuple[str, ...]
    given: int
    rhs: Compiled
    surfaces: Compiled
    slopes: Compiled

    @classmethod
    def of(
        cls, terms: Sequence[Term], coef: Floats, variables: tuple[str, ...], given: int
    ) -> Switches | None:
        """From the terms with a coefficient; None if none of them has a switch."""
        used = [i for i, row in enumerate(coef) if row.any()]
        surfaces: dict[Expression, int] = {}
        smooth = [tuple(_factor(factor, surfaces) for factor in terms[i]) for i in used]
        if not surfaces:
            return None
        modes = tuple(_mode(k) for k in range(len(surfaces)))
        names = (*variables, *modes)

        def compiled(outputs: Sequence[Expression]) -> Compiled:
            terms = [_as_term(output, names) for output in outputs]
            return compile_rhs(terms, np.eye(len(terms)), names, given)

        slopes = [g.derivative(name) for g in surfaces for name in variables]
        rhs = compile_rhs(smooth, coef[used], names, given)
        return cls(len(surfaces), variables, given, rhs, compiled(list(surfaces)), compiled(slopes))


def _mode(k: int) -> str:
    return f"mode {k}"


def _as_term(formula: Expression, names: tuple[str, ...]) -> Term:
    used = tuple(name for name in names if name in formula.symbols())
    return (Factor("call", used or names[:1], expression=formula, name="switch"),)


def _factor(factor: Factor, surfaces: dict[Expression, int]) -> Factor:
    """The factor with symbols for its switches, whose switching functions are added to `surfaces`."""
    if factor.expression is None:
        return factor
    smooth = _smooth(factor.expression, surfaces)
    if smooth == factor.expression:
        return factor
    modes = tuple(_mode(k) for k in range(len(surfaces)) if _mode(k) in smooth.symbols())
    names = (*factor.variables, *modes)
    return replace(factor, variables=names, expression=smooth, symbolic=None, values=())


def _smooth(node: Expression, surfaces: dict[Expression, int]) -> Expression:
    """The formula with symbols for its switches, as in the table above."""
    operands = tuple(_smooth(operand, surfaces) for operand in node.operands)
    if node.operation == "sign":
        return _switch(operands[0], surfaces)
    if node.operation == "abs":
        return _times(_switch(operands[0], surfaces), operands[0])
    if node.operation in ("max", "min"):
        # max(a, b, c) = max(max(a, b), c), and each of the two has a switching function.
        best = operands[0]
        for other in operands[1:]:
            gap = _difference(best, other)
            half = _times(_number(0.5 if node.operation == "max" else -0.5), _switch(gap, surfaces))
            middle = _times(_number(0.5), Expression("+", (best, other)))
            best = Expression("+", (middle, _times(half, gap)))
        return best
    if node.operation in COMPARISONS:
        if node.operation in ("==", "!="):  # these differ from a constant at isolated times only
            return _number(float(node.operation == "!="))
        side = 0.5 if node.operation in (">", ">=") else -0.5
        mode = _switch(_difference(*operands), surfaces)
        return Expression("+", (_number(0.5), _times(_number(side), mode)))
    if node.operation == "where":
        condition, holds, else_ = operands
        # where(x, …) asks whether x is exactly zero, which it is at isolated times only: no switch.
        if node.operands[0].operation not in COMPARISONS:
            return Expression("where", operands)
        return Expression("+", (else_, _times(condition, _difference(holds, else_))))
    return replace(node, operands=operands)


def _switch(surface: Expression, surfaces: dict[Expression, int]) -> Expression:
    return Expression("symbol", symbol=_mode(surfaces.setdefault(surface, len(surfaces))))


def _number(value: float) -> Expression:
    return Expression("number", number=value)


def _times(a: Expression, b: Expression) -> Expression:
    return Expression("*", (a, b))


def _difference(a: Expression, b: Expression) -> Expression:
    if b.operation == "number" and b.number == 0.0:
        return a
    return Expression("+", (a, Expression("-", (b,))))


@dataclass(eq=False)
class SwitchedMotion:
    """The equations in the present modes as y' = f(t, y), and the conditions for a mode to change.

    signal: the inputs
    longest: step of the integrator, by `longest_step` of the whole solution
    modes: s of every switch, ±1; sliding: the switches along whose surfaces the solution slides
    """

    switches: Switches
    signal: Signal | None
    longest: float
    modes: list[float] = field(default_factory=list)
    sliding: list[int] = field(default_factory=list)
    _last: float = -np.inf
    _idle: int = 0

    @property
    def given(self) -> int:
        """How many values of y terms may depend on."""
        return self.switches.given

    def value(self, s: float, y: Floats, modes: list[float]) -> Floats:
        """f for these modes."""
        values: list[float] = y.tolist()
        right = self.switches.rhs(s, values[: self.given], self._inputs(s) + modes)
        # In x'' = F the rates, which are the derivatives of the positions, follow these in y.
        return np.array(values[len(right) :] + right)

    def surfaces(self, s: float, y: Floats) -> Floats:
        values: list[float] = y.tolist()[: self.given]
        return np.array(self.switches.surfaces(s, values, self._inputs(s) + self.modes))

    def slopes(self, s: float, y: Floats) -> tuple[Floats, Floats]:
        """∂g/∂y, (switches, given), and ∂g/∂t with the inputs as they move, (switches,)."""
        values: list[float] = y.tolist()[: self.given]
        flat = self.switches.slopes(s, values, self._inputs(s) + self.modes)
        table = np.array(flat).reshape(self.switches.count, -1)
        by_inputs = table[:, self.given :]
        moving = np.zeros(self.switches.count)
        if by_inputs.any():
            # Inputs may be any function of time, so that their rates are taken by differences.
            step = 1e-6 * max(abs(s), 1.0)
            rate = list((np.array(self._inputs(s + step)) - np.array(self._inputs(s))) / step)
            inputs = self.switches.variables[self.given :]
            if TIME in inputs:
                rate.insert(inputs.index(TIME), 1.0)
            moving = by_inputs @ np.array(rate)
        return table[:, : self.given], moving

    def _inputs(self, s: float) -> list[float]:
        return [] if self.signal is None else list(self.signal(s))

    def share(self, s: float, y: Floats) -> tuple[Floats, Floats]:
        """f along the surfaces of sliding, and the s of each there (step 3)."""
        slid = self.sliding
        if not slid:
            return self.value(s, y, self.modes), np.zeros(0)
        sides = []
        for k in slid:
            modes = [0.0 if j in slid else mode for j, mode in enumerate(self.modes)]
            sides.append([self.value(s, y, [*modes[:k], side, *modes[k + 1 :]]) for side in (1.0, -1.0)])
        # f is linear in each mode, f(s) = base + Σ s_k push_k, so that ġ = 0 is a linear system for s.
        base = np.mean(sides[0], axis=0)
        pushes = np.array([0.5 * (plus - minus) for plus, minus in sides])
        gradient, moving = self.slopes(s, y)
        normal = gradient[slid]
        drift = normal @ base[: self.given] + moving[slid]
        # By least squares, since two surfaces may coincide, as those of |x| and sign(x) do.
        matrix = normal @ pushes[:, : self.given].T
        modes_slid = np.linalg.lstsq(matrix, -drift, rcond=None)[0]
        return base + modes_slid @ pushes, modes_slid

    def __call__(self, s: float, y: Floats) -> Floats:
        return self.share(s, y)[0]

    def watched(self, s: float, y: Floats) -> Floats:
        """Positive as long as no mode changes: s g of every switch, 1 − s and 1 + s of those of sliding."""
        held = np.array(self.modes) * self.surfaces(s, y)
        held[self.sliding] = 1.0
        modes_slid = self.share(s, y)[1]
        return np.concatenate([held, 1.0 - modes_slid, 1.0 + modes_slid])

    def sizes(self, s: float, y: Floats, scale: Floats) -> Floats:
        """The rounding of each value of `watched`, which is no crossing."""
        return np.concatenate(
            [_SURFACE.beyond * self.size(s, y, scale), np.full(2 * len(self.sliding), _SURFACE.beyond)]
        )

    def size(self, s: float, y: Floats, scale: Floats) -> Floats:
        """(switches,) the usual size of g."""
        return np.asarray(np.abs(self.slopes(s, y)[0]) @ scale[: self.given] + np.abs(self.surfaces(s, y)))

    def begin(self, s: float, y: Floats, scale: Floats) -> None:
        """Set the modes at the start; on a surface the equations on both sides decide."""
        self.modes, self.sliding = [1.0] * self.switches.count, []
        for _ in range(2):  # surfaces may hold modes of switches inside them
            g, near = self.surfaces(s, y), _SURFACE.on_surface * self.size(s, y, scale)
            self.modes = [1.0 if value >= 0 else -1.0 for value in g]
        for k in np.flatnonzero(np.abs(g) <= near).tolist():
            self.decide(k, s, y)

    def decide(self, k: int, s: float, y: Floats) -> None:
        """Cross the surface of switch k, or slide along it."""
        came = self.modes[k]
        rates = []
        for side in (1.0, -1.0):
            self.modes[k] = side
            gradient, moving = self.slopes(s, y)
            rates.append(float(gradient[k] @ self(s, y)[: self.given] + moving[k]))
        # Step 3, from the rates of g on both sides: equal signs are a crossing, signs towards the surface are
        # sliding. With signs away from it both sides are solutions; take the one it did not come from.
        plus, minus = rates
        self.modes[k] = 1.0 if plus >= 0 and minus >= 0 else -1.0 if plus <= 0 and minus <= 0 else -came
        if plus < 0 < minus:
            self.sliding = sorted([*self.sliding, k])

    def switch(self, place: int, s: float, y: Floats) -> None:
        """Change a mode when the value of `watched` at this place has reached zero."""
        self._last, self._idle = s, self._idle + 1 if s <= self._last else 0
        count, slid = self.switches.count, len(self.sliding)
        if place < count:
            self.decide(place, s, y)
            return
        # Step 4: sliding ends on the side that s has reached.
        k = self.sliding[(place - count) % slid]
        self.sliding = [j for j in self.sliding if j != k]
        self.modes[k] = 1.0 if place < count + slid else -1.0

    @property
    def stuck(self) -> bool:
        """Whether modes change without end at one time: several switches may act at once, not a hundred."""
        return self._idle > _SURFACE.at_once


def longest_step(t: Floats) -> float:
    """The longest step of the integrator for a solution at these times."""
    return min(float(np.max(np.diff(t), initial=0.0)), float(t[-1] - t[0]) / _SURFACE.least_steps) or np.inf


def first_switch(
    motion: SwitchedMotion, curve: Callable[[float], Floats], begin: float, end: float, scale: Floats
) -> tuple[float, int | None]:
    """When a value of `watched` first reaches zero within a step, and its place; else `end` and None."""
    from scipy.optimize import brentq

    rounding = motion.sizes(begin, curve(begin), scale)
    last = begin
    for share in _SURFACE.looks:
        time = begin + share * (end - begin)
        crossed = np.flatnonzero(motion.watched(time, curve(time)) < -rounding)
        if len(crossed):
            # Step 2: Brent's method on the integrator's own polynomial, between the last look and this one.
            before = motion.watched(last, curve(last))

            def when(k: int, low: float = last, high: float = time, before: Floats = before) -> float:
                if before[k] <= 0:
                    return low
                root = brentq(lambda s: motion.watched(s, curve(s))[k], low, high, xtol=1e-15, rtol=1e-14)
                return float(root)

            times = [when(int(k)) for k in crossed]
            first = int(np.argmin(times))
            return times[first], int(crossed[first])
        last = time
    return end, None
