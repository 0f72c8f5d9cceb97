"""What constraints may speak of: states, and terms of a basis."""

from __future__ import annotations

from dataclasses import dataclass, field

from cindy._check import did_you_mean
from cindy.basis import Basis
from cindy.errors import ConstraintError

__all__ = ["Names"]


@dataclass(frozen=True)
class Names:
    """What constraints may speak of: the states, and the terms of a basis over states, rates and inputs.

    rates: those of the states where terms may hold them
    """

    basis: Basis
    states: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()
    terms: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", self.basis.names(self.variables))

    @property
    def variables(self) -> tuple[str, ...]:
        return self.states + self.rates + self.inputs

    def state(self, name: str) -> int:
        if name not in self.states:
            raise ConstraintError(
                f'a constraint names the state "{name}", which the data do not have. '
                + did_you_mean(str(name), self.states)
            )
        return self.states.index(name)

    def term(self, name: str) -> int:
        if name not in self.terms:
            raise ConstraintError(
                f'a constraint names the term "{name}", which {self.basis!r} does not have. '
                + did_you_mean(str(name), self.terms)
            )
        return self.terms.index(name)

    def flat(self, state: str, term: str) -> int:
        """Where the coefficient of the term in the equation of the state stands, flattened."""
        return self.term(term) * len(self.states) + self.state(state)
