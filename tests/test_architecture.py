"""The shape of the source tree: which rooms there are, who may import whom, how long things may be."""

import ast
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from benchmarks import house

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
MOST_FILES, MOST_CONSTANTS = 146, 181
"""What has been reached (`python -m benchmarks house`): lower them with the figures, never raise them.
What is new replaces something old, joins a file of its noun, or keeps its numbers in a frozen object."""


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


@cache
def room_of(module: str) -> Room | None:
    """The room of a module; None for the door, `cindy` itself."""
    holding = [room for room in ROOMS.values() if inside(module, room.modules)]
    assert len(holding) <= 1, f"{module} is in {[room.name for room in holding]}"
    return holding[0] if holding else None


def modules(*, room: str | None = None, leaves: bool = True) -> Iterator[tuple[str, Room | None]]:
    """Every module with its room, or those of one room, or those that are in no leaf."""
    for module in sorted(MODULES):
        own = room_of(module)
        if (room is None or (own and own.name == room)) and (leaves or not (own and own.leaf)):
            yield module, own


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def nodes(module: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(module)))


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


def test_imports_follow_the_arrows_of_the_drawing():
    wrong = []
    for module, own in modules():
        for taken in imports(module) if own else ():
            if not inside(taken.module, ("cindy",)):
                continue
            other = room_of(taken.module)
            # The door hands out what users see; rooms behind it take a public name from its own room.
            if other is None and not own.leaf:
                wrong.append(f"{module}, line {taken.line}: a room imports cindy itself")
            elif other is not None and other.name not in (own.name, *own.above):
                wrong.append(f"{module}, line {taken.line}: {own.name} → {other.name}")
    assert not wrong, "\n".join(["", *wrong])


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


def test_what_a_room_takes_from_another_is_what_that_room_exports():
    wrong = []
    for module, own in modules():
        for taken in imports(module):
            other = room_of(taken.module) if inside(taken.module, ("cindy",)) else None
            if other is None or other.leaf or (own and other.name == own.name) or len(other.modules) > 1:
                continue
            if taken.module != other.modules[0]:
                wrong.append(f"{module}, line {taken.line}: {taken.module} is inside a room")
            elif hidden := set(taken.names) - set(exported(taken.module)):
                wrong.append(f"{module}, line {taken.line}: {taken.module} does not export {sorted(hidden)}")
    assert not wrong, "\n".join(["", *wrong])


