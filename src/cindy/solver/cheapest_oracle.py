"""Which oracle serves a region: closed form where one exists, a linear program otherwise."""

from cindy.solver.closed_form import Ball, Rays
from cindy.solver.linear_program import LinearProgram
from cindy.solver.oracle import Oracle
from cindy.solver.presolve import presolve
from cindy.solver.region import Region

__all__ = ["oracle_for"]


def oracle_for(region: Region) -> Oracle:
    """The cheapest oracle that is exact on the region.

    Without rows: closed form. Rows that fall apart into small homogeneous
    blocks (ties, conservation laws, signs): closed form over the corners of the
    blocks, after presolve. Anything else: a linear program, kept between calls.
    """
    if region.rows == 0:
        return Ball(region)
    hull = presolve(region)
    return LinearProgram(region) if hull is None else Rays(region, hull)
