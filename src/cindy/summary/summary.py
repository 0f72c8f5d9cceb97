"""Summary: everything about the data that a model needs, in blocks that can be added."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cindy._arrays import Floats, Ints
from cindy._check import file_path
from cindy._files import is_file, whole_file
from cindy.basis import Basis
from cindy.errors import DataError
from cindy.evidence import calibrated, calibration
from cindy.formulation import Formulation, formulation_from_dict
from cindy.least_squares import LeastSquares, stacked

_FORMAT = "cindy-summary"
_VERSION = 1


@dataclass(frozen=True, eq=False)
class Summary:
    """The least-squares objectives of the blocks of a set of trajectories.

    Blocks are whole trajectories or contiguous stretches of one, so that folds of cross-validation and
    clusters of errors are unions of blocks. The size of a summary does not depend on the amount of data, and
    `a + b` is the summary of both sets of data.

    blocks, labels: the objectives, and where each comes from
    samples: the number of samples that were used
    skipped: the number of segments that were too short to be used
    spurious: (terms + states, terms + states) the matrix that noise in the terms adds to the Gram matrix of
        all blocks, if the formulation can estimate it

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 6, 200)
    >>> swing = cindy.Trajectory(t, np.stack([np.cos(t), -np.sin(t)], axis=1), ("x", "v"))
    >>> first, second = swing.part(0, 100), swing.part(100, 200)
    >>> total = cindy.accumulate(first, cindy.Polynomial(1)) + cindy.accumulate(second, cindy.Polynomial(1))
    >>> total.samples, total.states
    (200, ('x', 'v'))
    """

    blocks: tuple[LeastSquares, ...]
    labels: tuple[str, ...]
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    basis: Basis
    formulation: Formulation
    samples: int
    skipped: int = 0
    spurious: Floats | None = None

    def __post_init__(self) -> None:
        if len(self.blocks) != len(self.labels):
            raise DataError(
                f"Summary: every block needs a label, but there are {len(self.blocks)} blocks "
                f"and {len(self.labels)} labels."
            )
        shape = (len(self.terms), len(self.states))
        for block, label in zip(self.blocks, self.labels, strict=True):
            if (block.terms, block.targets) != shape:
                raise DataError(
                    f'Summary: block "{label}" has {block.terms} terms and {block.targets} targets, '
                    f"but {shape[0]} terms and {shape[1]} states are expected."
                )

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """The names of the terms."""
        return self.basis.names(self.formulation.variables(self.states, self.inputs))

    @cached_property
    def calibrated(self) -> tuple[LeastSquares, ...]:
        """The blocks without the bias that noise in the terms causes in least squares, if it is known."""
        return self.blocks if self.calibration is None else calibrated(self.blocks, self.calibration)

    @cached_property
    def calibration(self) -> Floats | None:
        """(terms + states, terms + states) the factor on rows that removes this bias; None if not known."""
        return None if self.spurious is None else calibration(self.blocks, self.spurious)

    def of_terms(self, terms: Ints) -> Summary:
        """This summary, with the bias removed as if there were only these terms; all others become zero."""
        restricted = replace(self)
        if self.spurious is not None:
            restricted.__dict__["calibration"] = calibration(self.blocks, self.spurious, terms)
        return restricted

    @cached_property
    def total(self) -> LeastSquares:
        """The sum of all blocks."""
        if not self.blocks:
            return LeastSquares.empty(len(self.terms), len(self.states))
        return add_up(self.blocks)

    def __repr__(self) -> str:
        return (
            f"Summary({self.samples} samples, {len(self.blocks)} blocks, {len(self.terms)} terms, "
            f"states {', '.join(self.states)}, {self.formulation!r})"
        )

    def __add__(self, other: Summary) -> Summary:
        if not isinstance(other, Summary):
            return NotImplemented
        differences = self._differences(other)
        if differences:
            raise DataError(
                "Summary: only summaries of the same problem add up, but they differ in "
                + "; ".join(differences)
            )
        return replace(
            self,
            blocks=self.blocks + other.blocks,
            labels=self.labels + other.labels,
            samples=self.samples + other.samples,
            skipped=self.skipped + other.skipped,
            spurious=_sum(self.spurious, other.spurious),
        )

    def _differences(self, other: Summary) -> list[str]:
        """What two summaries do not share though they must, in words."""
        # Settings that are chosen from the data, such as the length of windows, may differ, because both
        # kinds of rows are equations for the same coefficients.
        pairs: list[tuple[str, Any, Any]] = [
            ("states", self.states, other.states),
            ("inputs", self.inputs, other.inputs),
        ]
        mine, theirs = self.formulation.signature, other.formulation.signature
        pairs += [
            (f"formulation ({key})", mine.get(key), theirs.get(key)) for key in sorted({*mine, *theirs})
        ]
        differences = [f"{name}: {a!r} and {b!r}" for name, a, b in pairs if a != b]
        if self.basis.to_dict() != other.basis.to_dict():
            differences.append(f"basis: {self.basis!r} and {other.basis!r}")
        return differences

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the summary to an npz file, completely or not at all; `load` reads it."""
        header = {
            "format": _FORMAT,
            "version": _VERSION,
            "labels": self.labels,
            "states": self.states,
            "inputs": self.inputs,
            "basis": self.basis.to_dict(),
            "formulation": self.formulation.to_dict(),
            "samples": self.samples,
            "skipped": self.skipped,
        }
        width = len(self.terms) + len(self.states)
        arrays = {
            "header": np.array(json.dumps(header)),
            "factors": np.vstack([block.factor for block in self.blocks] or [np.zeros((0, width))]),
            "heights": np.array([len(block.factor) for block in self.blocks], dtype=np.int64),
            "rows": np.array([block.rows for block in self.blocks], dtype=np.int64),
        }
        if self.spurious is not None:
            arrays["spurious"] = self.spurious
        with whole_file(path, "the summary") as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, functions: Mapping[str, Callable[..., Any]] | None = None
    ) -> Summary:
        """The summary that `save` wrote; nothing in the file is executed.

        functions: the Python functions of a custom basis by name, which a file cannot hold
        """
        file = file_path(path, "Summary.load: `path`")
        if not is_file(file):
            raise DataError(f"Summary.load: there is no file {str(file)[:200]}.")
        try:
            with np.load(file, allow_pickle=False) as content:
                arrays = dict(content)
            header = json.loads(str(arrays["header"]))
            if (header["format"], header["version"]) != (_FORMAT, _VERSION):
                raise DataError(
                    f"it is {header['format']!r} version {header['version']}, but this library reads "
                    f"{_FORMAT!r} version {_VERSION}"
                )
            return cls._of(header, arrays, functions)
        except DataError as error:
            raise DataError(f"Summary.load: {file} cannot be used: {str(error).rstrip('.')}.") from error
        # A damaged file may raise any error of numpy, zipfile, zlib or json.
        except (Exception, MemoryError) as error:
            reason = f"the entry {error} is missing" if isinstance(error, KeyError) else error
            raise DataError(
                f"Summary.load: {file} is not a summary that `save` wrote, or it is damaged: {reason}."
            ) from error

    @classmethod
    def _of(
        cls,
        header: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        functions: Mapping[str, Callable[..., Any]] | None,
    ) -> Summary:
        """The summary in a file; every shape is compared with the header, because files may be damaged."""
        factors, heights, rows = (arrays[name] for name in ("factors", "heights", "rows"))
        spurious = arrays.get("spurious")
        basis = Basis.from_dict(header["basis"], functions=functions)
        states, inputs = tuple(header["states"]), tuple(header["inputs"])
        formulation = formulation_from_dict(header["formulation"])
        terms = len(basis.names(formulation.variables(states, inputs)))
        # All factors are in one array, because many small arrays would make a large file.
        parts = np.split(factors, np.cumsum(heights)[:-1]) if len(heights) else []
        blocks = tuple(
            LeastSquares(np.ascontiguousarray(part), terms, int(n))
            for part, n in zip(parts, rows, strict=True)
        )
        if (
            factors.ndim != 2
            or factors.shape[1] != terms + len(states)
            or heights.sum() != len(factors)
            or (heights < 0).any()
        ):
            raise DataError("its arrays are not of the shape that its header says")
        if spurious is not None and spurious.shape != (factors.shape[1],) * 2:
            raise DataError("its spurious matrix is not of the shape that its header says")
        if not np.all(np.isfinite(factors)):
            raise DataError("it holds numbers that are not finite")
        counts = int(header["samples"]), int(header["skipped"])
        return cls(blocks, tuple(header["labels"]), states, inputs, basis, formulation, *counts, spurious)


def _sum(a: Floats | None, b: Floats | None) -> Floats | None:
    return b if a is None else a if b is None else a + b


def add_up(blocks: tuple[LeastSquares, ...]) -> LeastSquares:
    """The sum of at least one objective, triangularised once."""
    return LeastSquares(stacked([b.factor for b in blocks]), blocks[0].terms, sum(b.rows for b in blocks))
