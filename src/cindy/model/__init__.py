"""Equations and what can be done with them: simulate, score, diagnose, save."""

from cindy.model.comparison import (
    Comparison,
    compare,
    compare_few,
    excerpt_of,
    explained_rows,
    matched_fields,
    residuals,
)
from cindy.model.denoised import Denoised, between, completed, inside_domain, matched
from cindy.model.diagnostics import Diagnostics, FieldComparison, compare_fields, diagnose, diagnose_fields
from cindy.model.ensemble import band, densities
from cindy.model.equations import Estimate
from cindy.model.matching import Readouts, run_names, unmeasured, with_inputs
from cindy.model.model import Model, Path
from cindy.model.model_file import load
from cindy.model.simulation import Limits
from cindy.model.solution import Solution, fine_curve, solutions
from cindy.model.spectral import Spectral, Summand, spectral_solution
from cindy.model.story import (
    definitions,
    determination,
    difference,
    equation_labels,
    facts,
    length_of_time,
    named_term,
)

__all__ = [
    "Comparison",
    "Denoised",
    "Diagnostics",
    "Estimate",
    "FieldComparison",
    "Limits",
    "Model",
    "Path",
    "Readouts",
    "Solution",
    "Spectral",
    "Summand",
    "band",
    "between",
    "compare",
    "compare_few",
    "compare_fields",
    "completed",
    "definitions",
    "densities",
    "determination",
    "diagnose",
    "diagnose_fields",
    "difference",
    "equation_labels",
    "excerpt_of",
    "explained_rows",
    "facts",
    "fine_curve",
    "inside_domain",
    "length_of_time",
    "load",
    "matched",
    "matched_fields",
    "named_term",
    "residuals",
    "run_names",
    "solutions",
    "spectral_solution",
    "unmeasured",
    "with_inputs",
]
