"""Equations and what can be done with them: simulate, score, diagnose, save."""

from cindy.model.comparison import Comparison, compare, residuals
from cindy.model.denoised import Denoised
from cindy.model.diagnostics import Diagnostics, diagnose
from cindy.model.field_comparison import explained_rows, matched_fields
from cindy.model.field_diagnostics import FieldComparison, compare_fields, diagnose_fields
from cindy.model.matching import (
    between,
    inside_domain,
    matched,
    outside_domain,
    run_names,
    unmeasured,
    with_inputs,
)
from cindy.model.model import Model, Path
from cindy.model.model_file import load
from cindy.model.records import Estimate, Run
from cindy.model.simulation import Limits
from cindy.model.solution import Solution, drawn, solutions
from cindy.model.spectral import Spectral, Summand, spectral_solution
from cindy.model.story import definitions, determination, difference, facts

__all__ = [
    "Comparison",
    "Denoised",
    "Diagnostics",
    "Estimate",
    "FieldComparison",
    "Limits",
    "Model",
    "Path",
    "Run",
    "Solution",
    "Spectral",
    "Summand",
    "between",
    "compare",
    "compare_fields",
    "definitions",
    "determination",
    "diagnose",
    "diagnose_fields",
    "difference",
    "drawn",
    "explained_rows",
    "facts",
    "inside_domain",
    "load",
    "matched",
    "matched_fields",
    "outside_domain",
    "residuals",
    "run_names",
    "solutions",
    "spectral_solution",
    "unmeasured",
    "with_inputs",
]
