"""The weak form: fields times test functions, so that no derivative of data is ever taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np

from cindy._arrays import Floats, Ints
from cindy._check import numbers, one_of, short
from cindy.basis import Basis
from cindy.data import Field
from cindy.errors import DataError
from cindy.formulation.base import Formulation

__all__ = ["Weak"]


@dataclass(frozen=True)
class Weak(Formulation):
    """∫ φ ∂_t^r u = Σ ξ_k ∫ φ D^{a_k} g_k(u) with smooth test functions φ of compact support in space and
    time.

    Derivatives are moved onto φ, so a term costs no derivative of the data; powers are taken without the
    bias of the noise, and what noise adds to the Gram matrix is known and taken off (Hermite polynomials,
    `Summary.spurious`).

    order: of the derivative by time
    time: "weak": test functions in time too; "integral": integrals from a free initial state, which see the
        ends of the time interval, and so transients at the beginning
    half_widths: of φ along the axes of space and along time, in the units of the axes; None: chosen from the
        data
    powers: p of φ = (1 − s²)^p, likewise
    noise: standard deviation of the fields, one or one a field; None: measured
    thin: along space and time, of how many samples one is used; None: as many as share no noise

    >>> import numpy as np
    >>> import cindy
    >>> x, t = np.linspace(0, 2 * np.pi, 64, endpoint=False), np.linspace(0, 1, 80)
    >>> u = sum(np.exp(-0.5 * k**2 * t) * np.sin(k * x + k)[:, None] for k in (1, 2, 3))
    >>> heat = cindy.Field(u=u, x=x, t=t, periodic="x")
    >>> print(cindy.identify(heat, cindy.Derivatives(1, order=2), formulation=Weak()).to_text(errors=False))
    u_t = 0.5 u_xx
    """

    kind: ClassVar[str] = "weak"
    for_fields: ClassVar[bool] = True
    smooth: ClassVar[None] = None  # type: ignore[misc]
    order: int = 1
    time: Literal["weak", "integral"] = "weak"
    half_widths: tuple[float, ...] | None = None
    powers: tuple[int, ...] | None = None
    noise: tuple[float, ...] | float | None = None
    thin: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        one_of(self.order, (1, 2), "Weak: `order` of u_t = F or u_tt = F")
        one_of(self.time, ("weak", "integral"), "Weak: `time`")
        for name in ("half_widths", "powers", "noise", "thin"):
            value = getattr(self, name)
            if isinstance(value, (list, np.ndarray)):
                numbers(value, f"Weak: `{name}`")
                given = value if isinstance(value, list) else value.tolist()
                object.__setattr__(self, name, tuple(given) if isinstance(given, list) else given)
        noise = self.noise
        if noise is not None and not np.all(numbers(noise, "Weak: `noise`") >= 0):
            raise DataError(f"Weak: `noise` must be at least 0, but is {short(self.noise)}.")

    @property
    def signature(self) -> dict[str, Any]:
        return {"kind": self.kind, "order": self.order, "time": self.time}

    def given_noise(self, field: Field) -> dict[str, float] | None:
        """The standard deviation of the noise of every field, where it was given."""
        if self.noise is None:
            return None
        given = np.broadcast_to(np.asarray(self.noise, dtype=float), (len(field.states),))
        return dict(zip(field.states, map(float, given), strict=True))

    @property
    def widths(self) -> tuple[float, ...]:
        """The half-widths, chosen."""
        return self.half_widths or ()

    @property
    def exponents(self) -> tuple[int, ...]:
        """The powers, chosen."""
        return self.powers or ()

    @property
    def steps(self) -> tuple[int, ...]:
        """Of how many samples one is used, chosen."""
        return self.thin or ()

    @property
    def thinned(self) -> str:
        steps = self.thin or ()
        return "" if all(k == 1 for k in steps) else " × ".join(f"{k}." for k in steps)

    # What follows is asked of forms for trajectories.

    @property
    def min_samples(self) -> int:
        return 9

    @property
    def margin(self) -> int:
        return 0

    def edges(self, samples: int) -> Ints:
        raise _for_fields()

    def fit_to(self, trajectories: Sequence[Any]) -> Self:
        raise _for_fields()

    def _matrix(self, segment: Any, basis: Basis, edges: Ints) -> Floats:
        raise _for_fields()


def _for_fields() -> DataError:
    return DataError(
        "Weak() is for fields on a grid of space and time, cindy.Field. Trajectories take Integral(), "
        "which is weak in "
        "time as well."
    )
