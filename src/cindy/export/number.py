"""Numbers with their standard error, as in 28.00(2)."""

from __future__ import annotations

import math
from decimal import Context, Decimal

__all__ = ["format_value"]

MOST_DIGITS = 12
"""Beyond this many digits an error is too small to be worth printing."""
_WIDE = Context(prec=800)
"""Enough digits for the largest float over the smallest."""


def format_value(value: float, error: float | None = None) -> str:
    """The value to the last digit that its error leaves certain, the error in that digit in parentheses.

    At least one digit of the value is shown, small and large values in scientific form; an error that dwarfs
    the value stands beside it; without an error (none, zero or nan) there are six significant digits.

    >>> format_value(28.0, 0.02), format_value(-2e-4, 3e-6), format_value(1234.0, 56.0), format_value(1 / 3)
    ('28.00(2)', '-2.00(3)e-4', '1.23(6)e3', '0.333333')
    """
    if error is None or not math.isfinite(error) or error <= 0 or not math.isfinite(value):
        return _plain(value, 6)
    last = _exponent(error)
    if value and last > _exponent(value) + 1:
        return f"({_plain(value, 2)} ± {_plain(error, 1)})"
    if value:
        last = min(last, _exponent(value))
    # decimals, for rounding may carry into a new leading digit
    rounded = Decimal(value).quantize(Decimal(1).scaleb(last), context=_WIDE)
    first = rounded.adjusted() if value else last
    if first - last >= MOST_DIGITS:
        return _plain(value, MOST_DIGITS)
    uncertain = f"({round(error / 10.0**last)})"
    if _is_scientific(first) or last > 0:
        return f"{rounded.scaleb(-first, context=_WIDE):f}{uncertain}e{first}"
    return f"{rounded:f}{uncertain}"


def _plain(value: float, digits: int) -> str:
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    if not _is_scientific(int(power)):
        return f"{value:.{digits}g}"
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"


def _exponent(value: float) -> int:
    """The power of ten of the leading digit, once the value is rounded to that digit."""
    return int(f"{value:.0e}".partition("e")[2])


def _is_scientific(exponent: int) -> bool:
    return exponent < -3 or exponent > 4
