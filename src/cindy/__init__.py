"""CINDy: sparse differential equations from measured time series."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cindy.basis import Basis, Custom, Derivatives, Fourier, PerRun, Polynomial, Trigonometric
    from cindy.data import Field, Lazy, Trajectory, read
    from cindy.errors import (
        CindyError,
        ConstraintError,
        ConvergenceWarning,
        DataError,
        InfeasibleError,
        MissingExtraError,
        NoModelError,
        SolverError,
        WorkerError,
    )
    from cindy.findings import Finding
    from cindy.formulation import Differential, Discrete, Formulation, Integral, Weak
    from cindy.identification import identify, solve
    from cindy.least_squares import LeastSquares
    from cindy.model import Limits, Model, Path, load
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
    from cindy.solver import Blended, Direct, FullyCorrective, Plain, Run, Step
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
    "Finding",
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
    "NoModelError",
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

__version__ = "0.3.0"

# Numpy, scipy and HiGHS take half a second to load, so that nothing is loaded before it is used. This table
# says what is loaded; type checkers and readers see the imports above, and a test compares the two.
_FROM = {
    "cindy.basis": "Basis Custom Derivatives Fourier PerRun Polynomial Trigonometric",
    "cindy.data": "Field Lazy Trajectory read",
    "cindy.errors": (
        "CindyError ConstraintError ConvergenceWarning DataError InfeasibleError MissingExtraError "
        "NoModelError SolverError WorkerError"
    ),
    "cindy.findings": "Finding",
    "cindy.formulation": "Differential Discrete Formulation Integral Weak",
    "cindy.least_squares": "LeastSquares",
    "cindy.model": "Limits Model Path load",
    "cindy.identification": "identify solve",
    "cindy.problem": (
        "Adaptive Constraint Problem Uniform Weights bound conserve exchange fix linear preserve_energy tie"
    ),
    "cindy.selection": "BIC CrossValidation Discrepancy Gap Selection Significance Terms",
    "cindy.solver": "Blended Direct FullyCorrective Plain Run Step",
    "cindy.summary": "Summary accumulate",
}
_ROOMS = (
    "calculus",
    "least_squares",
    "regression",
    "states",
    *(module.partition(".")[2] for module in _FROM),
)
_HOME = {name: module for module, names in _FROM.items() for name in names.split()}

# name: (module, attribute or None for the module itself, extra that it needs)
_EXTRA = {
    "CINDy": ("cindy.sklearn", "CINDy", "sklearn"),
    "ConditionalGradientRegressor": ("cindy.sklearn", "ConditionalGradientRegressor", "sklearn"),
    "pysindy": ("cindy.pysindy", None, "pysindy"),
    "report": ("cindy.report", None, "report"),
    "plot": ("cindy.plot", None, "plot"),
    "systems": ("cindy.systems", None, "all"),
    "export": ("cindy.export", None, "all"),
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in _ROOMS:
        value = import_module(f"cindy.{name}")
    elif name in _EXTRA:
        from cindy.errors import require

        module, attribute, extra = _EXTRA[name]
        loaded = require(module, extra, f"cindy.{name}")
        value = loaded if attribute is None else getattr(loaded, attribute)
    else:
        raise AttributeError(f"module 'cindy' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_ROOMS, *_EXTRA})
