"""The commands: demo, fit, show, simulate, reproduce, bench."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from cindy.errors import CindyError

__all__ = ["app", "main"]

app = typer.Typer(
    name="cindy",
    help="Sparse differential equations from measured time series.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Text = str | None
Texts = list[str] | None


def _panel(name: str) -> Callable[[str], Any]:
    return lambda text: typer.Option(help=text, rich_help_panel=name)


_data, _terms, _law = _panel("Data"), _panel("Equations"), _panel("Known physics")
_search, _written = _panel("Search"), _panel("Output")


def main() -> None:
    """Run the command line: status 0 on success, 2 on a user's mistake, 1 on anything else."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except CindyError as error:
        from rich.text import Text

        from cindy.cli.screen import err

        err.print(Text("Error: ", style="bold red") + Text(str(error)), soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(1)
    except BrokenPipeError:
        # Whoever read the output has closed it; Python would complain once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        # A full disk behind the output, most of all.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(
            f"Error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}.\n"
        )
        sys.exit(1)
    except MemoryError:
        sys.stderr.write("Error: there is not enough memory for this.\n")
        sys.exit(1)


def _version(wanted: bool) -> None:
    if wanted:
        import cindy

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
    from cindy.cli.demo import run

    run(out)


@app.command()
def fit(
    context: typer.Context,
    data: Annotated[Texts, typer.Argument(help="Files: text, parquet, npz, Excel, Matlab, netCDF.")] = None,
    time: Annotated[Text, _data("Column of the time; found by its name (t, time, …) if not given.")] = None,
    dt: Annotated[float | None, _data("Step between the rows, where no column holds the time.")] = None,
    by: Annotated[Text, _data("Column that tells trajectories apart.")] = None,
    states: Annotated[Text, _data('Columns of the states, as "x,y"; all others if not given.')] = None,
    inputs: Annotated[Text, _data('Columns of known inputs, as "u".')] = None,
    hold: Annotated[Text, _data("Inputs between samples: zero (held), linear or band.")] = None,
    periodic: Annotated[Text, _data('Of fields, the axes that repeat, as "x,y".')] = None,
    basis: Annotated[
        Text, _terms('"poly:3", "pde:3,4" (degree, order), "trig:2@x,y", "fourier:1,2", joined by + and *.')
    ] = None,
    term: Annotated[Texts, _terms('A further term, as "decay=x*exp(-y)".')] = None,
    parameter: Annotated[
        Texts, _terms('A number to be found in such terms, and its range: "K=0.01:10".')
    ] = None,
    formulation: Annotated[
        Text,
        _terms(
            "integral, differential or discrete; \"integral:2:rates\" for x'' = F(x, x'); weak for fields."
        ),
    ] = None,
    order: Annotated[int | None, _terms("1 for x' = F, 2 for x'' = F.")] = None,
    window: Annotated[int | None, _terms("Samples in a window; 0: whole trajectories.")] = None,
    initial: Annotated[Text, _terms('Initial states: "free" or "first".')] = None,
    conserve: Annotated[Texts, _law('A conserved sum, as "S + ES + P" or "A + 2 B = 0.5".')] = None,
    exchange: Annotated[Texts, _law('Two interchangeable states, as "x1,x2".')] = None,
    fix: Annotated[Texts, _law('A known coefficient, as "x:y=0.5".')] = None,
    bound: Annotated[Texts, _law('A bound, as "x:y>=0" or "0<=x:y<=3".')] = None,
    tie: Annotated[Texts, _law('Equal or proportional coefficients, as "x:y = -1 y:x".')] = None,
    linear: Annotated[Texts, _law('Any linear law, as "x:y + 2 y:x <= 3".')] = None,
    energy: Annotated[Texts, _law('States whose energy quadratic terms preserve: "x,y,z" or "all".')] = None,
    selection: Annotated[
        Text, _search("significance:0.05, cv:5, bic, gap:1e-6, discrepancy, terms:7.")
    ] = None,
    correction: Annotated[Text, _search("direct, blended, fully-corrective or plain.")] = None,
    weights: Annotated[Text, _search("adaptive or uniform.")] = None,
    radius: Annotated[float | None, _search("Radius of the region, in scaled units.")] = None,
    tol: Annotated[float | None, _search("Gap to reach, relative to the loss of no model.")] = None,
    seed: Annotated[int | None, _search("Seed of whatever is drawn.")] = None,
    passes: Annotated[
        int | None, _search("1: terms at measured states; 2: states fitted, however many coefficients.")
    ] = None,
    out: Annotated[Text, _written("Where to write the model (JSON).")] = None,
    report: Annotated[Text, _written("Where to write the report (HTML).")] = None,
    figures: Annotated[Text, _written("Folder for figures (PNG).")] = None,
    config: Annotated[
        Path | None, typer.Option(help="File of options; cindy.toml where there is one.")
    ] = None,
) -> None:
    """Identify the equations behind measured time series."""
    from cindy.cli.fit import run
    from cindy.cli.settings import read_settings

    typed = {name: value for name, value in context.params.items() if name != "config"}
    file = config or (Path("cindy.toml") if Path("cindy.toml").is_file() else None)
    run(read_settings(file, typed), file)


