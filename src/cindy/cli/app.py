"""The command line: its commands and options, and the exit status of errors."""

from __future__ import annotations

import codecs
import inspect
import io
import os
import runpy
import sys
import warnings
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

import cindy
from cindy.cli.settings import FitSettings, read_settings
from cindy.errors import CindyError, DataError, require

app = typer.Typer(
    name="cindy",
    help="Sparse differential equations from measured time series.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line: status 0 on success, 2 on a user's mistake, 1 on anything else."""
    _prepare_streams()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except CindyError as error:
        from cindy.cli.screen import show_error

        show_error(str(error))
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(1)
    except BrokenPipeError:
        # The reader of the output has closed it; Python would report that once more at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:  # such as a full disk
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(
            f"Error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}.\n"
        )
        sys.exit(1)
    except MemoryError:
        sys.stderr.write("Error: there is not enough memory for this.\n")
        sys.exit(1)


_PLAIN = {
    "…": "...", "−": "-", "–": "-", "·": "*", "×": "x", "±": "+/-", "√": "sqrt ", "′": "'", "●": "*",
    "²": "^2", "³": "^3", "χ": "chi", "σ": "sigma", "π": "pi", "Δ": "Delta", "→": "->", "≤": "<=", "≥": ">=",
    "°": " deg ", "µ": "u", "∞": "inf",
}  # fmt: skip
"""Replacements of characters that the output cannot show."""


def _prepare_streams() -> None:
    """Prepare for streams that are closed, and for encodings that lack characters such as √."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the file descriptor was closed before the start
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
            codecs.register_error("cindy-plain", _plain)
            stream.reconfigure(errors="cindy-plain")


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that an encoding lacks by plain ones."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character, "?") for character in lacking), error.end


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cindy {cindy.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Sparse differential equations from measured time series."""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figures, the model and the report.")] = Path(
        "cindy-demo"
    ),
) -> None:
    """Go from a bundled data set to equations, figures and a report."""
    from cindy.cli.commands import run_demo

    run_demo(out)


_FIT_EXAMPLES = """Examples:

cindy fit data.csv

cindy fit data.csv --time s --by run --basis poly:3 --conserve "S + ES + P" --report report.html

cindy fit data.csv --basis poly:1 --term "uptake=S/(K + S)" --parameter "K=0.01:10"

cindy fit field.nc --basis pde:3,4 --periodic x"""


def _fit_signature() -> inspect.Signature:
    """An option for every field of the settings. It is None if not given, so that a file may set it."""
    words = inspect.Parameter.POSITIONAL_OR_KEYWORD
    files = typer.Argument(
        help="Files: text, parquet, npz, Excel or Matlab; netCDF for fields.", metavar="FILES"
    )
    options = [inspect.Parameter("context", words, annotation=typer.Context)]
    kinds = get_type_hints(FitSettings)
    for field in fields(FitSettings):
        about, kind = files, kinds[field.name]
        if field.metadata:
            text = field.metadata["help"]
            if kind == list[str]:
                text += " May be repeated."
            elif field.default is not None:
                text = text.rstrip(".") + f" (default: {field.default})."
            metavar = {int | None: "INTEGER", float | None: "NUMBER"}.get(kind, "TEXT")
            about = typer.Option(help=text, rich_help_panel=field.metadata["panel"], metavar=metavar)
        options.append(
            inspect.Parameter(field.name, words, default=None, annotation=Annotated[kind | None, about])
        )
    config = typer.Option(
        help="File of options (default: cindy.toml, if it exists).", metavar="FILE", rich_help_panel="Data"
    )
    options.append(
        inspect.Parameter("config", words, default=None, annotation=Annotated[Path | None, config])
    )
    return inspect.Signature(options)


def fit(context: typer.Context, config: Path | None = None, **typed: Any) -> None:
    """Identify the equations behind measured time series."""
    from cindy.cli.commands import run_fit

    file = config or (Path("cindy.toml") if Path("cindy.toml").is_file() else None)
    run_fit(read_settings(file, typed), file)


fit.__signature__ = _fit_signature()  # type: ignore[attr-defined]
fit.__annotations__ = {}
app.command(epilog=_FIT_EXAMPLES)(fit)


