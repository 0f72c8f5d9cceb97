"""A script that stands in a page in a third of its size, and is unpacked by the browser."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from functools import cache

from plotly.offline import get_plotlyjs

__all__ = ["DIGITS", "Packed", "plotly"]

_PLAIN = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_MEANT = {"&": ".", "<": ",", ">": ":", "`": "/", "$": "["}
DIGITS = "".join(_MEANT.get(digit, digit) for digit in _PLAIN)
"""Of numbers to the base 85, of which five are four bytes: base64 would pass 2 MB. None of them means
anything to HTML or to a template of JavaScript."""


@dataclass(frozen=True)
class Packed:
    """text: gzip in digits to the base 85; length: bytes of the gzip, before the zeros that fill it up."""

    text: str
    length: int


@cache
def plotly() -> Packed:
    """The library that draws the figures."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31, 9)
    packed = packer.compress(get_plotlyjs().encode()) + packer.flush()
    digits = base64.b85encode(packed, pad=True).decode().translate(str.maketrans(_PLAIN, DIGITS))
    return Packed(digits, len(packed))
