"""What mkdocs does to our pages: formulas become MathML; tables and figures are the latest results."""

import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

__all__ = ["on_files", "on_page_content", "on_page_markdown"]

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
FIGURES = "images/reproduction/"
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    """Take in the figures of the reproduction, which stand beside its tables."""
    for figure in sorted((ROOT / "benchmarks" / "results" / "paper" / "figures").glob("*.png")):
        files.append(File.generated(config, FIGURES + figure.name, abs_src_path=str(figure)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put every table of benchmarks/results where a page says <!-- results -->; find the figures taken in."""
    markdown = markdown.replace("](../benchmarks/results/paper/figures/", "](" + FIGURES)
    # The site has all tables on one page.
    markdown = re.sub(r"\]\(\.\./benchmarks/results/\w+\.md\)", "](benchmarks.md)", markdown)
    if "<!-- results -->" not in markdown:
        return markdown
    # Where pages are read as they are, links to the tables stand in their place.
    markdown = re.sub(r"<!-- results -->.*?<!-- end -->", "<!-- results -->", markdown, flags=re.DOTALL)
    tables = [file.read_text(encoding="utf-8") for file in sorted(RESULTS.glob("*.md"))]
    # Each file has a title of its own, which stands one level down here.
    lower = [re.sub(r"^#", "##", text, flags=re.MULTILINE) for text in tables]
    missing = "No tables yet: `make bench` writes them to `benchmarks/results/`."
    return markdown.replace("<!-- results -->", "\n\n".join(lower) or missing)


def on_page_content(content: str, **_: Any) -> str:
    """MathML in place of LaTeX: browsers draw it by themselves."""
    return FORMULA.sub(
        lambda found: convert(
            html.unescape(found[2]).strip(), display="block" if found[1] == "div" else "inline"
        ),
        content,
    )
