"""Equations and what can be done with them: simulate, score, diagnose, save."""

from cindy.model.diagnostics import Diagnostics, diagnose
from cindy.model.integration import Limits
from cindy.model.model import Model, Path
from cindy.model.model_file import load
from cindy.model.residual import residuals
from cindy.model.run import Run
from cindy.model.solution import Solution, solutions

__all__ = [
    "Diagnostics",
    "Limits",
    "Model",
    "Path",
    "Run",
    "Solution",
    "diagnose",
    "load",
    "residuals",
    "solutions",
]
