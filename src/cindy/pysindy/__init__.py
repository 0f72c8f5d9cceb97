"""The bridge to pysindy: CINDy's solver as an optimizer, and pysindy's models and libraries as CINDy's."""

from cindy.pysindy.libraries import Library, constraint_matrices
from cindy.pysindy.optimizer import ConditionalGradient, from_pysindy

__all__ = ["ConditionalGradient", "Library", "constraint_matrices", "from_pysindy"]
