"""What mkdocs does to our pages: formulas become MathML; tables and figures are the latest results; the pages
of the reference are written from the list in `reference.py`."""

import html
import json
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

__all__ = [
    "on_files",
    "on_page_content",
    "on_page_markdown",
    "on_post_page",
    "on_post_template",
]

sys.path.insert(0, str(Path(__file__).parent))
from reference import EXTRAS, PAGES, defined_at, page

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
FIGURES = "images/reproduction/"
RESULT_LINK = re.compile(r"\]\(\.\./benchmarks/results/(\w+)\.md\)")
LINE_OF_LINKS = re.compile(r"^\[.*\]\(\.\./benchmarks/results/.*$", re.MULTILINE)
SHIM = "https://unpkg.com/iframe-worker/shim"
FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL
)
SHORT_CELL = re.compile(
    r"<td((?: style=\"[^\"]*\")?)>([^<,]{1,12}|<code>[^<]{1,12}</code>)</td>"
)
INLINE_CODE = re.compile(r"(?<!</span>)<code>([^<]*(?<![^\s])--?\w[^<]*)</code>")
TABLE = re.compile(r"<table>\n<thead>.*?</table>", re.DOTALL)
FIRST_IS_CODE = re.compile(r"<td[^>]*>(?:<(?:a|autoref)\b[^>]*>)?<code>")


def on_files(files: Any, config: Any) -> Any:
    """Take in the figures of the reproduction, which stand beside its tables, and write the reference."""
    for name in {**PAGES, **EXTRAS}:
        files.append(File.generated(config, f"api/{name}.md", content=page(name)))
    for notebook in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        name = f"notebooks/{notebook.stem}.md"
        files.append(File.generated(config, name, content=_notebook_page(notebook)))
    for figure in sorted(
        (ROOT / "benchmarks" / "results" / "paper" / "figures").glob("*.png")
    ):
        files.append(
            File.generated(config, FIGURES + figure.name, abs_src_path=str(figure))
        )
    return files


def _notebook_page(path: Path) -> str:
    """A notebook as Markdown: its cells, and what they show."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                picture = data["image/png"].strip()
                parts.append(
                    f'<img alt="figure" src="data:image/png;base64,{picture}">'
                )
            elif "text/html" in data:
                parts.append(f"<div class='shown'>{''.join(data['text/html'])}</div>")
            else:
                lines = output.get("text") or data["text/plain"]
                parts.append(f"```text\n{''.join(lines).rstrip()}\n```")
    return "\n\n".join(parts) + f"\n\n[Download the notebook]({path.name})\n"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put every table of benchmarks/results where a page says <!-- results -->; find the figures taken in."""
    markdown = markdown.replace(
        "](../benchmarks/results/paper/figures/", "](" + FIGURES
    )
    # A notebook is a page of the site, from which it can be downloaded.
    if "[Download the notebook]" not in markdown:
        markdown = re.sub(r"\]\((notebooks/\w+)\.ipynb\)", r"](\1.md)", markdown)
    if "<!-- results -->" in markdown:
        markdown = _with_tables(markdown)
    # The site has all tables on one page.
    markdown = RESULT_LINK.sub(r"](tables.md#\1)", markdown)
    if "<!-- names -->" in markdown:
        markdown = re.sub(
            r"^\| `([\w.]+)\.(\w+)` \|",
            lambda m: f"| [`{m[1]}.{m[2]}`][{defined_at(m[1], m[2])}] |",
            markdown,
            flags=re.MULTILINE,
        )
    return markdown


def _with_tables(markdown: str) -> str:
    """The page of tables: behind each line of links the files that it names, each with its name as anchor."""
    texts = {
        file.stem: file.read_text(encoding="utf-8") for file in RESULTS.glob("*.md")
    }
    named = set()

    def tables(line: re.Match[str]) -> str:
        names = [name for name in RESULT_LINK.findall(line[0]) if name in texts]
        named.update(names)
        # Each file has a title of its own, which stands two levels down here.
        lower = [re.sub(r"^#", "###", texts[n], count=1).split("\n", 1) for n in names]
        shown = [
            f"{title} {{#{name}}}\n{rest}"
            for name, (title, rest) in zip(names, lower, strict=True)
        ]
        return "\n\n".join([RESULT_LINK.sub(r"](#\1)", line[0]), *shown])

    page = LINE_OF_LINKS.sub(tables, markdown)
    if others := sorted(texts.keys() - named):
        links = " · ".join(f"[{n}](../benchmarks/results/{n}.md)" for n in others)
        page += f"\n## Other tables\n\n{tables(LINE_OF_LINKS.search(links))}\n"
    return page


def on_page_content(content: str, **_: Any) -> str:
    """MathML in place of LaTeX, which browsers draw by themselves; short cells and options on one line."""
    content = SHORT_CELL.sub(r'<td\1 class="short">\2</td>', content)
    content = INLINE_CODE.sub(_with_whole_options, content)
    content = TABLE.sub(_labelled, content)
    return FORMULA.sub(_mathml, content)


def _with_whole_options(code: re.Match[str]) -> str:
    """Code in a sentence whose options, such as --inputs and -m, are not broken behind their hyphens."""
    options = re.sub(r"(?<!\S)(--?\w[\w-]*)", r'<span class="short">\1</span>', code[1])
    return f"<code>{options}</code>"


def _labelled(table: re.Match[str]) -> str:
    """A table of names, whose cells say what their columns are: a phone shows each row as a list (style.css)."""
    head, _, body = table[0].partition("<tbody>")
    rows = body.split("<tr>")[1:]
    if sum(bool(FIRST_IS_CODE.match(row.strip())) for row in rows) < 0.8 * len(rows):
        return table[0]
    titles = [
        re.sub("<[^>]+>", "", title) for title in re.findall(r"<th.*?>(.*?)</th>", head)
    ]
    labelled = []
    for row in rows:
        cells = row.split("<td")
        for column in range(3, len(cells)):
            if titles[column - 1] and not cells[column].startswith("></td>"):
                cells[column] = f' data-label="{titles[column - 1]}"{cells[column]}'
        labelled.append("<td".join(cells))
    head = head.replace("<table>", "<table data-names>")
    return "<tr>".join([f"{head}<tbody>\n", *labelled])


def _mathml(formula: re.Match[str]) -> str:
    """One formula; a command that the converter does not know would be printed as it is, so it is refused."""
    text = html.unescape(formula[2]).strip()
    display = "block" if formula[1] == "div" else "inline"
    # The converter knows these bars as operators between two numbers: with spaces, and stretched at random.
    bars = re.sub(r"\\(l|r)(v|V)ert", _bar, text)
    markup = convert(bars, display=display).replace(
        '<mo stretchy="true" fence="true"', '<mo stretchy="false" fence="true"'
    )
    if "\\" in markup:
        raise PluginError(f"a command of the formula {text!r} has no MathML")
    return markup


def _bar(name: re.Match[str]) -> str:
    """The left or right bar of an absolute value or a norm."""
    side = "left" if name[1] == "l" else "right"
    return rf"\{side}|" if name[2] == "v" else rf"\{side}\|"


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Search from a folder needs a script that the theme would fetch: ours stands in its place."""
    up = "../" * page.url.count("/")
    return output.replace(SHIM, f"{up}assets/search_from_disk.js")


def on_post_template(output: str, **_: Any) -> str:
    """The same for the page that says that a page is missing."""
    return output.replace(SHIM, "assets/search_from_disk.js")