def test_the_solver_needs_little_from_outside():
    allowed = {"cindy", *SOLVER_MAY_IMPORT, *sys.stdlib_module_names}
    wrong = [
        f"{module}, line {taken.line}: {taken.module}"
        for module, _ in modules(room="solver")
        for taken in imports(module)
        if taken.module.partition(".")[0] not in allowed
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_extras_are_loaded_only_by_leaves_or_when_asked():
    wrong = [
        f"{module}, line {taken.line}: {taken.module}"
        for module, _ in modules(leaves=False)
        for taken in imports(module)
        if taken.eager and taken.module.partition(".")[0] in EXTRAS
    ]
    assert not wrong, "\n".join(["", *wrong])


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


def test_a_file_is_short():
    lengths = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in MODULES.items()}
    assert {module: lines for module, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_the_house_does_not_grow():
    assert len(FILES) <= MOST_FILES
    assert len(house.constants(SOURCE)) <= MOST_CONSTANTS


def test_a_function_is_short():
    wrong = [
        f"{module}.{node.name} has {lines} lines"
        for module, _ in modules()
        for node in nodes(module)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_only_the_command_line_prints():
    wrong = [
        f"{module}, line {node.lineno}"
        for module, own in modules()
        if not (own and own.name == "cli")
        for node in nodes(module)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"print", "sys.stdout.write"}
    ]
    assert not wrong, "\n".join(["", *wrong])


@cache
def exported(module: str) -> list[str]:
    """What a door hands on by importing it under its own name, or lists in `__all__`.

    A room that is one module, and from which no user imports, offers every name without an underscore.
    """
    handed = [
        alias.name
        for node in tree(module).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    ]
    for node in tree(module).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if target is not None and ast.unparse(target) == "__all__":
            return [*handed, *ast.literal_eval(node.value)]
    own = [node.name for node in tree(module).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    own += [ast.unparse(n.targets[0]) for n in tree(module).body if isinstance(n, ast.Assign)]
    handed += [name for name in own if not name.startswith("_")] if MODULES[module].parent == SOURCE else []
    return handed or pytest.fail(f"{module} offers nothing")


def is_door(module: str) -> bool:
    """Whether others take names from it: the `__init__` of a room, or a room that is one module."""
    path = MODULES[module]
    return path.name == "__init__.py" or path.parent == SOURCE


def test_a_module_says_what_it_is_and_a_door_what_it_offers():
    silent = [module for module, _ in modules() if not ast.get_docstring(tree(module))]
    doors = [module for module, _ in modules() if is_door(module)]
    twice = [module for module in doors if len(set(exported(module))) < len(exported(module))]
    assert (silent, twice) == ([], []), "modules without a docstring, doors that offer a name twice"


def words(folder: Path) -> dict[Path, set[str]]:
    return {path: set(re.findall(r"\w+", path.read_text(encoding="utf-8"))) for path in folder.rglob("*.py")}


def test_what_a_module_keeps_to_itself_has_an_underscore():
    known = {
        path: said for folder in ("src", "tests", "benchmarks") for path, said in words(ROOT / folder).items()
    }
    wrong = []
    for module, _ in modules():
        own = [n for n in tree(module).body if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
        lists = any(
            isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__" for n in tree(module).body
        )
        for node in [] if lists else own:
            elsewhere = (
                path for path, said in known.items() if node.name in said and path != MODULES[module]
            )
            if not node.name.startswith("_") and next(elsewhere, None) is None:
                wrong.append(f"{module}.{node.name}")
    assert not wrong, "\n".join(["", *wrong])


FAMILIES = {"Basis", "Constraint", "Correction", "Formulation", "Oracle", "Selection", "Weights"}
"""Types that others may write members of: nobody but the family asks which member it has."""


@cache
def members() -> dict[str, str]:
    """Every class below the base of a family, and the room of that family."""
    bases = {
        node.name: ({ast.unparse(base) for base in node.bases}, own.name)
        for module in MODULES
        if (own := room_of(module))
        for node in nodes(module)
        if isinstance(node, ast.ClassDef)
    }
    found: dict[str, str] = {}
    for _ in bases:
        found |= {n: room for n, (above, room) in bases.items() if above & (FAMILIES | set(found))}
    return found


def test_only_a_family_asks_which_of_its_members_it_has():
    wrong, known = [], members()
    for module, own in modules():
        for node in nodes(module):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {"isinstance", "issubclass"}:
                asked = {ast.unparse(part) for part in ast.walk(node.args[1])} & set(known)
                strangers = {name for name in asked if own is None or known[name] != own.name}
                if strangers:
                    wrong.append(f"{module}, line {node.lineno}: {sorted(strangers)}")
    assert not wrong, "\n".join(["", *wrong])


def test_no_text_leaves_its_plural_to_the_reader():
    """`counted` writes "1 term" and "2 terms", so that no text needs an s in brackets."""
    wrong = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            wrong += [f"{path.name}: {found}" for found in re.findall(r"[a-z]{3,}\(s\)", text)]
    assert not wrong


def as_people_write_it(code: str) -> str:
    """A value of the source for readers: 2e9 and not 2000000000.0, 20,000 and not 20000."""
    value = ast.literal_eval(code)
    if isinstance(value, tuple):
        return ", ".join(as_people_write_it(repr(one)) for one in value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    mantissa, _, power = f"{value:.6e}".partition("e")
    if value == 0 or -4 <= int(power) < 5:
        return f"{value:.12g}"
    return f"{mantissa.rstrip('0').removesuffix('.')}e{int(power)}"


def test_numbers_of_the_search_are_written_as_people_write_them():
    assert as_people_write_it("2000000000.0") == "2e9"
    assert as_people_write_it("256000000.0") == "2.56e8"
    assert as_people_write_it("1e-05") == "1e-5"
    assert as_people_write_it("0.001") == "0.001"
    assert as_people_write_it("20000") == "20,000"
    assert as_people_write_it("(0.5, 1.0)") == "0.5, 1"


def numbers_of_the_search() -> str:
    """docs/effort.md as the source says it: a table for every part of `Effort`."""
    path = SOURCE / "selection" / "effort.py"
    lines = path.read_text(encoding="utf-8").splitlines()
    [effort] = [n for n in ast.parse("\n".join(lines)).body if getattr(n, "name", "") == "Effort"]
    page = [
        "# Numbers of the search",
        "",
        "The numbers that steer the search are fields of one object, `cindy.selection.EFFORT`; each is "
        "named after the module that uses it. `python -m benchmarks constants --names selection.effort` "
        "divides and multiplies each of them by four and fits data that can fail. If a row says that a "
        "number is a bound on work, it limits time or memory, and no model depends on it unless the limit "
        "is reached.",
    ]
    place = 0
    for field, text in pairwise(effort.body):
        if not isinstance(field, ast.AnnAssign):
            continue
        titles = [one.strip(" #.") for one in lines[place : field.lineno] if one.strip().startswith("# ")]
        if titles:
            page += ["", f"## {titles[-1]}", "", "| number | value | what it decides |", "|---|---|---|"]
        place = field.lineno
        said = " ".join(text.value.value.split()).replace("|", "\\|")
        page.append(f"| `{field.target.id}` | {as_people_write_it(ast.unparse(field.value))} | {said} |")
    return "\n".join(page) + "\n"


def test_the_page_of_numbers_lists_those_of_the_source():
    page = ROOT / "docs" / "effort.md"
    if os.environ.get("CINDY_UPDATE_DOCS"):
        page.write_text(numbers_of_the_search(), encoding="utf-8")
    assert page.read_text(encoding="utf-8") == numbers_of_the_search()
