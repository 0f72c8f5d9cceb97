"""The conditional gradient method as an optimizer of pysindy, and pysindy's fitted models as ours."""

from __future__ import annotations

import itertools
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pysindy
from numpy.typing import ArrayLike, NDArray
from pysindy.optimizers import BaseOptimizer
from sklearn.exceptions import ConvergenceWarning as LearnWarning
from sklearn.utils.validation import check_is_fitted

from cindy import errors
from cindy._arrays import Floats
from cindy._check import floats, integer, positive
from cindy.errors import ConstraintError, DataError, SolverError
from cindy.formulation import Differential, Discrete
from cindy.least_squares import LeastSquares, Rows
from cindy.model import Model
from cindy.problem import Adaptive, StandardForm, Weights
from cindy.pysindy.libraries import Order, basis_of, constraint_rows, constraint_texts, terms_of
from cindy.selection import Beyond, Choice, Gap, Selection, Significance, choose
from cindy.solver import Correction, Run, Step


@dataclass(frozen=True)
class _Noise:
    """Settings of the estimate of the error of differentiated data, and the accuracy of constraints."""

    exact: float = 1e-9
    """Constraints hold on `coef_` to this, relative to the right-hand side where that is above 1."""
    fewest: int = 20
    """With fewer rows, products of differences average over too few pairs."""
    apart: int = 5
    """Steps at which second differences of centred differences have no sample in common."""
    smooth: float = 0.5
    """Largest second differences, in units of the signal; where rows are in no order they are 5 times as
    large."""
    tail: float = 0.02
    """Share of the products trimmed on either side: jumps from one trajectory to the next are there."""


_NOISE = _Noise()


class _NotConverged(errors.ConvergenceWarning, LearnWarning):  # type: ignore[misc]
    """The warning of a run that stopped early, for users of scikit-learn and of CINDy alike."""


