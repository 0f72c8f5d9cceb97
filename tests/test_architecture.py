"""The shape of the source tree: who may import whom, how long things may be, who may print."""

import ast
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "cindy"

GROUND = {"cindy.errors", "cindy._check"}
DATA_WING = {"cindy.trajectory", "cindy.readers", "cindy.calculus", "cindy.basis", "cindy.formulation"}
DATA_WING |= {
    "cindy.scales",
    "cindy.quadrature",
    "cindy.windows",
    "cindy.tables",
    "cindy.csv_table",
    "cindy.feedback",
    "cindy.whitening",
}
WAIST = {
    "cindy.least_squares",
    "cindy.summary",
    "cindy.accumulate",
    "cindy.pieces",
    "cindy.running_triangle",
    "cindy.workers",
}
SOLVER = {"cindy.solver"}
LEAVES = {
    "cindy.estimator",
    "cindy.regressor",
    "cindy.pysindy",
    "cindy.export",
    "cindy.plot",
    "cindy.report",
    "cindy.systems",
    "cindy.experiments",
    "cindy.cli",
    "cindy.data",
}
# A leaf that gathers others: the command line, the pages, the figures and the studies.
GATHERERS = {"cindy.cli", "cindy.data", "cindy.experiments", "cindy.plot", "cindy.report", "cindy.systems"}
# These hand a leaf over to the user, and load it only when asked.
LAZY_DOORS = {"cindy", "cindy.equations", "cindy.model"}
SOLVER_MAY_IMPORT = {"numpy", "scipy", "highspy"}
EXTRAS = {
    "dask",
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
LONGEST_FILE, LONGEST_FUNCTION = 300, 60


@dataclass(frozen=True)
class Import:
    """One imported module, and whether importing the file that names it already loads it."""

    module: str
    eager: bool
    line: int


def module_name(path: Path) -> str:
    parts = ("cindy", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {module_name(path): path for path in FILES}


def modules(*, of: set[str] | None = None, without: set[str] = frozenset()) -> pytest.MarkDecorator:
    chosen = [m for m in sorted(MODULES) if (of is None or inside(m, of)) and not inside(m, without)]
    return pytest.mark.parametrize("module", chosen)


def inside(module: str, rooms: set[str]) -> bool:
    return any(module == room or module.startswith(room + ".") for room in rooms)


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
                yield Import(alias.name, eager, child.lineno)
        elif isinstance(child, ast.ImportFrom):
            base = _absolute(module, child)
            for alias in child.names:
                named = f"{base}.{alias.name}"
                yield Import(named if named in MODULES else base, eager, child.lineno)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for part in child.orelse:
                yield from _walk(module, part, eager=eager)
        else:
            inside_function = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from _walk(module, child, eager=eager and not inside_function)


def _absolute(module: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    is_package = MODULES[module].name == "__init__.py"
    package = module if is_package else module.rpartition(".")[0]
    base = importlib.util.resolve_name("." * node.level, package)
    return f"{base}.{node.module}" if node.module else base


def test_the_walk_sees_lazy_and_eager_imports():
    found = list(_walk("cindy", ast.parse("import a\ndef f():\n    from b.c import d\n"), eager=True))
    assert [(i.module, i.eager) for i in found] == [("a", True), ("b.c", False)]


@modules(of=SOLVER)
def test_the_solver_knows_no_dynamics(module):
    for found in imports(module):
        top = found.module.partition(".")[0]
        if top == "cindy":
            assert inside(found.module, SOLVER | GROUND | {"cindy.least_squares"}), f"line {found.line}"
        else:
            assert top in SOLVER_MAY_IMPORT or top in sys.stdlib_module_names, f"line {found.line}: {top}"


@modules(of=DATA_WING | WAIST)
def test_the_data_wing_knows_no_optimisation(module):
    allowed = GROUND | DATA_WING | WAIST
    for found in imports(module):
        if found.module.partition(".")[0] == "cindy":
            assert inside(found.module, allowed), f"line {found.line}: {found.module}"


@modules()
def test_a_leaf_is_imported_by_nobody_but_the_doors_that_load_it_when_asked(module):
    for found in imports(module):
        if not inside(found.module, LEAVES):
            continue
        own = any(inside(module, {leaf}) and inside(found.module, {leaf}) for leaf in LEAVES)
        lazy_door = module in LAZY_DOORS and not found.eager
        assert own or lazy_door or inside(module, GATHERERS), f"line {found.line}: {found.module}"


@modules(without=LEAVES)
def test_extras_are_loaded_only_by_leaves_or_when_asked(module):
    for found in imports(module):
        assert not (found.eager and found.module.partition(".")[0] in EXTRAS), f"line {found.line}"


def test_there_are_no_import_cycles():
    graph = {m: sorted({i.module for i in imports(m) if i.eager and i.module in MODULES}) for m in MODULES}
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


@modules(without={"cindy.cli"})
def test_only_the_command_line_prints(module):
    for node in ast.walk(tree(module)):
        printing = isinstance(node, ast.Call) and ast.unparse(node.func) in {"print", "sys.stdout.write"}
        assert not printing, f"line {node.lineno}"


@modules()
def test_a_module_says_what_it_is_and_what_it_offers(module):
    assert ast.get_docstring(tree(module)), "no module docstring"
    for node in tree(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = ast.literal_eval(node.value)
            assert len(names) == len(set(names)), "a name stands twice in __all__"
            return
    pytest.fail("no __all__")
