"""The bridge to pysindy: our solver as its optimizer, its models and libraries as ours."""

from cindy.pysindy.libraries import Library
from cindy.pysindy.matrices import constraint_matrices
from cindy.pysindy.models import from_pysindy
from cindy.pysindy.optimizer import ConditionalGradient

__all__ = ["ConditionalGradient", "Library", "constraint_matrices", "from_pysindy"]
