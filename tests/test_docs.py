"""The documentation: every block of code prints what its page shows, and the site builds without warnings."""

import csv
import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from statistics import median_low

import pytest
from tests.pages import BLOCK, ROOT, UPDATE, executed, keep_pictures, same

import cindy

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))]
SAME_FITS = ("README.md", "noise.md", "commandline.md")
TABLE = re.compile(r"(<!-- from (benchmarks/results/paper/\w+\.md) -->\n\n).*?(\n\n<!-- end -->)", re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)|(?:src|href)=\"([^\"#]+)\"")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def apart(page: Path):
    """The page as a case that any process may be given, but for pages that repeat fits of one another."""
    group = "pages of the same fits" if page.name in SAME_FITS else name(page)
    return pytest.param(page, marks=pytest.mark.xdist_group(group), id=name(page))


@pytest.mark.parametrize("page", [apart(page) for page in WITH_CODE])
def test_a_page_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    now = executed(text)
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


def test_a_short_name_in_a_table_and_an_option_are_not_broken_on_a_phone():
    pytest.importorskip("mkdocs")
    page = in_docs("hooks").on_page_content(
        "<td><code>wrong_noise</code></td>"
        "<p>See <code>fit --inputs u</code> or <code>python -m benchmarks</code>.</p>"
        "<pre><span></span><code>cindy --help</code></pre>"
    )
    assert '<td class="short"><code>wrong_noise</code></td>' in page
    assert '<code>fit <span class="short">--inputs</span> u</code>' in page
    assert '<code>python <span class="short">-m</span> benchmarks</code>' in page
    assert "<code>cindy --help</code>" in page


def test_fields_below_numbered_steps_in_a_docstring_are_a_list_of_their_own():
    pytest.importorskip("griffe")
    markdown = pytest.importorskip("markdown")
    paragraphs = ["1. A step.\n2. Another.", in_docs("docstrings")._paragraph("tol: when it ends")]
    html = markdown.markdown("\n\n".join(paragraphs))
    assert html.count("<li>") == 3
    assert "<ul>" in html


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


def test_the_bars_of_a_norm_are_brackets_and_no_operators():
    pytest.importorskip("mkdocs")
    pytest.importorskip("latex2mathml")
    formula = r'<span class="arithmatex">\(\lVert x\rVert + \lvert y\rvert\)</span>'
    bars = re.findall(
        r'<mo stretchy="false" fence="true" form="(\w+)">', in_docs("hooks").on_page_content(formula)
    )
    assert bars == ["prefix", "postfix"] * 2


def test_a_formula_that_has_no_mathml_fails_the_build(tmp_path):
    pytest.importorskip("mkdocs")
    pages = tmp_path / "docs"
    pages.mkdir()
    (pages / "index.md").write_text(r"$\Big\{ x \Big\}$", encoding="utf-8")
    extension = "markdown_extensions: [{pymdownx.arithmatex: {generic: true}}]"
    settings = f"site_name: test\nhooks: ['{ROOT / 'docs' / 'hooks.py'}']\n{extension}\n"
    (tmp_path / "mkdocs.yml").write_text(settings, encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "has no MathML" in done.stdout + done.stderr


def yaml_part(path, name):
    """One top-level entry of a YAML file, as it stands."""
    text = path.read_text(encoding="utf-8")
    return re.search(rf"^{name}:\n(?:[ ]+.*\n)+", text, flags=re.MULTILINE)[0]


def in_docs(name):
    """A module of the folder of the documentation."""
    place = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


def reference():
    """The module that lists what stands on which page of the reference."""
    return in_docs("reference")


def test_every_public_name_is_in_the_reference_once_with_an_example():
    listed = [name for _, names in reference().PAGES.values() for name in names.split()]
    assert sorted(listed) == sorted(cindy.__all__)
    public = [("cindy", name) for name in cindy.__all__]
    public += [(module, name) for names, module in reference().EXTRAS.values() for name in names.split()]
    documented = [(f"{m}.{name}", getattr(importlib.import_module(m), name).__doc__) for m, name in public]
    without = [name for name, text in documented if ">>>" not in (text or "")]
    assert without == [], "these need an example in their docstring, which the tests run"


@pytest.mark.parametrize("name", ["plot", "pysindy", "report", "sklearn", "solver", "systems"])
def test_every_function_and_class_of_a_public_module_is_in_the_reference(name):
    module = importlib.import_module(f"cindy.{name}")
    public = {entry for entry in module.__all__ if callable(getattr(module, entry))}
    # `plotly` packs a library for the pages of the report, and is no use to others; the names of `cindy`
    # stand on a page already.
    assert public - {"plotly", *cindy.__all__} == set(reference().EXTRAS[name][0].split()) - {*cindy.__all__}


def test_the_table_of_names_is_current():
    page = ROOT / "docs" / "api.md"
    text = page.read_text(encoding="utf-8")
    head, rest = text.split("<!-- names -->\n\n")
    now = f"{head}<!-- names -->\n\n{reference().index()}\n\n<!-- end -->{rest.split('<!-- end -->')[1]}"
    if UPDATE:
        page.write_text(now, encoding="utf-8")
    assert UPDATE or now == text, "docs/api.md is not what docs/reference.py gives: see `make outputs`"


def test_the_comparison_with_pysindy_is_quoted_from_its_results():
    with (ROOT / "benchmarks" / "results" / "chaotic.csv").open(encoding="utf-8") as file:
        results = list(csv.DictReader(file))
    methods = ("fitted states", "one pass", "pysindy weak at its best")
    draws = [[row["right"] for row in results if row["method"] == method] for method in methods]
    medians = [[f"{median_low(map(int, cell.split(','))):g}" for cell in row] for row in draws]
    readme, page, table = (
        (ROOT / name).read_text(encoding="utf-8")
        for name in ("README.md", "docs/benchmarks.md", "benchmarks/results/chaotic_missed.md")
    )
    for row in medians:
        assert f"| {' | '.join(row)} |" in readme.replace("*", "")
    for fitted, one_pass, pysindy in zip(*draws, strict=True):
        assert re.search(rf"\| {fitted} \| [\d.e-]+ \| {one_pass} \| {pysindy} \|", page)
    first = medians[0]
    assert (
        f"{first[0]} of 70 systems at 1 % noise, {first[1]} at 10 %, {first[2]} at 20 %, {first[3]} at 40 %"
        in page
    )
    missed = re.findall(r"^\| 0\..*$", table, re.M)
    silent = sum(line.split("|")[8].strip() == "0" for line in missed)
    assert f"Of the {len(missed)} models that are wrong, {silent} carry no warning" in page


def test_code_in_the_documentation_fits_88_columns():
    for page in PAGES:
        for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
            long = [line for line in block[2].splitlines() if len(line) > 88]
            assert not long, f"{name(page)}: {long[0]}"
