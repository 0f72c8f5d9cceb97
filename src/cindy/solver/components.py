"""Connected components of a graph, for graphs so small that building a sparse matrix takes longer."""

import numpy as np

from cindy._types import Ints

__all__ = ["components"]


def components(first: Ints, second: Ints, count: int) -> Ints:
    """(count,): labels 0, 1, … of the nodes, equal for those that edges first[i] – second[i] connect.

    Every node points to one of its component; ends of an edge that point to
    different nodes make the larger of these point to the smaller, and all then
    follow their pointers to the end.

    >>> components(np.array([0, 3]), np.array([2, 2]), 5)
    array([0, 1, 0, 0, 2])
    """
    root = np.arange(count)
    while True:
        one, other = root[first], root[second]
        if (one == other).all():
            return np.asarray(np.unique(root, return_inverse=True)[1], dtype=np.intp)
        np.minimum.at(root, np.maximum(one, other), np.minimum(one, other))
        further = root[root]
        while (further != root).any():
            root, further = further, further[further]
