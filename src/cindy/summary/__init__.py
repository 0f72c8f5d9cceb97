"""Summaries: the rows of any amount of data, reduced to triangles that can be added."""

from cindy.summary.accumulation import accumulate as accumulate, summary_of_fields as summary_of_fields
from cindy.summary.executor import map_in_order as map_in_order, workers as workers
from cindy.summary.summary import Summary as Summary
