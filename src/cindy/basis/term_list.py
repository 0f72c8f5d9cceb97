"""Terms one by one, for where a search puts its own dictionary together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cindy.basis.base import Basis, Functions
from cindy.basis.term import Term
from cindy.errors import DataError

__all__ = ["Listed"]


@dataclass(frozen=True)
class Listed(Basis):
    """Exactly these terms, made for exactly the variables they name; not to be saved."""

    given: tuple[Term, ...]

    def terms(self, variables: tuple[str, ...]) -> tuple[Term, ...]:
        return self.given

    def to_dict(self) -> dict[str, Any]:
        raise DataError("basis: terms listed one by one cannot be saved. Save the basis they came from.")

    @classmethod
    def _read(cls, data: Mapping[str, Any], functions: Functions, depth: int) -> Basis:
        raise DataError("basis: terms listed one by one cannot be read from a file.")

    def __repr__(self) -> str:
        return f"<{len(self.given)} terms>"
