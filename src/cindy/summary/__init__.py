"""Rows become sums that add up, however much data there was."""

from cindy.summary.accumulation import accumulate
from cindy.summary.summary import Summary

__all__ = ["Summary", "accumulate"]
