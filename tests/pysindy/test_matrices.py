"""constraint_matrices: constraints by name for optimizers that only know columns."""

import numpy as np
import pysindy as ps
import pytest
from tests.pysindy.lorenz import NAMES, STEP, noisy

import cindy
from cindy.pysindy import ConditionalGradient, constraint_matrices

RULES = [
    cindy.fix("y", "x", 28.0),
    cindy.bound("x", "x", lower=-9.0, upper=0.0),
    cindy.tie(("x", "x"), ("x", "y"), ratio=-1),
    cindy.linear({("z", "z"): 3.0, ("z", "x y"): 1.0}, lower=-np.inf, upper=-8.0),
]


@pytest.mark.parametrize("library", [ps.PolynomialLibrary(2), ps.PolynomialLibrary(2) + ps.FourierLibrary()])
def test_named_constraints_hold_on_the_coefficients_they_name(library):
    optimizer = ConditionalGradient(**constraint_matrices(RULES, library, NAMES))
    model = ps.SINDy(optimizer=optimizer, feature_library=library)
    model.fit(noisy(), t=STEP, feature_names=NAMES)
    names = model.get_feature_names()
    coef = {
        (s, n): c
        for s, row in zip(NAMES, model.coefficients(), strict=True)
        for n, c in zip(names, row, strict=True)
    }
    assert coef["y", "x"] == pytest.approx(28.0, abs=1e-9)
    assert coef["x", "x"] >= -9.0 - 1e-9
    assert coef["x", "x"] == pytest.approx(-coef["x", "y"], abs=1e-9)
    assert 3 * coef["z", "z"] + coef["z", "x y"] <= -8.0 + 1e-9


def test_a_feature_that_stands_twice_is_constrained_as_one_term():
    library = ps.PolynomialLibrary(1) + ps.PolynomialLibrary(1, include_bias=False)
    given = constraint_matrices([cindy.fix("x", "x", 2.0)], library, ["x"])
    np.testing.assert_array_equal(given["constraint_lhs"], [[0.0, 1.0, 1.0]])


def test_pysindys_own_optimizer_takes_them_too():
    library = ps.PolynomialLibrary(2)
    given = constraint_matrices([cindy.fix("y", "x", 28.0)], library, NAMES)
    own = ps.ConstrainedSR3(reg_weight_lam=0.01, relax_coeff_nu=1e-6, **given)
    coef = ps.SINDy(optimizer=own, feature_library=library).fit(noisy(), t=STEP).coefficients()
    assert coef[1, 1] == pytest.approx(28.0, abs=0.01)


def test_a_name_that_does_not_exist_is_told():
    with pytest.raises(cindy.ConstraintError, match='Did you mean "x y"'):
        constraint_matrices([cindy.fix("x", "x*y", 1.0)], ps.PolynomialLibrary(2), NAMES)
    law = cindy.conserve({"x": 1, "y": 1}, tolerance=0.1)
    with pytest.raises(cindy.ConstraintError, match="identify"):
        constraint_matrices([law], ps.PolynomialLibrary(2), NAMES)
