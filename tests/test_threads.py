"""Linear algebra on one thread while this library computes, and on as many as before afterwards."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import cindy
from cindy._arrays import _openblas, one_thread
from cindy.model import compare

T = np.linspace(0.0, 6.0, 120)
SWING = cindy.Trajectory(T, np.column_stack([np.cos(T), -np.sin(T)]), ("x", "v"))


def counts():
    """Threads of every OpenBLAS of this process."""
    return {get() for get, _ in _openblas()}


@pytest.fixture
def two_threads():
    if not counts():
        pytest.skip("this BLAS does not tell how many threads it uses")
    before = [get() for get, _ in _openblas()]
    for _, put in _openblas():
        put(2)
    yield
    for (_, put), count in zip(_openblas(), before, strict=True):
        put(count)


class Watched:
    """A function of the states that notes how many threads there are while it is called."""

    def __init__(self):
        self.seen = set()

    def __call__(self, x, v):
        self.seen |= counts()
        return x


@pytest.mark.usefixtures("two_threads")
def test_identify_simulate_and_compare_use_one_thread_and_give_the_others_back():
    watched = Watched()
    basis = cindy.Custom({"watched": watched}) + cindy.Polynomial(1, bias=False).on("v")
    model = cindy.identify(SWING, basis)
    assert watched.seen == {1}
    assert counts() == {2}
    for call in (lambda: model.simulate([1.0, 0.0], T), lambda: compare(model, [SWING])):
        watched.seen.clear()
        call()
        assert watched.seen == {1}
        assert counts() == {2}


@pytest.mark.usefixtures("two_threads")
def test_a_call_that_fails_gives_the_threads_back():
    with pytest.raises(cindy.DataError):
        cindy.identify(SWING, 7)
    assert counts() == {2}


@pytest.mark.usefixtures("two_threads")
def test_calls_that_overlap_in_time_give_the_threads_back_when_the_last_ends():
    inside, first_is_out = threading.Event(), threading.Event()
    during = []

    def long_call():
        with one_thread():
            inside.set()
            first_is_out.wait(10.0)
            during.append(counts())

    worker = threading.Thread(target=long_call)
    with one_thread():
        worker.start()
        inside.wait(10.0)
        with one_thread():
            assert counts() == {1}
    first_is_out.set()
    worker.join()
    assert during == [{1}]
    assert counts() == {2}


def test_fits_in_several_threads_at_once_give_the_same_model_as_one_alone():
    noisy = cindy.Trajectory(T, SWING.x + 0.01 * np.random.default_rng(0).normal(size=SWING.x.shape))

    def fitted(form):
        model = cindy.identify(noisy, "poly:2", formulation=form)
        return model.coef.tobytes(), model.coef_error.tobytes(), model.warnings

    forms = ["integral", "differential"] * 3
    alone = [fitted(form) for form in forms[:2]] * 3
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(fitted, forms)) == alone
