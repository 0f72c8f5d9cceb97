"""The table of methods: what takes part, in which formulation, and how it is drawn."""

from collections.abc import Callable
from dataclasses import dataclass

import cindy.experiments.ours as ours
import cindy.experiments.peers as peers
import cindy.experiments.sampled as sampled
from cindy.experiments.setting import Setting
from cindy.experiments.tuning import Tuned

__all__ = ["METHODS", "Method"]

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
    "ensemble": Method("ensemble SINDy", sampled.ensemble, PAPER, PINK, "*", "-."),
    "weak": Method("weak SINDy", sampled.weak, ("weak",), ORANGE, ">", "-."),
    "cindy": Method("CINDy", ours.letter(constrained=False), PAPER, SKY, "o"),
    "cindy-c": Method("CINDy (c)", ours.letter(constrained=True), PAPER, SKY, "s", "--"),
    "cindy-early": Method("CINDy, early stop", ours.early(constrained=False), PAPER, BLUE, "^"),
    "cindy-early-c": Method("CINDy (c), early stop", ours.early(constrained=True), PAPER, BLUE, "v", "--"),
    "default": Method("one pass", ours.default(constrained=False, passes=1), MATRICES, BLACK, "o"),
    "default-c": Method("one pass (c)", ours.default(constrained=True, passes=1), MATRICES, BLACK, "s", "--"),
    "states": Method("fitted states", ours.default(constrained=False), ("free",), BLACK, "^", "-."),
    "states-c": Method("fitted states (c)", ours.default(constrained=True), ("free",), BLACK, "v", ":"),
}
