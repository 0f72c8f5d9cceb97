"""Connected components against scipy's."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cindy.solver.components import components


@given(st.integers(1, 60), st.integers(0, 80), st.integers(0, 2**32 - 1))
def test_the_components_are_those_of_the_graph(count, edges, seed):
    first, second = np.random.default_rng(seed).integers(0, count, size=(2, edges))
    graph = coo_array((np.ones(edges), (first, second)), shape=(count, count))
    _, expected = connected_components(graph, directed=False)
    np.testing.assert_array_equal(components(first, second, count), expected)


def test_a_long_chain_in_any_order_is_one_component():
    chain = np.random.default_rng(0).permutation(20_000)
    assert not components(chain[:-1], chain[1:], 20_000).any()
