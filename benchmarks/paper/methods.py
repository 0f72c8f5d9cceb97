"""CINDy in three guises, and the table of all methods: their formulations and how they are drawn."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.sparse import csr_array

from benchmarks.paper import peers
from benchmarks.paper.peers import Tuned
from benchmarks.paper.setting import Setting
from cindy.errors import ConvergenceWarning, DataError
from cindy.formulation import Integral
from cindy.solver import Blended, Region, Result, conditional_gradient, oracle_for

__all__ = ["METHODS", "Method", "default", "early", "letter", "paper_run"]

GAP = 1e-6
MOST_ITERATIONS = 2000


def letter(*, constrained: bool) -> Callable[[Setting, int, int], Tuned]:
    """Blended conditional gradients, radius 2‖LS‖₁, until the gap is 1e-6 of the loss at zero."""

    def method(setting: Setting, trials: int, seed: int) -> Tuned:
        result = paper_run(setting, constrained)
        note = "" if result.converged else f"{result.status.value} at relative gap {result.relative_gap:.2g}"
        return Tuned(result.x, {}, setting.validation_loss(result.x), 0, "", note)

    return method


def early(*, constrained: bool) -> Callable[[Setting, int, int], Tuned]:
    """The same run, ended where the validation loss is least, as the authors' code did."""

    def method(setting: Setting, trials: int, seed: int) -> Tuned:
        path = paper_run(setting, constrained).path
        losses = [setting.validation_loss(x) for _, x in path]
        best = int(np.argmin(losses))
        note = "" if best + 1 < len(path) else "the last iterate"
        return Tuned(path[best][1], {"atoms": float(len(path[best][0]))}, losses[best], 0, "", note)

    return method


@lru_cache(maxsize=4)
def paper_run(setting: Setting, constrained: bool) -> Result:
    """The paper's algorithm on the training data, columns of unit root mean square."""
    train = setting.scaled_train
    size = train.terms * train.targets
    radius = 2.0 * float(np.abs(setting.least_squares).sum())
    if constrained:
        zero = np.zeros(len(setting.equalities))
        region = Region(size, radius, matrix=csr_array(setting.equalities), lower=zero, upper=zero)
    else:
        region = Region(size, radius)
    with warnings.catch_warnings():
        # Told by the note of the row.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return conditional_gradient(train, oracle_for(region), Blended(), tol=GAP, max_iter=MOST_ITERATIONS)


def default(*, constrained: bool, passes: int | None = None) -> Callable[[Setting, int, int], Tuned]:
    """`cindy.identify` as a user calls it: nothing tuned, no validation data, no knowledge of the noise.

    passes: None: states fitted too; 1: terms at measured states
    """

    def method(setting: Setting, trials: int, seed: int) -> Tuned:
        from cindy.identification import identify

        free = setting.formulation == "free"
        try:
            model = identify(
                setting.training,
                setting.system.basis,
                formulation=Integral(order=setting.system.order) if free else setting.form,
                constraints=setting.system.constraints() if constrained else (),
                passes=passes,
            )
        except DataError as error:
            if "nothing in the basis explains" not in str(error):
                raise
            # Noise that hides everything is no failure of the run: it is scored as the model without terms.
            nothing = np.zeros_like(setting.system.coef)
            return Tuned(nothing, {}, setting.validation_loss(nothing), 0, "", str(error)[:200])
        coef = model.coef * setting.scale[:, None]
        return Tuned(coef, {}, setting.validation_loss(coef), 0, "", " ".join(model.warnings)[:200])

    return method


PAPER = ("differential", "integral")
MATRICES = (*PAPER, "free")


@dataclass(frozen=True)
class Method:
    """One line of every figure.

    fit: from a setting, a number of trials and a seed to scaled coefficients
    colour, marker, line: the same in every figure; colours of Okabe and Ito, their yellow darkened
    """

    label: str
    fit: Callable[[Setting, int, int], Tuned]
    formulations: tuple[str, ...]
    colour: str
    marker: str
    line: str = "-"


ORANGE, SKY, GREEN, OLIVE = "#E69F00", "#56B4E9", "#009E73", "#8F7700"
BLUE, RED, PINK, BLACK, GREY = "#0072B2", "#D55E00", "#CC79A7", "#000000", "#888888"

METHODS: dict[str, Method] = {
    "floor": Method("true support", peers.true_support, MATRICES, GREY, "", ":"),
    "sindy": Method("SINDy", peers.sindy, MATRICES, RED, "o"),
    "sindy-ridge": Method("SINDy (ridge)", peers.sindy_ridge, PAPER, RED, "v", "--"),
    "sr3-l0": Method("SR3 (c-ℓ0)", peers.sr3("l0"), PAPER, PINK, "s"),
    "sr3-l1": Method("SR3 (c-ℓ1)", peers.sr3("l1"), PAPER, PINK, "D", "--"),
    "fista": Method("FISTA", peers.fista, PAPER, GREEN, "^"),
    "ipm": Method("IPM", peers.ipm(constrained=False), PAPER, ORANGE, "P"),
    "ipm-c": Method("IPM (c)", peers.ipm(constrained=True), PAPER, ORANGE, "X", "--"),
    "lars": Method("LARS", peers.lars, PAPER, GREEN, "<", "--"),
    "ssr": Method("SSR", peers.ssr, PAPER, OLIVE, "h"),
    "frols": Method("FROLS", peers.frols, PAPER, OLIVE, "p", "--"),
    "ensemble": Method("ensemble SINDy", peers.ensemble, PAPER, PINK, "*", "-."),
    "weak": Method("weak SINDy", peers.weak, ("weak",), ORANGE, ">", "-."),
    "cindy": Method("CINDy", letter(constrained=False), PAPER, SKY, "o"),
    "cindy-c": Method("CINDy (c)", letter(constrained=True), PAPER, SKY, "s", "--"),
    "cindy-early": Method("CINDy, early stop", early(constrained=False), PAPER, BLUE, "^"),
    "cindy-early-c": Method("CINDy (c), early stop", early(constrained=True), PAPER, BLUE, "v", "--"),
    "default": Method("one pass", default(constrained=False, passes=1), MATRICES, BLACK, "o"),
    "default-c": Method("one pass (c)", default(constrained=True, passes=1), MATRICES, BLACK, "s", "--"),
    "states": Method("fitted states", default(constrained=False), ("free",), BLACK, "^", "-."),
    "states-c": Method("fitted states (c)", default(constrained=True), ("free",), BLACK, "v", ":"),
}