class ConditionalGradient(BaseOptimizer):  # type: ignore[misc]
    """Sparse regression without a threshold, under exact linear constraints, for `pysindy.SINDy`.

    The convex problem over a weighted l1 ball is solved to a certified gap. A rule then picks the terms that
    stay, and those are refitted by least squares under the constraints. Columns and targets are scaled to
    unit size inside, so units do not matter, with or without `normalize_columns`.

    selection: how terms are picked: Significance(), BIC(), Terms(k), Gap(tol), …; None: Significance(),
        less the terms that explain no more than the error of centred differences between the rows
    correction, weights, radius, tol, max_iter: of the solver, as in `cindy.identify`
    blocks: contiguous stretches of rows whose scatter gives the standard errors
    constraint_lhs, constraint_rhs: rows lhs w ≤ rhs or lhs w = rhs on the coefficients, dense or sparse
    constraint_order: "target": first all features of target 0; "feature": first all targets of feature 0
    equality_constraints, inequality_constraints, constraint_separation_index: the kind of the rows, as in
        pysindy's `ConstrainedSR3`; with both kinds, inequalities come first, up to the index
    initial_guess: (targets, features), the first entry of `history_`; the optimum does not depend on it
    verbose: whether the steps of the solver are shown
    unbias: whether pysindy refits without constraints; useful only with a rule that does not refit

    Fitted: `coef_` (targets, features), `coef_error_` (standard errors, alike), `gap_` (no coefficients in
    the region fit better by more than this share of the loss of zero), `radius_`, `violation_` (of the
    constraints, at most 1e-9), `constraints_` (as texts), `result_` (the run), `n_iter_`.

    >>> x = np.random.default_rng(0).normal(size=(200, 4))
    >>> fitted = ConditionalGradient().fit(x, x @ np.array([[2.0, 0, 0, -1], [0, 3, 0, 0]]).T)
    >>> fitted.coef_.round(6) + 0.0
    array([[ 2.,  0.,  0., -1.],
           [ 0.,  3.,  0.,  0.]])
    """

    coef_: Floats
    history_: list[Floats]

    def __init__(
        self,
        selection: Selection | None = None,
        *,
        correction: Correction | None = None,
        weights: Weights | None = None,
        radius: float | None = None,
        tol: float = 1e-6,
        max_iter: int = 10_000,
        blocks: int = 50,
        constraint_lhs: Any = None,
        constraint_rhs: ArrayLike | None = None,
        constraint_order: Order = "target",
        equality_constraints: bool = False,
        inequality_constraints: bool = False,
        constraint_separation_index: int | None = None,
        normalize_columns: bool = False,
        initial_guess: Floats | None = None,
        copy_X: bool = True,
        verbose: bool = False,
        unbias: bool = False,
    ) -> None:
        super().__init__(
            max_iter=max_iter,
            normalize_columns=normalize_columns,
            initial_guess=initial_guess,
            copy_X=copy_X,
            unbias=unbias,
        )
        self.selection = selection
        self.correction = correction
        self.weights = weights
        self.radius = radius
        self.tol = tol
        self.blocks = blocks
        self.constraint_lhs = constraint_lhs
        self.constraint_rhs = constraint_rhs
        self.constraint_order = constraint_order
        self.equality_constraints = equality_constraints
        self.inequality_constraints = inequality_constraints
        self.constraint_separation_index = constraint_separation_index
        self.verbose = verbose
        self._check_settings()
        integer(max_iter, "ConditionalGradient: `max_iter`", least=1)

    def set_params(self, **params: Any) -> Self:
        # The method of pysindy returns None, which breaks a grid search over the optimizer.
        super().set_params(**params)
        return self

    def fit(self, x_: Any, y: Any, sample_weight: Any = None, **reduce_kws: Any) -> Self:
        """Fit to x_ (samples, features), y (samples,) or (samples, targets)."""
        self._check_settings()
        x_, y = np.asarray(x_), np.asarray(y)
        if self.normalize_columns and x_.ndim == 2 and not np.any(x_, axis=0).all():
            empty = np.flatnonzero(~np.any(x_, axis=0))
            raise DataError(
                f"ConditionalGradient: feature {empty[0]} is zero throughout and cannot be normalised "
                f"({len(empty)} such in all). Leave it out, or set normalize_columns=False."
            )
        if sample_weight is not None:
            weight = floats(np.atleast_1d(sample_weight), "ConditionalGradient: `sample_weight`", ndim=1)
            if (weight < 0).any() or not (weight > 0).any():
                raise DataError("ConditionalGradient: `sample_weight` must be ≥ 0, and somewhere above.")
        super().fit(x_, y, sample_weight=sample_weight, **reduce_kws)
        self.violation_ = self._rows_.violation(np.ascontiguousarray(self.coef_.T))
        if self.violation_ > _NOISE.exact * max(1.0, float(np.abs(self._rows_.upper).max(initial=0.0))):
            raise SolverError(
                f"ConditionalGradient: a constraint is missed by {self.violation_:.3g}. "
                "Check `constraint_lhs` for rows that are nearly dependent or of very different size."
            )
        return self

    @property
    def complexity(self) -> int:
        """How many coefficients are not zero."""
        check_is_fitted(self)
        return int(np.count_nonzero(self.coef_))

    def _reduce(self, x: Floats, y: Any) -> None:
        """Fit `coef_`. pysindy passes normalised columns, but constraints hold for the original ones."""
        design, target = np.asarray(self.Theta_, dtype=np.float64), np.asarray(y, dtype=np.float64)
        self._rows_ = self._constraint_rows(design.shape[1], target.shape[1])
        form = StandardForm(
            _blocks(design, target, self.blocks),
            self._rows_,
            weights=self.weights or Adaptive(),
            radius=self.radius,
            texts=constraint_texts(self._rows_, target.shape[1]),
        )
        self.constraints_ = tuple(str(text) for text in form.texts)
        # pysindy's derivatives are differences with a systematic error; terms that only explain it are left
        # out.
        rule = self.selection or Beyond(Significance(), _difference_error(target) / form.sizes[1])
        if rule.refits and form.objective.rows <= design.shape[1]:
            warnings.warn(
                f"ConditionalGradient: {form.objective.rows} rows of data cannot tell {design.shape[1]} "
                "features apart and from noise, so no term was tested: `coef_` solves the convex problem.",
                UserWarning,
                stacklevel=4,
            )
            rule = Gap(self.tol)
        self._keep(form, self._choose(form, rule))
        if self.normalize_columns:
            # pysindy divides the coefficients by these lengths afterwards.
            length = np.linalg.norm(design, axis=0)
            self.coef_ = self.coef_ * length
            self.history_ = [self.history_[0], *(coef * length for coef in self.history_[1:])]

    def _choose(self, form: StandardForm, rule: Selection) -> Choice:
        with warnings.catch_warnings(), _shown(self.verbose) as show:
            # The warning below replaces this one, as a class that scikit-learn knows too.
            warnings.simplefilter("ignore", errors.ConvergenceWarning)
            choice = choose(form, rule, self.correction, tol=self.tol, max_iter=self.max_iter, callback=show)
        result = choice.result
        if not result.converged:
            tol = rule.tolerance(self.tol)
            warnings.warn(
                f"ConditionalGradient ended ({result.status}) after {result.iterations} iterations with a "
                f"relative gap of {result.relative_gap:.2e}, above the tolerance {tol:.2e}.",
                _NotConverged,
                stacklevel=5,
            )
        if not choice.fit.x.any():
            warnings.warn(
                "ConditionalGradient: no feature explains any target better than chance, so `coef_` is zero.",
                UserWarning,
                stacklevel=5,
            )
        return choice

    def _keep(self, form: StandardForm, choice: Choice) -> None:
        self.coef_ = form.physical(choice.fit.x).T.copy()
        self.coef_error_ = form.physical(choice.fit.error).T.copy()
        self.history_ = [self.history_[0], form.physical(choice.result.x).T.copy(), self.coef_]
        self.gap_, self.radius_ = form.gap(choice.fit.x, choice.result), form.region.radius
        self.result_ = Run.of(choice.result)
        self.iters = self.result_.iterations
        self.n_iter_ = max(1, self.iters)

    def _constraint_rows(self, terms: int, targets: int) -> Rows:
        if self.constraint_lhs is None:
            return Rows.none(terms * targets)
        if not (self.equality_constraints or self.inequality_constraints):
            warnings.warn(
                "ConditionalGradient: constraints are taken as equalities. Say so with "
                "equality_constraints=True, or set inequality_constraints=True.",
                UserWarning,
                stacklevel=5,
            )
        count = np.shape(self.constraint_lhs)[0] if np.ndim(self.constraint_lhs) != 1 else 1
        inequalities = count if self.inequality_constraints else 0
        if self.equality_constraints and self.inequality_constraints:
            inequalities = int(self.constraint_separation_index or 0)
        return constraint_rows(
            self.constraint_lhs,
            self.constraint_rhs,
            inequalities,
            order=self.constraint_order,
            terms=terms,
            targets=targets,
        )

    def _check_settings(self) -> None:
        for name, kind in (("selection", Selection), ("correction", Correction), ("weights", Weights)):
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise DataError(f"ConditionalGradient: `{name}` must be a {kind.__name__}, but is {value!r}.")
        positive(self.tol, "ConditionalGradient: `tol`")
        integer(self.max_iter, "ConditionalGradient: `max_iter`", least=0)
        integer(self.blocks, "ConditionalGradient: `blocks`", least=1)
        if self.radius is not None:
            positive(self.radius, "ConditionalGradient: `radius`")
        _check_constraints(self)


