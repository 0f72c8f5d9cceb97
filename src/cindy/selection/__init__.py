"""Which terms stay: candidates, criteria and the rules that pick."""

from cindy.selection.beyond import Beyond
from cindy.selection.candidates import Candidates
from cindy.selection.choice import Choice, choose, within_radius
from cindy.selection.orders import Rival, eliminated, regrown, rivals
from cindy.selection.rules import BIC, CrossValidation, Discrepancy, Gap, Selection, Significance, Terms
from cindy.selection.supports import SupportFit, Supports

__all__ = [
    "BIC",
    "Beyond",
    "Candidates",
    "Choice",
    "CrossValidation",
    "Discrepancy",
    "Gap",
    "Rival",
    "Selection",
    "Significance",
    "SupportFit",
    "Supports",
    "Terms",
    "choose",
    "eliminated",
    "regrown",
    "rivals",
    "within_radius",
]
