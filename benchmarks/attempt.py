"""One fit by one method, scored against the truth: what the tables of noise, damage and honesty share."""

import resource
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cindy

__all__ = [
    "METHODS",
    "Attempt",
    "attempt",
    "counted",
    "median",
    "peak_megabytes",
    "relative",
    "scored",
    "support_of",
    "truth_of",
]

Floats = NDArray[np.float64]

METHODS: dict[str, dict[str, Any]] = {"fitted states": {"passes": None}, "one pass": {"passes": 1}}
"""Arguments of `identify` by method."""

LIMIT = 300.0
"""A fit that takes longer, in seconds of the processor, is stopped and counts as no model."""


@dataclass(frozen=True)
class Attempt:
    """What came back: coefficients (all zero where there is no model), seconds, and why there is none."""

    coef: Floats
    seconds: float
    model: cindy.Model | None = None
    said: str = ""

    @property
    def warnings(self) -> tuple[str, ...]:
        return () if self.model is None else tuple(self.model.warnings)

    def holds(self, support: NDArray[np.bool_]) -> bool:
        """Whether the model or one of its near-equal ones has exactly these terms."""
        near = () if self.model is None else getattr(self.model, "near", ())
        return any(np.array_equal(one != 0, support) for one in (self.coef, *(m.coef for m in near)))


def attempt(method: str, data: Any, basis: cindy.Basis, shape: tuple[int, int], **settings: Any) -> Attempt:
    """The model that a method finds; a refusal, an error or a run past the limit gives none.

    shape: (terms, states) of the coefficients
    """
    nothing = np.zeros(shape)
    began = time.process_time()
    try:
        with _limited(LIMIT):
            model = cindy.identify(data, basis, **METHODS[method], **settings)
    except Exception as error:  # A crash is a result too, and must not end a night's run.
        said = str(error).split(". ")[0]
        if not isinstance(error, cindy.CindyError):
            said = f"{type(error).__name__}: {said}"
        return Attempt(nothing, time.process_time() - began, None, said.replace("\n", " ")[:120])
    return Attempt(np.asarray(model.coef), time.process_time() - began, model)


class _limited:
    """Raises TimeoutError once the block has used this many seconds of the processor."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __enter__(self) -> None:
        def stop(*_: object) -> None:
            raise TimeoutError(f"more than {self.seconds:.0f} s")

        self.before = signal.signal(signal.SIGPROF, stop)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, self.before)


def truth_of(
    basis: cindy.Basis, variables: Sequence[str], equations: Mapping[tuple[str, str], float], states: int = 0
) -> Floats:
    """(terms, states) coefficients, from those of each (state, term) that is not zero."""
    terms = basis.names(tuple(variables))
    coef = np.zeros((len(terms), states or len(variables)))
    for (state, term), value in equations.items():
        coef[terms.index(term), list(variables).index(state)] = value
    return coef


def support_of(coef: Floats, truth: Floats) -> tuple[int, int]:
    """Entries that are there but should not be, and the other way round."""
    return int(((coef != 0) & (truth == 0)).sum()), int(((coef == 0) & (truth != 0)).sum())


def scored(got: Attempt, truth: Floats) -> dict[str, Any]:
    """A row about one fit: right or not and how far, what it says of itself, and what it cost."""
    extra, missing = support_of(got.coef, truth)
    return {
        "right": int(extra + missing == 0),
        "extra": extra,
        "missing": missing,
        "error": relative(got.coef, truth),
        "seconds": got.seconds,
        "near": int(got.holds(truth != 0)),
        "warnings": len(got.warnings),
        "said": got.said,
    }


def counted(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a table says of several such rows."""
    return {
        "right": f"{sum(row['right'] for row in rows)} of {len(rows)}",
        "extra": sum(row["extra"] for row in rows),
        "missing": sum(row["missing"] for row in rows),
        "error": median([row["error"] for row in rows]),
        "near": sum(row["near"] for row in rows),
        "seconds": median([row["seconds"] for row in rows]),
    }


def relative(coef: Floats, truth: Floats) -> float:
    """‖Ξ − Ξ*‖ / ‖Ξ*‖, Frobenius norms."""
    return float(np.linalg.norm(coef - truth) / np.linalg.norm(truth))


def peak_megabytes() -> float:
    """The most memory this process has held, everything it imported included."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not ru_maxrss, which begins with the size of the process that started this one.
        line = next(one for one in status.read_text().splitlines() if one.startswith("VmHWM"))
        return int(line.split()[1]) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def median(values: Sequence[float]) -> float:
    return float(np.median(values)) if len(values) else float("nan")
