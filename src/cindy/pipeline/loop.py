"""The one loop: fit what is no coefficient on a support, choose a support from the rows there, until it
comes back.

Every evidence for a law is searched in the same way, and every kind of search below is one class:

    repeat   1. fit         what is no coefficient is profiled out on the support of a start   (`model_on`)
             2. rows        white rows of all candidates at what was fitted
             3. choose      the path of the conditional gradient offers supports; the rule picks one, with
                            terms added, dropped and exchanged on the same triangle       (`following`)
    until the support comes back

| evidence                      | what is profiled out                      | class                          |
|-------------------------------|-------------------------------------------|--------------------------------|
| trajectories, states denoised | states, noise, model error, memory, kicks | `models_met.Search`            |
| the same, very many terms     | the same; rows for the likely terms only  | `fitted.ManyTerms`             |
| the same, more than memory    | states, part by part                      | `large.Confirmation`           |
| numbers inside terms          | states and numbers together               | `parametric.ParametricSearch`  |
| the same, in fields           | the numbers                               | `field_parameters.FieldSearch` |
| fields, terms chosen again    | the noise in the terms that were chosen   | `measured.Recalibrated`        |
| sums of rows, fields          | the noise and the errors that it makes    | `measured.AtMeasurements`      |
| noise with memory, at the end | as for trajectories                       | `inference.ShownByErrors`      |
| any, by a rule without price  | as above                                  | `passes.Picking`               |

A search visits finitely many supports and ends where one comes back, after `rounds` at the latest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

__all__ = ["Loop"]

Start = TypeVar("Start")
"""A support, and where to begin what is profiled out on it."""
Met = TypeVar("Met")
"""A model that was fitted on a support."""


@dataclass(eq=False)
class Loop(ABC, Generic[Start, Met]):
    """A search over supports; a subclass says how a model is fitted, and where to go on from it.

    ends: by key of a start, the best model of the way that led through it: no way is gone twice
    """

    ends: dict[bytes, Met | None] = field(default_factory=dict, kw_only=True)

    rounds: ClassVar[int]
    """Models on the way from one start at most: a bound on work."""

    @abstractmethod
    def support(self, start: Start) -> bytes:
        """The terms of a start: the search ends where they come back."""

    @abstractmethod
    def model_on(self, start: Start, *, near: bool) -> Met | None:
        """The model on the support of a start; None where nothing settles.

        near: the start is close to what fits it
        """

    @abstractmethod
    def following(self, met: Met, seen: Set[bytes]) -> Start | None:
        """Where to go on from a model, beyond the supports seen; None where nothing new is promised."""

    def key(self, start: Start) -> bytes:
        """What a fit depends on: the support, unless the subclass knows more."""
        return self.support(start)

    def better(self, first: Met | None, second: Met | None) -> Met | None:
        """Which of two models of a way counts: the later, unless the subclass compares them."""
        return second or first

    def follow(self, start: Start, *, near: bool = False) -> Met | None:
        """From a start, fit and choose until the support comes back: the best model on that way."""
        best: Met | None = None
        seen: dict[bytes, bytes] = {}
        now: Start | None = start
        for _ in range(self.rounds):
            if now is None or self.support(now) in seen:
                break
            key = self.key(now)
            if key in self.ends:
                best = self.better(best, self.ends[key])
                break
            seen[self.support(now)] = key
            met = self.model_on(now, near=near)
            best = self.better(best, met)
            if met is None:
                break
            now, near = self.following(met, seen.keys()), True
        self.ends.update(dict.fromkeys(seen.values(), best))
        return best
