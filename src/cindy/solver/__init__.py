"""Conditional gradients for least squares over a weighted l1 ball cut by linear rows."""

from cindy.solver.basis_pursuit import Pursuit as Pursuit, basis_pursuit as basis_pursuit
from cindy.solver.correction import (
    Blended as Blended,
    Correction as Correction,
    Direct as Direct,
    FullyCorrective as FullyCorrective,
    Plain as Plain,
)
from cindy.solver.linear_program import contradictory as contradictory, smallest_radius as smallest_radius
from cindy.solver.loop import (
    conditional_gradient as conditional_gradient,
    gap_at as gap_at,
    oracle_for as oracle_for,
)
from cindy.solver.region import Atom as Atom, Oracle as Oracle, Region as Region
from cindy.solver.result import Result as Result, Run as Run, Status as Status, Step as Step
from cindy.solver.sampled_rows import DeviceRows as DeviceRows, SampledRows as SampledRows
