"""The pool of atoms, what it gives back and what it forgets; how often a step reads the design."""

import numpy as np
import pytest
from tests.solver.problems import objective, region

from cindy.errors import ConvergenceWarning
from cindy.solver import Atom, Region, conditional_gradient, oracle_for
from cindy.solver.hull import Corral, Pool

ORIGIN = np.zeros(5)


def atom(*values: float) -> Atom:
    indices = np.flatnonzero(values)
    return Atom(indices, np.array(values)[indices], ORIGIN)


def test_the_best_atom_has_the_least_inner_product_with_the_gradient():
    pool, gradient = Pool(), np.array([1.0, -2.0, 0.5, 0.0, 3.0])
    assert pool.best(gradient) == (None, 0.0)
    atoms = [atom(*np.roll([1.0, -1.0, 0.0, 0.0, 2.0], k)) for k in range(5)]
    for one in atoms:
        pool.add(one)
    found, slope = pool.best(gradient)
    assert found is min(atoms, key=lambda a: a.slope(gradient))
    assert slope == found.slope(gradient)


def test_with_no_room_left_the_oldest_atoms_are_forgotten():
    pool = Pool(room=8)
    for k in range(9):
        pool.add(atom(0, 0, -1.0 - k, 0, 0))
    assert pool.best(np.array([0, 0, 1.0, 0, 0]))[1] == -9.0
    assert pool.best(np.array([0, 0, -1.0, 0, 0]))[1] == 3.0
    pool.add(atom(0, 0, -1.0, 0, 0))
    assert pool.best(np.array([0, 0, -1.0, 0, 0]))[1] == 1.0


def test_on_a_thin_region_far_fewer_calls_are_needed_than_without_a_memory():
    f, here = objective("columns of size 1e-6 to 1e6"), region("dense rows", "columns of size 1e-6 to 1e6")
    forgetful = oracle_for(here)
    forgetful.costly = False
    calls = conditional_gradient(f, oracle_for(here), tol=1e-7).oracle_calls
    # Five times as many are not enough without it: every iteration is a call.
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        conditional_gradient(f, forgetful, tol=1e-7, max_iter=5 * calls)


class Counted(np.ndarray):
    """An array that counts its matrix products."""

    products = 0

    def __matmul__(self, other):
        Counted.products += 1
        return np.asarray(self) @ other


def test_a_step_at_the_radius_reads_the_design_once():
    f = objective("one target")
    oracle = oracle_for(Region(f.terms * f.targets, 0.1))
    corral = Corral(f, oracle)
    corral.design = corral.design.view(Counted)
    corral.enter(oracle(corral.gradient))
    assert corral._price > 0.0
    assert Counted.products == 1
