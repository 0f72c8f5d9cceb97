"""The report: one self-contained HTML page about a model and data."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from functools import cache
from os import PathLike
from typing import Any

import jinja2
from jinja2.utils import htmlsafe_json_dumps
from plotly.offline import get_plotlyjs

from cindy._check import all_units, instance
from cindy._files import write_text
from cindy.model import Model, matched, matched_fields
from cindy.report.field_page import field_contents
from cindy.report.page import contents

__all__ = ["DIGITS", "plotly", "render", "write"]

_PLAIN = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_MEANT = {"&": ".", "<": ",", ">": ":", "`": "/", "$": "["}
DIGITS = "".join(_MEANT.get(digit, digit) for digit in _PLAIN)
"""Digits to the base 85, of which five encode four bytes; with base64 the page would be larger than 2 MB.
None of them has a meaning in HTML or in template strings of JavaScript."""


def write(
    model: Model,
    trajectories: Any,
    path: str | PathLike[str],
    *,
    title: str | None = None,
    units: Mapping[str, str] | None = None,
) -> None:
    """Write the page about a model on some data as one HTML file that needs no network.

    trajectories: as for `identify`; usually the data that the model was identified from
    title: by default the names of the states
    units: by name, of states and of "t", for the axes; by default the time has the unit that the data say

    >>> import cindy
    >>> data = cindy.systems.lotka_volterra().simulate(trajectories=2, points=200, noise=0.02)
    >>> model = cindy.identify(data, "poly:2")
    >>> cindy.report.write(model, data, "report.html", title="Hares and lynxes", units={"t": "years"})
    """
    write_text(path, render(model, trajectories, title=title, units=units), "the report")


def render(
    model: Model, trajectories: Any, *, title: str | None = None, units: Mapping[str, str] | None = None
) -> str:
    """The page as text; see `write`.

    >>> import cindy
    >>> data = cindy.systems.lotka_volterra().simulate(trajectories=2, points=200, noise=0.02)
    >>> page = cindy.report.render(cindy.identify(data, "poly:2"), data)
    >>> page.startswith("<!doctype html>")
    True
    """
    instance(model, Model, "report: `model`", "a Model, as `identify` gives it")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("cindy.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("page.html.j2")
    units = all_units(units, model.settings.get("time_unit"))
    if model.formulation.for_fields:
        fields = matched_fields(model, trajectories, "report")
        parts = field_contents(model, fields, title=title, units=units)
    else:
        parts = contents(model, matched(model, trajectories, "report"), title=title, units=units)
    # Safe inside a script element, whatever names it contains.
    numbers = htmlsafe_json_dumps(parts["drawn"], ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    library, length = plotly()
    size = f"{(len(numbers) + len(library)) / 1e6:.1f} MB"
    packed = {"plotly": library, "length": length, "digits": DIGITS, "size": size}
    text: str = page.render(**parts, numbers=numbers, **packed)
    return text


@cache
def plotly() -> tuple[str, int]:
    """The library that draws the figures as gzip in digits to the base 85, and its bytes without padding."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31, 9)
    packed = packer.compress(get_plotlyjs().encode()) + packer.flush()
    digits = base64.b85encode(packed, pad=True).decode().translate(str.maketrans(_PLAIN, DIGITS))
    return digits, len(packed)
