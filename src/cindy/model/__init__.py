"""Equations and what can be done with them: simulate, score, diagnose, save."""

from cindy.model.comparison import Comparison, compare
from cindy.model.diagnostics import Diagnostics, diagnose
from cindy.model.estimate import Estimate
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
    "Limits",
    "Model",
    "Path",
    "Run",
    "Solution",
    "Spectral",
    "Summand",
    "compare",
    "determination",
    "diagnose",
    "facts",
    "load",
    "matched",
    "residuals",
    "run_names",
    "solutions",
    "spectral_solution",
    "with_inputs",
]
