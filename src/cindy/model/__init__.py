"""Equations and what can be done with them: simulate, score, diagnose, save."""

from cindy.model.comparison import (
    Comparison as Comparison,
    compare as compare,
    compare_few as compare_few,
    excerpt_of as excerpt_of,
    explained_rows as explained_rows,
    matched_fields as matched_fields,
    residuals as residuals,
)
from cindy.model.denoised import (
    Denoised as Denoised,
    between as between,
    completed as completed,
    inside_domain as inside_domain,
    matched as matched,
)
from cindy.model.diagnostics import (
    Diagnostics as Diagnostics,
    FieldComparison as FieldComparison,
    compare_fields as compare_fields,
    diagnose as diagnose,
    diagnose_fields as diagnose_fields,
)
from cindy.model.ensemble import band as band, densities as densities, paths_apart as paths_apart
from cindy.model.equations import Estimate as Estimate
from cindy.model.matching import (
    Readouts as Readouts,
    run_names as run_names,
    unmeasured as unmeasured,
    with_inputs as with_inputs,
)
from cindy.model.model import Model as Model, Path as Path
from cindy.model.model_file import load as load
from cindy.model.simulation import Limits as Limits
from cindy.model.solution import Solution as Solution, fine_curve as fine_curve, solutions as solutions
from cindy.model.story import (
    definitions as definitions,
    determination as determination,
    difference as difference,
    equation_labels as equation_labels,
    facts as facts,
    length_of_time as length_of_time,
    named_term as named_term,
)