@app.command()
def show(
    model: Annotated[Path, typer.Argument(help="A model that fit has written.")],
    latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX.")] = False,
    sympy: Annotated[bool, typer.Option("--sympy", help="Print SymPy expressions.")] = False,
    python: Annotated[bool, typer.Option("--python", help="Print Python source.")] = False,
    c: Annotated[bool, typer.Option("--c", help="Print C source.")] = False,
) -> None:
    """Show a model: its equations, its path and how sure it is; or as source for something else."""
    from cindy.cli.show import run

    forms = {"latex": latex, "sympy": sympy, "python": python, "c": c}
    run(model, [name for name, wanted in forms.items() if wanted])


@app.command()
def simulate(
    model: Annotated[Path, typer.Argument(help="A model that fit has written.")],
    x0: Annotated[
        str,
        typer.Option(help='Where to start, as "1,0,25" or "x=1,y=0,z=25"; of fields, a file (.nc, .npz).'),
    ],
    t: Annotated[str | None, typer.Option(help='Times, as "start:stop:step".')] = None,
    v0: Annotated[str | None, typer.Option(help="Velocities to start with, for order 2.")] = None,
    inputs: Annotated[Path | None, typer.Option(help="File of the inputs over time.")] = None,
    hold: Annotated[
        str | None,
        typer.Option(help="Inputs between samples: zero, linear or band. (default: as in the data fitted)"),
    ] = None,
    periodic: Annotated[str | None, typer.Option(help='Of fields, the axes that repeat, as "x,y".')] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write (csv; npz for fields). (default: the screen)")
    ] = None,
) -> None:
    """Solve the equations of a model."""
    from cindy.cli.simulate import run

    run(model, x0=x0, t=t, v0=v0, inputs=inputs, hold=hold, periodic=periodic, out=out)


@app.command()
def reproduce(
    experiment: Annotated[str, typer.Argument(help="The study, as kuramoto5, fput10 or michaelis; or all.")],
    repetitions: Annotated[int | None, typer.Option(help="How often each cell is repeated.")] = None,
    noise: Annotated[str | None, typer.Option(help='Noise levels, as "1e-8:1e-2:13".')] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for tables and figures; by default that of the repository."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in minutes.")] = False,
    processes: Annotated[int, typer.Option(help="How many processes share the work.")] = 2,
) -> None:
    """Repeat an experiment of the paper; what an earlier run has finished is kept."""
    from cindy.cli.studies import run_reproduce

    run_reproduce(experiment, repetitions, noise, out, quick=quick, processes=processes)


@app.command()
def bench(
    sections: Annotated[
        list[str] | None, typer.Argument(help="Which sections; all if none is named.")
    ] = None,
) -> None:
    """Measure speed and recovery against other libraries; needs a checkout of the repository."""
    from cindy.cli.studies import run_bench

    run_bench(sections or [])
