"""Effort: the numbers that steer the search, in one frozen object.

A number is called after the module that uses it. Its description says what the number decides, and which
benchmark chose it. Where it says "a bound on work" the number limits time or memory, and no model depends on
it unless the limit is met. docs/effort.md lists them all; a test compares the page with this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Effort:
    """How much is tried, and how sure it must be."""

    # Starts and moves on one triangle.
    supports_dependent: float = 1e-5
    """Length beyond the terms of a support, of a unit column, below which the column depends on them. With
    1e-3 terms are the same (benchmark: constants)."""
    supports_tried: int = 30
    """Terms of largest gain that are tried although they do not pay, because others may then be dropped: a
    bound on work."""
    supports_exchanged: int = 100
    """Coefficients up to which this is tried under equalities too: a bound on work."""
    orders_eliminated: int = 500
    """Coefficients up to which elimination begins with the whole dictionary of an equation, and near models
    are sought in all of it: a bound on work, a second (benchmark: large)."""
    orders_combinations: int = 20_000
    """Combinations of terms of one equation up to which all are compared: a bound on work, 30 ms. Without,
    competition is wrong under three of four instruments (benchmark: ablation)."""
    orders_weakest: int = 12
    """Weakest terms, each of which regrowth replaces by others (benchmark: few_samples)."""
    orders_others: int = 4
    """Terms that replace one of them; superfluous ones are dropped again (benchmark: few_samples)."""
    orders_first: int = 30
    """Terms that regrowth begins small supports with: with 3 or 5, 3 of 48 equations of few samples are
    missed (benchmark: few_samples)."""
    orders_longest: int = 15
    """Terms up to which a support is begun anew (benchmark: few_samples)."""
    candidates_greedy: int = 60
    """Terms of an equation that greedy growth goes up to: a bound on work (benchmark: large)."""
    candidates_likely: int = 150
    """Columns beside those of the support among which near models are sought, where there are more than
    `orders_eliminated`: a bound on work (benchmark: large)."""
    choice_large: int = 1000
    """Coefficients from which the steps towards least squares would take seconds."""
    rules_few_blocks: int = 10
    """With fewer blocks their scatter says little, and the rows stand for themselves. At 2, one of 32
    data sets of `python -m benchmarks constants` loses its terms."""
    rules_beyond: int = 30
    """Terms beyond those of the price that blocks left out may ask for: a bound on work."""

    # The search at denoised states.
    starts_rivals: int = 4
    """Models with other terms in one equation, almost as good as the best on its rows, that are fitted with
    their own states; and how often a better one is followed (benchmark: wrong_noise at 10 %)."""
    starts_close: float = 8.0
    """Units of the criterion within which the rows of one model cannot tell it from another (benchmark:
    honesty)."""
    starts_shares: tuple[float, ...] = (0.5, 1.0, 0.75, 1.5)
    """Sizes of the starts, in units of the best model on the first path, while they do not lead to the
    same. A small one comes first: two starts of one size may agree on one local minimum (benchmark:
    chaotic). Without the smaller ones there is no model where a user's radius or limit on iterations leaves
    only a short path."""
    starts_costly: float = 2e9
    """Multiplications of a factor of the covariance, a third of a second, beyond which a model that the
    path at its own states confirms ends the search: 30 linear states of 3,200 samples take 6e9. A bound
    on work."""
    starts_clearly: float = 0.5
    """Units of −2 log p a row by which a walk that was tried at few drifts must be worse than a model not
    to be fitted: ten times what a drift between those tried would gain."""
    starts_blocks: int = 50
    """Blocks of white rows that a rule may leave out, as in `accumulate`."""
    starts_most_fitted: int = 40
    """Models after which no further start is made; chaotic systems need 5 in the median (benchmark:
    chaotic)."""
    starts_most_coupled: int = 12
    """The same under constraints, where the fits of a choice cost a hundred times as much: a bound on
    work."""
    loop_stiff: float = 2.0
    """Growth or turn of a deviation in a step beyond which the samples do not resolve a model: true ones
    reach 2.0 (benchmark: chaotic)."""
    loop_decays: float = 20.0
    """‖h J‖ beyond which even a decay is too fast: a bound on the error of the integrals."""
    loop_ridge: float = 1e-2
    """Of the pilot at fitted states, in units of a column (benchmark: chaotic). With 1e-4 or 1, one data
    set loses its terms (benchmark: constants)."""
    loop_binds: float = 1e-6
    """Share of the radius: a run that ends closer to it than this was limited by it."""
    loop_most_steps: int = 400
    """Iterations of the solver in the passes before the last; later supports are no candidates. With 50 terms
    are the same (benchmark: constants)."""
    options_matters: float = 3.0
    """Effect of a term, in units of what is left, where that is not noise (benchmark: solver_made)."""
    inference_most_near: int = 50
    """Models that are told as almost equal: with 20, laws with one term more than the best fill the list
    (benchmark: honesty, lorenz 30 %)."""
    inference_around: int = 12
    """Sizes on either side of the chosen model that the path shows."""
    measured_close: float = 2.0
    """A guess of the feedback within this factor of what the model says is kept. With 10 the terms are
    the same on `python -m benchmarks constants`."""
    measured_rounding: float = 1e-15
    """Of the states themselves: what double precision leaves of a number, and some sums of it."""
    tolerance_at_a_time: int = 40
    """Samples that are imposed at first, and added in a round, those that are missed most."""
    tolerance_slack: float = 1e-10
    """By which a law may be missed at a sample: the tolerance of the linear programs that impose it."""
    second_look_contradicted: float = 100.0
    """Times the variance that another law leaves: a law with noise of that size is contradicted by the data.
    Of two laws, one with so many times the roughness of the data, as standard deviations, loses. On EMPS with
    sign(q') a law that leaves 85 mm gives way to one that leaves 3 (benchmark: measured)."""

    # Much data, many terms.
    large_enough: int = 20_000
    """Samples on which a law is found, to be confirmed on all: passes over as many take seconds."""
    large_fewest: int = 5_000
    """The same where each sample makes rows for many coefficients: what chaotic systems are found from."""
    large_work: float = 5e8
    """Samples times the square of coefficients that a search is worth: 20,000 of three states to degree
    4."""
    large_many: int = 700
    """Coefficients beyond which the rows at fitted states are made for the likely ones only."""
    large_likely: int = 500
    """The likely ones that are kept: the path of the first pass, then by the gain that each promises."""
    large_memory: float = 256e6
    """Bytes that blocks of white rows may take together: fewer where candidates are many."""
    refinement_likely: int = 300
    """Candidates beside the terms of the law that rows are made for (benchmark: bound, kuramoto10)."""
    refinement_poor: float = 0.1
    """Of the noise: model error from one sample to the next beyond which an equation lacks terms: it was
    2.6 where 16 of 20 terms were missing, and 4e-3 where none were (`cindy reproduce kuramoto10`, noise
    1e-2)."""
    refinement_whole: int = 1_000
    """Candidates of such equations that rows are made for at most: three times `refinement_likely`, a
    bound on work. Ten oscillators have 211 an equation."""
    refinement_stretches: int = 4
    """Stretches by which lengths of columns are judged: they only rank candidates."""
    refinement_rows: int = 20_000
    """Rows of these stretches that are enough, likewise, where stretches are long."""
    refinement_numbers: int = 20_000_000
    """Numbers of a table of white columns that are held at once: 160 MB."""
    refinement_most_work: float = 1e10
    """Multiplications of one step over states and coefficients that are spent unasked: ten coupled
    oscillators take 4e9, and a step a second."""

    # Parameters inside terms.
    scan_most: int = 240
    """Atoms of a term at the most."""
    scan_alike: float = 0.85
    """Neighbouring atoms of lower correlation c have others put between them: a term midway then has a
    cosine of √((1 + c) / 2) with either, and loses 7.5 % of its squares at most before its parameter is
    fitted."""
    scan_points: int = 1500
    """Samples at which atoms are compared: a correlation is known to about 0.03 by them."""
    parametric_agree: float = 0.5
    """Units of −2 log p within which two ways have led to the same place."""
    parametric_least_starts: int = 3
    """Two starts may come from neighbours on one path: their agreement alone says little (parameters)."""
    parametric_most_starts: int = 8
    """A bound on work: without agreement by then, the best of them is taken (parameters)."""
    parametric_looks: int = 24
    """Models that are fitted around those near the best: a bound on work (benchmark: parameters)."""
    parametric_shares: tuple[float, ...] = (1.0, 0.5, 1.5)
    """Sizes of the starts, in units of the best model on a path."""
    parametric_sweeps: int = 3
    """Over the groups, each at its best value beside the others; values that stay end it sooner."""
    parametric_grown: int = 9
    """Values of a group that supports grow from."""
    moves_coarse: int = 12
    """Values at which terms of a group that the model does not have are offered to it."""
    moves_most: int = 12
    """Absent terms with parameters that are tried, those of the largest gain."""
    moves_combined: int = 6
    """Combinations of terms of each equation that moves lead to, the best ones."""
    parametric_model_vague: float = 0.5
    """Error of a parameter's logarithm, or of half its range, beyond which it is hardly known: a factor
    of 1.6 either way. It decides a sentence, not a model, as do the next."""
    parametric_model_tied: float = 0.98
    """Correlation with a coefficient beyond which the two cannot be told apart: 1 / √(1 − ρ²), five times
    the error that either has where the other is known."""
    parametric_model_doubt: float = 4.6
    """Units of the criterion within which another model has a tenth of the weight of the best,
    exp(−Δ/2)."""
    parametric_model_coalesced: float = 0.9995
    """Cosine between the columns of two terms of one equation beyond which they are one: by the same
    rule, errors are 32 times as large as alone."""
    field_parameters_steps: int = 15
    """Steps of Gauss and Newton for the parameters of given terms: a bound on work."""
    field_parameters_furthest: float = 1.0
    """A step in the logarithm of a parameter; of others, a fifth of the range."""
    field_parameters_still: float = 1e-3
    """A step, in units of the error, that changes nothing."""

    # Coefficients of fields.
    field_estimates_scatter: float = 1.5
    """Residuals over what noise explains, as squares, up to which noise explains them: the right models
    of `python -m benchmarks pde` stay within 0.7 and 1.4, as there are few independent rows."""
    field_estimates_rounds: int = 2
    """Weights depend on the coefficients, little enough that the second round hardly moves them."""
    field_estimates_explained: float = 1.3
    """Mean square of what is left, in units of the noise, up to which noise explains it: the right
    equations of `python -m benchmarks pde` stay near 1, 0.97 to 1.06 in the mean of some draws."""
    field_estimates_rivals: int = 12
    """Models near the chosen one that are looked at where noise does not explain what it leaves: the fifth is
    the right one in a draw of Allen-Cahn at 100 % of noise (benchmark: pde). A bound on work."""
    field_estimates_apart: float = 4.0
    """Errors by which two estimates that are right may differ (Hausman, Econometrica 46, 1978): farther
    apart, the rows do not obey the equations, and the weights would follow what is wrong."""
    field_estimates_band: int = 64
    """Modes that are filtered together, at least."""
    field_estimates_dependent: float = 1e12
    """Condition of the equations, in units of the coefficients' errors by least squares, beyond which the
    terms are not told apart."""


EFFORT = Effort()
"""The numbers in use."""


@contextmanager
def trying(**others: Any) -> Iterator[None]:
    """Other numbers for a while: for benchmarks that vary them, and for tests that need a limit to be met."""
    before = {name: getattr(EFFORT, name) for name in others}
    try:
        for name, value in others.items():
            object.__setattr__(EFFORT, name, value)
        yield
    finally:
        for name, value in before.items():
            object.__setattr__(EFFORT, name, value)
