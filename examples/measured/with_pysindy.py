"""The same files with pysindy 2.1: STLSQ, threshold and smoothing that do best on data held out."""

from pathlib import Path

import numpy as np
import pysindy as ps

import cindy

FOLDER = Path(__file__).parent


def best(name, library, by):
    """Print the equations that explain held-out rates best, over thresholds and ways to differentiate.

    Held out is the last run, or the last third of a single one.
    """
    *train, test = cindy.read(FOLDER / f"{name}.csv", by=by)
    if not train:
        edge = 2 * len(test) // 3
        train, test = [test.part(0, edge)], test.part(edge, len(test))
    found = []
    for smooth in (ps.FiniteDifference(), ps.SmoothedFiniteDifference()):
        for threshold in np.geomspace(1e-4, 1, 17):
            optimizer = ps.STLSQ(threshold=threshold, alpha=1e-6, normalize_columns=False)
            model = ps.SINDy(optimizer, library(), smooth)
            try:
                model.fit([np.asarray(one.x) for one in train], t=[np.asarray(one.t) for one in train],
                          feature_names=list(test.states))  # fmt: skip
                score = model.score(np.asarray(test.x), t=np.asarray(test.t))
            except (ValueError, np.linalg.LinAlgError):
                continue
            found.append((score, model))
    score, model = max(found, key=lambda pair: pair[0])
    terms = int(np.count_nonzero(model.coefficients()))
    print(f"{name}: {terms} terms, R² of the rates held out {score:.3f}")
    for state, line in zip(test.states, model.equations(4), strict=True):
        print(f"  {state}' = {line}")


best("pendulum", lambda: ps.PolynomialLibrary(1) + ps.FourierLibrary(1, include_cos=False), "trial")
best("spring", lambda: ps.PolynomialLibrary(3), "trial")
best("paramecium", lambda: ps.PolynomialLibrary(2, include_bias=False), "Treatment")
