"""What a user waits for: the import, the command line, a simulation. `python -m benchmarks.face` shows it."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.integrate import solve_ivp

from cindy import Integral, Model, systems
from cindy.systems.catalogue import KINETICS

__all__ = ["measure"]

Row = dict[str, str | float]


def measure() -> list[Row]:
    """One row each: what, seconds, the limit or the peer, and the ratio to it."""
    return [
        _limit("import cindy", _import, 0.5),
        _limit("cindy fit", _fit, 5.0),
        *_simulations(),
        *_blow_ups(),
    ]


def _best(action: Callable[[], object], repeats: int = 5) -> float:
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def _limit(what: str, action: Callable[[], object], limit: float) -> Row:
    seconds = _best(action, 3)
    return {"what": what, "seconds": seconds, "against": f"at most {limit:g} s", "ratio": seconds / limit}


def _import() -> None:
    subprocess.run([sys.executable, "-c", "import cindy"], check=True)


def _fit() -> None:
    command = [
        sys.executable,
        "-c",
        "from cindy.cli import main; main()",
        "fit",
        str(KINETICS),
        "--by",
        "run",
    ]
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder, "model.json"))
        subprocess.run([*command, "--out", out], check=True, capture_output=True)


def _simulations() -> list[Row]:
    """simulate against integrators that call predict, at the same tolerance."""
    rows: list[Row] = []
    for system, horizon in ((systems.lorenz(), 5.0), (systems.kuramoto(10), 10.0)):
        model = Model(system.coef, system.basis, system.states, formulation=Integral(order=system.order))
        start, t = system.simulate(seed=0, trajectories=1)[0].x[0], np.linspace(0.0, horizon, 501)
        seconds = _best(lambda model=model, start=start, t=t: model.simulate(start, t))

        def slope(s: float, x: np.ndarray, model: Model = model) -> np.ndarray:
            return model.predict(x[None])[0]

        for method in ("RK45", "DOP853", "LSODA"):
            peer = _best(
                lambda method=method, slope=slope, start=start, t=t: solve_ivp(
                    slope, (t[0], t[-1]), start, method, t_eval=t, rtol=1e-9, atol=1e-12
                ),
                2,
            )
            what, against = f"simulate {system.name}", f"solve_ivp {method} on predict"
            rows.append({"what": what, "seconds": seconds, "against": against, "ratio": peer / seconds})
    return rows


def _blow_ups() -> list[Row]:
    from cindy import Polynomial

    square = Model(np.array([[0.0], [0.0], [1.0]]), Polynomial(2), ("x",))
    return [_limit("a blow-up, x' = x^2", lambda: square.simulate([1.0], np.linspace(0, 2, 1001)), 1.0)]


if __name__ == "__main__":
    for row in measure():
        print(f"{row['what']:<24}{row['seconds']:>10.4f} s   {row['against']:<30}{row['ratio']:>8.2f}")
