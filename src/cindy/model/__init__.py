"""Equations and what can be done with them: simulate, score, diagnose, save."""

from cindy.model.comparison import Comparison, compare
from cindy.model.diagnostics import Diagnostics, diagnose
from cindy.model.domain import between, inside_domain, outside_domain
from cindy.model.estimate import Estimate
from cindy.model.field_comparison import explained_rows, matched_fields
from cindy.model.field_diagnostics import FieldComparison, compare_fields, diagnose_fields
from cindy.model.integration import Limits
from cindy.model.model import Model, Path
from cindy.model.model_file import load
from cindy.model.residual import residuals
from cindy.model.run import Run
from cindy.model.solution import Solution, solutions
from cindy.model.spectral import Spectral, Summand, spectral_solution
from cindy.model.story import determination, facts
from cindy.model.unmeasured import TIME, matched, run_names, with_inputs

__all__ = [
    "TIME",
    "Comparison",
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
    "determination",
    "diagnose",
    "diagnose_fields",
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
    "with_inputs",
]
