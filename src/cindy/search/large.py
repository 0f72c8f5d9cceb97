"""Much data: a law that was found in a part of them is confirmed on all.

Given coefficients, noise and model error, the pieces of the data are independent:

1. The states of each piece are fitted, and the white rows of all candidates at them become a triangle, in
   parallel if there is an executor.
2. The triangles are added up in the order of the data, so that the result does not depend on who worked on
   which piece.
3. Terms are chosen on the sum, and 1 and 2 repeated if they differ from those of the part.

This costs a fit of the states and a triangle of all candidates, once for every pass over the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cindy._arrays import Ints
from cindy.data import Part, Trajectory, same_variables
from cindy.errors import DataError
from cindy.formulation import Formulation
from cindy.least_squares import LeastSquares, triangle
from cindy.search.loop import Loop, Met, Search
from cindy.search.request import Options, Pieces, Request
from cindy.search.starts import Found
from cindy.selection import EFFORT
from cindy.states import LEVELS, Fitted, Motion, blurred_terms, states_under
from cindy.summary import map_in_order

BLOCKS = 50
"""Blocks of white rows whose scatter gives standard errors, as in `accumulate`."""


@dataclass(frozen=True, eq=False)
class WhiteSums(Motion):
    """A motion whose white rows were made before, piece by piece, at states that are not kept.

    white: triangles of [candidates | target], in the order of the data
    kept: the part of the data whose states are kept
    """

    white: tuple[LeastSquares, ...] = field(kw_only=True)
    kept: Motion = field(kw_only=True)

    @property
    def share(self) -> float:
        """Of all rows, those of the part whose states are kept."""
        return self.kept.rows / sum(block.rows for block in self.white)

    def objectives(
        self, fitted: Fitted, columns: Ints, blocks: int, *, apart: float | None = None
    ) -> tuple[LeastSquares, ...]:
        """The rows for some of the candidates, in at most so many blocks."""
        places = np.append(np.searchsorted(self.candidates, columns), len(self.candidates))
        runs = np.array_split(np.arange(len(self.white)), min(blocks, len(self.white)))
        return tuple(_joined([self.white[i] for i in run], places) for run in runs)


@dataclass(frozen=True)
class _Fitting:
    """The work on one piece: a function of the piece and of these settings alone, which other processes call.

    empty: the motion of all data, without records; law: its coefficients and variances, without states
    names: of states and inputs; blocks: how many triangles a piece gives
    """

    form: Formulation
    empty: Motion
    law: Fitted
    names: tuple[tuple[str, ...], tuple[str, ...]]
    blocks: int

    def __call__(self, piece: Motion | Part) -> tuple[tuple[LeastSquares, ...], int]:
        """Triangles of the white rows, and how many samples they stand for."""
        motion = piece if isinstance(piece, Motion) else self._loaded(piece)
        if motion is None or not motion.records:
            return (), 0
        now = self.law
        levels = () if motion.quiet(now.variance) else LEVELS[1:]
        triangles: list[LeastSquares] = []
        for record in motion.records:
            part = motion.part([record])
            fitted = states_under(part, now.law, now.coef, now.variance, now.error, levels=levels)
            # A stretch that the law does not follow is taken as measured: it must still count against the
            # law.
            if not fitted.alive:
                fitted = replace(fitted, x=(record.y,))
            triangles += part.objectives(fitted, part.candidates, blocks=self.blocks, apart=1e-4) or ()
        runs = np.array_split(np.arange(len(triangles)), min(self.blocks, len(triangles)) or 1)
        columns = np.arange(len(motion.candidates) + 1)
        joined = tuple(_joined([triangles[i] for i in run], columns) for run in runs if len(run))
        return joined, motion.samples

    def _loaded(self, part: Part) -> Motion | None:
        data: list[Trajectory] = list(same_variables(part()))
        if not data:
            return None
        like, empty = data[0], self.empty
        if (like.states, like.inputs) != self.names:
            first, here = (", ".join(a + b) for a, b in (self.names, (like.states, like.inputs)))
            raise DataError(
                f"All trajectories must have the same variables, but the first has {first} and "
                f"{like.name or 'a later one'} has {here}. Give all the same names in the same order."
            )
        motion = self.form.motion(data, empty.basis, instants=empty.parts)
        return motion and replace(motion, candidates=empty.candidates, forcing=empty.forcing)


class Gathered(NamedTuple):
    """The rows of all data at a law, and the law that is chosen from them."""

    motion: WhiteSums
    asked: Fitted


@dataclass(eq=False)
class Confirmation(Loop[Fitted, Gathered]):
    """The loop over all data, piece by piece, from the law that was found in a part of them.

    motion: of all data in memory, or of the part; part: of the data in which the law was found
    """

    request: Request
    motion: Motion
    part: Motion
    options: Options

    rounds: ClassVar[int] = 3
    """Passes over all data; a second one is made only where all data ask for other terms than the part."""

    def support(self, start: Fitted) -> bytes:
        return start.law.support.tobytes()

    def model_on(self, start: Fitted, *, near: bool) -> Gathered:
        """States are fitted under the law piece by piece, and their white rows are added up."""
        request, motion, like = self.request, self.motion, self.request.data[0]
        work = _work(request.pieces, motion)
        aim = max(1, min(BLOCKS, int(EFFORT.large_memory / (8 * (len(motion.candidates) + 1) ** 2))))
        empty, law = motion.part(()), replace(start, x=())
        names, each = (like.states, like.inputs), -(-aim // len(work)) if isinstance(work, Sequence) else 1
        task = _Fitting(request.form, empty, law, names, each)
        white = tuple(_added_up(task, work, request.pieces, aim))
        if not white:
            raise DataError("identify: no part of the data has a stretch that is long enough to use.")
        like_motion = {f.name: getattr(motion, f.name) for f in fields(Motion) if f.init}
        whole = WhiteSums(**like_motion, white=white, kept=self.part)
        loop = Search(whole, self.options)
        asked = loop.choose(start) or start
        # With very many samples terms become significant that only noise tells apart: these do not come in.
        stay = loop.stay(start) if len(blurred_terms(self.part, asked)) else None
        return Gathered(whole, replace(stay or asked, settled=start.settled))

    def following(self, met: Gathered, seen: Set[bytes]) -> Fitted:
        return met.asked


def confirmed(request: Request, motion: Motion, part: Motion, found: Found) -> tuple[Motion, Found]:
    """The law fitted to all data, its terms tested once more; and the motion that has their rows."""
    last = Confirmation(request, motion, part, found.options).follow(found.best.fitted)
    assert last is not None
    best = Met(last.asked, found.best.deviance, found.best.criterion)
    return last.motion, Found(best, (best,), found.agreed, found.options)


def _work(pieces: Pieces, motion: Motion) -> Sequence[Motion] | Iterable[Part]:
    """The pieces: groups of records that are in memory, or parts to be loaded."""
    if pieces.source.whole is None:
        return pieces.source.parts
    runs = np.array_split(np.arange(len(motion.records)), min(len(motion.records), BLOCKS))
    return [motion.part([motion.records[i] for i in run]) for run in runs]


def _added_up(task: _Fitting, work: Iterable[Any], pieces: Pieces, aim: int) -> list[LeastSquares]:
    """The triangles of all pieces, in order, neighbours joined where there are more than twice the aim."""
    triangles: list[LeastSquares] = []
    done = 0
    for more, samples in map_in_order(task, work, pieces.executor):
        triangles += more
        done += samples
        pieces.told(done)
        if len(triangles) > 2 * aim:
            columns = np.arange(triangles[0].factor.shape[1])
            triangles = [_joined(triangles[i : i + 2], columns) for i in range(0, len(triangles), 2)]
    return triangles


def _joined(blocks: Sequence[LeastSquares], places: Ints) -> LeastSquares:
    """The sum of objectives, for some of their columns."""
    factor = triangle(np.vstack([block.factor[:, places] for block in blocks]))
    return LeastSquares(factor, len(places) - 1, sum(block.rows for block in blocks))
