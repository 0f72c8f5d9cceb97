"""The bridge to pysindy: our solver as its optimizer, its models and libraries as ours."""

from cindy.pysindy.optimizer import ConditionalGradient

__all__ = ["ConditionalGradient"]
