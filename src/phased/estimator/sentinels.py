"""Numbers that stand for a missing value, such as -1 or 9999, found by their distance from the other values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NEGATIVE = (-1.0, -9.0, -99.0, -999.0, -9999.0, -99999.0)
POSITIVE = (99.0, 999.0, 9999.0, 99999.0, 999999.0)
OFTEN = 2  # a sentinel occurs more than once
APART = 3.0  # a number this many ranges of the others away from them is no measurement


def suspicious(values: NDArray[np.float64]) -> list[tuple[float, int, float, float]]:
    """Numbers that look like sentinels: each with its count, and the range of the other values.

    A usual sentinel is reported if it is below or above all other values and either far from them, or the only negative number.

    Example:
        >>> from phased.estimator.sentinels import suspicious
        >>> import numpy as np
        >>> suspicious(np.array([170.0, 182.0, -1.0, 165.0, -1.0]))
        [(-1.0, 2, 165.0, 182.0)]
    """
    found = []
    for number in (*NEGATIVE, *POSITIVE):
        is_it = values == number
        count = int(is_it.sum())
        if count < OFTEN or count == len(values):
            continue
        rest = values[~is_it & ~np.isin(values, NEGATIVE if number < 0 else POSITIVE)]
        if not len(rest):
            continue
        low, high = float(rest.min()), float(rest.max())
        if low == high == -number:  # -1 and 1 are two classes
            continue
        distance = low - number if number < 0 else number - high
        alone = number < 0 <= low and (low > 0 or count < len(values) / 2)
        if distance > APART * (high - low) or (distance > 0 and alone):
            found.append((number, count, low, high))
    return found
