"""Batches of recordings, gathered from flat arrays on the device that holds them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from phased.data import Recordings
from phased.learn.batch import Samples

MICROSECONDS = 1000.0  # in a millisecond


class Changes(NamedTuple):
    """What is drawn for each recording of a batch; None changes nothing."""

    keep: Tensor | float = 1.0  # probability that an event is kept: one for all, or (B, 1)
    pixels: Tensor | None = None  # whole recordings are moved right and down, (2, B, 1) int64
    delay: Tensor | None = None  # and in time, ms, (B, 1) float64


def gather(data: Recordings, rows: Tensor, longest: int, changes: Changes, random: torch.Generator) -> Samples:
    """The recordings `rows` as samples (T, B): addresses, and times in ms. Events moved off the sensor are left out.

    Args:
        data: all recordings.
        rows: numbers of the recordings, (B,) int64.
        longest: the number of events of the longest recording in `data`, which spares a synchronisation.
        changes: how the recordings are changed.
        random: draws which events are kept.
    """
    begin, end = data.offset[rows].unsqueeze(1), data.offset[rows + 1].unsqueeze(1)
    event = begin + torch.arange(longest, device=rows.device)
    kept = event < end
    event.clamp_(max=max(len(data.address) - 1, 0))
    if not (isinstance(changes.keep, float) and changes.keep >= 1.0):
        kept &= torch.rand(kept.shape, generator=random, device=rows.device) < changes.keep
    address, time = data.address[event].long(), data.time[event].double() / MICROSECONDS
    if changes.pixels is not None:
        width, height = data.sensor
        x = (address >> 1) % width + changes.pixels[0]
        y = (address >> 1) // width + changes.pixels[1]
        kept &= (x >= 0) & (x < width) & (y >= 0) & (y < height)
        address = (y * width + x) * 2 + (address & 1)
    if changes.delay is not None:
        time += changes.delay
    return compact(address, time, kept)


def compact(address: Tensor, time: Tensor, kept: Tensor) -> Samples:
    """The kept events of each row of (B, N), in their order, as the columns of (T, B). Only T is read from the device."""
    sequences = len(kept)
    count = kept.cumsum(1)
    lengths = count[:, -1].clone()
    steps = max(int(lengths.max()), 1)
    # Each kept event moves to step count - 1 of its own column, all others to one place after the end.
    column = torch.arange(sequences, device=kept.device).unsqueeze(1)
    place = torch.where(kept, (count - 1) * sequences + column, steps * sequences).flatten()
    x, t = (
        values.new_zeros(steps * sequences + 1).scatter_(0, place, values.flatten())[:-1].view(steps, sequences)
        for values in (address, time)
    )
    return Samples(x, t, lengths)
