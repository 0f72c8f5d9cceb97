"""Figures of the source itself: files, lines, constants and comments, printed room by room.

`tests/test_architecture.py` holds the number of files and of constants: it may fall, and must not rise.
"""

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

__all__ = ["Constant", "constants", "fields", "run"]

SOURCE = Path(__file__).parent.parent / "src" / "cindy"


@dataclass(frozen=True)
class Constant:
    """A number of a module, by the module's name without `cindy.` and its own.

    name: that of the number, or `object.field` for a field of a frozen object that the module makes
    """

    module: str
    name: str
    value: Any

    @property
    def where(self) -> str:
        return f"{self.module}.{self.name}"


def constants(source: Path = SOURCE) -> list[Constant]:
    """Every number, or tuple of numbers, that a module binds to a name in capitals."""
    return [constant for path in sorted(source.rglob("*.py")) for constant in _constants_in(path, source)]


def fields(source: Path = SOURCE) -> list[Constant]:
    """Every number that is the default of a field, where a module makes the object: `_LIMITS = _Limits()`."""
    return [field for path in sorted(source.rglob("*.py")) for field in _fields_in(path, source)]


def _module(path: Path, source: Path) -> str:
    return ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


def _fields_in(path: Path, source: Path) -> Iterator[Constant]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    for node in body:
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and not node.value.args):
            continue
        made = classes.get(ast.unparse(node.value.func))
        for line in made.body if made else ():
            if isinstance(line, ast.AnnAssign) and line.value is not None:
                value = _number(line.value)
                if value is not None:
                    name = f"{ast.unparse(node.targets[0])}.{ast.unparse(line.target)}"
                    yield Constant(_module(path, source), name, value)


def _constants_in(path: Path, source: Path) -> Iterator[Constant]:
    module = _module(path, source)
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign):
            pairs = [pair for target in node.targets for pair in _pairs(target, node.value)]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            pairs = list(_pairs(node.target, node.value))
        else:
            continue
        for name, expression in pairs:
            value = _number(expression)
            if name.strip("_").isupper() and value is not None:
                yield Constant(module, name, value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Names and what is bound to each, `A, B = 1, 2` taken apart."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for each, part in zip(target.elts, value.elts, strict=True):
            yield from _pairs(each, part)


def _number(expression: ast.expr) -> Any:
    """The value of an expression of numbers alone; None for anything else."""
    allowed = (ast.Constant, ast.Tuple, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context)
    if not all(isinstance(node, allowed) for node in ast.walk(expression)):
        return None
    value = eval(compile(ast.Expression(expression), "<a constant>", "eval"), {"__builtins__": {}})
    parts = value if isinstance(value, tuple) else (value,)
    plain = parts and all(isinstance(part, (int, float)) and not isinstance(part, bool) for part in parts)
    return value if plain else None


@dataclass
class _Count:
    """Of some files: their lines, lines of code, comments and constants."""

    files: int = 0
    lines: int = 0
    code: int = 0
    comments: int = 0
    constants: int = 0

    def __iadd__(self, other: "_Count") -> "_Count":
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self


def _counted(path: Path) -> _Count:
    text = path.read_text(encoding="utf-8")
    documented = _docstring_lines(ast.parse(text))
    code: set[int] = set()
    comments = 0
    silent = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments += 1
        elif token.type not in silent:
            code.update(range(token.start[0], token.end[0] + 1))
    lines = len(text.splitlines())
    return _Count(1, lines, len(code - documented), comments, len(list(_constants_in(path, SOURCE))))


def _docstring_lines(tree: ast.Module) -> set[int]:
    """Lines of strings that are statements: documentation of modules, classes, functions and constants."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def run() -> None:
    """Print the figures of every room and of the whole."""
    rooms: dict[str, _Count] = {}
    total, lengths = _Count(), []
    for path in sorted(SOURCE.rglob("*.py")):
        count = _counted(path)
        inside = path.relative_to(SOURCE).parts
        rooms.setdefault(inside[0] if len(inside) > 1 else "(root)", _Count())
        rooms[inside[0] if len(inside) > 1 else "(root)"] += count
        total += count
        lengths.append(count.lines)
    print(f"{'room':14}{'files':>7}{'lines':>8}{'code':>8}{'constants':>11}{'comments a line of code':>26}")
    for name, count in [*sorted(rooms.items()), ("all", total)]:
        share = count.comments / max(count.code, 1)
        print(f"{name:14}{count.files:7}{count.lines:8}{count.code:8}{count.constants:11}{share:26.3f}")
    print(f"a file has {median(lengths):.0f} lines in the median and {max(lengths)} at most")
