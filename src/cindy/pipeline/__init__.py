"""From data to one model: identify and solve."""

from cindy.pipeline.identification import identify
from cindy.pipeline.measured import solve
from cindy.pipeline.shortcuts import (
    basis_from_text,
    choose,
    correction_from_text,
    formulation_from_text,
    name_list,
    number,
    selection_from_text,
    weights_from_text,
    whole,
)

__all__ = [
    "basis_from_text",
    "choose",
    "correction_from_text",
    "formulation_from_text",
    "identify",
    "name_list",
    "number",
    "selection_from_text",
    "solve",
    "weights_from_text",
    "whole",
]
