"""Reference solutions of the bundled systems beside LSODA at the tightest tolerance that it keeps."""

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import odeint

from benchmarks.table import best_of, write
from cindy import systems

__all__ = ["run"]

Floats = NDArray[np.float64]
TOLERANCE = 1e-12
"""Relative and absolute, of LSODA; below it stops for the precision of its numbers."""
SYSTEMS = (
    systems.lorenz,
    systems.rossler,
    systems.lotka_volterra,
    systems.van_der_pol,
    systems.duffing,
    systems.sir,
    systems.michaelis_menten,
    lambda: systems.kuramoto(5),
    lambda: systems.fput(5),
)


def run() -> None:
    """One row a system: seconds of both, and how far apart their solutions are."""
    table = []
    for make in SYSTEMS:
        system = make()
        ours, exact = best_of(system.simulate)
        theirs, solved = best_of(
            lambda system=system, exact=exact: [_lsoda(system, one.x[0], one.t) for one in exact]
        )
        off = max(np.abs(x - one.x).max() / np.abs(one.x).max() for x, one in zip(solved, exact, strict=True))
        table.append(
            {
                "system": system.name,
                "trajectories": len(exact),
                "samples of each": len(exact[0]),
                "simulate, s": ours,
                "LSODA, s": theirs,
                "LSODA is off by": float(off),
            }
        )
    write(
        "simulate",
        "Reference solutions and LSODA",
        table,
        "`System.simulate` iterates on polynomials through many samples, "
        "in extended precision (error of a step 1e-16) for all "
        f"trajectories at once; LSODA (odeint, rtol = atol = {TOLERANCE:g}) goes "
        "through one after the other with the same right-hand side. Off by: the largest difference over "
        "the largest state, which is LSODA's error: chaos magnifies it.",
    )


def _lsoda(system: systems.System, x0: Floats, t: Floats) -> Floats:
    d = len(system.states)
    if system.order == 1:
        return np.asarray(
            odeint(
                lambda _, x: system.rhs(x), x0, t, tfirst=True, rtol=TOLERANCE, atol=TOLERANCE, mxstep=10**6
            )
        )

    def motion(_: float, z: Floats) -> Floats:
        return np.concatenate([z[d:], system.rhs(z[:d])])

    start = np.concatenate([x0, np.zeros(d)])
    return np.asarray(odeint(motion, start, t, tfirst=True, rtol=TOLERANCE, atol=TOLERANCE, mxstep=10**6))[
        :, :d
    ]
