"""Measurements: `python -m benchmarks [SECTION …] [--names …]` writes csv and markdown to benchmarks/results/."""
