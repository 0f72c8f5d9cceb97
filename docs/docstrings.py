"""Our docstrings in Markdown: lines "name: what it is" become a list, examples become code."""

import re
from typing import Any

import griffe

__all__ = ["Fields"]

FIELD = re.compile(r"([a-z_][\w, ]*|[A-Z]\w*): (.*)")


class Fields(griffe.Extension):
    """Rewrites every docstring before it is rendered."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            first, *rest = obj.docstring.value.split("\n\n")
            obj.docstring.value = "\n\n".join([first, *map(_paragraph, rest)])


def _paragraph(text: str) -> str:
    lines = text.splitlines()
    if not lines or lines[0].startswith(">>>"):
        return f"```pycon\n{text}\n```" if lines else text
    if not FIELD.fullmatch(lines[0]):
        return text
    items = []
    for line in lines:
        field = FIELD.fullmatch(line)
        items.append(f"- `{field[1]}`: {field[2]}" if field else f"  {line.strip()}")
    # Without a comment between them the fields would go on with the numbers of a list above.
    return "\n".join(["<!-- fields -->", "", *items])
