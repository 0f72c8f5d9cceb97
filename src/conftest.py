"""What the examples in docstrings share: they write into an empty folder, and draw without a screen."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Read when matplotlib is imported, which most examples never do.
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    if "matplotlib.pyplot" in sys.modules:
        from matplotlib import pyplot

        pyplot.close("all")
