"""What mkdocs does to our pages: formulas become MathML, and the benchmark page holds the latest tables."""

import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

__all__ = ["on_config", "on_page_content", "on_page_markdown"]

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_config(config: Any) -> Any:
    """Put the page about the paper's experiments before the benchmarks, where it has been written."""
    pages = [entry for entry in config["nav"] if "reproduction.md" not in entry.values()]
    if (Path(config["docs_dir"]) / "reproduction.md").is_file():
        place = next(i for i, entry in enumerate(pages) if "benchmarks.md" in entry.values())
        pages.insert(place, {"Reproduction": "reproduction.md"})
    config["nav"] = pages
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put every table of benchmarks/results where a page says <!-- results -->."""
    if "<!-- results -->" not in markdown:
        return markdown
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
