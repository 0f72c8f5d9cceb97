"""The documentation: every block of code prints what its page shows, and the site builds without warnings."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.pages import BLOCK, ROOT, UPDATE, executed, keep_pictures, same

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))]
TABLE = re.compile(r"(<!-- from (benchmarks/results/paper/\w+\.md) -->\n\n).*?(\n\n<!-- end -->)", re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)|(?:src|href)=\"([^\"#]+)\"")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_a_page_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    now = executed(text, tmp_path)
    if UPDATE:
        page.write_text(now, encoding="utf-8")
        keep_pictures(tmp_path)
        return
    for old, new in zip(BLOCK.finditer(text), BLOCK.finditer(now), strict=True):
        assert same(new[0], old[0]), f"{name(page)} shows\n{old[0]}\nbut `make outputs` gives\n{new[0]}"


def test_the_reproduction_page_prints_the_tables_of_its_results():
    page = ROOT / "docs" / "reproduction.md"
    text = page.read_text(encoding="utf-8")
    now = TABLE.sub(lambda m: m[1] + (ROOT / m[2]).read_text(encoding="utf-8").strip() + m[3], text)
    if UPDATE:
        page.write_text(now, encoding="utf-8")
    assert len(TABLE.findall(text)) == 6
    assert UPDATE or now == text, "the tables are not those of benchmarks/results/paper/: see `make outputs`"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_code_block_escapes_the_tests(page):
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"```\s*(?:python|bash|sh|console|pycon)", text)) == len(BLOCK.findall(text))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_a_page_links_to_is_there(page):
    for found in LINK.findall(page.read_text(encoding="utf-8")):
        target = found[0] or found[1]
        assert target.startswith(("https://", "http://")) or (page.parent / target).exists(), target


def test_the_site_builds_without_a_warning_and_asks_the_network_for_nothing(tmp_path):
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    loads = re.compile(
        r"<(?:script|img|iframe)[^>]+src=\"?https?://|<link[^>]+href=\"?https?://[^>]*stylesheet"
    )
    for page in tmp_path.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not loads.search(text), f"{page.name} loads {loads.search(text)}"
        assert "arithmatex" not in text, f"{page.name} has a formula that was not converted"


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path):
    pytest.importorskip("mkdocs")
    pages = tmp_path / "docs"
    pages.mkdir()
    (pages / "index.md").write_text("[nowhere](missing.md)\n", encoding="utf-8")
    settings = yaml_part(ROOT / "mkdocs.yml", "validation")
    (tmp_path / "mkdocs.yml").write_text(f"site_name: test\n{settings}", encoding="utf-8")
    options = re.search(r"mkdocs build (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"))[1].split()
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", *options], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "missing.md" in done.stdout + done.stderr


def yaml_part(path, name):
    """One top-level entry of a YAML file, as it stands."""
    text = path.read_text(encoding="utf-8")
    return re.search(rf"^{name}:\n(?:[ ]+.*\n)+", text, flags=re.MULTILINE)[0]
