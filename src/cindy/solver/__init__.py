"""Conditional gradients for least squares over a weighted l1 ball cut by linear rows."""

from cindy.solver.basis_pursuit import Pursuit, basis_pursuit
from cindy.solver.correction import Blended, Correction, Direct, FullyCorrective, Plain
from cindy.solver.linear_program import contradictory, smallest_radius
from cindy.solver.loop import conditional_gradient, gap_at, oracle_for
from cindy.solver.region import Atom, Oracle, Region
from cindy.solver.result import Result, Run, Status, Step
from cindy.solver.sampled_rows import DeviceRows, SampledRows

__all__ = [
    "Atom",
    "Blended",
    "Correction",
    "DeviceRows",
    "Direct",
    "FullyCorrective",
    "Oracle",
    "Plain",
    "Pursuit",
    "Region",
    "Result",
    "Run",
    "SampledRows",
    "Status",
    "Step",
    "basis_pursuit",
    "conditional_gradient",
    "contradictory",
    "gap_at",
    "oracle_for",
    "smallest_radius",
]
