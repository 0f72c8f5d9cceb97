"""cindy show: a saved model on the screen."""

from collections.abc import Sequence
from pathlib import Path

from cindy.cli.screen import out, show_certificate, show_equations, show_path, show_warnings
from cindy.errors import DataError
from cindy.model import load

__all__ = ["run"]


def run(file: Path, forms: Sequence[str]) -> None:
    """The model in one of the forms of `Model.to_…`, or as a summary where no form is named."""
    model = load(file)
    if len(forms) > 1:
        raise DataError(f"show: choose one of --{' and --'.join(forms)}.")
    if not forms:
        show_equations(model)
        show_path(model)
        show_certificate(model)
        show_warnings(model.warnings)
        return
    if forms[0] == "sympy":
        mark = "'" * model.order
        for state, formula in zip(model.states, model.to_sympy(), strict=True):
            out.file.write(f"{state}{mark} = {formula}\n")
        return
    made: str = getattr(model, f"to_{forms[0]}")()
    out.file.write(made.rstrip("\n") + "\n")
