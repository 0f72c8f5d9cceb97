"""Estimators in the manner of scikit-learn."""

__all__ = []
