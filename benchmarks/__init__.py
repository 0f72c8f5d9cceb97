"""Measurements: `python -m benchmarks [SECTION …]` writes csv and markdown to benchmarks/results/."""
