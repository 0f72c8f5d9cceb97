"""cindy demo: the bundled data set, from file to equations, figures and report."""

from pathlib import Path

import numpy as np
from rich.padding import Padding
from rich.table import Table

import cindy
from cindy.cli import laws, screen
from cindy.cli.fit import identified, write
from cindy.data import read
from cindy.export import format_value
from cindy.model import Model
from cindy.systems.bundled import KINETICS, kinetics

__all__ = ["run"]

_LAWS = ("E + ES", "S + ES + P")


def run(out: Path) -> None:
    """Identify the reaction behind the data, and compare with the rates that made them."""
    data = read(KINETICS, by="run")
    screen.out.print("An enzyme E binds a substrate S, and the complex ES releases a product P.")
    screen.show_data([KINETICS.name], data)
    screen.section("Known beforehand")
    for law in _LAWS:
        screen.plain(f"{law} does not change: the total is conserved, exactly")
    model = identified(data, cindy.Polynomial(2), constraints=[laws.conserve(law) for law in _LAWS])
    screen.show_equations(model)
    _compare(model)
    screen.show_path(model)
    screen.show_certificate(model)
    files = write(model, data, model_file=out / "model.json", report=out / "report.html", figures=out)
    screen.show_files(files)
    laws_typed = " ".join(f'--conserve "{law}"' for law in _LAWS)
    screen.section("The same by hand")
    screen.plain(f"cindy fit {KINETICS} --by run --basis poly:2 {laws_typed}")


def _compare(model: Model) -> None:
    """Every coefficient that is found or should be, beside the one that made the data."""
    truth = kinetics().coef
    screen.section("Against the rates that made the data")
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 3, 0, 0))
    for name, side in (
        ("equation", "left"),
        ("term", "left"),
        ("found", "right"),
        ("true", "right"),
        ("off by", "right"),
    ):
        table.add_column(name, justify=side)  # type: ignore[arg-type]
    for j, i in np.argwhere((model.coef.T != 0) | (truth.T != 0)):
        value, error = float(model.coef[i, j]), float(model.coef_error[i, j])
        off = f"{abs(value - truth[i, j]) / error:.1f} σ" if error > 0 else ""
        found = format_value(value, error) if value else "absent"
        true = format_value(float(truth[i, j])) if truth[i, j] else "absent"
        table.add_row(f"{model.states[j]}'", model.labels[i], found, true, off)
    screen.out.print(Padding(table, (0, 0, 0, 2), expand=False))
