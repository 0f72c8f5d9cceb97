"""The shape of the source tree: which rooms there are, who may import whom, how long things may be."""

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "cindy"

SOLVER_MAY_IMPORT = {"numpy", "scipy", "highspy"}
EXTRAS = {
    "array_api_compat",
    "casadi",
    "cupy",
    "dask",
    "distributed",
    "fmpy",
    "jax",
    "jinja2",
    "matplotlib",
    "pandas",
    "plotly",
    "polars",
    "pyarrow",
    "pysindy",
    "rich",
    "sklearn",
    "sympy",
    "torch",
    "typer",
    "xarray",
}
LONGEST_FILE, LONGEST_FUNCTION, MOST_IN_ROOT = 500, 60, 12


@dataclass(frozen=True)
class Room:
    """A line of the drawing in CONTRIBUTING.md.

    modules: what the room holds, by prefix; above: rooms it may import
    leaf: nothing imports it but the rooms that say so, and what users ask for by name
    """

    name: str
    modules: tuple[str, ...]
    above: tuple[str, ...]
    leaf: bool


def drawn() -> dict[str, Room]:
    """The rooms as drawn: `name [= modules] ← rooms it imports`, a blank line before the leaves."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawing = re.search(r"^## The rooms$.*?^```text\n(.*?)^```$", page, flags=re.M | re.S)
    assert drawing, "CONTRIBUTING.md has no drawing under '## The rooms'"
    rooms: dict[str, Room] = {}
    leaf = False
    for line in drawing[1].splitlines():
        if not line.strip():
            leaf = True
            continue
        left, _, right = line.partition("←")
        name, _, modules = left.partition("=")
        held = tuple(f"cindy.{m}" for m in (modules.split() or [name.strip()]))
        rooms[name.strip()] = Room(name.strip(), held, tuple(right.split()), leaf)
    return rooms


ROOMS = drawn()


@dataclass(frozen=True)
class Import:
    """One imported module, the names taken from it, and whether loading the file already loads it."""

    module: str
    names: tuple[str, ...]
    eager: bool
    line: int


def module_name(path: Path) -> str:
    parts = ("cindy", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {module_name(path): path for path in FILES}


def inside(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == prefix or module.startswith(prefix + ".") for prefix in prefixes)


def room_of(module: str) -> Room | None:
    """The room of a module; None for the door, `cindy` itself."""
    found = [room for room in ROOMS.values() if inside(module, room.modules)]
    assert len(found) <= 1, f"{module} is in {[room.name for room in found]}"
    return found[0] if found else None


def modules(*, room: str | None = None, leaves: bool = True) -> pytest.MarkDecorator:
    chosen = []
    for module in sorted(MODULES):
        own = room_of(module)
        if (room is None or (own and own.name == room)) and (leaves or not (own and own.leaf)):
            chosen.append(module)
    return pytest.mark.parametrize("module", chosen)


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def imports(module: str) -> tuple[Import, ...]:
    return tuple(_walk(module, tree(module), eager=True))


def _walk(module: str, node: ast.AST, *, eager: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, (), eager, child.lineno)
        elif isinstance(child, ast.ImportFrom):
            base = _absolute(module, child)
            plain = []
            for alias in child.names:
                named = f"{base}.{alias.name}"
                if named in MODULES:
                    yield Import(named, (), eager, child.lineno)
                else:
                    plain.append(alias.name)
            if plain:
                yield Import(base, tuple(plain), eager, child.lineno)
        else:
            later = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) or (
                isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            )
            yield from _walk(module, child, eager=eager and not later)


def _absolute(module: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    is_package = MODULES[module].name == "__init__.py"
    package = module if is_package else module.rpartition(".")[0]
    base = importlib.util.resolve_name("." * node.level, package)
    return f"{base}.{node.module}" if node.module else base


def test_the_walk_sees_lazy_and_eager_imports():
    source = "import a\ndef f():\n    from b.c import d\nif TYPE_CHECKING:\n    import e\n"
    found = list(_walk("cindy", ast.parse(source), eager=True))
    assert [(i.module, i.eager) for i in found] == [("a", True), ("b.c", False), ("e", False)]


def test_the_drawing_names_rooms_only_after_they_are_drawn():
    seen: set[str] = set()
    for room in ROOMS.values():
        assert set(room.above) <= seen, f"{room.name} ← {sorted(set(room.above) - seen)}"
        seen.add(room.name)


def test_every_module_is_in_exactly_one_room():
    assert [m for m in MODULES if room_of(m) is None] == ["cindy"]
    empty = [room.name for room in ROOMS.values() if not any(inside(m, room.modules) for m in MODULES)]
    assert not empty


def test_the_root_holds_few_modules():
    assert len(list(SOURCE.glob("*.py"))) <= MOST_IN_ROOT


@modules()
def test_imports_follow_the_arrows_of_the_drawing(module):
    own = room_of(module)
    if own is None:
        return
    for found in imports(module):
        if not inside(found.module, ("cindy",)):
            continue
        other = room_of(found.module)
        # The door hands out what users see; rooms behind it that need a public name take it from its room.
        assert other is not None or own.leaf, f"line {found.line}: a room imports cindy itself"
        if other is not None and other.name != own.name:
            assert other.name in own.above, f"line {found.line}: {own.name} → {other.name}"


def test_every_arrow_of_the_drawing_is_used():
    used = {
        (own.name, other.name)
        for module in MODULES
        if (own := room_of(module))
        for found in imports(module)
        if inside(found.module, ("cindy",)) and (other := room_of(found.module))
    }
    drawn_arrows = {(room.name, above) for room in ROOMS.values() for above in room.above}
    unused = sorted(drawn_arrows - used)
    assert unused == []


@modules()
def test_what_a_room_takes_from_another_is_what_that_room_exports(module):
    own = room_of(module)
    for found in imports(module):
        other = room_of(found.module) if inside(found.module, ("cindy",)) else None
        if other is None or other.leaf or (own and other.name == own.name) or len(other.modules) > 1:
            continue
        assert found.module == other.modules[0], f"line {found.line}: {found.module} is inside a room"
        assert set(found.names) <= set(exported(found.module)), f"line {found.line}: {found.names}"


@modules(room="solver")
def test_the_solver_needs_little_from_outside(module):
    for found in imports(module):
        top = found.module.partition(".")[0]
        allowed = top in SOLVER_MAY_IMPORT or top in sys.stdlib_module_names
        assert top == "cindy" or allowed, f"line {found.line}: {top}"


@modules(leaves=False)
def test_extras_are_loaded_only_by_leaves_or_when_asked(module):
    for found in imports(module):
        assert not (found.eager and found.module.partition(".")[0] in EXTRAS), f"line {found.line}"


def test_there_are_no_import_cycles():
    graph = {m: sorted({i.module for i in imports(m) if i.module in MODULES} - {"cindy"}) for m in MODULES}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " → ".join((*trail[trail.index(module) :], module))
        if module in done:
            return
        for target in graph[module]:
            visit(target, (*trail, module))
        done.add(module)

    for module in graph:
        visit(module, ())


@modules()
def test_a_file_is_short(module):
    assert len(MODULES[module].read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


@modules()
def test_a_function_is_short(module):
    for node in ast.walk(tree(module)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= LONGEST_FUNCTION, f"{node.name} has {lines} lines"


@modules()
def test_only_the_command_line_prints(module):
    own = room_of(module)
    for node in ast.walk(tree(module)):
        printing = isinstance(node, ast.Call) and ast.unparse(node.func) in {"print", "sys.stdout.write"}
        assert not printing or (own and own.name == "cli"), f"line {node.lineno}"


def exported(module: str) -> list[str]:
    for node in tree(module).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if target is not None and ast.unparse(target) == "__all__":
            return list(ast.literal_eval(node.value))
    pytest.fail(f"{module} has no __all__")


@modules()
def test_a_module_says_what_it_is_and_what_it_offers(module):
    assert ast.get_docstring(tree(module)), "no module docstring"
    names = exported(module)
    assert len(names) == len(set(names)), "a name stands twice in __all__"


FAMILIES = {"Basis", "Constraint", "Correction", "Formulation", "Oracle", "Selection", "Weights"}
"""Types that others may write members of: nobody but the family asks which member it has."""


@cache
def members() -> dict[str, str]:
    """Every class below the base of a family, and the room of that family."""
    bases = {
        node.name: ({ast.unparse(base) for base in node.bases}, own.name)
        for module in MODULES
        if (own := room_of(module))
        for node in ast.walk(tree(module))
        if isinstance(node, ast.ClassDef)
    }
    found: dict[str, str] = {}
    for _ in bases:
        found |= {n: room for n, (above, room) in bases.items() if above & (FAMILIES | set(found))}
    return found


@modules()
def test_only_a_family_asks_which_of_its_members_it_has(module):
    own, known = room_of(module), members()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"isinstance", "issubclass"}:
            asked = {ast.unparse(n) for n in ast.walk(node.args[1])} & set(known)
            strangers = {name for name in asked if own is None or known[name] != own.name}
            assert not strangers, f"line {node.lineno}: {sorted(strangers)}"
