"""Which terms stay: candidates, criteria and the rules that pick."""

from cindy.selection.candidates import Candidates as Candidates, Judged as Judged
from cindy.selection.choice import Choice as Choice, choose as choose, within_radius as within_radius
from cindy.selection.effort import EFFORT as EFFORT, Effort as Effort, trying as trying
from cindy.selection.orders import (
    Rival as Rival,
    combinations_of as combinations_of,
    eliminated as eliminated,
    equation_by_equation as equation_by_equation,
    gains_of as gains_of,
    recombined as recombined,
    regrown as regrown,
    rivals as rivals,
)
from cindy.selection.prices import (
    BIC as BIC,
    Selection as Selection,
    Significance as Significance,
    correlated_tests as correlated_tests,
)
from cindy.selection.rules import (
    Beyond as Beyond,
    CrossValidation as CrossValidation,
    Discrepancy as Discrepancy,
    Gap as Gap,
    Terms as Terms,
)
from cindy.selection.supports import SupportFit as SupportFit, Supports as Supports
