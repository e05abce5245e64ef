"""Handwritten digits seen by an event camera (Table 1): which digit is in the recording?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from phased.data import Recordings, Sensor
from phased.data.camera import Camera, identity
from phased.data.recording import MICROSECONDS
from phased.learn.batch import SPLITS, Batch, Evaluation, Samples, Split
from phased_lab.paper.nmnist import data
from phased_lab.paper.nmnist.data import Source
from phased_lab.paper.on_device import Loadable, OnDevice

KEEPS = (0.4, 0.75, 1.0)  # of the tests after training
KNOTS = 6  # of a smooth field in each direction: one every 7 pixels of N-MNIST's 34
STREAM = 0x313  # identifies this task's random numbers


@dataclass(frozen=True)
class Digits(Loadable):
    """Recordings of digits, each event kept with probability `keep`; a sample is the address of an event, its time is in ms.

    An epoch visits every training recording once, in an order of its own. The test recordings and the events kept of them are
    always the same.
    """

    recordings: str = "simulated"  # train on "simulated" recordings of MNIST images, on "real" ones, or on "both"
    images: tuple[int, int] = (60_000, 10_000)  # MNIST images that are simulated, for training and for the test
    # With "both", the share of the real recordings in an epoch, which visits each of them as often as that takes.
    share: float = 0.1
    camera: str = identity(Camera())  # so that results of another camera are not taken for this one's
    keep: float = 0.75  # the probability that an event is kept, rho in the paper
    # Changes of the training recordings. A recording with more events than `most` is thinned to about this number: a batch takes
    # the time of its longest recording. 0 for no bound.
    most: int = 0
    spread: float = 0.0  # `keep` of a recording is drawn uniformly from keep - spread to keep + spread, at most 1
    shift: int = 0  # they are moved by up to this many pixels in x and in y, and lose the events that leave the sensor
    turn: float = 0.0  # they are turned by an angle drawn uniformly from -turn to turn, degrees
    stretch: float = 0.0  # they are stretched in x and in y by factors drawn uniformly from 1 - stretch to 1 + stretch
    bend: float = 0.0  # positions are moved by a smooth random field with about this standard deviation, pixels
    jitter: float = 0.0  # they are moved in time by a normal deviate with this standard deviation, ms
    real: str = ""  # digest of the recordings in the folder, so that others' results are not taken for these ("" for PHASED_DATA)
    # These are no settings of a run: where real recordings are (see `Source`), whether damaged files are left out, and the
    # recordings of a further test, which has no recordings to train on.
    folder: str = field(default="", repr=False, metadata={"setting": False})
    skip_bad: bool = field(default=False, repr=False, metadata={"setting": False})
    tested: tuple[Source, ...] = field(default=(), repr=False, metadata={"setting": False})
    classes: ClassVar[int] = 10

    def source(self, kind: data.Kind, split: Split) -> Source:
        """Where recordings of a kind and split come from."""
        if kind == "simulated":
            return Source("simulated", split, images=self.images[SPLITS.index(split)])
        return Source("real", split, folder=self.folder, skip_bad=self.skip_bad)

    def sources(self, split: Split) -> list[tuple[Source, int]]:
        """Return the sources of a split, with the number of visits per epoch to each recording."""
        own = self.source("real" if self.recordings == "real" else "simulated", split)
        if split == "test":
            return [(source, 1) for source in self.tested or (own,)]
        return [(own, 1), (self.source("real", split), self.repeat)] if self.recordings == "both" else [(own, 1)]

    @property
    def repeat(self) -> int:
        """Number of visits to each real recording in an epoch of simulated and real recordings."""
        wanted = self.images[0] * self.share / (1 - self.share)
        return max(1, round(wanted / max(1, data.count(self.source("real", "train")))))

    def visits(self, split: Split) -> int:
        """The number of recordings that an epoch visits; files of real recordings are counted."""
        return sum(times * data.count(source) for source, times in self.sources(split))

    def to(self, device: torch.device, size: int) -> RecordingsOnDevice:
        """The task with its recordings on a device, for batches of `size` recordings."""
        return RecordingsOnDevice(self, device, size)

    def evaluations(self) -> Mapping[str, Evaluation]:
        """Tests with fewer and with more events, and on real recordings, if there are any that were not trained on."""
        own = tuple(source for source, _ in self.sources("test"))
        found = {f"rho {keep:g}": replace(self, keep=keep, tested=own) for keep in KEEPS}
        if self.recordings != "real" and data.has_real(self.folder):
            real = self.source("real", "test")
            found |= {f"real, rho {keep:g}": replace(self, keep=keep, tested=(real,)) for keep in KEEPS}
            if self.recordings == "simulated" and data.has_real(self.folder, "train"):
                found["all real, rho 1"] = replace(self, keep=1.0, tested=(self.source("real", "train"), real))
        return {name: Evaluation(test, test.visits("test")) for name, test in found.items()}


class Held(NamedTuple):
    """Recordings of a split on a device, with the numbers of their events and their labels on the CPU."""

    recordings: Recordings
    counts: Tensor
    labels: Tensor


class RecordingsOnDevice(OnDevice):
    """`Digits` on a device, with its recordings."""

    def __init__(self, task: Digits, device: torch.device, size: int) -> None:
        self.task = task
        self.held: dict[str, Held] = {}
        rows: dict[str, Tensor] = {}
        splits: Sequence[Split] = ("test",) if task.tested else SPLITS
        for split in splits:
            sources, repeats = zip(*task.sources(split), strict=True)
            parts = [data.load(source, device) for source in sources]
            whole = parts[0] if len(parts) == 1 else Recordings.concatenate(parts)
            self.held[split] = Held(whole, whole.offset.diff().cpu(), whole.label.cpu())
            numbers = torch.split(torch.arange(len(whole)), [len(part) for part in parts])
            rows[split] = torch.cat([own.repeat(times) for own, times in zip(numbers, repeats, strict=True)])
        super().__init__(STREAM, rows, device, size)

    def key(self, seed: int, split: Split, epoch: int) -> tuple[int, ...]:
        """Those of a test are the same for every seed and in every epoch."""
        return (0, seed, epoch) if split == "train" else (1,)

    def gather(self, split: Split, rows: Tensor) -> Batch:
        """These recordings, changed if they are for training."""
        recordings, counts, labels = self.held[split]
        changes = self.changes(counts[rows]) if split == "train" else Changes(self.task.keep)
        samples = gather(recordings, rows, counts, changes, self.random)
        return Batch.of(*samples, y=labels[rows].to(self.device, non_blocking=True))

    def changes(self, counts: Tensor) -> Changes:
        """What is drawn for each training recording, given the numbers of their events, (B,)."""
        task, size = self.task, len(counts)
        changes = Changes(task.keep)
        if task.spread:
            changes = changes._replace(keep=(task.keep + task.spread * self.uniform(size)).clamp(max=1.0))
        if task.most:
            bound = (task.most / counts).to(self.device, torch.float32, non_blocking=True)
            changes = changes._replace(keep=bound.clamp(max=changes.keep))
        if task.shift:
            # Every number of pixels is equally likely. The bound is for a draw of exactly -1, half a pixel further.
            drawn = ((task.shift + 0.5) * self.uniform(size, 2)).round().clamp(min=-task.shift)
            changes = changes._replace(pixels=drawn.long())
        if task.turn or task.stretch:
            angle = math.radians(task.turn) * self.uniform(size)
            stretch = 1 + task.stretch * self.uniform(size, 2)
            turn = torch.stack((angle.cos(), -angle.sin(), angle.sin(), angle.cos()), -1).view(size, 2, 2)
            changes = changes._replace(turn=turn * stretch.unsqueeze(1))
        if task.bend:
            changes = changes._replace(bend=task.bend * self.smooth_field(size))
        if task.jitter:
            changes = changes._replace(delay=task.jitter * self.normal(size, dtype=torch.float64))
        return changes

    def smooth_field(self, size: int) -> Tensor:
        """Smooth random displacements of pixels, (size, 2, height, width): normal deviates on a coarse grid, interpolated."""
        width, height = self.held["train"].recordings.sensor
        coarse = self.normal(size, 2, KNOTS, KNOTS)
        return functional.interpolate(coarse, (height, width), mode="bicubic", align_corners=True)


class Changes(NamedTuple):
    """Random changes of each recording of a batch. None makes no change."""

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
    """Return the addresses after the changes of position, and a mask of events on the sensor. Polarities stay."""
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
