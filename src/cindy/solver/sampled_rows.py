"""Least squares over a design that is not an array in memory.

`SampledRows` reads rows when they are needed, for designs that do not fit in memory. `DeviceRows` holds the
design on a device such as a GPU, for dictionaries so large that the products of the gradient are the work.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cindy._arrays import Floats, Ints, Space, is_foreign, space_of
from cindy._check import integer, numbers, short
from cindy.errors import DataError
from cindy.least_squares import LeastSquares


@dataclass(frozen=True)
class _Sampling:
    """How many rows are read at once, and how many make a sample."""

    chunk: int = 2**20
    """Numbers that a pass over the rows holds at a time: 8 MB, at which reading is as fast as it gets."""
    sample: int = 2**24
    """Numbers in a sample at most, unless `batch` is given: 128 MB (`python -m benchmarks sampled`)."""
    fewest: int = 2_000
    """Columns that a sample holds at least. If there are more, those in use and those with the steepest
    gradient are chosen. A run over 50,116 terms has some 200 atoms; fewer columns would end its epochs early
    (`python -m benchmarks sampled`)."""
    share: int = 4
    """A sample holds at most one row in so many: a larger one costs as much as the pass that it saves."""
    together: int = 16
    """Rows of a memory map that are read before its pages are given back to the system."""


_SAMPLING = _Sampling()


@dataclass(frozen=True, eq=False)
class SampledRows:
    """The objective ‖A x − B‖² over rows of which a run reads samples, and all of them once in a while.

    `conditional_gradient` takes it in place of a LeastSquares, with every oracle and correction. It is for
    an A that lies on a disk, or has so many columns that their triangular factor does not fit in memory.
    Gradients come from samples with variance reduction (`Epochs`). The gap at the end comes from a pass over
    all rows.

    design: (rows, terms), target: (rows, targets) or (rows,): arrays, memory maps, or anything with a shape
        that gives rows for a slice and for an increasing array of row numbers
    batch: rows of every sample; None: the square root of their number, doubled from pass to pass as long as
        a sample holds at most 128 MB
    seed: of the samples

    >>> from cindy.solver import Region, conditional_gradient, oracle_for
    >>> A = np.random.default_rng(0).normal(size=(2000, 5))
    >>> f = SampledRows(A, A @ np.array([[1.0], [0], [0], [-2], [0]]), batch=100, seed=1)
    >>> result = conditional_gradient(f, oracle_for(Region(5, 2.0)), tol=1e-4)
    >>> result.x.ravel().round(1) + 0.0, result.passes < 10
    (array([ 0.5,  0. ,  0. , -1.5,  0. ]), True)
    """

    design: Any
    target: Any
    batch: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        shapes = [_shape(part) for part in (self.design, self.target)]
        if len(shapes[0]) != 2 or len(shapes[1]) not in (1, 2) or shapes[0][0] != shapes[1][0]:
            raise DataError(
                "SampledRows: `design` must be (rows, terms) and `target` (rows, targets), with as many rows "
                f"each, but they have shapes {shapes[0]} and {shapes[1]}."
            )
        if 0 in shapes[0] or 0 in shapes[1]:
            raise DataError(
                f"SampledRows: there is nothing to fit in shapes {shapes[0]} and {shapes[1]}. "
                "Give at least one row, one term and one target."
            )
        if self.batch is not None:
            integer(self.batch, "SampledRows: `batch`", least=1)
        integer(self.seed, "SampledRows: `seed`", least=0)

    @property
    def rows(self) -> int:
        return int(np.shape(self.design)[0])

    @property
    def terms(self) -> int:
        return int(np.shape(self.design)[1])

    @property
    def targets(self) -> int:
        shape = np.shape(self.target)
        return int(shape[1]) if len(shape) == 2 else 1

    def value(self, x: Floats) -> float:
        """‖A x − B‖² at x of shape (terms, targets), by one pass."""
        return Reading(self).whole(x).value

    def gradient(self, x: Floats) -> Floats:
        """2 Aᵀ(A x − B), of the shape of x, by one pass."""
        return Reading(self).whole(x).gradient

    @property
    def longest_sum(self) -> int:
        """The largest number of products in a sum of a pass, which bounds its rounding."""
        width = self.terms + self.targets
        return max(_SAMPLING.chunk // width, -(-self.rows * width // _SAMPLING.chunk)) + self.terms + 2

    def batch_at(self, epoch: int) -> int:
        """Rows of the sample that follows the given number of passes.

        √m where a gradient of all m rows comes before: Fang et al., SPIDER (2018), and Yurtsever,
        Sra and Cevher, Conditional gradient methods via stochastic path-integrated differential
        estimator (2019); doubled with every such gradient: Hazan and Luo, Variance-reduced and
        projection-free stochastic optimization (2016), and Bollapragada, Byrd and Nocedal, Exact
        and inexact subsampled Newton methods (2019), where doubling makes the rate superlinear.
        """
        if self.batch is not None:
            return min(self.batch, self.rows)
        # Three limits: the growth that theory asks for, the memory of a sample, and the cost of a pass.
        room = max(_SAMPLING.sample // (min(self.terms, _SAMPLING.fewest) + self.targets), 1)
        most = max(self.rows // _SAMPLING.share, 1)
        first = int(np.ceil(np.sqrt(self.rows)))
        return min(first << min(epoch, 40), room, most)

    def columns_at(self, count: int) -> int:
        """Columns for which a sample of so many rows has room."""
        return min(max(_SAMPLING.sample // count - self.targets, _SAMPLING.fewest), self.terms)


class Pass(NamedTuple):
    """What one pass over all rows gives at a point.

    value, gradient: of the objective; at_zero: the loss at zero; lengths: (terms,) of the columns
    """

    value: float
    gradient: Floats
    at_zero: float
    lengths: Floats


class Reading:
    """A reader of the rows of an objective, which counts the rows it has read.

    passes: rows read, in units of all of them
    """

    def __init__(self, objective: SampledRows) -> None:
        self._objective = objective
        self._random = np.random.default_rng(objective.seed)
        self._read = 0

    @property
    def passes(self) -> float:
        return self._read / self._objective.rows

    def sample(self, count: int, columns: Ints | None = None) -> Floats:
        """(count, columns + targets): rows W drawn without repetition, scaled so that WᵀW estimates AᵀA.

        The last columns are zero: they are the room for the targets of a model (`LocalModel.around`).

        columns: those to read; None: all
        """
        f = self._objective
        # In increasing order a disk is read forwards, and many sources accept row numbers in no other.
        chosen = np.sort(self._random.choice(f.rows, size=count, replace=False))
        width = f.terms if columns is None else len(columns)
        sample = np.zeros((count, width + f.targets))
        step = max(_SAMPLING.chunk // f.terms, 1)
        for begin in range(0, count, step):
            part = chosen[begin : begin + step]
            rows = _numbers(f.design, part, "design")
            np.multiply(
                rows if columns is None else rows[:, columns],
                np.sqrt(f.rows / count),
                out=sample[begin : begin + step, :width],
            )
            self._read += len(part)
        return sample

    def whole(self, x: Floats) -> Pass:
        """A pass over all rows at x of shape (terms, targets)."""
        value = at_zero = 0.0
        gradient = np.zeros(x.shape)
        squares = np.zeros(len(x))
        for design, target in self._chunks():
            residual = design @ x - target
            value += float(np.sum(residual * residual))
            at_zero += float(np.sum(target * target))
            # The lengths of the columns bound the rounding of the gradient, so that one pass gives all that a
            # certificate needs.
            gradient += design.T @ (2.0 * residual)
            squares += np.einsum("ij,ij->j", design, design)
        return Pass(value, gradient, at_zero, np.sqrt(squares))

    def _chunks(self) -> Iterator[tuple[Floats, Floats]]:
        f = self._objective
        step = max(_SAMPLING.chunk // (f.terms + f.targets), 1)
        for begin in range(0, f.rows, step):
            part = slice(begin, min(begin + step, f.rows))
            target = _numbers(f.target, part, "target")
            yield _numbers(f.design, part, "design"), target.reshape(len(target), f.targets)
            self._read += part.stop - part.start


def _shape(rows: Any) -> tuple[int, ...]:
    """The shape of anything that gives rows; lists do not."""
    shape = getattr(rows, "shape", None)
    if isinstance(shape, tuple) and hasattr(rows, "__getitem__"):
        return shape
    raise DataError(
        "SampledRows: `design` and `target` must be arrays, or give rows as arrays do, "
        f"but one is {short(rows)}."
    )


def _numbers(rows: Any, which: slice | Ints, name: str) -> Floats:
    """The chosen rows as finite numbers."""
    chosen: Any = _of_map(rows, which) if isinstance(rows, np.memmap) else rows[which]
    part = np.asarray(chosen.toarray() if hasattr(chosen, "toarray") else chosen, dtype=np.float64)
    if not np.isfinite(part).all():
        first = int(np.flatnonzero(~np.isfinite(part.reshape(len(part), -1)).all(axis=1))[0])
        number = which.start + first if isinstance(which, slice) else int(which[first])
        raise DataError(
            f"SampledRows: `{name}` must be finite, but row {number} is not. Remove or repair that row."
        )
    return part


def _of_map(rows: np.memmap[Any, Any], which: slice | Ints) -> np.ndarray[Any, Any]:
    """A copy of the given rows of a memory map; the pages of the map are given back to the system at once."""
    # Every page that a map touches counts as memory of the process, and the system may map megabytes around
    # each: two thousand rows of 4 kB, drawn from 4 GB, took 2 GB (`python -m benchmarks sampled`). The pages
    # of a map that is private to the process (mode "c") are kept, because its changes exist nowhere else.
    memory = getattr(rows, "_mmap", None)
    shared = (
        isinstance(memory, mmap.mmap) and hasattr(memory, "madvise") and getattr(rows, "mode", "c") != "c"
    )
    parts = (
        [which] if isinstance(which, slice) else np.array_split(which, -(-len(which) // _SAMPLING.together))
    )
    copies = []
    for part in parts:
        copies.append(np.array(rows[part]))
        if shared:
            memory.madvise(mmap.MADV_DONTNEED)  # type: ignore[union-attr]
    return copies[0] if len(copies) == 1 else np.concatenate(copies)


@dataclass(frozen=True, eq=False)
class LocalModel(LeastSquares):
    """The model level + ⟨tilt, x − anchor⟩ + ‖W (x − anchor)‖² of an objective ‖A x − B‖² around an anchor.

    W holds some rows of A, scaled so that WᵀW estimates AᵀA. The gradient tilt + 2 WᵀW (x − anchor) is the
    variance-reduced estimate of Johnson and Zhang (Accelerating stochastic gradient descent using predictive
    variance reduction, 2013). It is exact at the anchor, and the nearer to it the more accurate.

    factor: [W | W anchor]
    anchor: (terms, targets); level, tilt: objective and gradient there
    columns: the terms whose columns W has; None: all. For the others only the slope is known
    """

    anchor: Floats
    tilt: Floats
    level: float
    columns: Ints | None = None

    @classmethod
    def around(
        cls,
        anchor: Floats,
        level: float,
        tilt: Floats,
        sample: Floats,
        rows: int,
        columns: Ints | None = None,
    ) -> LocalModel:
        """sample: (k, columns + targets), W and room for W anchor; rows: how many it stands for."""
        terms = len(anchor)
        width = terms if columns is None else len(columns)
        # With the target W anchor the least squares of the factor are ‖W (x − anchor)‖², so that nothing else
        # of a LeastSquares has to change.
        sample[:, width:] = sample[:, :width] @ (anchor if columns is None else anchor[columns])
        return cls(sample, terms, rows, anchor, tilt, level, columns)

    @property
    def targets(self) -> int:
        return int(self.anchor.shape[1])

    @property
    def design(self) -> Any:
        values = self.factor[:, : -self.targets]
        return values if self.columns is None else _SomeColumns(values, self.columns, self.terms)

    @property
    def target(self) -> Floats:
        return self.factor[:, -self.targets :]

    def knows(self, terms: Ints) -> bool:
        """Whether the sample holds the columns of these terms."""
        return self.columns is None or bool(np.isin(terms, self.columns).all())

    def value(self, x: Floats) -> float:
        return self.offset(x) + super().value(x)

    def gradient(self, x: Floats) -> Floats:
        return self.tilt + super().gradient(x)

    def offset(self, x: Floats) -> float:
        """The linear part of the model, level + ⟨tilt, x − anchor⟩."""
        return self.level + float(np.sum(self.tilt * (x - self.anchor)))


class _SomeColumns:
    """A matrix with few columns that are not zero, and the operations that the loop needs of a design."""

    def __init__(self, values: Floats, columns: Ints, width: int, turned: bool = False) -> None:
        self._values, self._columns, self._width, self._turned = values, columns, width, turned

    @property
    def shape(self) -> tuple[int, int]:
        shape = (len(self._values), self._width)
        return (shape[1], shape[0]) if self._turned else shape

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def T(self) -> _SomeColumns:
        return _SomeColumns(self._values, self._columns, self._width, not self._turned)

    def __matmul__(self, other: Floats) -> Floats:
        if not self._turned:
            return np.asarray(self._values @ other[self._columns])
        product = np.zeros((self._width, other.shape[1]))
        product[self._columns] = self._values.T @ other
        return product

    def __getitem__(self, rows: slice) -> _SomeColumns:
        return _SomeColumns(self._values[rows], self._columns, self._width)

    def any(self) -> bool:
        """Whether an entry differs from zero."""
        return bool(self._values.any())


class _DeviceMatrix:
    """A matrix on a device that multiplies numpy arrays, and gives its columns as numpy arrays.

    It has what the loop needs of a design: its shape, products with it and with its transpose, columns, and
    slices of rows.
    """

    def __init__(self, values: Any, space: Space) -> None:
        self.values, self.space = values, space

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.values.shape[0]), int(self.values.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def T(self) -> _DeviceMatrix:
        return _DeviceMatrix(self.space.xp.matrix_transpose(self.values), self.space)

    def __matmul__(self, other: Floats) -> Floats:
        return self.space.get(self.space.xp.matmul(self.values, self.space.put(other)))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        # np.linalg.norm(matrix, axis=0) gives the lengths of the columns without moving the matrix.
        if func is not np.linalg.norm or kwargs != {"axis": 0}:
            return NotImplemented
        return self.space.get(self.space.xp.linalg.vector_norm(self.values, axis=0))

    def astype(self, kind: Any) -> Any:
        """The matrix as a numpy array of another kind of number."""
        return self.space.get(self.values).astype(kind)

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            return self.space.get(self.values[key])
        return _DeviceMatrix(self.values[slice(*key.indices(len(self))), :], self.space)

    def any(self) -> bool:
        """Whether an entry differs from zero."""
        return 0 not in self.shape and bool(self.space.xp.any(self.values != 0.0))


class DeviceRows(LeastSquares):
    """The objective ‖A x − B‖² with A on a device, for `conditional_gradient`.

    Products with A are computed there; x, gradients and the few columns in use are numpy arrays. It pays from
    a few thousand terms on, where the products are nearly all of the work.

    design: (rows, terms), of numpy or of the library of the device; target: (rows, targets)
    device: "cuda", another device of PyTorch or CuPy, or a module of the array API standard

    >>> from cindy.solver import Region, conditional_gradient, oracle_for
    >>> f = DeviceRows(np.eye(3), np.array([[3.0], [1.0], [0.0]]), device=np)
    >>> conditional_gradient(f, oracle_for(Region(3, 2.0))).x.ravel()
    array([2., 0., 0.])
    """

    def __init__(self, design: Any, target: Any, *, device: Any = "cuda") -> None:
        space = space_of(device)
        for part in (design, target):
            if not isinstance(getattr(part, "shape", None), tuple):
                raise DataError(f"DeviceRows: design and target must be arrays, but one is {short(part)}.")
        if len(design.shape) != 2 or len(target.shape) != 2 or design.shape[0] != target.shape[0]:
            raise DataError(
                "DeviceRows: design and target must be matrices with as many rows each, "
                f"but have shapes {tuple(design.shape)} and {tuple(target.shape)}."
            )
        values = space.put(design)
        goal = space.get(target) if is_foreign(target) else numbers(target, "DeviceRows: `target`")
        if not np.isfinite(goal).all() or not bool(space.xp.all(space.xp.isfinite(values))):
            raise DataError("DeviceRows: design and target must be finite.")
        terms, rows = int(values.shape[1]), int(values.shape[0])
        # There is no factor: `design` and `target` are the rows themselves.
        super().__init__(np.zeros((0, terms + goal.shape[1])), terms, rows)
        object.__setattr__(self, "_design", _DeviceMatrix(values, space))
        object.__setattr__(self, "_target", goal)

    @property
    def design(self) -> Any:
        return self._design  # type: ignore[attr-defined]

    @property
    def target(self) -> Floats:
        return self._target  # type: ignore[attr-defined, no-any-return]

    def scaled(self, columns: Floats, targets: Floats) -> LeastSquares:
        space: Space = self.design.space
        return DeviceRows(self.design.values / space.put(columns), self.target / targets, device=space)

    def __add__(self, other: LeastSquares) -> LeastSquares:
        if not isinstance(other, LeastSquares):
            return NotImplemented
        space: Space = self.design.space
        below = other.design.values if isinstance(other, DeviceRows) else other.design
        design = space.xp.concat([self.design.values, space.put(below)], axis=0)
        return DeviceRows(design, np.vstack([self.target, other.target]), device=space)
