"""Summaries: the rows of any amount of data, reduced to triangles that can be added."""

from cindy.summary.accumulation import accumulate, summary_of_fields
from cindy.summary.executor import map_in_order, workers
from cindy.summary.summary import Summary

__all__ = ["Summary", "accumulate", "map_in_order", "summary_of_fields", "workers"]
