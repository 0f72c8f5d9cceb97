"""Settings that every test shares."""

import os

import pytest
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share something go to one process, where it is made once; `make test` asks for `loadgroup`.

    They share a fixture of their module, what a function of the module remembers, or they are the cases of
    one test. Other groups are marked where they are.
    """
    for item in items:
        if isinstance(item, pytest.Function) and not item.get_closest_marker("xdist_group"):
            fixtures = item._fixtureinfo.name2fixturedefs.values()
            shared = any(found[-1].scope == "module" for found in fixtures if found)
            remembered = any(hasattr(value, "cache_info") for value in vars(item.module).values())
            name = item.module.__name__
            group = name if shared or remembered else f"{name}.{item.originalname}"
            item.add_marker(pytest.mark.xdist_group(group))
