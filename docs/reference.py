"""The reference: which names stand on which page, and the pages written from that."""

import ast
from functools import cache
from pathlib import Path

__all__ = ["EXTRAS", "PAGES", "defined_at", "index", "page", "summary"]

ROOT = Path(__file__).parent.parent
PAGES = {
    "identify": (
        "From data to equations",
        "identify solve accumulate Problem Summary LeastSquares",
    ),
    "data": ("Data", "Trajectory Field read Lazy"),
    "bases": (
        "Bases of terms",
        "Basis Polynomial Trigonometric Fourier Custom Derivatives PerRun",
    ),
    "formulations": ("Formulations", "Formulation Integral Differential Discrete Weak"),
    "constraints": (
        "Constraints",
        "fix bound tie linear conserve exchange preserve_energy Constraint",
    ),
    "selection": (
        "Selection of terms",
        "Selection Significance BIC CrossValidation Discrepancy Terms Gap Weights Adaptive Uniform",
    ),
    "model": ("Models and findings", "Model Path load Limits Run Finding"),
    "solver": ("The solver", "Direct Blended FullyCorrective Plain Step"),
    "errors": (
        "Errors",
        "CindyError DataError NoModelError ConstraintError InfeasibleError SolverError WorkerError "
        "MissingExtraError ConvergenceWarning",
    ),
}
"""Page: (title, names of `cindy.__all__`)."""
EXTRAS = {
    "solver": (
        "conditional_gradient Result Status gap_at Region smallest_radius contradictory Oracle oracle_for Atom "
        "Correction basis_pursuit Pursuit SampledRows DeviceRows",
        "cindy.solver",
    ),
    "sklearn": ("CINDy ConditionalGradientRegressor", "cindy.sklearn"),
    "pysindy": (
        "ConditionalGradient from_pysindy Library constraint_matrices",
        "cindy.pysindy",
    ),
    "report": ("write render", "cindy.report"),
    "plot": (
        "trajectories phase density coefficients path residuals sparsity field",
        "cindy.plot",
    ),
    "systems": (
        "System lorenz rossler lotka_volterra van_der_pol duffing sir kuramoto fput michaelis_menten "
        "spring_masses integrate",
        "cindy.systems",
    ),
}
"""Page: (names, module they are imported from), for what `cindy.__all__` leaves to submodules."""
_TITLES = {
    "sklearn": "scikit-learn",
    "pysindy": "pysindy",
    "report": "The report",
    "plot": "Figures",
    "systems": "Reference systems",
}


def page(name: str) -> str:
    """The Markdown of one page of the reference."""
    title, own = PAGES.get(name, (_TITLES.get(name, ""), ""))
    lines = [f"# {title}", ""]
    for entry in own.split():
        lines += [f"::: cindy.{entry}"]
        lines += (
            ["    options:", "      inherited_members: true"]
            if entry == "Model"
            else []
        )
    names, module = EXTRAS.get(name, ("", ""))
    lines += [f"::: {defined_at(module, entry)}" for entry in names.split()]
    return "\n".join(lines) + "\n"


def defined_at(module: str, name: str) -> str:
    """Where a name is defined if a module of that name hides it, such as the function `basis_pursuit`."""
    hidden = (ROOT / "src" / Path(*module.split(".")) / f"{name}.py").is_file()
    return f"{module}.{name}.{name}" if hidden else f"{module}.{name}"


def index() -> str:
    """A table of every name with its first sentence, for those who read the sources."""
    lines = []
    for name in dict.fromkeys([*PAGES, *EXTRAS]):
        title, own = PAGES.get(name, (_TITLES.get(name, ""), ""))
        names, module = EXTRAS.get(name, ("", ""))
        entries = [("cindy", entry) for entry in own.split()] + [
            (module, entry) for entry in names.split()
        ]
        lines += [f"## {title}", "", "| name | what it is |", "|---|---|"]
        lines += [
            f"| `{where}.{entry}` | {summary(where, entry)} |"
            for where, entry in entries
        ]
        lines.append("")
    return "\n".join(lines).strip()


def summary(module: str, name: str) -> str:
    """The first sentence of the docstring, found in the source without importing it."""
    text = _docstrings(module).get(name)
    if not text:
        raise LookupError(f"no docstring of {module}.{name}")
    return text.split(". ")[0].rstrip(".").replace("|", "\\|") + "."


@cache
def _docstrings(module: str) -> dict[str, str]:
    """The first paragraph of every class and function that has a docstring, the first of a name."""
    texts: dict[str, str] = {}
    for file in _sources(module):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                paragraph = (ast.get_docstring(node) or "").split("\n\n")[0]
                if paragraph:
                    texts.setdefault(node.name, " ".join(paragraph.split()))
    return texts


def _sources(module: str) -> list[Path]:
    folder = ROOT / "src" / Path(*module.split("."))
    files = (
        sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    )
    # The command line has functions of the same names, which read constraints from text.
    return [file for file in files if file.parent.name != "cli"]
