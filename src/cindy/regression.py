"""Least squares on any support, under equalities, with errors clustered by block."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import block_array, csr_array
from scipy.sparse.csgraph import connected_components

from cindy.errors import InfeasibleError
from cindy.least_squares import LeastSquares, triangle
from cindy.rows import Rows

__all__ = ["Fit", "Regression", "covariances", "design_effect"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_ROUNDING = 1e-11


@dataclass(frozen=True, eq=False)
class Fit:
    """The least-squares coefficients on a support, and how they vary.

    support: (k,) flat indices; x: (k,) coefficients
    spread: (k, free), times its transpose the covariance, where the noise has unit size
    loss: what is left, in units of the noise
    """

    support: Ints
    x: Floats
    spread: Floats
    loss: float

    @property
    def free(self) -> int:
        """How many parameters were fitted: fewer than coefficients where some are tied."""
        return int(self.spread.shape[1])


@dataclass(frozen=True, eq=False)
class Regression:
    """Blocks of rows that share their coefficients, (terms, targets) flattened, under equalities.

    Targets that no equality connects are fitted apart; those it connects, together, each in
    units of its own noise.

    rows: constraints over the flattened coefficients; a fit obeys the equalities among them
    floor: (targets,) root mean square error of the rows themselves, by discretisation say; a
        residual below it is not to be explained
    """

    blocks: tuple[LeastSquares, ...]
    rows: Rows
    floor: Floats | None = None

    @cached_property
    def equal(self) -> csr_array:
        """(equalities, terms · targets): equal x = goal."""
        return csr_array(self.rows.matrix[self.rows.equality])

    @cached_property
    def goal(self) -> Floats:
        return self.rows.lower[self.rows.equality]

    @cached_property
    def total(self) -> LeastSquares:
        stacked = np.vstack([b.factor for b in self.blocks])
        return LeastSquares(triangle(stacked), self.blocks[0].terms, sum(b.rows for b in self.blocks))

    @property
    def shape(self) -> tuple[int, int]:
        return self.total.terms, self.total.targets

    @cached_property
    def groups(self) -> list[Ints]:
        """Targets that must be fitted together."""
        targets = self.shape[1]
        touch = csr_array(
            (np.ones(self.equal.nnz), self.equal.indices % targets, self.equal.indptr),
            shape=(self.equal.shape[0], targets),
        )
        labels = connected_components(touch.T @ touch, directed=False)[1]
        return [np.flatnonzero(labels == k) for k in range(labels.max() + 1)]

    @cached_property
    def _row_target(self) -> Ints:
        """A target that each equality speaks of, and so its group."""
        first = self.equal.indices[np.minimum(self.equal.indptr[:-1], max(self.equal.nnz - 1, 0))]
        return np.asarray(first % self.shape[1], dtype=np.intp)

    @cached_property
    def independent(self) -> int:
        """The numerical rank of the design."""
        r = self.total.design
        size = np.linalg.norm(r, axis=0)
        pivoted = scipy.linalg.qr(r / np.where(size > 0, size, 1.0), mode="r", pivoting=True)[0]
        diagonal = np.abs(np.diagonal(pivoted))
        return int((diagonal > _ROUNDING * diagonal[0]).sum())

    @cached_property
    def noise(self) -> Floats:
        """(targets,) standard deviation of what no combination of the terms explains."""
        terms = self.shape[0]
        left = np.sum(self.total.target[min(terms, len(self.total.factor)) :] ** 2, axis=0)
        whole = np.sqrt(np.sum(self.total.target**2, axis=0) / self.total.rows)
        sigma = np.sqrt(left / max(self.total.rows - self.independent, 1))
        # Rounding of the data leaves this much even where a model is exact; a target may be zero throughout.
        whole[whole == 0.0] = 1.0
        return np.asarray(np.hypot(np.maximum(sigma, 1e-14 * whole), self._floor))

    @cached_property
    def _floor(self) -> Floats:
        return np.zeros(self.shape[1]) if self.floor is None else self.floor

    def coefficients(self, targets: Ints) -> Ints:
        """The flat indices of all coefficients of the targets."""
        terms, width = self.shape
        return (np.arange(terms)[:, None] * width + targets).ravel()

    def fit(self, support: Ints, targets: Ints) -> Fit:
        """Least squares for the targets of a group, on a support within them."""
        terms, width = self.shape
        basis, offset = self._freedom(support, targets)
        noise = self.noise
        parts, goals = [], []
        rest = self.total.rows * float(np.sum((self._floor[targets] / noise[targets]) ** 2))
        for j in targets:
            here = np.flatnonzero(support % width == j)
            columns = self.total.design[:terms, support[here] // width]
            part = columns if basis is None else columns @ basis[here]
            whole = np.zeros((len(part), len(support) if basis is None else basis.shape[1]))
            whole[:, here if basis is None else slice(None)] = part
            parts.append(whole / noise[j])
            goals.append((self.total.target[:terms, j] - columns @ offset[here]) / noise[j])
            rest += float(np.sum((self.total.target[terms:, j] / noise[j]) ** 2))
        design, goal = np.vstack(parts), np.concatenate(goals)
        size = np.linalg.norm(design, axis=0)
        size[size == 0] = 1.0
        q, r = np.linalg.qr(design / size)
        projected = q.T @ goal
        theta = scipy.linalg.solve_triangular(r, projected)
        spread = scipy.linalg.solve_triangular(r, np.eye(len(r))) / size[:, None]
        loss = float(np.sum((goal - q @ projected) ** 2)) + rest
        if basis is None:
            return Fit(support, theta / size, spread, loss)
        return Fit(support, offset + basis @ (theta / size), basis @ spread, loss)

    @cached_property
    def _stack(self) -> tuple[Floats, Floats]:
        """The factors of all blocks, padded to one height: (blocks, height, terms), (…, targets)."""
        height = max(len(b.factor) for b in self.blocks)
        stack = np.zeros((len(self.blocks), height, sum(self.shape)))
        for k, block in enumerate(self.blocks):
            stack[k, : len(block.factor)] = block.factor
        return stack[:, :, : self.shape[0]], stack[:, :, self.shape[0] :]

    def scores(self, x: Floats) -> Floats:
        """(blocks, terms, targets): what each block pulls the coefficients x towards."""
        design, target = self._stack
        return np.asarray(design.transpose(0, 2, 1) @ (target - design @ x))

    def _freedom(self, support: Ints, targets: Ints) -> tuple[Floats | None, Floats]:
        """A basis of what the equalities leave free on the support (None: all), and one solution."""
        offset = np.zeros(len(support))
        if not self.equal.shape[0]:
            return None, offset
        rows = csr_array(self.equal[:, support])
        # An equality that must not be zero counts even where none of its coefficients is left.
        needed = (self.goal != 0) & np.isin(self._row_target, targets)
        used = np.flatnonzero((np.diff(rows.indptr) > 0) | needed)
        if not len(used):
            return None, offset
        rows, goal = csr_array(rows[used]), self.goal[used]
        links = block_array([[None, rows], [rows.T, None]], format="csr", dtype=np.float64)
        labels = connected_components(links, directed=False)[1]
        row_label, column_label = labels[: len(used)], labels[len(used) :]
        columns: list[Floats] = []
        order = np.argsort(column_label, kind="stable")
        edges = np.searchsorted(column_label[order], np.arange(labels.max() + 2))
        in_rows = [np.flatnonzero(row_label == k) for k in range(labels.max() + 1)]
        for k, numbers in enumerate(in_rows):
            members = order[edges[k] : edges[k + 1]]
            null, shift = _null_space(rows[numbers][:, members].toarray(), goal[numbers])
            offset[members] = shift
            block = np.zeros((len(support), null.shape[1]))
            block[members] = null
            columns.append(block)
        return np.hstack(columns), offset


def _null_space(rows: Floats, goal: Floats) -> tuple[Floats, Floats]:
    if not len(rows):
        return np.eye(rows.shape[1]), np.zeros(rows.shape[1])
    if not rows.shape[1]:
        if np.abs(goal).max(initial=0.0) > 0:
            raise InfeasibleError("an equality that must not be zero has none of its coefficients left.")
        return np.zeros((0, 0)), np.zeros(0)
    size = np.abs(rows).max(axis=1)
    u, s, vt = np.linalg.svd(rows / size[:, None])
    rank = int((s > _ROUNDING * s[0]).sum())
    scaled = goal / size
    shift = vt[:rank].T @ ((u[:, :rank].T @ scaled) / s[:rank])
    if np.abs(rows / size[:, None] @ shift - scaled).max() > 1e-9 * np.abs(scaled).max(initial=1e-300):
        raise InfeasibleError("the equalities contradict each other on this support.")
    return vt[rank:].T, shift


def covariances(
    regression: Regression, support: Ints, covariance: Floats, scores: Floats
) -> tuple[Floats, Floats]:
    """Variances of the coefficients, classical and clustered by block, in units of the noise.

    covariance: (k, k), where the noise has unit size
    scores: (blocks, terms, targets) at those coefficients
    """
    width = regression.shape[1]
    terms, targets = support // width, support % width
    pull = scores[:, terms, targets] / regression.noise[targets] ** 2
    count = len(pull)
    moved = pull @ covariance
    clustered = np.sum(moved**2, axis=0) * (count / max(count - 1, 1))
    return np.diagonal(covariance).copy(), clustered


def design_effect(classical: Floats, clustered: Floats) -> float:
    """By how much correlation within blocks inflates the variances, at least 1."""
    known = classical > 0
    return max(1.0, float(np.median(clustered[known] / classical[known]))) if known.any() else 1.0
