"""The iterate of an objective whose rows are read in samples: epochs between passes over all of them."""

from collections.abc import Callable

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.least_squares import triangle
from cindy.solver.correction import Correction
from cindy.solver.iterate import Iterate
from cindy.solver.oracle import Atom, Oracle
from cindy.solver.result import Sizes, Snapshot, way_back
from cindy.solver.sampled_rows import LocalModel, Reading, SampledRows

Advance = Callable[[Atom, float], Iterate]

_ENOUGH = 0.03
"""An epoch ends once its own gap is this part of the gap that it began with. A step within it costs no
reading, but follows the sample; from 0.01 to 0.1 the passes that a run takes hardly differ
(`python -m benchmarks sampled`)."""

# Objective and gradient by a pass, the loss at zero, and the lengths of the columns.
_Pass = tuple[float, Floats, float, Floats]
_Atoms = list[tuple[Atom, float]]


class Epochs:
    """A point that moves by a model of the objective and is put right by passes over all rows.

    A pass gives objective and gradient at a point, the anchor. A sample of the rows then
    makes a LocalModel around it, on which any correction runs, without a further look at the
    data, until the gap over the model is a thirtieth of that at the anchor. The next pass gives
    objective and gradient at the end of it; as the objective is quadratic, both are then
    known on the whole way from the anchor, and the best point of the way is the next anchor.

    So the objective never rises, whatever the sample. Where the sample tells nothing of the
    curvature this is the conditional gradient method with exact line search; where it tells
    everything, one epoch is enough. Between them it is Newton's method on the face of the
    region, with a subsampled Hessian: each pass lowers the error by a factor of about
    atoms / batch.

    honest: whether gradient and objective are those of a pass at this very point
    """

    def __init__(self, objective: SampledRows, oracle: Oracle, correction: Correction, tol: float) -> None:
        self._objective = objective
        self._oracle = oracle
        self._correction = correction
        self._reading = Reading(objective)
        self._epoch = 0
        self._local: Iterate | None = None
        self._model: LocalModel | None = None
        self._advance: Advance | None = None
        self._gap = 0.0
        self._flat = oracle.origin.copy()
        self._atoms: _Atoms = []
        self._values: _Pass = self._reading.whole(self.x)
        self._exact = True
        self.scale = self._values[2] or self._values[0] or 1.0
        self._target = tol * self.scale

    def begin(self, start: _Atoms) -> None:
        """Move to the point that atoms and weights make."""
        flat = self._oracle.origin.copy()
        for atom, weight in start:
            flat[atom.indices] += weight * atom.values
        self._place(flat, start)

    @property
    def passes(self) -> float:
        """Data read so far, in units of all rows."""
        return self._reading.passes

    @property
    def flat(self) -> Floats:
        return self._flat if self._local is None else self._local.flat

    @property
    def x(self) -> Floats:
        return self.flat.reshape(self._objective.terms, self._objective.targets)

    @property
    def gradient(self) -> Floats:
        return self._values[1].ravel() if self._local is None else self._local.gradient

    @property
    def objective(self) -> float:
        return self._values[0] if self._local is None else self._local.objective

    @property
    def count(self) -> int:
        return len(self._atoms) if self._local is None else self._local.count

    @property
    def honest(self) -> bool:
        return self._local is None and self._exact

    @property
    def estimated(self) -> bool:
        return self._local is not None

    def snapshot(self) -> Snapshot:
        nonzeros = np.flatnonzero(self.flat)
        return way_back(np.zeros(len(self.flat)), [(nonzeros.astype(np.int32), self.flat[nonzeros])])

    def sizes(self) -> Sizes:
        """What rounding of the gradient by a pass is proportional to."""
        value, _, at_zero, lengths = self._values
        each = np.ones(self._objective.targets)
        return Sizes(lengths, np.sqrt(at_zero) * each, np.sqrt(value) * each, self._objective.longest_sum)

    def slope(self) -> float:
        """Inner product of the gradient with the displacement from the origin."""
        return float(self.gradient @ (self.flat - self._oracle.origin))

    def gap(self, atom: Atom) -> float:
        """The Frank-Wolfe gap, given the atom that the oracle found at this gradient."""
        return self.slope() - atom.slope(self.gradient)

    def advance(self, atom: Atom, gap: float) -> "Epochs":
        """Go on within an epoch, begin one, or end it by a pass."""
        if self._local is None:
            # The anchor's gap is exact, so it measures how far this epoch may usefully go.
            self._gap = gap
            self._open(atom)
        elif gap <= _ENOUGH * self._gap or not self._knows(atom):
            self.refresh()
            return self
        assert self._local is not None
        assert self._advance is not None
        # The model cannot be lowered further: only a pass can tell more.
        before = self._local.objective
        self._local = self._advance(atom, gap)
        if not self._local.objective < before:
            self.refresh()
        return self

    def refresh(self) -> None:
        """A pass over all rows, and the best point between the anchor and where the epoch led."""
        if self._local is None:
            self._place(self._flat, self._atoms)
            return
        local, self._local = self._local, None
        before, start = self._values, self._flat
        atoms = self._atoms
        self._place(local.flat.copy(), local.parts())
        # Along the way f is a parabola with f(0), f'(0) and f(1) known from two passes, so f(s) = f(0) +
        # slope s + curvature s² without reading the data again.
        way = self._flat - start
        slope = float(before[1].ravel() @ way)
        curvature = self._values[0] - before[0] - slope
        # The minimum of the parabola lies at or beyond the end of the epoch: stay there, where the pass was
        # made.
        if slope < 0.0 and -0.5 * slope >= curvature:
            return
        share = 0.5 * max(-slope, 0.0) / curvature if curvature > 0.0 else 0.0
        value = before[0] + share * slope + share**2 * curvature
        # The gradient of a quadratic is linear along a line. It is exact but for rounding, hence not
        # `honest`.
        gradient = (1.0 - share) * before[1] + share * self._values[1]
        self._flat = start + share * way
        self._values = (value, gradient, before[2], before[3])
        self._atoms = _mixed(atoms, self._atoms, share)
        self._exact = False

    def _open(self, atom: Atom) -> None:
        """A sample of the rows, and the model that it makes around the anchor; it knows of the atom."""
        f = self._objective
        count = f.batch_at(self._epoch)
        # A sample of few rows has room for all columns; of many, for those that matter now.
        columns = self._columns(f.columns_at(count), atom)
        sample = self._with_missed(self._reading.sample(count, columns), columns)
        # The triangle has the same products with far fewer rows.
        if len(sample) > 2 * sample.shape[1]:
            sample = triangle(sample)
        value, gradient = self._values[:2]
        self._model = LocalModel.around(self.x.copy(), value, gradient, sample, f.rows, columns)
        model = self._model
        self._local, self._advance = self._correction.begin(model, self._oracle, self._target, self._atoms)
        self._epoch += 1

    def _with_missed(self, sample: Floats, columns: Ints | None) -> Floats:
        """The sample, with a row for each column that it misses: of rare events a pass tells the length."""
        lengths = self._values[3] if columns is None else self._values[3][columns]
        missed = np.flatnonzero(~sample[:, : len(lengths)].any(axis=0) & (lengths > 0.0))
        if not len(missed):
            return sample
        rows = np.zeros((len(missed), sample.shape[1]))
        rows[np.arange(len(missed)), missed] = lengths[missed]
        return np.vstack([sample, rows])

    def _columns(self, most: int, atom: Atom) -> Ints | None:
        """The terms whose columns a sample holds: those in use, and those that the gradient asks for most.

        Working sets as by Massias, Gramfort and Salmon, Celer: a fast solver for the lasso with dual
        extrapolation (2018). An epoch ends where it leads beyond them.
        """
        f = self._objective
        if most >= f.terms:
            return None
        pull = np.abs(self._values[1]) / self._oracle.region.weights.reshape(f.terms, f.targets)
        wish = pull.max(axis=1)
        used = [atom.indices, np.flatnonzero(self._flat), *(one.indices for one, _ in self._atoms)]
        # Columns of atoms in use must stay, or the model could not say what a change of their weights does.
        wish[np.concatenate(used) // f.targets] = np.inf
        most = max(most, int(np.isinf(wish).sum()))
        return np.sort(np.argsort(-wish, kind="stable")[:most])

    def _knows(self, atom: Atom) -> bool:
        return self._model is None or self._model.knows(atom.indices // self._objective.targets)

    def _place(self, flat: Floats, atoms: _Atoms) -> None:
        self._flat, self._atoms = flat, atoms
        self._values = self._reading.whole(self.x)
        self._exact = True


def _mixed(first: _Atoms, second: _Atoms, share: float) -> _Atoms:
    """Atoms and weights of the point that lies the given share of the way from the first to the second."""
    atoms: dict[bytes, Atom] = {}
    weights: dict[bytes, float] = {}
    for parts, part in ((first, 1.0 - share), (second, share)):
        for atom, weight in parts:
            atoms[atom.key] = atom
            weights[atom.key] = weights.get(atom.key, 0.0) + part * weight
    return [(atom, weights[key]) for key, atom in atoms.items() if weights[key] > 0.0]
