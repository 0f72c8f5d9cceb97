"""The errors of this library, and `require` for packages that may be missing.

A mistake of the user raises a `CindyError`. It is also a `ValueError`, so that code which does not know this
library can catch it.
"""

from importlib import import_module
from types import ModuleType

__all__ = [
    "CindyError",
    "ConstraintError",
    "ConvergenceWarning",
    "DataError",
    "InfeasibleError",
    "MissingExtraError",
    "NoModelError",
    "SolverError",
    "WorkerError",
    "require",
]


class CindyError(ValueError):
    """Every error that this library raises on purpose.

    >>> import cindy
    >>> try:
    ...     cindy.Trajectory([0, 1, 1], [1, 2, 3])
    ... except cindy.CindyError as error:
    ...     print(error)
    Trajectory: `t` must increase, but t[1] = 1 is followed by t[2] = 1. Average or drop ...
    """


class DataError(CindyError):
    """Numbers, names, shapes or files that cannot be used as they are.

    >>> import cindy
    >>> try:
    ...     cindy.Trajectory([0, 1, 2], [1, 2])
    ... except cindy.DataError as error:
    ...     print(error)
    Trajectory: `x` must have one row per time, but there are 3 times and 2 rows.
    """


class NoModelError(DataError):
    """No candidate model explains the data better than chance.

    >>> import numpy as np
    >>> import cindy
    >>> noise = np.random.default_rng(0).standard_normal(200)
    >>> try:
    ...     cindy.identify((np.arange(200.0), noise), "poly:2", passes=1)
    ... except cindy.NoModelError as error:
    ...     print("no equations:", type(error).__name__)
    no equations: NoModelError
    """


class ConstraintError(CindyError):
    """A constraint names a term or state that does not exist, or it contradicts another constraint.

    >>> import cindy
    >>> try:
    ...     cindy.identify(([0, 1, 2, 3], [1, 2, 4, 8]), "poly:1", constraints=[cindy.fix("x1", "y", 1)])
    ... except cindy.ConstraintError as error:
    ...     print(error)
    a constraint names the term "y", which Polynomial(degree=1) does not have. Known: "1", "x1".
    """


class InfeasibleError(ConstraintError):
    """No coefficients satisfy the constraints within the radius.

    >>> import numpy as np
    >>> import cindy
    >>> t = np.linspace(0, 6, 200)
    >>> swing = cindy.Trajectory(t, np.stack([np.cos(t), -np.sin(t)], axis=1), ("x", "v"))
    >>> laws = [cindy.fix("x", "v", 1.0), cindy.bound("x", "v", upper=0.5)]
    >>> try:
    ...     cindy.identify(swing, "poly:1", constraints=laws)
    ... except cindy.InfeasibleError as error:
    ...     print(error)
    these two constraints exclude each other: "[x: v] = 1", "[x: v] ≤ 0.5". Drop or change one of them.
    """


class SolverError(CindyError):
    """A linear or quadratic program ended without an optimum.

    >>> import cindy
    >>> issubclass(cindy.SolverError, cindy.CindyError)
    True
    """


class WorkerError(CindyError):
    """Other processes or machines ended before their work was done.

    >>> import cindy
    >>> issubclass(cindy.WorkerError, cindy.CindyError)
    True
    """


class MissingExtraError(CindyError, ImportError):
    """The optional dependencies of a part of the library are not installed.

    >>> import cindy
    >>> issubclass(cindy.MissingExtraError, ImportError)
    True
    """


class ConvergenceWarning(UserWarning):
    """A run stopped before its gap fell below the tolerance.

    >>> import cindy
    >>> issubclass(cindy.ConvergenceWarning, UserWarning)
    True
    """


def require(module: str, extra: str, what: str) -> ModuleType:
    """The module, or an error that names the extra of this library which installs it.

    what: the feature that needs it, such as "Model.to_dataframe"
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "cindy":
            raise
        raise MissingExtraError(
            f'{what} needs the package "{error.name}", which is not installed. '
            f'Run: pip install "cindy[{extra}]"'
        ) from error
