"""What identify says to data and arguments that cannot be meant."""

import numpy as np
import pytest

import cindy
from cindy import Custom, Polynomial, Trajectory, conserve, fix
from cindy.errors import CindyError
from cindy.identification import identify

T = np.linspace(0, 5, 200)
SWING = Trajectory(T, np.stack([np.cos(2 * T), -2 * np.sin(2 * T)], axis=1), ("x", "v"))

WRONG = {
    "state .x1. is constant in every trajectory": lambda: identify((T, np.ones((200, 2))), Polynomial(2)),
    "state .x2. is constant": lambda: identify(
        [(T, np.stack([np.cos(T), np.full(200, k)], axis=1)) for k in (1.0, 2.0)], Polynomial(1)
    ),
    "the 1 piece without .* fewer than the 3 samples": lambda: identify(([0.0], [[1.0, 2.0]]), Polynomial(2)),
    "each of the 1 .* fewer than the 3 samples": lambda: identify(
        ([0.0, 1.0], [[1.0], [2.0]]), Polynomial(1)
    ),
    "19 rows of data cannot tell 28 terms apart": lambda: identify((T[:20], SWING.x[:20]), Polynomial(6)),
    "3 rows of data cannot tell 3 terms apart and from noise": lambda: identify(
        (T[::40][:4], SWING.x[::40][:4]), "poly:1", passes=1
    ),
    'state "x1" is 1e\\+60 in size. Use other units': lambda: identify((T, 1e60 * SWING.x), Polynomial(2)),
    'state "x1" is 1e-160 in size. Use other units': lambda: identify((T, 1e-160 * SWING.x), Polynomial(2)),
    # Instants that are put between samples far apart hold no data.
    "4 rows of data cannot tell 6 terms apart": lambda: identify((T[::40][:5], SWING.x[::40][:5]), "poly:2"),
    "no term is significant at level 0.05: nothing": lambda: identify(
        (T, np.random.default_rng(1).standard_normal((200, 2))), Polynomial(1)
    ),
    "function 'log' must return finite numbers, but gave nan": lambda: identify(
        SWING, Custom({"log": lambda x, v: np.log(x)})
    ),
    "these two constraints exclude each other": lambda: identify(
        SWING, Polynomial(2), constraints=[fix("x", "v", 1.0), fix("x", "v", 2.0)]
    ),
    'exclude each other: "x changes at the rate 1 within 0.1 at every sample"': lambda: identify(
        SWING, Polynomial(1), constraints=[conserve("x", 1.0, 0.1), conserve("x", 3.0, 0.1)]
    ),
    r'the constraint cannot be satisfied with those alone: "\[x: v\] = 1"': lambda: identify(
        SWING, Polynomial(1), selection="terms:1", constraints=[fix("x", "1", 1.0), fix("x", "v", 1.0)]
    ),
    'term "v x".*Did you mean "x v"': lambda: identify(
        SWING, Polynomial(2), constraints=[fix("x", "v x", 1.0)]
    ),
    'state "X".*Did you mean "x"': lambda: identify(SWING, Polynomial(2), constraints=[conserve("X")]),
    "`radius` must be a positive number, but is 0": lambda: identify(SWING, Polynomial(2), radius=0.0),
    "`radius` must be a positive number, but is -1": lambda: identify(SWING, Polynomial(2), radius=-1),
    "smallest feasible radius": lambda: identify(
        SWING, Polynomial(2), radius=0.01, constraints=[fix("x", "v", 1.0)]
    ),
    "`tol` must be a positive number, but is 0": lambda: identify(SWING, Polynomial(2), tol=0.0),
    "`tol` must be a positive number, but is nan": lambda: identify(SWING, Polynomial(2), tol=np.nan),
    "`max_iter` must be a whole number": lambda: identify(SWING, Polynomial(2), max_iter=0),
    "`passes` must be a whole number": lambda: identify(SWING, Polynomial(2), passes="two"),
    "`passes` must .*at least 1": lambda: identify(SWING, Polynomial(2), passes=0),
    "`seed` must be a whole number": lambda: identify(SWING, Polynomial(2), seed="zero"),
    "`selection` must be a rule": lambda: identify(SWING, Polynomial(2), selection=7),
    "`correction` must be one such as": lambda: identify(SWING, Polynomial(2), correction=7),
    "`weights` must be Adaptive": lambda: identify(SWING, Polynomial(2), weights=7),
    "`callback` must be a function": lambda: identify(SWING, Polynomial(2), callback=3),
    "`basis` must be a basis": lambda: identify(SWING, 7),
    "`formulation` must be Integral": lambda: identify(SWING, Polynomial(2), formulation=7),
    "`formulation` must be .*but is 8": lambda: identify(SWING, Polynomial(2), formulation=8, hidden=1),
    "constraints are made by": lambda: identify(SWING, Polynomial(2), constraints=["x = 1"]),
    "constraints are made by .*but one is 'x = 1'": lambda: identify(
        SWING, Polynomial(2), constraints="x = 1"
    ),
    "constraints are made by .*but one is 5": lambda: identify(SWING, Polynomial(2), constraints=5),
    "a ndarray of shape .*one argument": lambda: identify(np.ones((200, 2)), T),
    "list is empty": lambda: identify([], Polynomial(2)),
    "nothing is left": lambda: identify((T, np.full((200, 2), np.nan)), Polynomial(2)),
    "`problem` must be a Problem": lambda: cindy.solve(3),
    'the input "t" is not the time': lambda: identify(
        cindy.Trajectory(T, np.cos(T), ("x",), u=np.sin(T), inputs=("t",)), Polynomial(2)
    ),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_a_mistake_is_told_in_a_sentence(sentence):
    with pytest.raises(CindyError, match=sentence) as error:
        WRONG[sentence]()
    assert str(error.value).endswith((".", "?"))
