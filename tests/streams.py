"""Layers to stream, events to stream through them, and what a stream must not change."""

from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from layers import states
from phased import PhasedGRU, PhasedLSTM, Stream
from phased.init import LogUniform
from strategies import clocks

LAYERS: dict[str, Any] = {
    "lstm": lambda **s: PhasedLSTM(3, 7, **s),
    "gru": lambda **s: PhasedGRU(3, 7, **s),
    "lstm, two layers": lambda **s: PhasedLSTM(3, 7, 2, **s),
    "gru, two layers": lambda **s: PhasedGRU(3, 7, 2, **s),
    "lstm, peepholes": lambda **s: PhasedLSTM(3, 7, 2, peephole=True, **s),
    "lstm, square": lambda **s: PhasedLSTM(3, 7, gate="square", **s),
    "lstm, no bias": lambda **s: PhasedLSTM(3, 7, bias=False, **s),
    "gru, no bias": lambda **s: PhasedGRU(3, 7, bias=False, **s),
    "lstm, batch first": lambda **s: PhasedLSTM(3, 7, batch_first=True, **s),
}
each_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())
some_layer = st.sampled_from(list(LAYERS.values()))


chosen = {"backend": "auto"}


def build(make: Any, dtype: torch.dtype = torch.float64, **settings: Any) -> PhasedLSTM | PhasedGRU:
    return make(**({"period": LogUniform(2, 40), "ratio_on": 0.3, "leak": 0.1, "dtype": dtype} | chosen | settings))


def push_all(stream: Stream, x: Tensor, times: Any) -> Tensor:
    return torch.stack([torch.as_tensor(stream.push(x_j, t_j)) for x_j, t_j in zip(x, times, strict=True)])


def events(count: int = 40, dtype: torch.dtype = torch.float64, start: float = 0.0) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 3, dtype=dtype), clocks(count, 1, start=start).squeeze(1)


def snapshot(stream: Stream) -> tuple[Any, ...]:
    return stream.time, *(s.clone() for s in states(stream.state))


def assert_unchanged(stream: Stream, before: tuple[Any, ...]) -> None:
    assert stream.time == before[0]
    assert all(torch.equal(a, b) for a, b in zip(states(stream.state), before[1:], strict=True))


def assert_runs(sent: list[tuple[Stream, Tensor]]) -> None:
    """Each stream gives the outputs that came with it, for three events of ones."""
    for stream, want in sent:
        torch.testing.assert_close(stream.run(torch.ones(3, 2), [1, 2, 3]), want)
