"""The search for a law: the one loop, its starts, its moves, and a second look at the noise."""

from cindy.search.beside_the_law import findings_beside, rows_by_run, runs_apart
from cindy.search.large import BLOCKS, WhiteSums, confirmed
from cindy.search.loop import Loop, Met, Search, white_candidates
from cindy.search.parametric import (
    picked_with_parameters,
    plain_fitted,
    plain_motion,
    search_with_parameters,
    values_of,
)
from cindy.search.request import Options, Pieces, Request, Settings, Stages, solve_with_samples
from cindy.search.scan import Values, fewest_values
from cindy.search.second_look import Look, each_by_its_own, forced, look_again, walk_of, with_kicks
from cindy.search.starts import NEAR, Found, first_starts, picked, search, stepped_down

__all__ = [
    "BLOCKS",
    "NEAR",
    "Found",
    "Look",
    "Loop",
    "Met",
    "Options",
    "Pieces",
    "Request",
    "Search",
    "Settings",
    "Stages",
    "Values",
    "WhiteSums",
    "confirmed",
    "each_by_its_own",
    "fewest_values",
    "findings_beside",
    "first_starts",
    "forced",
    "look_again",
    "picked",
    "picked_with_parameters",
    "plain_fitted",
    "plain_motion",
    "rows_by_run",
    "runs_apart",
    "search",
    "search_with_parameters",
    "solve_with_samples",
    "stepped_down",
    "values_of",
    "walk_of",
    "white_candidates",
    "with_kicks",
]
