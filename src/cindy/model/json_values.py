"""Values of a model file: what JSON can hold, and clear errors for anything else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cindy.errors import DataError

__all__ = ["no_constant", "number", "plain", "to_float", "to_mapping", "to_names"]


def number(value: Any) -> float | str | None:
    """JSON has no NaN and no infinity: null and "inf" stand for them."""
    number = float(value)
    if math.isfinite(number):
        return number
    return None if math.isnan(number) else str(number)


def plain(value: Any) -> Any:
    """Settings as JSON: numbers and texts as they are, anything else by its repr."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, (float, np.floating)):
        return number(value)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, Sequence):
        return [plain(v) for v in value]
    return repr(value)


def to_float(value: Any, what: str) -> float:
    if value is None:
        return math.nan
    if value in ("inf", "-inf") or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return float(value)
    raise DataError(f"{what} must be a number, but is {str(value)[:40]!r}")


def to_names(value: Any, what: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise DataError(f'"{what}" must be a list of texts')
    return tuple(value)


def to_mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f'"{what}" must be an object, but is {str(value)[:40]!r}')
    return value


def no_constant(name: str) -> float:
    raise DataError(f"it holds {name}, which is not JSON")
