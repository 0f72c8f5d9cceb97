"""From data to one model: what is estimated beside the law, inference, and what the user is told."""

from cindy.identification.identification import identify
from cindy.identification.measured import solve
from cindy.identification.shortcuts import (
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
