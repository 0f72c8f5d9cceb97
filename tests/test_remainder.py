"""What terms would gain is what fitting with them gains."""

import numpy as np
import pytest
from tests.regressions import made

from cindy.selection.remainder import Remainder


@pytest.mark.parametrize("inside", [[], [2], [0, 3, 5]])
@pytest.mark.parametrize("target", [0, 2])
def test_a_gain_is_the_fall_of_the_loss_with_one_term_more(inside, target):
    regression = made(seed=4, terms=6, targets=3, noise=0.5)
    group = np.array([target])
    support = np.array(inside, dtype=np.intp) * 3 + target
    fit = regression.fit(support, group)
    gains = Remainder.of(regression, target, np.array(inside, dtype=np.intp), fit.x).gains()
    for i in range(6):
        larger = regression.fit(np.union1d(support, [3 * i + target]), group)
        assert gains[i] == pytest.approx(fit.loss - larger.loss, rel=1e-8, abs=1e-8)


def test_terms_taken_in_one_by_one_are_as_those_taken_in_together():
    regression = made(seed=1, terms=6, targets=1, noise=0.5)
    group = np.array([0])
    one_by_one = Remainder.of(regression, 0)
    for i in (4, 1, 2):
        one_by_one.take(i)
    fit = regression.fit(np.array([1, 2, 4]), group)
    together = Remainder.of(regression, 0, np.array([1, 2, 4]), fit.x)
    np.testing.assert_allclose(one_by_one.gains(), together.gains(), atol=1e-8)
    assert one_by_one.loss + regression.unexplained(group) == pytest.approx(fit.loss, rel=1e-10)


def test_a_term_that_depends_on_those_taken_in_gains_nothing_and_changes_nothing():
    regression = made(seed=1, terms=6, targets=1, noise=0.5)
    remainder = Remainder.of(regression, 0)
    remainder.take(3)
    before = remainder.loss
    assert remainder.gains()[3] == 0.0
    remainder.take(3)
    assert remainder.loss == before
