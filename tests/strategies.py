"""Test material shared by several files: what hypothesis draws, and small helpers to compare and poison."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from hypothesis import strategies as st
from torch import Tensor

from phased import ops

BACKENDS = ["auto", *(b.name for b in ops.BACKENDS if b.device in (None, "cpu") and b.missing() is None)]
"""Every backend that runs on CPU tensors here, by the name a layer is given."""

seeds = st.integers(0, 2**31 - 1)
periods = st.floats(0.01, 1e4)
ratios = st.floats(0.01, 1.0)
times = st.floats(-1e6, 1e6)
phases = st.floats(0.0, 1.0, exclude_max=True)
ragged = st.lists(st.integers(0, 9), min_size=1, max_size=5)
"""The lengths of a ragged batch, empty sequences included."""


def f64(values: object) -> Tensor:
    """A float64 tensor."""
    return torch.as_tensor(values, dtype=torch.float64)


def apart(a: Tensor, b: Tensor) -> Tensor:
    """The distance of two phases on the circle: 0.999 and 0 are neighbours."""
    gap = (a - b).abs() % 1
    return torch.minimum(gap, 1 - gap)


def clocks(steps: int, batch: int, span: float = 100.0, start: float = 0.0) -> Tensor:
    """Irregular times (steps, batch), float64, each sequence with its own."""
    return start + span * torch.rand(steps, batch, dtype=torch.float64).sort(0).values


@contextmanager
def poisoned() -> Iterator[None]:
    """Freshly allocated memory holds NaN (torch fills it so in deterministic mode)."""
    before = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        assert torch.empty(4).isnan().all()
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.utils.deterministic.fill_uninitialized_memory = before[1]
