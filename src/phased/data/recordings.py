"""Many recordings of an event camera in flat arrays."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from phased.data.ragged import Ragged
from phased.data.recording import NMNIST, Recording, Sensor

__all__ = ["NMNIST", "Recording", "Recordings", "Sensor"]

ADDRESSES, TIMES = 2**15, 2**31  # of int16 and of int32


@dataclass(frozen=True, eq=False)
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

    Example:
        >>> events = np.array([(3, 4, 10, 1), (5, 6, 12, 0)], dtype=[("x", "i2"), ("y", "i2"), ("t", "i8"), ("p", "i2")])
        >>> many = Recordings.of([Recording.from_array(events)] * 3, label=[7, 2, 1])
        >>> len(many), many[1].time, many[1:].label
        (3, array([10, 12]), tensor([2, 1]))
    """

    address: Tensor
    time: Tensor
    offset: Tensor
    label: Tensor
    number: Tensor
    sensor: Sensor = NMNIST

    def __len__(self) -> int:
        return len(self.label)

    @overload
    def __getitem__(self, index: int) -> Recording: ...
    @overload
    def __getitem__(self, index: slice) -> Recordings: ...
    def __getitem__(self, index: int | slice) -> Recording | Recordings:
        """One recording, of which only its own events are read; or, for a slice, several in flat arrays."""
        if isinstance(index, slice):
            return self.subset(range(*index.indices(len(self))))
        place = operator.index(index)
        if not -len(self) <= place < len(self):
            raise IndexError(f"index must be from {-len(self)} to {len(self) - 1}, got {place}.")
        begin, end = self.offset[place % len(self) :][:2].tolist()
        address = self.address[begin:end].cpu().numpy().astype(np.int32)
        pixel = address >> 1
        y = pixel // self.sensor.width
        time = self.time[begin:end].cpu().numpy().astype(np.int64)
        return Recording.of_checked(pixel - y * self.sensor.width, y, (address & 1).astype(bool), time, self.sensor)

    def subset(self, indices: Iterable[int] | Tensor) -> Recordings:
        """These recordings in this order, copied; indices from 0."""
        chosen = indices if isinstance(indices, Tensor) else torch.tensor(list(indices), dtype=torch.int64)
        chosen = chosen.to(self.offset.device)
        return self.with_events(self.events.rows(chosen), self.label[chosen], self.number[chosen])

    def with_events(self, events: Ragged, label: Tensor, number: Tensor) -> Recordings:
        """Other recordings of the same camera."""
        address, time = events.arrays["address"], events.arrays["time"]
        return replace(self, address=address, time=time, offset=events.offset, label=label, number=number)

    @property
    def events(self) -> Ragged:
        """The events of all recordings; nothing is copied."""
        return Ragged({"address": self.address, "time": self.time}, self.offset)

    @property
    def arrays(self) -> dict[str, Any]:
        """All tensors by their names; nothing is copied."""
        return {name: getattr(self, name) for name in ("address", "time", "offset", "label", "number")}

    def to(self, device: torch.device | str) -> Recordings:
        """A copy on another device."""
        return replace(self, **{name: array.to(device) for name, array in self.arrays.items()})

    @classmethod
    def of(
        cls, recordings: Sequence[Recording], label: Iterable[int] | None = None, number: Iterable[int] | None = None
    ) -> Recordings:
        """Single recordings of one camera in flat arrays.

        Args:
            recordings: at least one.
            label: the class of each; by default 0.
            number: the MNIST number of each; by default 1, 2, ...

        Returns:
            The recordings, copied.

        Raises:
            ValueError: none, of several cameras, or too large for 16 bits an address and 32 bits a time.
        """
        sensor = one_camera(recordings)
        if sensor.addresses > ADDRESSES:
            raise ValueError(
                f"recordings in flat arrays must have at most {ADDRESSES} addresses, got {sensor.addresses} of {sensor.width} x "
                f"{sensor.height} pixels and 2 polarities. Crop or downscale them first."
            )
        time = np.concatenate([recording.time for recording in recordings])
        if len(time) and time.max() >= TIMES:
            raise ValueError(f"time must be below 2**31 us, got {time.max()}. Call Recording.from_start() first.")
        length = torch.tensor([0, *map(len, recordings)])
        labels = torch.tensor([0] * len(recordings) if label is None else list(label))
        numbers = torch.tensor(list(range(1, len(recordings) + 1) if number is None else number))
        if not len(labels) == len(numbers) == len(recordings):
            raise ValueError(
                f"each recording must have one label and one number, got {len(labels)} and {len(numbers)} for {len(recordings)}."
            )
        address = np.concatenate([recording.address.astype(np.int16) for recording in recordings])
        return cls(torch.from_numpy(address), torch.from_numpy(time.astype(np.int32)), length.cumsum(0), labels, numbers, sensor)

    @classmethod
    def concatenate(cls, parts: Sequence[Recordings]) -> Recordings:
        """The recordings of several sets of one camera, on one device."""
        one_camera(parts)
        label, number = (torch.cat([getattr(part, name) for part in parts]) for name in ("label", "number"))
        return parts[0].with_events(Ragged.joined([part.events for part in parts]), label, number)


def one_camera(recorded: Sequence[Recording | Recordings]) -> Sensor:
    """Return the size of the camera of all recordings. Raises a ValueError for none or several."""
    sensors = {each.sensor for each in recorded}
    if len(sensors) != 1:
        raise ValueError("recordings must be of one camera, got none or several. Put each camera's in its own Recordings.")
    return sensors.pop()