@app.command()
def show(
    model: Annotated[Path, typer.Argument(help="A model that fit has written.")],
    near: Annotated[bool, typer.Option("--near", help="List the models that fit almost as well.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX, with standard errors.")] = False,
    sympy: Annotated[bool, typer.Option("--sympy", help="Print SymPy expressions.")] = False,
    python: Annotated[bool, typer.Option("--python", help="Print Python source.")] = False,
    c: Annotated[bool, typer.Option("--c", help="Print C source.")] = False,
    julia: Annotated[bool, typer.Option("--julia", help="Print Julia source.")] = False,
    modelica: Annotated[bool, typer.Option("--modelica", help="Print a Modelica model.")] = False,
    sbml: Annotated[bool, typer.Option("--sbml", help="Print SBML.")] = False,
    casadi: Annotated[bool, typer.Option("--casadi", help="Print the CasADi function.")] = False,
) -> None:
    """Show the equations of a model, how sure they are and what was compared; or write them as code."""
    from cindy.cli import screen

    flags = {"near": near, "latex": latex, "sympy": sympy, "python": python, "c": c, "julia": julia}
    flags |= {"modelica": modelica, "sbml": sbml, "casadi": casadi}
    forms = [name for name, wanted in flags.items() if wanted]
    shown = cindy.load(model)
    if len(forms) > 1:
        raise DataError(f"show: choose one of --{' and --'.join(forms)}.")
    if not forms:
        screen.show_model(shown)
    elif near:
        screen.show_near(shown)
    elif sympy:
        mark = "'" * shown.order
        for state, formula in zip(shown.states, shown.to_sympy(), strict=True):
            screen.out.file.write(f"{state}{mark} = {formula}\n")
    else:
        source = shown.to_latex(errors=True) if latex else str(getattr(shown, f"to_{forms[0]}")())
        screen.out.file.write(source.rstrip("\n") + "\n")


@app.command(epilog="Example:\n\ncindy report model.json data.csv --by run --out report.html")
def report(
    model: Annotated[Path, typer.Argument(help="A model that fit has written.")],
    data: Annotated[
        list[str], typer.Argument(help="The data to compare it with: the files that were fitted, or others.")
    ],
    time: Annotated[str | None, typer.Option(help="Column of the time.")] = None,
    by: Annotated[
        str | None, typer.Option(help='Columns that separate trajectories, as "subject,dose".')
    ] = None,
    time_unit: Annotated[str | None, typer.Option(help="Unit for dates: second, minute, hour, …")] = None,
    periodic: Annotated[str | None, typer.Option(help='Periodic axes of a field, as "x,y".')] = None,
    out: Annotated[Path, typer.Option(help="Where to write the page (HTML).")] = Path("report.html"),
) -> None:
    """Write the report of a saved model on its own data or on new data."""
    from cindy.cli import screen
    from cindy.cli.commands import fields_of, names
    from cindy.model import unmeasured

    compared = cindy.load(model)
    if compared.formulation.for_fields:
        measured: list[Any] = fields_of(data, periodic, compared.inputs, time)
    else:
        inputs = tuple(name for name in compared.inputs if not unmeasured(name)) or None
        hold = compared.settings.get("hold", "linear")
        keys, times = names(by, "--by"), names(time, "--time")
        runs = (
            cindy.read(Path(name), times, compared.states, keys, inputs, hold=hold, time_unit=time_unit)
            for name in data
        )
        measured = list(chain.from_iterable(runs))
    with screen.working("Writing the report"):
        cindy.report.write(compared, measured, out)
    screen.show_files([(out, "the report: one page, opens in a browser")])


_FORMS = {
    ".fmu": "fmu",
    ".casadi": "casadi",
    ".mo": "modelica",
    ".jl": "julia",
    ".c": "c",
    ".py": "python",
    ".tex": "latex",
    ".xml": "sbml",
}
"""The form that `export` writes, by the ending of the file."""


@app.command(epilog="Example:\n\ncindy export model.json model.fmu")
def export(
    model: Annotated[Path, typer.Argument(help="A model that fit has written.")],
    out: Annotated[
        Path,
        typer.Argument(help="What to write, by its ending: .fmu, .casadi, .mo, .jl, .c, .py, .tex, .xml."),
    ],
    x0: Annotated[
        str | None, typer.Option(help='Initial state in an .fmu, .mo or .xml, as "1,0,25" or "x=1,y=0,z=25".')
    ] = None,
) -> None:
    """Write a model for another program: FMU, CasADi, Modelica, Julia, C, Python, LaTeX or SBML."""
    from cindy._files import write_text
    from cindy.cli import screen, texts

    exported, form = cindy.load(model), _FORMS.get(out.suffix.lower())
    if form is None:
        raise DataError(f"export: {out} must end in one of {', '.join(_FORMS)}.")
    # The forms that contain the start of a solution.
    started = form in ("fmu", "modelica", "sbml")
    if x0 is not None and not started:
        raise DataError(f"export: a {out.suffix} file holds no start; leave --x0 out.")
    options = {"x0": None if x0 is None else texts.start(x0, exported.states, "--x0")} if started else {}
    if form == "fmu":
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            exported.to_fmu(out, **options)
        screen.show_warnings([str(warning.message) for warning in caught])
    elif form == "casadi":
        exported.to_casadi().save(str(out))
    else:
        source = str(getattr(exported, f"to_{form}")(**options))
        write_text(out, source.rstrip("\n") + "\n", "the export")
    screen.show_files([(out, f"the model as {form}")])


