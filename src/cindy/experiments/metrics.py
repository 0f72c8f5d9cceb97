"""The paper's five metrics, against the true coefficients."""

from dataclasses import dataclass

import numpy as np

from cindy._types import Floats
from cindy.experiments.setting import Setting

__all__ = ["Scores", "measure"]


@dataclass(frozen=True)
class Scores:
    """How far a model is from the truth.

    recovery: E_R = ‖Ω − Ξ‖
    flow: E_D = ‖Ψ(Y_test)(Ω − Ξ)‖
    path: E_T = ‖Γ(Y_test)(Ω − Ξ)‖
    extra, missing: S_E and S_M, the entries of Ω that should be zero, or should not
    """

    recovery: float
    flow: float
    path: float
    extra: int
    missing: int


def measure(coef: Floats, setting: Setting) -> Scores:
    """The metrics of physical coefficients, (terms, states)."""
    truth = setting.system.coef
    error = coef - truth
    return Scores(
        recovery=float(np.linalg.norm(error)),
        flow=float(np.linalg.norm(setting.flow @ error)),
        path=float(np.linalg.norm(setting.path @ error)),
        extra=int(np.count_nonzero((coef != 0) & (truth == 0))),
        missing=int(np.count_nonzero((coef == 0) & (truth != 0))),
    )
