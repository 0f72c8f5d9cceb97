"""What `import cindy` loads, and what it does not."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cindy
from cindy.errors import CindyError, MissingExtraError, require

# Slow to import, or not installed with the library: loaded by what needs them, when it needs them.
FORBIDDEN = {
    "concurrent.futures",
    "dataclasses",
    "highspy",
    "importlib.metadata",
    "json",
    "multiprocessing",
    "numpy",
    "scipy",
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
    "cindy.sklearn",
    "cindy.export",
    "cindy.plot",
    "cindy.report",
}


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


# These take a moment too, but an identification needs them.
IDENTIFICATION_MAY_LOAD = {
    "concurrent.futures",
    "dataclasses",
    "highspy",
    "importlib.metadata",
    "json",
    "numpy",
    "scipy",
}


def loaded_by(code):
    return set(
        run(f"import sys; before = {{*sys.modules}}; {code}; print(*({{*sys.modules}} - before))").split()
    )


def test_import_loads_nothing_that_can_wait():
    loaded = loaded_by("import cindy")
    assert not loaded & FORBIDDEN
    assert {name for name in loaded if name.startswith("cindy")} == {"cindy"}


def test_a_name_of_one_room_does_not_load_the_rooms_below_it():
    loaded = loaded_by("from cindy import Polynomial, Trajectory")
    assert not {"cindy.solver", "cindy.model", "cindy.identification", "highspy"} & loaded


def test_what_identifies_loads_neither_extras_nor_processes():
    assert not loaded_by("from cindy import identify") & (FORBIDDEN - IDENTIFICATION_MAY_LOAD)


def test_every_public_name_is_there():
    assert all(getattr(cindy, name) is not None for name in cindy.__all__)
    assert set(cindy.__all__) <= set(dir(cindy))


def test_a_star_import_takes_what_all_says():
    code = "from cindy import *; import cindy; print({*cindy.__all__} <= {*globals()})"
    assert run(code) == "True"


def test_the_table_of_the_door_says_what_type_checkers_read():
    body = ast.parse(Path(cindy.__file__).read_text(encoding="utf-8")).body
    twin = next(node.body for node in body if isinstance(node, ast.If))
    read = {node.module: sorted(alias.name for alias in node.names) for node in twin}
    assert {module: sorted(names.split()) for module, names in cindy._FROM.items()} == read
    assert sorted(name for names in read.values() for name in names) == sorted(cindy.__all__)


ROOMS = ("solver", "basis", "data", "errors", "model", "states", "systems", "calculus")
AFRESH = """
import sys
for room in {ROOMS}:
    for name in [name for name in sys.modules if name.partition(".")[0] == "cindy"]:
        del sys.modules[name]
    import cindy
    print(getattr(cindy, room).__name__)
"""


def test_rooms_are_attributes_without_an_import_of_their_own():
    assert run(AFRESH.format(ROOMS=ROOMS)).split() == [f"cindy.{room}" for room in ROOMS]


def test_what_was_taken_at_the_door_pickles():
    code = "import pickle, cindy; print(pickle.loads(pickle.dumps(cindy.Polynomial(2))).degree)"
    assert run(code) == "2"


def test_the_version_stands_in_one_place_and_the_citation_and_the_changelog_repeat_it():
    root = Path(__file__).parent.parent
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "version" not in project
    assert project["dynamic"] == ["version"]
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", citation, re.M) == [cindy.__version__]
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    released = [title for title in re.findall(r"^## (\S+)", changelog, re.M) if title != "Unreleased"]
    assert released[0] == cindy.__version__


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
