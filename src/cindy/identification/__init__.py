"""From data to one model: what is estimated beside the law, inference, and what the user is told."""

from cindy.identification.identification import identify as identify
from cindy.identification.measured import solve as solve
from cindy.identification.shortcuts import (
    basis_from_text as basis_from_text,
    choose as choose,
    correction_from_text as correction_from_text,
    formulation_from_text as formulation_from_text,
    name_list as name_list,
    number as number,
    selection_from_text as selection_from_text,
    weights_from_text as weights_from_text,
    whole as whole,
)
