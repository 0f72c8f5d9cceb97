"""The examples: each runs, prints what its page shows, and draws its picture."""

import re
from pathlib import Path

import pytest
from tests.pages import IMAGES, ROOT, UPDATE, executed, keep_pictures, same

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "docs" / f"{name}.md" for name in ("examples", "gallery", "control")]


def shown(example: Path) -> tuple[Path, re.Match[str]]:
    """The page that shows the example, with the code (1) and the output (2) as they stand there.

    The code stands in the page itself, not a reference to it: pages are read where nothing is included.
    """
    mark = rf"(?<=<!-- examples/{example.name} -->\n\n)```py\n(.*?)```\n\n```text\n(.*?)```\n"
    for page in PAGES:
        if found := re.search(mark, page.read_text(encoding="utf-8"), re.DOTALL):
            return page, found
    raise AssertionError(f"no page shows {example.name} with its output")


@pytest.mark.parametrize(
    "example", [pytest.param(e, marks=pytest.mark.xdist_group(e.name), id=e.stem) for e in EXAMPLES]
)
def test_an_example_prints_what_its_page_shows_and_draws_its_picture(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page, found = shown(example)
    code = example.read_text(encoding="utf-8")
    now = executed(f"```python\n{code}```\n\n```text\n{found[2]}```\n")
    now = now.partition("```text\n")[2].removesuffix("```\n")
    assert (tmp_path / f"{example.stem}.png").stat().st_size > 5_000
    if UPDATE:
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace(found[0], f"```py\n{code}```\n\n```text\n{now}```\n"), encoding="utf-8")
        keep_pictures(tmp_path)
        return
    assert found[1] == code, f"{page.name} shows an older {example.name}: see `make outputs`"
    assert same(now, found[2]), (
        f"{example.name} prints\n{now}\nbut its page shows\n{found[2]}: see `make outputs`"
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.stem)
def test_an_example_is_short_and_its_picture_is_in_the_documentation(example):
    assert len(example.read_text(encoding="utf-8").splitlines()) <= 80
    assert (IMAGES / f"{example.stem}.png").is_file()
    assert any(f"images/{example.stem}.png" in page.read_text(encoding="utf-8") for page in PAGES)
