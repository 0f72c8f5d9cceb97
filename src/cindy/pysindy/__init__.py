"""The bridge to pysindy: our solver as its optimizer, its models and libraries as ours."""

from cindy.pysindy.libraries import Library, constraint_matrices
from cindy.pysindy.optimizer import ConditionalGradient, from_pysindy

__all__ = ["ConditionalGradient", "Library", "constraint_matrices", "from_pysindy"]
