"""Batches of recordings, gathered from flat arrays on the device that holds them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from phased.data import Recordings, Sensor
from phased.data.recording import MICROSECONDS
from phased.learn.batch import Samples


class Changes(NamedTuple):
    """What is drawn for each recording of a batch; None changes nothing."""

    keep: Tensor | float = 1.0  # probability that an event is kept: one for all, or (B,)
    pixels: Tensor | None = None  # added to the positions of all events of a recording: right and down, (B, 2)
    turn: Tensor | None = None  # matrices for these positions, counted from the middle of the sensor, (B, 2, 2)
    bend: Tensor | None = None  # added to the positions of the events of each pixel of a recording, (B, 2, height, width)
    delay: Tensor | None = None  # added to the times of all events of a recording, ms, (B,) float64


def gather(data: Recordings, rows: Tensor, counts: Tensor, changes: Changes, random: torch.Generator) -> Samples:
    """The recordings `rows` as samples (T, B): addresses, and times in ms. Events moved off the sensor are left out.

    Only T is read from the device.

    Args:
        data: all recordings.
        rows: numbers of the recordings, (B,) int64, on the CPU.
        counts: the number of events of every recording in `data`, (R,) int64, on the CPU.
        changes: how the recordings are changed.
        random: draws which events are kept.
    """
    device = data.address.device
    event, owner, before = data.events.places(rows.to(device, non_blocking=True), int(counts[rows].sum()))
    address, time = data.address[event].long(), data.time[event].double() / MICROSECONDS
    keep = changes.keep[owner] if isinstance(changes.keep, Tensor) else changes.keep
    kept = torch.ones(len(event), dtype=torch.bool, device=device)
    if isinstance(keep, Tensor) or keep < 1.0:
        kept = torch.rand(len(event), generator=random, device=device, dtype=torch.float32) < keep
    if any(change is not None for change in (changes.pixels, changes.turn, changes.bend)):
        address, inside = moved(address, owner, changes, data.sensor, random)
        kept &= inside
    if changes.delay is not None:
        time += changes.delay[owner]
    return compact(address, time, kept, owner, before)


def moved(address: Tensor, owner: Tensor, changes: Changes, sensor: Sensor, random: torch.Generator) -> tuple[Tensor, Tensor]:
    """The addresses after the changes of position, and which of them are on the sensor; polarities stay."""
    pixel = address >> 1
    place = torch.stack((pixel % sensor.width, pixel // sensor.width), -1)
    if changes.turn is not None:
        middle = (torch.tensor(sensor, device=address.device) - 1) / 2
        place = ((place - middle).unsqueeze(-2) * changes.turn[owner]).sum(-1) + middle
    if changes.bend is not None:
        place = place + changes.bend.flatten(2).transpose(1, 2).flatten(0, 1)[owner * (sensor.width * sensor.height) + pixel]
    if place.is_floating_point():
        # Rounded to one of the nearest pixels at random: rounding to the nearest alone would leave some pixels empty.
        place = (place + torch.rand(place.shape, generator=random, device=address.device, dtype=torch.float32)).floor().long()
    if changes.pixels is not None:
        place = place + changes.pixels[owner]
    x, y = place.unbind(-1)
    inside = (x >= 0) & (x < sensor.width) & (y >= 0) & (y < sensor.height)
    return torch.where(inside, (y * sensor.width + x) * 2 + (address & 1), 0), inside


def compact(address: Tensor, time: Tensor, kept: Tensor, owner: Tensor, before: Tensor) -> Samples:
    """The kept events, in their order, in the columns of (T, B).

    Args:
        address, time: of all events, (N,).
        kept: which of them are kept, (N,).
        owner: the column of each event, (N,), ascending.
        before: the number of events in earlier columns, (B,).
    """
    sequences = len(before)
    rank = torch.cat([kept.new_zeros(1, dtype=torch.int64), kept.cumsum(0)])  # kept events before each event
    first = rank[before]
    lengths = torch.cat([first[1:], rank[-1:]]) - first
    steps = max(int(lengths.max()), 1)
    # A kept event moves to its step of its own column, all others to one place after the end.
    place = torch.where(kept, (rank[:-1] - first[owner]) * sequences + owner, steps * sequences)
    x, t = (
        values.new_zeros(steps * sequences + 1).index_put_((place,), values)[:-1].view(steps, sequences)
        for values in (address, time)
    )
    return Samples(x, t, lengths)
