"""Standing: where a stream of several sensors stands after a time, and the states of its layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from phased.fusion.module import top
from phased.stream import Stream


class Standing(NamedTuple):
    """The layers of a stream after a time. Nothing in it changes later: an update makes copies of the layers that it changes.

    So copies of a stream share it, and an error during an update leaves it as it was.
    """

    time: float | None
    sensors: Mapping[str, Stream]
    held: Mapping[str, NDArray[Any]]  # the latest output of each sensor's layer, (H,)
    before: Stream  # the merged layer before the update at this time
    after: Stream  # and after it

    @classmethod
    def at(cls, time: float | None, sensors: Mapping[str, Stream], merged: Stream) -> Standing:
        """Layers in these states; a sample of this time makes a new update."""
        return cls(time, sensors, {name: output_of(stream).numpy() for name, stream in sensors.items()}, merged, merged)


def output_of(stream: Stream) -> Tensor:
    """The output of a layer in its present state, (H,)."""
    h = top(stream.state)
    assert h is not None
    return h


def in_state(stream: Stream, state: Any) -> Stream:
    """A copy of a stream in another state, given as that of a batch of one sequence; None is zeros."""
    other = stream.copy()
    if state is None:
        state = batched(other.state)
        state = tuple(torch.zeros_like(s) for s in state) if isinstance(state, tuple) else torch.zeros_like(state)
    other.state = tuple(s.squeeze(1) for s in state) if isinstance(state, tuple) else state.squeeze(1)
    return other


def batched(state: Any) -> Any:
    """The state of one sequence as that of a batch."""
    return tuple(s.unsqueeze(1) for s in state) if isinstance(state, tuple) else state.unsqueeze(1)
