"""From data to one model: identify and solve."""

from cindy.pipeline.identification import identify, solve

__all__ = ["identify", "solve"]
