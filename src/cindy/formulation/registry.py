"""Every formulation by the name it is saved under."""

from typing import Any

from cindy.errors import DataError
from cindy.formulation.base import Formulation
from cindy.formulation.differential import Differential
from cindy.formulation.discrete import Discrete
from cindy.formulation.integral import Integral
from cindy.formulation.weak import Weak

__all__ = ["formulation_from_dict"]


def formulation_from_dict(settings: dict[str, Any]) -> Formulation:
    """The formulation that `to_dict` described."""
    kinds: dict[str, type[Formulation]] = {c.kind: c for c in (Differential, Integral, Discrete, Weak)}
    values = dict(settings)
    kind = values.pop("kind", None)
    if kind not in kinds:
        raise DataError(f"formulation_from_dict: unknown kind {kind!r}. Known: {', '.join(kinds)}.")
    try:
        return kinds[kind](**values)
    except TypeError as error:
        raise DataError(f"formulation_from_dict: these are not settings of {kind!r}: {error}.") from error