@app.command(epilog='Example:\n\ncindy simulate model.json --x0 "x=1,y=0,z=25" --t 0:20:0.01 --out sim.csv')
def simulate(
    model: Annotated[Path, typer.Argument(help="A model that fit has written.")],
    x0: Annotated[
        str,
        typer.Option(help='Initial state, as "1,0,25" or "x=1,y=0,z=25"; for fields a file (.nc, .npz).'),
    ],
    t: Annotated[str | None, typer.Option(help='Times, as "start:stop:step".')] = None,
    v0: Annotated[str | None, typer.Option(help="Initial velocities, for equations of order 2.")] = None,
    inputs: Annotated[Path | None, typer.Option(help="File of the inputs over time.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of the time in that file.")] = None,
    hold: Annotated[
        str | None,
        typer.Option(
            help="What inputs do between samples: zero, linear or band (default: as when it was fitted)."
        ),
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="Run whose coefficients are used, if they differ between runs.")
    ] = None,
    periodic: Annotated[str | None, typer.Option(help='Periodic axes of a field, as "x,y".')] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write (csv; npz for fields). (default: the screen)")
    ] = None,
) -> None:
    """Solve the equations of a model."""
    from cindy._files import write_text
    from cindy.cli import screen, texts
    from cindy.cli.commands import as_csv, inputs_from, solve_field

    law = cindy.load(model)
    if law.formulation.for_fields:
        solve_field(law, Path(x0), t, periodic, out)
        return
    start = texts.start(x0, law.states, "--x0")
    velocity = None if v0 is None else texts.start(v0, law.states, "--v0")
    measured = inputs_from(law, inputs, time)
    if t is None and measured is None:
        raise DataError('simulate: the times are missing. Say --t "start:stop:step".')
    times = measured.t if t is None and measured is not None else texts.times(t or "")
    u, u_t = (None, None) if measured is None else (measured.x, measured.t)
    held: Any = hold
    with screen.working("Simulating"):
        solution = law.simulate(start, times, u, held, u_t=u_t, v0=velocity, run=run)
    if out is None:
        screen.out.file.write(as_csv(solution))
    else:
        write_text(out, as_csv(solution), "the solution")
    if solution.stopped is not None:
        screen.show_warnings([f"stopped after {len(solution)} of {len(times)} samples: {solution.stopped}."])


@app.command()
def reproduce(
    experiment: Annotated[
        str, typer.Argument(help="The experiment: kuramoto5, fput10, michaelis, …, or all.")
    ],
    repetitions: Annotated[int | None, typer.Option(help="How often each cell is repeated.")] = None,
    noise: Annotated[str | None, typer.Option(help='Noise levels, as "1e-8:1e-2:13".')] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for tables and figures; by default that of the repository."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in minutes.")] = False,
    processes: Annotated[int, typer.Option(help="How many processes share the work.")] = 2,
    method: Annotated[
        list[str] | None, typer.Option(help="A method, as states or sindy. May be repeated. (default: all)")
    ] = None,
) -> None:
    """Repeat an experiment of the paper; what an earlier run has finished is kept."""
    folder = _checkout("reproduce", "experiments of the paper")
    experiments = require("benchmarks.paper", "bench", "cindy reproduce")
    from cindy.cli import screen
    from cindy.cli.commands import levels

    with screen.bar(f"Reproducing {experiment}") as progress:
        files = experiments.reproduce(
            experiment,
            out=out or folder / "benchmarks" / "results" / "paper",
            repetitions=repetitions,
            noise=None if noise is None else levels(noise),
            quick=quick,
            processes=processes,
            progress=progress,
            methods=method,
        )
    screen.show_files([(Path(file), "") for file in files])
    failed = experiments.failures([Path(file) for file in files])
    if failed:
        screen.show_failures(failed)
        raise typer.Exit(1)


@app.command()
def bench(
    sections: Annotated[
        list[str] | None, typer.Argument(help="Which sections; all if none is named.")
    ] = None,
) -> None:
    """Measure speed and recovery against other libraries; needs a checkout of the repository."""
    _checkout("bench", "benchmarks")
    sys.argv = ["benchmarks", *(sections or [])]
    runpy.run_module("benchmarks", run_name="__main__")


def _checkout(command: str, what: str) -> Path:
    """The checkout that contains the current folder; the package `benchmarks` is importable from now on."""
    current = Path.cwd()
    for folder in (current, *current.parents):
        if (folder / "benchmarks" / "paper").is_dir() and (folder / "src" / "cindy").is_dir():
            sys.path.insert(0, str(folder))
            return folder
    raise DataError(
        f"{command}: the {what} are part of the repository and not of the installed package, so clone the "
        'repository, run pip install -e ".[bench]" in it and repeat this command there.'
    )
