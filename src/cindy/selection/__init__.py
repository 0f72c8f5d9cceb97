"""Which terms stay: candidates, criteria and the rules that pick."""

from cindy.selection.candidates import Candidates, Judged
from cindy.selection.choice import Choice, choose, within_radius
from cindy.selection.effort import EFFORT, Effort, trying
from cindy.selection.orders import Rival, eliminated, equation_by_equation, recombined, regrown, rivals
from cindy.selection.prices import BIC, Selection, Significance, correlated_tests
from cindy.selection.rules import Beyond, CrossValidation, Discrepancy, Gap, Terms
from cindy.selection.supports import SupportFit, Supports

__all__ = [
    "BIC",
    "EFFORT",
    "Beyond",
    "Candidates",
    "Choice",
    "CrossValidation",
    "Discrepancy",
    "Effort",
    "Gap",
    "Judged",
    "Rival",
    "Selection",
    "Significance",
    "SupportFit",
    "Supports",
    "Terms",
    "choose",
    "correlated_tests",
    "eliminated",
    "equation_by_equation",
    "recombined",
    "regrown",
    "rivals",
    "trying",
    "within_radius",
]
