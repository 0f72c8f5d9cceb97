"""The notebooks of the documentation run, and show what they print."""

import json

import pytest
from tests.notebooks import executed, printed
from tests.pages import ROOT, UPDATE, same

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize(
    "path", [pytest.param(p, marks=pytest.mark.xdist_group(p.name), id=p.stem) for p in NOTEBOOKS]
)
def test_a_notebook_prints_what_it_shows(path, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    pytest.importorskip("plotly")
    shown = json.loads(path.read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    now = executed(path)
    if UPDATE:
        path.write_text(json.dumps(now, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        return
    assert same(printed(now), printed(shown)), (
        f"{path.name} shows\n{printed(shown)}\nbut prints\n{printed(now)}"
    )


def test_every_notebook_has_a_page_and_a_link():
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    assert NOTEBOOKS
    for path in NOTEBOOKS:
        assert f"notebooks/{path.stem}.md" in settings
        assert f"notebooks/{path.name}" in listed
