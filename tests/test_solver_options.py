"""What the solver is asked for changes the model: it holds what the path of that run holds."""

from functools import cache

import numpy as np
import pytest

import cindy
from cindy.search import loop as room
from cindy.systems import integrate

BASIS = cindy.Polynomial(2)


@cache
def data() -> tuple[cindy.Trajectory, ...]:
    """Hunters and prey."""
    t = np.linspace(0.0, 12.0, 200)
    path = integrate(lambda z: z * ([1.0, -1.0] * (1.0 - z[:, ::-1])), np.array([[0.5, 1.0]]), t)[:, 0]
    noise = 0.01 * np.random.default_rng(2).standard_normal(path.shape)
    return (cindy.Trajectory(t, path + noise, ("x", "y")),)


@pytest.fixture
def supports(monkeypatch):  # type: ignore[no-untyped-def]
    """The supports of all iterates of all runs of the solver in the passes."""
    met: set[bytes] = set()
    run = room.conditional_gradient

    def recorded(*given, **settings):  # type: ignore[no-untyped-def]
        result = run(*given, **settings)
        met.update(np.asarray(support, dtype=np.intp).tobytes() for support, _ in result.path)
        return result

    monkeypatch.setattr(room, "conditional_gradient", recorded)
    return met


def identified(**settings) -> cindy.Model:  # type: ignore[no-untyped-def]
    return cindy.identify(list(data()), BASIS, **settings)


@cache
def default() -> cindy.Model:
    return identified()


def of(model: cindy.Model) -> bytes:
    return np.flatnonzero(model.coef).tobytes()


def test_by_default_the_states_are_fitted_and_the_law_is_found() -> None:
    assert default().size == 4
    assert np.isfinite(default().model_error).all()


@pytest.mark.filterwarnings("ignore::cindy.ConvergenceWarning")
def test_one_plain_iteration_gives_one_coefficient(supports) -> None:  # type: ignore[no-untyped-def]
    once = identified(correction=cindy.Plain(), max_iter=1)
    assert once.result is not None
    assert once.result.iterations == 1
    assert once.size == 1
    assert of(once) in supports


@pytest.mark.filterwarnings("ignore::cindy.ConvergenceWarning")
@pytest.mark.parametrize("most", [2, 3])
def test_a_run_that_is_cut_off_gives_no_more_coefficients_than_it_has_atoms(supports, most) -> None:  # type: ignore[no-untyped-def]
    short = identified(max_iter=most)
    assert 0 < short.size <= most
    assert of(short) in supports


def test_uniform_weights_give_a_model_of_their_own_path(supports) -> None:  # type: ignore[no-untyped-def]
    uniform = identified(weights="uniform")
    assert of(uniform) in supports
    assert uniform.size > default().size


def test_a_binding_radius_keeps_the_coefficients_inside(supports) -> None:  # type: ignore[no-untyped-def]
    bound = identified(radius=0.1 * default().radius)
    assert bound.radius == pytest.approx(0.1 * default().radius)
    assert any("radius" in sentence for sentence in bound.warnings)
    kept = np.flatnonzero(bound.coef)
    assert any(np.isin(kept, np.frombuffer(support, dtype=np.intp)).all() for support in supports)
    common = (bound.coef != 0) & (default().coef != 0)
    assert np.sum(np.abs(bound.coef[common])) < 0.8 * np.sum(np.abs(default().coef[common]))


def test_a_radius_that_does_not_bind_changes_nothing() -> None:
    free = identified(radius=2 * default().radius)
    assert of(free) == of(default())
    assert np.allclose(free.coef, default().coef, rtol=1e-6)
    assert not free.warnings


def test_one_pass_says_that_states_are_as_measured() -> None:
    once = identified(passes=1)
    assert "as measured, not denoised" in once.summary()
    assert "denoised: estimated together" in default().summary()
    # What is inferred beside a model does not depend on the evidence.
    assert once.near[0].size == once.size
    assert np.isfinite(once.inclusion).all()
