"""Diffusion: the variance of random kicks per unit of time, and how it depends on the state.

A law whose equations are kicked reads dx_i = F_i(x) dt + √q_i(x) dW_i, with q_i(x) = Σ_j d_ij φ_j(x) ≥ 0 and
the monomials φ of the states up to degree 2. Kicks act at the state before a step (Itô). Let r be the rows,
S their covariance, z = S⁻¹ r, A the matrix by which kicks reach the rows (`Forcing`, whose second channel is
left out here), and a = Aᵀ z. For the coefficients of one equation the likelihood has the score and the
average information

    s_j = ½ Σ_k h φ_j(x_k) (a_k² − (Aᵀ S⁻¹ A)_kk),      I_jl = ½ (S_j z)ᵀ S⁻¹ (S_l z),   S_j = A (h φ_j) Aᵀ ,

so that a step of scoring is a regression of squared innovations on the terms (Jazwinski 1970 has the filter,
Breusch and Pagan 1979 the test that results without measurement noise). The correlation between the kicks of
two equations has a score of the same kind. A round costs about two steps of the fit.

1. Start from the constant q of the fitted law.
2. Compute the scores of all terms of measured states. Of all supports with at most three terms and a
   variance that is non-negative at every sample, choose the one with the least −2 log p + z*² k.
3. Take a scoring step for the correlations of kicks, and keep those that exceed chance.
4. Weigh the rows by the new q(x) and repeat from 2 until the support no longer changes.
5. Errors come from the average information (Gilmour, Thompson, Cullis 1995), which includes the noise. Those
   of the coefficients of the law allow for the sizes of noise and kicks too (`with_unknown_sizes`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy.basis import Polynomial, Term
from cindy.errors import DataError, require
from cindy.states.determinants import inverse_at_steps
from cindy.states.doubts import kicked_clearly, noise_memory
from cindy.states.linearised import MONOMIALS, Forcing
from cindy.states.motion import Fitted, Motion, Whitened
from cindy.states.record import Record

_SURE = 4.0
"""Standard errors by which a diffusion coefficient must differ from zero."""
_DRAWS = 16
"""Number of draws, and of neighbouring frequencies, over which the expected power of kicks is averaged. Its
relative error is then a tenth."""
_BY_CHANCE = 1e-3
"""Probability that random kicks show a line in their spectrum by chance. Kicked oscillators measured by their
position have lines of 3 to 5 times the expected power, an unmeasured force one of 24 (benchmark: kicks)."""
_MOST_TERMS = 3
"""Largest number of terms of a diffusion: 1, x and x² of one state."""
_MANY = 21
"""Number of monomials (that of five states) above which an equation uses those of its own state only."""
_LEVEL = 0.05
"""Significance level, divided among the terms that are tried."""
_ROUNDS = 5
"""Largest number of times the rows are weighed again; two or three are typical."""
_TOGETHER = 0.05
"""Correlation below which the kicks of two equations are taken as independent."""
_MOST_ALIKE = 0.95
"""Largest correlation of two kicks, which keeps their covariance invertible."""
_TOLD_APART = 0.1
"""Least share of the information on the sizes of noise and kicks that remains if coefficients are unknown:
with less, a law cannot be told from noise. Not varied; double wells at steps of 0.05 keep 0.8 (benchmark:
kicks)."""


@dataclass(frozen=True, eq=False)
class Diffusion:
    """Variance of random kicks per unit of time, Σ_j d_ji φ_j(x) in equation i.

    terms: names of φ
    coef, coef_error: (terms, states), zero where a term is absent or an equation has no kicks
    variables: names of the states that the terms are made of
    correlation: (states, states) of the kicks of the equations; None if they are independent

    >>> noise = Diffusion(("1", "x", "x^2"), np.array([[0.5], [0.0], [0.1]]), np.zeros((3, 1)), ("x",))
    >>> noise.variance(np.array([[2.0]]))
    array([[0.9]])
    """

    terms: tuple[str, ...]
    coef: Floats
    coef_error: Floats
    variables: tuple[str, ...]
    correlation: Floats | None = None

    def __post_init__(self) -> None:
        names = MONOMIALS.names(self.variables)
        if self.terms != names or self.coef.shape != self.coef_error.shape or len(self.coef) != len(names):
            raise DataError(
                f"Diffusion: terms must be {', '.join(names)}, those of `variables` to degree 2, with a row "
                f"of `coef` and `coef_error` for each, but there are {len(self.coef)} rows and the terms "
                f"{', '.join(self.terms)}."
            )
        correlation = self.correlation
        if correlation is not None and not (
            correlation.shape == (self.coef.shape[1],) * 2
            and np.array_equal(correlation, correlation.T)
            and np.all(np.diagonal(correlation) == 1.0)
            and np.linalg.eigvalsh(correlation)[0] >= 0.0
        ):
            raise DataError(
                "Diffusion: `correlation` must hold the correlations of the kicks, one row and column "
                f"for each of the {self.coef.shape[1]} equations, but it is {correlation.tolist()}."
            )

    def to_dict(self) -> dict[str, Any]:
        """The diffusion as plain values, for a file."""
        return {
            "terms": list(self.terms),
            "variables": list(self.variables),
            "coef": self.coef.tolist(),
            "coef_error": self.coef_error.tolist(),
        } | ({} if self.correlation is None else {"correlation": self.correlation.tolist()})

    @property
    def basis(self) -> Polynomial:
        """The basis of `terms`."""
        return MONOMIALS

    def summands(self, equation: int) -> list[tuple[float, float, Term]]:
        """The variance of one equation, as (coefficient, standard error, term) of its terms."""
        terms = self.basis.terms(self.variables)
        used = np.flatnonzero(self.coef[:, equation])
        return [(float(self.coef[i, equation]), float(self.coef_error[i, equation]), terms[i]) for i in used]

    @property
    def additive(self) -> bool:
        """Whether the variance of every equation is the same at all states."""
        return not np.any(self.coef[1:])

    def to_sympy(self) -> list[Any]:
        """The variances as SymPy expressions, one per equation, zero without kicks (extra: sympy).

        Their square roots multiply dW. `Model.to_sympy` gives the drift in the same symbols.

        >>> noise = Diffusion(("1", "x", "x^2"), np.array([[0.5], [0], [0.1]]), np.zeros((3, 1)), ("x",))
        >>> noise.to_sympy()
        [0.1*x**2 + 0.5]
        """
        sympy = require("sympy", "sympy", "Diffusion.to_sympy")
        products = [
            sympy.Mul(*(sympy.Symbol(factor.variables[0]) ** factor.power for factor in term))
            for term in self.basis.terms(self.variables)
        ]
        return [
            sympy.Add(*(sympy.Float(column[j]) * products[j] for j in np.flatnonzero(column)))
            for column in self.coef.T
        ]

    def variance(self, x: Floats) -> Floats:
        """(n, states) at states (n, variables), never negative."""
        return np.asarray(np.maximum(MONOMIALS.evaluate(x, self.variables) @ self.coef, 0.0))


@dataclass(frozen=True, eq=False)
class Kicks:
    """The random kicks of a law: the `diffusion` of its sought equations, and the motion weighed by it.

    fitted: states and coefficients of the law, with the mean diffusion of each equation as its error
    """

    diffusion: Diffusion
    motion: Motion
    fitted: Fitted


def _random(motion: Motion, fitted: Fitted) -> NDArray[np.bool_]:
    """(states,): whether the kicks of each equation are white noise, judged by their spectrum.

    The smoothed kicks Aᵀ S⁻¹ r are correlated because measurement noise blurs them. Rows drawn from the model
    are blurred alike, so that their mean power at each frequency is the expected one, and the relative power
    of s stretches is Γ(s)/s distributed. An unmeasured force or a missing term shows as a line.
    """
    from scipy.special import gammainccinv

    rng, random = np.random.default_rng(0), np.ones(motion.states, dtype=bool)
    for white in motion.whitened(fitted):
        if white is None:
            return ~random
        power = _power(white.linear.kicks_of(_innovations(motion, fitted, white))[0])
        expected = np.zeros_like(power)
        for _ in range(_DRAWS):
            # Rows L ε have the covariance S, and S⁻¹ L ε = L⁻ᵀ ε.
            drawn = white.solved(rng.standard_normal(white.linear.target.size))
            expected += _power(white.linear.kicks_of(drawn)[0]) / _DRAWS
        window = np.ones(min(_DRAWS, len(power)))
        counts = np.convolve(np.ones(len(power)), window, "same")
        expected = np.stack([np.convolve(column, window, "same") / counts for column in expected.T], axis=1)
        stretches = white.linear.record.stretches
        limit = gammainccinv(stretches, _BY_CHANCE / len(power)) / stretches
        random &= np.all(power < limit * expected, axis=0)
    return random


def _power(kicks: Floats) -> Floats:
    """(frequencies, states): mean spectrum of kicks (stretches, steps, states), without frequency zero."""
    spectrum = np.fft.rfft(kicks - kicks.mean(axis=1, keepdims=True), axis=1)
    return np.asarray(np.mean(np.abs(spectrum) ** 2, axis=0)[1:])


def estimate_kicks(motion: Motion, fitted: Fitted) -> Kicks | None:
    """The diffusion of all equations whose unexplained motion is large and white; None if there is none.

    motion: with `forcing`, so that kicks also act between samples
    """
    assert motion.forcing is not None
    memories = noise_memory(motion, fitted)
    if len(memories) != motion.states:
        return None
    white = np.array([memory.white for memory in memories])
    if not motion.measured.all():
        # Estimating an unmeasured state uses up the freedom of its rows, so their residuals are not white.
        white = np.where(motion.measured, white, _random(motion, fitted))
    kicked = np.flatnonzero(kicked_clearly(motion, fitted) & white)
    if not len(kicked):
        return None
    variables = motion.variables[: motion.states]
    names = MONOMIALS.names(variables)
    coef = np.zeros((len(names), motion.states))
    coef[0, kicked] = fitted.error[kicked]
    correlation = motion.forcing.correlation
    weighed, refit = _weighed(motion, fitted, coef, correlation, kicked)
    places = [(int(j), int(i)) for i in kicked for j in _tried(motion, int(i))]
    places += [(-1 - int(i), int(j)) for i, j in combinations(kicked, 2)]
    for _ in range(_ROUNDS):
        # Steps 2 and 3.
        evidence = _Evidence.of(weighed, refit, coef, places)
        new, new_correlation = coef.copy(), evidence.correlated()
        for i in kicked:
            new[:, i] = evidence.chosen(int(i))
        same = np.array_equal(new != 0, coef != 0) and np.array_equal(new_correlation != 0, correlation != 0)
        # Step 4.
        coef, correlation = new, new_correlation
        weighed, refit = _weighed(motion, fitted, coef, correlation, kicked)
        if same:
            break
    # Step 5.
    spread = _Evidence.of(weighed, refit, coef, places).errors()
    # An equation that a kicked one drives may seem to have small kicks of its own. These are dropped.
    unsure = np.max(coef / np.maximum(spread, 1e-300), axis=0) <= _SURE
    coef, spread = np.where(unsure, 0.0, coef), np.where(unsure, 0.0, spread)
    if not coef.any():
        return None
    sought = motion.sought
    shared = correlation[np.ix_(sought, sought)]
    diffusion = Diffusion(
        names,
        coef[:, sought],
        spread[:, sought],
        variables,
        None if np.array_equal(shared, np.eye(len(sought))) else shared,
    )
    return Kicks(diffusion, weighed, refit)


def _tried(motion: Motion, equation: int) -> Ints:
    """The indices of the monomials that an equation may have.

    They are those of measured states. The estimate of an unmeasured rate follows the next sample, and so the
    kick itself: kicks with outliers or a changing size would seem to grow with its square.
    """
    states = motion.variables[: motion.states]
    unseen = {name for name, seen in zip(states, motion.measured, strict=True) if not seen}
    terms = MONOMIALS.terms(states)
    allowed = {states[equation]} if len(terms) > _MANY else set(states)
    held = [{name for factor in term for name in factor.variables} for term in terms]
    return np.array([j for j, variables in enumerate(held) if variables <= allowed - unseen])


def _weighed(
    motion: Motion, fitted: Fitted, coef: Floats, correlation: Floats, kicked: Ints
) -> tuple[Motion, Fitted]:
    """The motion whose rows are weighed by the diffusion, and the fit with its mean, (states,)."""
    values = [_values(motion, record, x) for record, x in zip(motion.records, fitted.x, strict=True)]
    mean = fitted.error.copy()
    mean[kicked] = np.maximum(np.concatenate(values) @ coef[:, kicked], 0.0).mean(axis=0)
    shape = np.zeros(coef.shape)
    shape[0] = 1.0
    shape[:, kicked] = coef[:, kicked] / mean[kicked]
    forcing = Forcing(motion.variables[: motion.states], shape, correlation)
    return replace(motion, forcing=forcing), replace(fitted, error=mean)


def _values(motion: Motion, record: Record, x: Floats) -> Floats:
    """(stretches · rows, terms): the monomials at the state before each step."""
    before = x[:, : record.grid.rows].reshape(-1, motion.states)
    return MONOMIALS.evaluate(before, motion.variables[: motion.states])


@dataclass(frozen=True, eq=False)
class _Evidence:
    """Score and average information of the coefficients of the diffusion, and of the noise variances.

    places: (term, equation) of a coefficient, or (−1 − i, j) of the correlation of equations i and j
    now: (terms, states) coefficients at which the score is taken; correlation: the correlations there
    score: of the places
    information: of the places, and after them of the noise variances, which have no score here
    expected: (states, terms, terms) information expected from the diagonal blocks of the rows. The average
        information fluctuates together with the score, and a choice by it selects terms by chance
    points: (n, terms) monomials at the rows, where q must not be negative
    """

    places: list[tuple[int, int]]
    now: Floats
    correlation: Floats
    score: Floats
    information: Floats
    expected: Floats
    points: Floats

    @classmethod
    def of(cls, motion: Motion, fitted: Fitted, now: Floats, places: list[tuple[int, int]]) -> _Evidence:
        assert motion.forcing is not None
        noisy = np.flatnonzero(motion.measured & (fitted.variance > 10.0 * motion.floor))
        score, information = np.zeros(len(places)), np.zeros((len(places) + len(noisy),) * 2)
        points, expected = [], np.zeros((motion.states, len(now), len(now)))
        for white, x in zip(motion.whitened(fitted), fitted.x, strict=True):
            if white is None:
                continue
            linear, forced = white.linear, white.linear.forced
            assert forced is not None
            z = _innovations(motion, fitted, white)
            values = _values(motion, linear.record, x)
            points.append(values)
            values = values.reshape(*z.shape[:2], -1)
            kicks, size = linear.kicks_of(z), forced.size * np.sqrt(fitted.error)
            weighted = linear.weighted(fitted.error, kicks)
            near, k, o = white.inverse
            inverse = inverse_at_steps(linear, near)
            steps = linear.record.grid.step
            for i in {i for j, i in places if j >= 0}:
                # Pairs of rows k and k + o stand for (k + o, k) too.
                weights = 0.5 * steps[k] * steps[k + o] * near[..., i, i] ** 2 * np.where(o > 0, 2.0, 1.0)
                part = np.einsum("spa,sp,spb->ab", values[:, k], weights, values[:, k + o], optimize=True)
                expected[i] += (part + part.T) / 2.0
            pull = np.sum(kicks * weighted, axis=0)
            pull -= np.einsum("skij,skji->ski", forced.covariance(fitted.error), inverse)
            columns = np.zeros((*z.shape, len(information)))
            for place, (j, i) in enumerate(places):
                selected = np.zeros_like(kicks)
                if j < 0:
                    scale = size[..., i] * size[..., -1 - j]
                    selected[..., i], selected[..., -1 - j] = (
                        scale * kicks[..., -1 - j],
                        scale * kicks[..., i],
                    )
                    products = np.sum(kicks[..., i] * kicks[..., -1 - j], axis=0)
                    score[place] += np.sum(scale * (products - inverse[..., i, -1 - j]))
                else:
                    share = values[..., j] * linear.record.grid.step / size[..., i] ** 2
                    score[place] += 0.5 * np.sum(share * pull[..., i])
                    selected[..., i] = kicks[..., i]
                    crossed = linear.weighted(fitted.error, selected)
                    selected[..., i] = weighted[..., i]
                    selected = share[..., None] * (selected + crossed) / 2.0
                columns[..., place] = linear.kicked(selected)
            collected = linear.noise_of(z)
            for place, i in enumerate(noisy.tolist(), start=len(places)):
                selected = linear.record.varied(fitted.variance, collected, i)
                columns[..., place] = linear.moved(selected)
            table = white.white(columns)
            information += 0.5 * table.T @ table
        return cls(
            places, now, motion.forcing.correlation, score, information, expected, np.concatenate(points)
        )

    def chosen(self, i: int) -> Floats:
        """Step 2. (terms,) of equation i: the least −2 log p + z*² k with a diffusion nowhere negative."""
        from scipy.special import ndtri

        mine = np.array([p for p, (j, equation) in enumerate(self.places) if j >= 0 and equation == i])
        terms = np.array([self.places[p][0] for p in mine])
        price = float(ndtri(1.0 - _LEVEL / (2.0 * len(mine)))) ** 2
        constant = mine[terms == 0][0]
        curved = self.expected[i][np.ix_(terms, terms)]
        curved = curved * (self.information[constant, constant] / self.expected[i][0, 0])
        pull = self.score[mine] + curved @ self.now[terms, i]
        # Columns scaled to unit length, so that the solution does not depend on the units of the states.
        size = np.sqrt(np.maximum(np.diagonal(curved), 1e-300))
        best, least = self.now[:, i], np.inf
        for count in range(1, _MOST_TERMS + 1):
            for support in combinations(range(len(mine)), count):
                tried = np.array(support)
                matrix = curved[np.ix_(tried, tried)] / np.outer(size[tried], size[tried])
                scaled = np.linalg.lstsq(matrix, pull[tried] / size[tried], rcond=1e-10)[0]
                value = -float(scaled @ (pull[tried] / size[tried])) + price * count
                if value >= least:
                    continue
                coef = np.zeros(len(self.now))
                coef[terms[tried]] = scaled / size[tried]
                if np.min(self.points @ coef) >= 0.0:
                    best, least = coef, value
        return best

    def correlated(self) -> Floats:
        """Step 3. (states, states): correlations of kicks after one scoring step, zero if small."""
        matrix = np.eye(len(self.correlation))
        for place, (j, i) in enumerate(self.places):
            if j < 0:
                curved = self.information[place, place]
                value = self.correlation[i, -1 - j] + self.score[place] / curved
                if abs(value) > max(_SURE / np.sqrt(curved), _TOGETHER):
                    matrix[i, -1 - j] = matrix[-1 - j, i] = np.clip(value, -_MOST_ALIKE, _MOST_ALIKE)
        if np.linalg.eigvalsh(matrix)[0] <= 0.0:
            return self.correlation
        return matrix

    def errors(self) -> Floats:
        """Step 5. (terms, states) standard errors that include the uncertainty of the noise variances."""
        count = len(self.places)
        present = [self.correlation[i, -1 - j] if j < 0 else self.now[j, i] for j, i in self.places]
        used = np.flatnonzero(present)
        places = np.array([*used, *range(count, len(self.information))])
        total = self.information[np.ix_(places, places)]
        size = np.sqrt(np.maximum(np.diagonal(total), 1e-300))
        covariance = np.linalg.pinv(total / np.outer(size, size), rcond=1e-10) / np.outer(size, size)
        error = np.zeros(self.now.shape)
        for place, p in enumerate(used):
            j, i = self.places[p]
            if j >= 0:
                error[j, i] = np.sqrt(max(covariance[place, place], 0.0))
        return error


def with_unknown_sizes(motion: Motion, fitted: Fitted, covariance: Floats) -> Floats:
    """(k, k): the covariance of the coefficients of a kicked law whose noise and kicks are estimated too.

    covariance: P of the coefficients if both sizes were known. With t_i = S_i S⁻¹ r for each size v_i the
    information of coefficients and sizes together is

        XᵀS⁻¹X     XᵀS⁻¹t
        tᵀS⁻¹X   ½ tᵀS⁻¹t      ⇒   P + P C (½ tᵀS⁻¹t − CᵀP C)⁻¹ CᵀP,    C = XᵀS⁻¹t .

    Without kicks C is zero on average. With kicks it is not: noise makes successive differences return, and
    so does a drift to the mean. Errors of an Ornstein-Uhlenbeck process with steps of 0.1 grow by a fifth.
    """
    cross, own = np.zeros((len(covariance), 2 * motion.states)), np.zeros((2 * motion.states,) * 2)
    for white in motion.whitened(fitted):
        if white is None:
            return covariance
        table = motion.table(white, fitted.law)
        z = white.solved(table[:, -1] - table[:, :-1] @ fitted.coef)
        varied = white.varied(z, white.linear.noise_of(z))
        cross += table[:, :-1].T @ varied
        own += 0.5 * varied.T @ varied
    used = np.flatnonzero(np.concatenate([motion.measured, motion.kicked(fitted)]) & (np.diagonal(own) > 0))
    size = np.sqrt(np.diagonal(own)[used])
    cross, own = cross[:, used] / size, own[np.ix_(used, used)] / np.outer(size, size)
    # The small diagonal is for sizes that the data do not tell apart.
    half = np.linalg.cholesky(own + 1e-9 * np.eye(len(own)))
    moved = np.linalg.solve(half, (covariance @ cross).T).T
    shared, directions = np.linalg.eigh(
        np.linalg.solve(half, np.linalg.solve(half, cross.T @ covariance @ cross).T)
    )
    # 1 − shared is the part of the information on each size that remains if coefficients are unknown.
    moved = moved @ directions / np.sqrt(np.maximum(1.0 - shared, _TOLD_APART))
    return np.asarray(covariance + moved @ moved.T)


def _innovations(motion: Motion, fitted: Fitted, white: Whitened) -> Floats:
    """(stretches, rows, states): z = S⁻¹ r, r being the residual of the law."""
    table = motion.table(white, fitted.law, fitted.coef)
    return white.solved(table[:, -1] - table[:, :-1] @ fitted.coef)
