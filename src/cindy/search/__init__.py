"""The search for a law: the one loop, its starts, its moves, and a second look at the noise."""

from cindy.search.beside_the_law import (
    findings_beside as findings_beside,
    least_squares_of as least_squares_of,
    rows_by_run as rows_by_run,
    runs_apart as runs_apart,
    triangle_of as triangle_of,
)
from cindy.search.large import BLOCKS as BLOCKS, WhiteSums as WhiteSums, confirmed as confirmed
from cindy.search.loop import Loop as Loop, Met as Met, Search as Search, white_candidates as white_candidates
from cindy.search.parametric import (
    picked_with_parameters as picked_with_parameters,
    plain_fitted as plain_fitted,
    plain_motion as plain_motion,
    search_with_parameters as search_with_parameters,
    values_of as values_of,
)
from cindy.search.request import (
    Options as Options,
    Pieces as Pieces,
    Request as Request,
    Settings as Settings,
    Stages as Stages,
    solve_with_samples as solve_with_samples,
)
from cindy.search.scan import Values as Values, fewest_values as fewest_values
from cindy.search.second_look import (
    Look as Look,
    each_by_its_own as each_by_its_own,
    forced as forced,
    look_again as look_again,
    walk_of as walk_of,
    with_kicks as with_kicks,
)
from cindy.search.starts import (
    NEAR as NEAR,
    Found as Found,
    first_starts as first_starts,
    picked as picked,
    search as search,
    stepped_down as stepped_down,
)
