"""Least squares whose design lives on a device: for dictionaries whose gradients are the work."""

from __future__ import annotations

from typing import Any

import numpy as np

from cindy._arrays import Space, is_foreign, space_of
from cindy._check import numbers, short
from cindy._types import Floats
from cindy.errors import DataError
from cindy.least_squares import LeastSquares

__all__ = ["DeviceMatrix", "DeviceRows"]


class DeviceMatrix:
    """A matrix on a device that multiplies numpy arrays and gives its columns as such.

    All that the loop needs of a design: products with it and with its transpose, its shape,
    columns and slices of rows.
    """

    def __init__(self, values: Any, space: Space) -> None:
        self.values, self.space = values, space

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.values.shape[0]), int(self.values.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def T(self) -> DeviceMatrix:
        return DeviceMatrix(self.space.xp.matrix_transpose(self.values), self.space)

    def __matmul__(self, other: Floats) -> Floats:
        return self.space.get(self.space.xp.matmul(self.values, self.space.put(other)))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        # np.linalg.norm(matrix, axis=0): the lengths of the columns, without moving them
        if func is not np.linalg.norm or kwargs != {"axis": 0}:
            return NotImplemented
        return self.space.get(self.space.xp.linalg.vector_norm(self.values, axis=0))

    def astype(self, kind: Any) -> Any:
        """The matrix as a numpy one of another kind of number."""
        return self.space.get(self.values).astype(kind)

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            return self.space.get(self.values[key])
        return DeviceMatrix(self.values[slice(*key.indices(len(self))), :], self.space)

    def any(self) -> bool:
        """Whether an entry differs from zero."""
        return 0 not in self.shape and bool(self.space.xp.any(self.values != 0.0))


class DeviceRows(LeastSquares):
    """The objective ‖A x − B‖² with A on a device, for `conditional_gradient`.

    Products with A are made there; x, gradients and the few columns in use are numpy's. So it pays
    for some thousand terms and more, where products are nearly all of the work.

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
        # There is no factor: the rows themselves stand for the objective.
        super().__init__(np.zeros((0, terms + goal.shape[1])), terms, rows)
        object.__setattr__(self, "_design", DeviceMatrix(values, space))
        object.__setattr__(self, "_target", goal)

    @classmethod
    def of(cls, objective: LeastSquares, device: Any) -> DeviceRows:
        """The same objective, on a device."""
        return cls(objective.design, objective.target, device=device)

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
        theirs = other.design.values if isinstance(other, DeviceRows) else other.design
        both = space.xp.concat([self.design.values, space.put(theirs)], axis=0)
        return DeviceRows(both, np.vstack([self.target, other.target]), device=space)
