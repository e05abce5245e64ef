"""Recordings of an event camera: one, and many in flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Sensor(NamedTuple):
    """The size of a camera in pixels."""

    width: int
    height: int

    @property
    def addresses(self) -> int:
        """The number of different events: two polarities at every pixel."""
        return 2 * self.width * self.height


NMNIST = Sensor(34, 34)


@dataclass(frozen=True)
class Recording:
    """The events of one recording, sorted by time.

    Args:
        x: column of the pixel, from the left, (N,) integers.
        y: row of the pixel, from the top, (N,) integers.
        polarity: the polarity bit, (N,) bool.
        time: microseconds, (N,) int64, never decreasing.
        sensor: the size of the camera.
    """

    x: NDArray[np.integer[Any]]
    y: NDArray[np.integer[Any]]
    polarity: NDArray[np.bool_]
    time: NDArray[np.int64]
    sensor: Sensor = NMNIST

    def __len__(self) -> int:
        return len(self.time)

    @property
    def address(self) -> NDArray[np.int64]:
        """The address of each event, (N,): (y * width + x) * 2 + polarity."""
        return (self.y.astype(np.int64) * self.sensor.width + self.x) * 2 + self.polarity


@dataclass(frozen=True)
class Recordings(Sequence[Recording]):
    """R recordings of one camera in flat arrays, in memory, memory-mapped or on a GPU.

    The events of recording r are `address[offset[r] : offset[r + 1]]`, and the same part of `time`.

    Args:
        address: (N,) int16: (y * width + x) * 2 + polarity.
        time: microseconds, (N,) int32; never decreasing within a recording.
        offset: (R + 1,) int64, from 0 to N.
        label: the class of each recording, (R,) int64.
        number: the MNIST number of each recording, from 1 as in the files' names, (R,) int64.
        sensor: the size of the camera.
    """

    address: Tensor
    time: Tensor
    offset: Tensor
    label: Tensor
    number: Tensor
    sensor: Sensor = NMNIST

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, index: Any) -> Any:
        """One recording; only its own events are read."""
        begin, end = self.offset[index].item(), self.offset[index + 1].item()
        address = self.address[begin:end].cpu().numpy().astype(np.int64)
        pixel, polarity = address >> 1, (address & 1).astype(bool)
        y, x = np.divmod(pixel, self.sensor.width)
        return Recording(x, y, polarity, self.time[begin:end].cpu().numpy().astype(np.int64), self.sensor)

    def to(self, device: torch.device | str) -> Recordings:
        """A copy on another device."""
        parts = (part.to(device) for part in (self.address, self.time, self.offset, self.label, self.number))
        return Recordings(*parts, sensor=self.sensor)
