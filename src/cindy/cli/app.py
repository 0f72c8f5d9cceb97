"""The commands: demo, fit, show, simulate, reproduce, bench."""

import os
import sys
from pathlib import Path
from typing import Annotated

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

Texts = list[str] | None


def main() -> None:
    """Run the command line: status 0 on success, 2 on a user's mistake, 1 on anything else."""
    try:
        app()
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
    data: Annotated[list[str] | None, typer.Argument(help="Files: csv, parquet or npz.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of the time. [default: t]")] = None,
    by: Annotated[str | None, typer.Option(help="Column that tells trajectories apart.")] = None,
    states: Annotated[
        str | None, typer.Option(help='Columns of the states, as "x,y". [default: all]')
    ] = None,
    inputs: Annotated[str | None, typer.Option(help='Columns of known inputs, as "u".')] = None,
    basis: Annotated[
        str | None,
        typer.Option(
            help='Terms, as "poly:3", "trig:2@x,y", "fourier:1,2", joined by + and *. [default: poly:2]'
        ),
    ] = None,
    term: Annotated[Texts, typer.Option(help='A further term, as "decay=x*exp(-y)".')] = None,
    formulation: Annotated[
        str | None, typer.Option(help="integral, differential or discrete. [default: integral]")
    ] = None,
    order: Annotated[int | None, typer.Option(help="1 for x' = F, 2 for x'' = F. [default: 1]")] = None,
    window: Annotated[int | None, typer.Option(help="Samples in a window; 0: whole trajectories.")] = None,
    initial: Annotated[str | None, typer.Option(help='Initial states: "free" or "first".')] = None,
    selection: Annotated[
        str | None, typer.Option(help="significance:0.05, cv:5, bic, gap:1e-6, discrepancy or terms:7.")
    ] = None,
    correction: Annotated[
        str | None, typer.Option(help="direct, blended, fully-corrective or plain.")
    ] = None,
    weights: Annotated[str | None, typer.Option(help="adaptive or uniform.")] = None,
    radius: Annotated[float | None, typer.Option(help="Radius of the region.")] = None,
    tol: Annotated[float | None, typer.Option(help="Gap to reach, relative to the loss of no model.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of whatever is drawn.")] = None,
    conserve: Annotated[
        Texts, typer.Option(help='A conserved sum, as "S + ES + P" or "A + 2 B = 0.5".')
    ] = None,
    exchange: Annotated[Texts, typer.Option(help='Two interchangeable states, as "x1,x2".')] = None,
    fix: Annotated[Texts, typer.Option(help='A known coefficient, as "x:y=0.5".')] = None,
    bound: Annotated[Texts, typer.Option(help='A bound, as "x:y>=0" or "0<=x:y<=3".')] = None,
    tie: Annotated[Texts, typer.Option(help='Equal or proportional coefficients, as "x:y = -1 y:x".')] = None,
    linear: Annotated[Texts, typer.Option(help='Any linear law, as "x:y + 2 y:x <= 3".')] = None,
    out: Annotated[str | None, typer.Option(help="Where to write the model (JSON).")] = None,
    report: Annotated[str | None, typer.Option(help="Where to write the report (HTML).")] = None,
    figures: Annotated[str | None, typer.Option(help="Folder for figures (PNG).")] = None,
    config: Annotated[
        Path | None, typer.Option(help="File of these options. [default: cindy.toml, where there is one]")
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
    x0: Annotated[str, typer.Option(help='Where to start, as "1,0,25" or "x=1,y=0,z=25".')],
    t: Annotated[str | None, typer.Option(help='Times, as "start:stop:step".')] = None,
    v0: Annotated[str | None, typer.Option(help="Velocities to start with, for order 2.")] = None,
    inputs: Annotated[Path | None, typer.Option(help="File of the inputs over time.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write (csv). [default: the screen]")] = None,
) -> None:
    """Solve the equations of a model."""
    from cindy.cli.simulate import run

    run(model, x0=x0, t=t, v0=v0, inputs=inputs, out=out)


@app.command()
def reproduce(
    experiment: Annotated[str, typer.Argument(help="The study, as kuramoto5, fput10 or michaelis; or all.")],
    repetitions: Annotated[int | None, typer.Option(help="How often each cell is repeated.")] = None,
    noise: Annotated[str | None, typer.Option(help='Noise levels, as "1e-8:1e-2:13".')] = None,
    out: Annotated[Path, typer.Option(help="Folder for the tables and figures.")] = Path("results"),
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
