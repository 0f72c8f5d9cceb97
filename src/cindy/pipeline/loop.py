"""The one loop: fit a model on a support, choose a support from the rows there, until it comes back.

Every kind of evidence for a law is searched in the same way, and every kind of search is one class below:

    repeat   1. fit         what is no coefficient, such as states and noise, is estimated on the support of a
                            start (`model_on`)
             2. rows        white rows of all candidates are made at these estimates
             3. choose      the path of the conditional gradient offers supports; the rule picks one, with
                            terms added, dropped and exchanged on the same triangle (`following`)
    until the support comes back

| evidence                      | what is profiled out                      | class                          |
|-------------------------------|-------------------------------------------|--------------------------------|
| trajectories, states denoised | states, noise, model error, memory, kicks | `models_met.Search`            |
| the same, very many terms     | the same; rows for the likely terms only  | `fitted.ManyTerms`             |
| the same, more than memory    | states, part by part                      | `large.Confirmation`           |
| numbers inside terms          | states and numbers together               | `parametric.ParametricSearch`  |
| the same, in fields           | the numbers                               | `field_parameters.FieldSearch` |
| any, by a rule without price  | as above                                  | `passes.Picking`               |

There are finitely many supports, so one comes back; a search ends there, or after `rounds` at the latest.
The cost is that of a fit for every support on the way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

__all__ = ["Loop"]

Start = TypeVar("Start")
"""A support, and first values of what is estimated on it beside the coefficients."""
Met = TypeVar("Met")
"""A model that was fitted on a support."""


@dataclass(eq=False)
class Loop(ABC, Generic[Start, Met]):
    """A search over supports; a subclass says how a model is fitted, and which support follows from it.

    ends: by the key of a start, the best model of the search that led through it, so that none is made twice
    """

    ends: dict[bytes, Met | None] = field(default_factory=dict, kw_only=True)

    rounds: ClassVar[int]
    """Models that are fitted from one start at most: a bound on work."""

    @abstractmethod
    def support(self, start: Start) -> bytes:
        """The terms of a start: the search ends where they come back."""

    @abstractmethod
    def model_on(self, start: Start, *, near: bool) -> Met | None:
        """The model on the support of a start; None where the fit does not converge.

        near: whether the first values are close to those of the fit
        """

    @abstractmethod
    def following(self, met: Met, seen: Set[bytes]) -> Start | None:
        """The next start, from a model; seen: the supports so far. None where no other support is better."""

    def key(self, start: Start) -> bytes:
        """What a fit depends on: the support, unless the subclass says that there is more."""
        return self.support(start)

    def better(self, first: Met | None, second: Met | None) -> Met | None:
        """Which of two models counts: the later one, unless the subclass compares them."""
        return second or first

    def follow(self, start: Start, *, near: bool = False) -> Met | None:
        """Fit and choose from a start on until the support comes back; the best model met is returned."""
        best: Met | None = None
        seen: dict[bytes, bytes] = {}
        now: Start | None = start
        for _ in range(self.rounds):
            if now is None or self.support(now) in seen:
                break
            key = self.key(now)
            if key in self.ends:
                # An earlier search came through here: it ends where that one did.
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
