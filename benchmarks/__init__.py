"""Measurements: `python -m benchmarks [SECTION …] [--names …]` writes tables to benchmarks/results/."""
