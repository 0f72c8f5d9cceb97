"""The iterate of an objective whose rows are read in samples: epochs between passes over all rows."""

import numpy as np

from cindy._arrays import Floats, Ints
from cindy.least_squares import triangle
from cindy.solver.correction import Advance, Correction, Start
from cindy.solver.iterate import Iterate
from cindy.solver.region import Atom, Oracle
from cindy.solver.result import Sizes, Snapshot, way_back
from cindy.solver.sampled_rows import LocalModel, Reading, SampledRows

_ENOUGH = 0.03
"""An epoch ends once its own gap is this part of the gap that it began with. A step within an epoch reads no
data, but it follows the sample. From 0.01 to 0.1 the number of passes of a run hardly changes
(`python -m benchmarks sampled`)."""


class Epochs:
    """An iterate that moves on a model of the objective and is corrected by passes over all rows.

    1. A pass over all rows gives objective and gradient at a point, the anchor.
    2. A sample of the rows makes a `LocalModel` around the anchor (`_open`).
    3. Any correction runs on the model, without reading data, until the gap over the model is 3 % of the gap
       at the anchor. This is an epoch.
    4. A pass at its end gives objective and gradient there. The objective is quadratic, so both are then
       known on the whole line from the anchor, and the best point of the line is the next anchor (`refresh`).

    The objective therefore never rises, whatever the sample is. If the sample says nothing about the
    curvature, this is the conditional gradient method with exact line search; if it says everything, one
    epoch is enough. In between it is Newton's method on the face of the region with a subsampled Hessian:
    each pass lowers the error by a factor of about atoms / batch.

    honest: whether gradient and objective come from a pass at this very point
    estimated: whether they come from the model
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
        self._atoms: Start = []
        self._pass = self._reading.whole(self.x)
        self._exact = True
        self.scale = self._pass.at_zero or self._pass.value or 1.0
        self._target = tol * self.scale

    def begin(self, start: Start) -> None:
        """Move to the point that the given atoms and weights make."""
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
        return self._pass.gradient.ravel() if self._local is None else self._local.gradient

    @property
    def objective(self) -> float:
        return self._pass.value if self._local is None else self._local.objective

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
        value, _, at_zero, lengths = self._pass
        each = np.ones(self._objective.targets)
        return Sizes(lengths, np.sqrt(at_zero) * each, np.sqrt(value) * each, self._objective.longest_sum)

    def gap(self, atom: Atom) -> float:
        """The Frank-Wolfe gap, given the atom that the oracle found at this gradient."""
        slope = float(self.gradient @ (self.flat - self._oracle.origin))
        return slope - atom.slope(self.gradient)

    def advance(self, atom: Atom, gap: float) -> "Epochs":
        """Begin an epoch, make a step in it, or end it by a pass."""
        if self._local is None:
            # The gap at the anchor is exact, so the epoch ends when its own gap is a small part of it.
            self._gap = gap
            self._open(atom)
        elif gap <= _ENOUGH * self._gap or not self._knows(atom):
            self.refresh()
            return self
        assert self._local is not None
        assert self._advance is not None
        before = self._local.objective
        self._local = self._advance(atom, gap)
        # Where a step no longer lowers the model, only a pass can say how to go on.
        if not self._local.objective < before:
            self.refresh()
        return self

    def refresh(self) -> None:
        """Step 4: a pass over all rows, and the best point between the anchor and the end of the epoch."""
        if self._local is None:
            self._place(self._flat, self._atoms)
            return
        local, self._local = self._local, None
        before, start, atoms = self._pass, self._flat, self._atoms
        self._place(local.flat.copy(), local.parts())
        # Along the line f is a parabola, f(s) = f(0) + slope s + curvature s². The two passes give f(0),
        # f'(0) and f(1), so no data need be read again.
        way = self._flat - start
        slope = float(before.gradient.ravel() @ way)
        curvature = self._pass.value - before.value - slope
        # If the minimum of the parabola lies at or beyond the end of the epoch, stay where the pass was made.
        if slope < 0.0 and -0.5 * slope >= curvature:
            return
        share = 0.5 * max(-slope, 0.0) / curvature if curvature > 0.0 else 0.0
        value = before.value + share * slope + share**2 * curvature
        # The gradient of a quadratic is linear along a line. The combination is exact but for rounding, and
        # therefore not `honest`.
        gradient = (1.0 - share) * before.gradient + share * self._pass.gradient
        self._flat = start + share * way
        self._pass = before._replace(value=value, gradient=gradient)
        self._atoms = _mixed(atoms, self._atoms, share)
        self._exact = False

    def _open(self, atom: Atom) -> None:
        """Step 2: a sample of the rows and the model around the anchor, with the columns of the atom."""
        f = self._objective
        count = f.batch_at(self._epoch)
        # A sample of few rows has room for all columns, one of many rows only for those that matter now.
        columns = self._columns(f.columns_at(count), atom)
        sample = self._with_missed(self._reading.sample(count, columns), columns)
        # The triangle has the same inner products with far fewer rows.
        if len(sample) > 2 * sample.shape[1]:
            sample = triangle(sample)
        value, gradient = self._pass.value, self._pass.gradient
        self._model = LocalModel.around(self.x.copy(), value, gradient, sample, f.rows, columns)
        model = self._model
        self._local, self._advance = self._correction.begin(model, self._oracle, self._target, self._atoms)
        self._epoch += 1

    def _with_missed(self, sample: Floats, columns: Ints | None) -> Floats:
        """The sample, and a row for each column that is zero in it but not in the data, of its length."""
        lengths = self._pass.lengths if columns is None else self._pass.lengths[columns]
        missed = np.flatnonzero(~sample[:, : len(lengths)].any(axis=0) & (lengths > 0.0))
        if not len(missed):
            return sample
        rows = np.zeros((len(missed), sample.shape[1]))
        rows[np.arange(len(missed)), missed] = lengths[missed]
        return np.vstack([sample, rows])

    def _columns(self, most: int, atom: Atom) -> Ints | None:
        """The terms whose columns a sample holds: those in use, and those with the steepest gradient.

        Working sets as by Massias, Gramfort and Salmon, Celer: a fast solver for the lasso with dual
        extrapolation (2018). An epoch ends when an atom needs a term outside the set.
        """
        f = self._objective
        if most >= f.terms:
            return None
        slopes = np.abs(self._pass.gradient) / self._oracle.region.weights.reshape(f.terms, f.targets)
        steepest = slopes.max(axis=1)
        used = [atom.indices, np.flatnonzero(self._flat), *(active.indices for active, _ in self._atoms)]
        # Columns of atoms in use must stay, or the model could not say what a change of their weights does.
        steepest[np.concatenate(used) // f.targets] = np.inf
        most = max(most, int(np.isinf(steepest).sum()))
        return np.sort(np.argsort(-steepest, kind="stable")[:most])

    def _knows(self, atom: Atom) -> bool:
        return self._model is None or self._model.knows(atom.indices // self._objective.targets)

    def _place(self, flat: Floats, atoms: Start) -> None:
        self._flat, self._atoms = flat, atoms
        self._pass = self._reading.whole(self.x)
        self._exact = True


def _mixed(first: Start, second: Start, share: float) -> Start:
    """Atoms and weights of the point that lies the given share of the way from the first to the second."""
    atoms: dict[bytes, Atom] = {}
    weights: dict[bytes, float] = {}
    for parts, part in ((first, 1.0 - share), (second, share)):
        for atom, weight in parts:
            atoms[atom.key] = atom
            weights[atom.key] = weights.get(atom.key, 0.0) + part * weight
    return [(atom, weights[key]) for key, atom in atoms.items() if weights[key] > 0.0]
