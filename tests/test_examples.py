"""The examples: each runs, prints what its page shows, and draws its picture."""

import re
from pathlib import Path

import pytest
from tests.pages import IMAGES, ROOT, UPDATE, executed, keep_pictures, same

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGE = ROOT / "docs" / "examples.md"


def shown_output(example: Path) -> str:
    """What the page shows below the example."""
    block = rf'--8<-- "examples/{example.name}"\n```\n\n```text\n(.*?)```\n'
    found = re.search(block, PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found, f"docs/examples.md does not show {example.name} with its output"
    return found[1]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.stem)
def test_an_example_prints_what_its_page_shows_and_draws_its_picture(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = shown_output(example)
    code = example.read_text(encoding="utf-8")
    now = executed(f"```python\n{code}```\n\n```text\n{shown}```\n", tmp_path)
    now = now.partition("```text\n")[2].removesuffix("```\n")
    assert (tmp_path / f"{example.stem}.png").stat().st_size > 5_000
    if UPDATE:
        mark = f'"examples/{example.name}"\n```\n\n```text\n'
        page = PAGE.read_text(encoding="utf-8").replace(f"{mark}{shown}", f"{mark}{now}")
        PAGE.write_text(page, encoding="utf-8")
        keep_pictures(tmp_path)
        return
    assert same(now, shown), f"{example.name} prints\n{now}\nbut its page shows\n{shown}\nsee `make outputs`"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.stem)
def test_an_example_is_short_and_its_picture_is_in_the_documentation(example):
    assert len(example.read_text(encoding="utf-8").splitlines()) <= 60
    assert (IMAGES / f"{example.stem}.png").is_file()
    assert f"images/{example.stem}.png" in PAGE.read_text(encoding="utf-8")
