"""CINDy: sparse differential equations from measured time series."""

from typing import Any

from cindy.basis import Basis, Custom, Derivatives, Fourier, PerRun, Polynomial, Trigonometric
from cindy.data import Field, Lazy, Trajectory, read
from cindy.errors import (
    CindyError,
    ConstraintError,
    ConvergenceWarning,
    DataError,
    InfeasibleError,
    MissingExtraError,
    SolverError,
    WorkerError,
)
from cindy.formulation import Differential, Discrete, Formulation, Integral, Weak
from cindy.least_squares import LeastSquares
from cindy.model import Limits, Model, Path, Run, load
from cindy.pipeline import identify, solve
from cindy.problem import (
    Adaptive,
    Constraint,
    Problem,
    Uniform,
    Weights,
    bound,
    conserve,
    exchange,
    fix,
    linear,
    preserve_energy,
    tie,
)
from cindy.selection import BIC, CrossValidation, Discrepancy, Gap, Selection, Significance, Terms
from cindy.solver import Blended, Direct, FullyCorrective, Plain, Step
from cindy.summary import Summary, accumulate

__all__ = [
    "BIC",
    "Adaptive",
    "Basis",
    "Blended",
    "CindyError",
    "Constraint",
    "ConstraintError",
    "ConvergenceWarning",
    "CrossValidation",
    "Custom",
    "DataError",
    "Derivatives",
    "Differential",
    "Direct",
    "Discrepancy",
    "Discrete",
    "Field",
    "Formulation",
    "Fourier",
    "FullyCorrective",
    "Gap",
    "InfeasibleError",
    "Integral",
    "Lazy",
    "LeastSquares",
    "Limits",
    "MissingExtraError",
    "Model",
    "Path",
    "PerRun",
    "Plain",
    "Polynomial",
    "Problem",
    "Run",
    "Selection",
    "Significance",
    "SolverError",
    "Step",
    "Summary",
    "Terms",
    "Trajectory",
    "Trigonometric",
    "Uniform",
    "Weak",
    "Weights",
    "WorkerError",
    "accumulate",
    "bound",
    "conserve",
    "exchange",
    "fix",
    "identify",
    "linear",
    "load",
    "preserve_energy",
    "read",
    "solve",
    "tie",
]

__version__ = "0.2.0"

# name: (module, attribute or None for the module itself, extra that it needs)
_ON_FIRST_USE = {
    "CINDy": ("cindy.sklearn.estimator", "CINDy", "sklearn"),
    "ConditionalGradientRegressor": ("cindy.sklearn.regressor", "ConditionalGradientRegressor", "sklearn"),
    "pysindy": ("cindy.pysindy", None, "pysindy"),
    "report": ("cindy.report", None, "report"),
    "plot": ("cindy.plot", None, "plot"),
    "systems": ("cindy.systems", None, "all"),
    "experiments": ("cindy.experiments", None, "bench"),
    "export": ("cindy.export", None, "all"),
}


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module 'cindy' has no attribute {name!r}")
    from cindy._extras import require

    module, attribute, extra = _ON_FIRST_USE[name]
    loaded = require(module, extra, f"cindy.{name}")
    value = loaded if attribute is None else getattr(loaded, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_FIRST_USE})
