"""A random split of clips into train and test, which its seed repeats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class Split(NamedTuple):
    """The names of the clips for training and for testing, and the seed that chose them."""

    train: tuple[str, ...]
    test: tuple[str, ...]
    seed: int


def split(names: Iterable[str], seed: int, test: float = 0.1) -> Split:
    """Choose clips for testing at random; the others are for training.

    Args:
        names: the clips, in any order.
        seed: the same seed and clips give the same split.
        test: the share of clips for testing, between 0 and 1; at least one clip is in each part.

    Returns:
        The names of both parts, sorted.

    Raises:
        ValueError: fewer than two clips, a name twice, or a share that is not between 0 and 1.

    Example:
        >>> split(["s1/a", "s1/b", "s1/c", "s1/d"], seed=0, test=0.25)
        Split(train=('s1/a', 's1/b', 's1/d'), test=('s1/c',), seed=0)
    """
    ordered = sorted(names)
    if len(ordered) < 2 or len(set(ordered)) != len(ordered):
        raise ValueError(f"names must be at least 2 different ones, got {len(ordered)}, {len(set(ordered))} of them different.")
    if not 0 < test < 1:
        raise ValueError(f"test must be between 0 and 1, got {test}.")
    count = min(max(round(test * len(ordered)), 1), len(ordered) - 1)
    chosen = set(np.random.default_rng(seed).permutation(len(ordered))[:count].tolist())
    train = tuple(name for row, name in enumerate(ordered) if row not in chosen)
    return Split(train, tuple(ordered[row] for row in sorted(chosen)), seed)
