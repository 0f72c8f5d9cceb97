"""What `import cindy` loads, and what it does not."""

import subprocess
import sys

import pytest

import cindy
from cindy._extras import require
from cindy.errors import CindyError, MissingExtraError

# Slow to import, or not installed with the library: loaded by what needs them, when it needs them.
FORBIDDEN = {
    "dask",
    "jinja2",
    "matplotlib",
    "pandas",
    "plotly",
    "polars",
    "pyarrow",
    "pysindy",
    "rich",
    "scipy.integrate",
    "scipy.interpolate",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "sklearn",
    "sympy",
    "torch",
    "typer",
    "xarray",
    "cindy.cli",
    "cindy.sklearn.estimator",
    "cindy.experiments",
    "cindy.export",
    "cindy.plot",
    "cindy.report",
}


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_import_loads_nothing_that_can_wait():
    loaded = set(run("import cindy, sys; print(*sys.modules)").split())
    assert not loaded & FORBIDDEN


def test_every_public_name_is_there():
    assert all(getattr(cindy, name) is not None for name in cindy.__all__)
    assert set(cindy.__all__) <= set(dir(cindy))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'indentify'"):
        cindy.indentify  # noqa: B018


@pytest.mark.parametrize(
    ("use", "extra"),
    [
        ("cindy.CINDy", "sklearn"),
        ("cindy.plot", "plot"),
        ("cindy.report", "report"),
        ("cindy.pysindy", "pysindy"),
    ],
)
def test_a_missing_extra_is_named(use, extra):
    hidden = ("sklearn", "matplotlib", "plotly", "jinja2", "pysindy")
    block = "; ".join(f"sys.modules[{name!r}] = None" for name in hidden)
    code = (
        f"import sys, cindy; {block}\n"
        f"try:\n    {use}\nexcept cindy.MissingExtraError as e:\n    print(isinstance(e, ImportError), e)"
    )
    said = run(code)
    assert said.startswith("True")
    assert f'pip install "cindy[{extra}]"' in said


def test_a_missing_extra_is_both_a_cindy_error_and_an_import_error():
    with pytest.raises(MissingExtraError, match='needs the package "no_such_package"') as caught:
        require("no_such_package", "data", "this")
    assert isinstance(caught.value, CindyError)
    assert isinstance(caught.value, ImportError)
