"""Settings that every test shares."""

import os

from hypothesis import HealthCheck, settings

# Small matrices, several workers: threads inside BLAS would only contend.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Deadlines measure the machine, not the code; the examples are the same every time, so failures repeat.
settings.register_profile(
    "cindy",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    database=None,
)
settings.load_profile("cindy")
