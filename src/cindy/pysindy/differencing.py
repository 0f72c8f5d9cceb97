"""What differentiation of the data leaves of the truth, and terms that explain no more than that."""

from __future__ import annotations

import numpy as np

from cindy._types import Floats

__all__ = ["difference_error"]


_FEWEST = 20
"""Rows below which products of differences average over too few pairs to tell anything."""
_APART = 5
"""Steps at which second differences of centred differences have no sample in common."""
_SMOOTH = 0.5
"""Second differences in units of the signal; of rows in no order they are larger by a factor of 5."""
_TAIL = 0.02
"""Share of the samples left aside on either side: where one trajectory ends and the next begins."""


def difference_error(target: Floats) -> Floats:
    """(targets,) root mean square error of derivatives by centred differences, from the derivatives.

    The leading error, step² x''' / 6, is a sixth of the second difference of x'. Noise has
    second differences too, but at samples next to each other they have opposite signs, and at
    samples some steps apart nothing in common: what the products of such pairs agree on is
    not noise. Rows that do not follow each other in time, or that are coarse or noisy beyond
    use, tell nothing, and the error is then taken as 0.

    >>> t = 0.01 * np.arange(500)
    >>> x = np.sin(3 * t)
    >>> wrong = (x[2:] - x[:-2]) / 0.02 - 3 * np.cos(3 * t)[1:-1]
    >>> estimate = difference_error(((x[2:] - x[:-2]) / 0.02)[:, None])
    >>> bool(0.8 < estimate[0] / np.sqrt(np.mean(wrong**2)) < 1.2)
    True
    """
    if len(target) < _FEWEST:
        return np.zeros(target.shape[1])
    second = np.diff(target, n=2, axis=0)
    near, _ = _middle(second[1:] * second[:-1])
    far, doubt = _middle(second[_APART:] * second[:-_APART])
    agreed = np.maximum(near, far - 2.0 * doubt)
    agreed[np.mean(second**2, axis=0) > _SMOOTH**2 * np.mean(target**2, axis=0)] = 0.0
    return np.asarray(np.sqrt(np.maximum(agreed, 0.0)) / 6.0)


def _middle(products: Floats) -> tuple[Floats, Floats]:
    """Mean of all but the extremes, and its standard error."""
    aside = int(_TAIL * len(products))
    middle = np.sort(products, axis=0)[aside : len(products) - aside]
    return np.mean(middle, axis=0), np.std(middle, axis=0) / np.sqrt(len(middle))
