"""Notebooks as programs: their cells run in order, and what they print is compared with what they show.

The outputs of a cell are kept as Jupyter keeps them: what was printed, the value of the last expression as
text and HTML, and every figure. `make outputs` writes them into the notebooks.
"""

import ast
import base64
import contextlib
import io
import json
from pathlib import Path
from typing import Any

__all__ = ["executed", "printed"]

_DPI = 80
"""Of figures: enough to read, and some 20 kB each."""


def executed(path: Path) -> dict[str, Any]:
    """The notebook with its outputs as its code makes them now, run in the current folder."""
    import matplotlib

    matplotlib.use("agg")
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    namespace: dict[str, object] = {"__name__": "__main__"}
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"] = count
            cell["outputs"] = _run("".join(cell["source"]), namespace, count)
    return notebook


def printed(notebook: dict[str, Any]) -> str:
    """All outputs as text, without pictures and HTML."""
    parts = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            lines = output["text"] if "text" in output else output["data"].get("text/plain", [])
            parts.append("".join(lines))
    return "\n".join(parts)


def _run(source: str, namespace: dict[str, object], count: int) -> list[dict[str, Any]]:
    tree, value, text = ast.parse(source), None, io.StringIO()
    # Jupyter shows the value of the last expression, unless a semicolon ends the cell.
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) and not source.endswith(";") else None
    with contextlib.redirect_stdout(text):
        exec(compile(tree, "<cell>", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if text.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(text.getvalue())})
    outputs += _figures()
    if value is not None:
        shown = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            shown["text/html"] = _lines(value._repr_html_())
        outputs.append(
            {"data": shown, "execution_count": count, "metadata": {}, "output_type": "execute_result"}
        )
    return outputs


def _figures() -> list[dict[str, Any]]:
    from matplotlib import pyplot

    outputs = []
    for number in pyplot.get_fignums():
        stream = io.BytesIO()
        pyplot.figure(number).savefig(stream, format="png", dpi=_DPI, metadata={"Software": None})
        picture = base64.b64encode(stream.getvalue()).decode()
        outputs.append({"data": {"image/png": picture}, "metadata": {}, "output_type": "display_data"})
    pyplot.close("all")
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