def _check_constraints(self: ConditionalGradient) -> None:
    if (self.constraint_lhs is None) != (self.constraint_rhs is None):
        raise ConstraintError("ConditionalGradient: `constraint_lhs` and `constraint_rhs` go together.")
    if self.constraint_lhs is None:
        if self.inequality_constraints or self.equality_constraints:
            raise ConstraintError(
                "ConditionalGradient: constraints need `constraint_lhs` and `constraint_rhs`."
            )
        return
    if self.constraint_order not in ("target", "feature"):
        raise ConstraintError(
            'ConditionalGradient: `constraint_order` must be "target" or "feature", '
            f"but is {self.constraint_order!r}."
        )
    if self.unbias:
        raise ConstraintError(
            "ConditionalGradient: unbiasing would break the constraints. Set unbias=False; the "
            "coefficients are least squares under the constraints already."
        )
    both = self.equality_constraints and self.inequality_constraints
    if both and self.constraint_separation_index is None:
        raise ConstraintError(
            "ConditionalGradient: with inequalities and equalities, `constraint_separation_index` must "
            "say how many inequalities come first."
        )


def _blocks(design: Floats, target: Floats, count: int) -> tuple[LeastSquares, ...]:
    """Contiguous blocks of the rows, without rows of weight zero."""
    used = np.any(design, axis=1) | np.any(target, axis=1)
    design, target = design[used], target[used]
    # Neighbouring samples of pysindy's trajectories share the errors of their derivatives.
    edges = np.linspace(0, len(design), min(count, max(len(design) // 2, 1)) + 1).astype(int)
    return tuple(LeastSquares.from_rows(design[a:b], target[a:b]) for a, b in itertools.pairwise(edges))


@contextmanager
def _shown(verbose: bool) -> Iterator[Callable[[Step], bool | None] | None]:
    """A callback that shows every step up to 10, every tenth up to 100, and so on."""
    if not verbose:
        yield None
        return
    log = logging.getLogger("cindy.pysindy")
    screen, level = logging.StreamHandler(sys.stdout), log.level

    def show(step: Step) -> None:
        if step.iteration % 10 ** max(0, len(str(step.iteration)) - 1) == 0:
            log.info("%10d ... %10.4e ... %10.4e ... %6d", *step[:4])

    log.addHandler(screen)
    log.setLevel(logging.INFO)
    try:
        log.info("%10s ... %10s ... %10s ... %6s", "Iteration", "gap", "|y - Xw|^2", "atoms")
        yield show
    finally:
        log.removeHandler(screen)
        log.setLevel(level)


def from_pysindy(model: Any) -> Model:
    """A fitted `pysindy.SINDy` or `DiscreteSINDy` as a `Model`, which can be simulated, exported and saved.

    Coefficients, names and inputs are taken over; a feature that the library has twice becomes one term.
    Errors, gap and violation are those of `ConditionalGradient`, and unknown for other optimizers.

    >>> import numpy as np
    >>> import pysindy
    >>> from cindy.pysindy import from_pysindy
    >>> t = np.linspace(0, 6, 600)
    >>> theirs = pysindy.SINDy(optimizer=pysindy.STLSQ(threshold=0.1)).fit(
    ...     np.stack([np.cos(t), -np.sin(t)], axis=1), t, feature_names=["x", "v"]
    ... )
    >>> model = from_pysindy(theirs)
    >>> [model.terms[i] for i in np.flatnonzero(model.coef[:, 0])]
    ['v']
    >>> model.simulate({"x": 1.0, "v": 0.0}, [0.0, 1.0, 2.0])
    Trajectory(3 samples of x, v over t = 0 … 2)
    """
    if not isinstance(model, (pysindy.SINDy, pysindy.DiscreteSINDy)):
        raise DataError(f"from_pysindy: expected a fitted pysindy.SINDy or DiscreteSINDy, but got {model!r}.")
    check_is_fitted(model)
    coef = np.asarray(model.coefficients(), dtype=np.float64)
    names = tuple(model.feature_names)
    states = names[: len(names) - model.n_control_features_]
    if len(coef) != len(states):
        raise DataError(
            f"from_pysindy: the model has {len(coef)} equations for {len(states)} states, so its "
            "equations are not those of the states. Implicit models cannot be taken over."
        )
    terms = terms_of(model.feature_library, names)
    if len(terms) != coef.shape[1]:
        raise DataError(
            f"from_pysindy: the library has {len(terms)} features, but the coefficients {coef.shape[1]}."
        )
    basis = basis_of(model.feature_library, names)
    place = {term: i for i, term in enumerate(basis.terms(names))}
    rows = np.array([place[term] for term in terms], dtype=np.intp)
    optimizer = model.optimizer
    ours = isinstance(optimizer, ConditionalGradient)
    return Model(
        _gathered(coef, rows, len(place)),
        basis,
        states,
        inputs=names[len(states) :],
        # Of a feature that the library has twice at most one is kept: the data cannot tell the two apart.
        coef_error=_gathered(optimizer.coef_error_, rows, len(place)) if ours else None,  # type: ignore[arg-type]
        formulation=Discrete() if isinstance(model, pysindy.DiscreteSINDy) else Differential(),
        gap=optimizer.gap_ if ours else np.nan,
        radius=optimizer.radius_ if ours else np.nan,
        violation=optimizer.violation_ if ours else 0.0,
        result=optimizer.result_ if ours else None,
        constraints=tuple(optimizer.constraints_) if ours else (),
        settings={"optimizer": " ".join(repr(optimizer).split())},
    )


def _gathered(values: Floats, rows: NDArray[np.intp], terms: int) -> Floats:
    """A table (targets, features) as (terms, targets), where features of the same term are added up."""
    table = np.zeros((terms, len(values)))
    np.add.at(table, rows, values.T)
    return table


def _difference_error(target: Floats) -> Floats:
    """(targets,) root mean square error of derivatives by centred differences, from the derivatives.

    The leading error, step² x''' / 6, is a sixth of the second difference of x'. Noise has second differences
    too, but those of neighbouring samples have opposite signs, and those of samples some steps apart are
    independent. The mean product of such pairs is therefore free of noise: its root over 6 is the estimate.
    It is 0 where rows do not follow each other in time, or are too few, too coarse or too noisy.

    >>> t = 0.01 * np.arange(500)
    >>> x = np.sin(3 * t)
    >>> wrong = (x[2:] - x[:-2]) / 0.02 - 3 * np.cos(3 * t)[1:-1]
    >>> estimate = _difference_error(((x[2:] - x[:-2]) / 0.02)[:, None])
    >>> bool(0.8 < estimate[0] / np.sqrt(np.mean(wrong**2)) < 1.2)
    True
    """
    if len(target) < _NOISE.fewest:
        return np.zeros(target.shape[1])
    second = np.diff(target, n=2, axis=0)
    near, _ = _trimmed_mean(second[1:] * second[:-1])
    far, error = _trimmed_mean(second[_NOISE.apart :] * second[: -_NOISE.apart])
    squares = np.maximum(near, far - 2.0 * error)
    squares[np.mean(second**2, axis=0) > _NOISE.smooth**2 * np.mean(target**2, axis=0)] = 0.0
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)) / 6.0)


def _trimmed_mean(products: Floats) -> tuple[Floats, Floats]:
    """The mean without the extremes, and its standard error."""
    # Without trimming a few glitches would dominate a mean of fourth powers.
    trimmed = int(_NOISE.tail * len(products))
    middle = np.sort(products, axis=0)[trimmed : len(products) - trimmed]
    return np.mean(middle, axis=0), np.std(middle, axis=0) / np.sqrt(len(middle))
