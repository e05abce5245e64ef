"""Lip reading (Fig. 6): which of GRID's 51 words is being spoken?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn import functional

from phased.data.ragged import Ragged
from phased.fusion import Timeline
from phased.learn.batch import Batch, Evaluation, Samples, Split
from phased.schedule import valid_steps
from phased_lab.clips import WORDS, Clips
from phased_lab.clips.decoding import SENSES, Sense
from phased_lab.lipreader.network import standardised
from phased_lab.paper.lipreading import data
from phased_lab.paper.lipreading.data import Loaded
from phased_lab.paper.on_device import Loadable, OnDevice

Resolution = Literal["high", "low"]
RESOLUTIONS: tuple[Resolution, ...] = get_args(Resolution)
RATES: dict[str, int] = {"high": 100, "low": 25}  # rows of MFCCs a second
STREAM = 0x6C1  # identifies this task's random numbers
GRID_CLIPS = (1603, 178)  # of the two speakers that the committed runs were trained on


@dataclass(frozen=True)
class Sentences(Loadable):
    """Clips of spoken sentences: faces at 25 frames a second, and sound. The labels are of the steps inside words.

    An epoch visits every training clip once. In the test of every epoch there is video alone; further tests have sound alone,
    and both.
    """

    resolution: Resolution = "high"  # "high" for MFCCs every 10 ms, "low" for every 40 ms, with the frames
    clips: tuple[int, int] = GRID_CLIPS  # how many are for training and for testing
    names: str = ""  # digest of their names, so that results of other clips are not taken for these ("" for any clips)
    most: int = 0  # how many clips are used, the first of every speaker (0 for all)
    split: int = 0  # seed of the random split into train and test
    # Changes of the training clips, drawn anew in every epoch.
    silent: float = 0.5  # share of the clips with their sound masked to zero
    blind: float = 0.25  # share of the clips with their pictures masked to zero
    flip: bool = False  # whether they are mirrored at random
    shift: float = 0.0  # they are moved by up to this many pixels in x and in y
    zoom: float = 0.0  # they are enlarged or reduced by up to this share
    light: float = 0.0  # contrast changes by up to this share, and brightness by up to this many standard deviations
    # They begin at a random time from 0 to this, ms. Otherwise gates are in the same phase whenever a clip is shown.
    begin: float = 0.0
    noise: float = 0.0  # standard deviation of random numbers that are added to the standardised MFCCs
    sense: Sense = "video"  # the modalities in the test
    folder: str = field(default="", repr=False, metadata={"setting": False})  # where the clips are: `data.prepared_folder`
    classes: ClassVar[int] = len(WORDS)

    def load(self) -> Loaded:
        """The clips in memory; a ValueError if they are not as many as the settings say."""
        loaded = data.load(data.prepared_folder(self.folder), RATES[self.resolution], self.split, self.most)
        found, names = (len(loaded.parts.train), len(loaded.parts.test)), data.identity(loaded.parts)
        if found != tuple(self.clips):
            raise ValueError(
                f"expected {self.clips[0]} clips for training and {self.clips[1]} for testing, as in the settings of the run, "
                f"got {found[0]} and {found[1]}. Use the data of the run: pass its folder (--data)."
            )
        if self.names not in ("", names):
            raise ValueError(
                "expected the clips of the run, by their names, got as many others. Use the data of the run: pass its folder "
                "(--data)."
            )
        return loaded

    def to(self, device: torch.device, size: int) -> ClipsOnDevice:
        """The task with its clips on a device, for batches of `size` clips."""
        return ClipsOnDevice(self, device, size)

    def evaluations(self) -> Mapping[str, Evaluation]:
        """Tests with video alone, with sound alone, and with both."""
        return {sense: Evaluation(replace(self, sense=sense), self.clips[1]) for sense in SENSES}


class ClipsOnDevice(OnDevice):
    """`Sentences` on a device, with its clips."""

    def __init__(self, task: Sentences, device: torch.device, size: int) -> None:
        loaded = task.load()
        clips, train = loaded.clips, len(loaded.parts.train)
        super().__init__(STREAM, {"train": torch.arange(train), "test": torch.arange(train, len(clips))}, device, size)
        self.task, self.frames, self.sounds = task, clips.video.offset.diff(), clips.sound.offset.diff()
        self.steps = timeline_steps(clips)
        there = clips.to(device)
        rows = there.sound.arrays | {"x": loaded.scaling(there.sound.arrays["x"])}
        self.clips = replace(there, sound=Ragged(rows, there.sound.offset))

    def gather(self, split: Split, rows: Tensor) -> Batch:
        """These clips; every step of their common timeline that is inside a word has this word as label."""
        changes = self.changes(len(rows)) if split == "train" else self.present(len(rows))
        clips, there = self.clips, rows.to(self.device, non_blocking=True)
        video = samples_of(clips.video, there, int(self.frames[rows].max()))
        sound = samples_of(clips.sound, there, int(self.sounds[rows].max()))
        heard = sound.x + self.task.noise * self.normal(*sound.x.shape) if split == "train" and self.task.noise else sound.x
        if changes.heard is not None:
            heard = heard * changes.heard.view(1, -1, 1)
        streams = {"video": video._replace(x=pictures_of(video.x, changes)), "audio": sound._replace(x=heard)}
        spans = clips.spans[there]
        if changes.begin is not None:
            streams = {name: begun(samples, changes.begin) for name, samples in streams.items()}
            spans = spans + changes.begin.view(-1, 1, 1)
        clocks = {name: (samples.time, samples.lengths) for name, samples in streams.items()}
        timeline = Timeline.of(clocks, steps=int(self.steps[rows].max()))
        return Batch(streams, *labels(timeline, clips.words[there], spans))

    def present(self, size: int) -> Changes:
        """What is present in the test."""
        absent = torch.zeros(size, dtype=torch.bool, device=self.device)
        if self.task.sense == "video":
            return Changes(heard=absent)
        return Changes(seen=absent) if self.task.sense == "audio" else Changes()

    def changes(self, size: int) -> Changes:
        """What is drawn for each of `size` training clips."""
        task = self.task
        drawn = torch.rand(size, generator=self.random, device=self.device)
        changes = Changes(seen=drawn < 1 - task.blind, heard=drawn >= task.silent)
        if task.flip or task.shift or task.zoom:
            changes = changes._replace(placed=self.placed(size))
        if task.light:
            factor, offset = 1 + task.light * self.uniform(size), task.light * self.uniform(size)
            changes = changes._replace(light=torch.stack([factor, offset], -1))
        if task.begin:
            drawn = torch.rand(size, dtype=torch.float64, generator=self.random, device=self.device)
            changes = changes._replace(begin=task.begin * drawn)
        return changes

    def placed(self, size: int) -> Tensor:
        """Random affine maps of pictures, (size, 2, 3)."""
        task = self.task
        zoom = torch.exp(math.log1p(task.zoom) * self.uniform(size))
        mirrored = (self.uniform(size) < 0).float() if task.flip else torch.zeros(size, device=self.device)
        moved = task.shift * 2 / 48 * self.uniform(size, 2)  # the width of a picture is 2
        zero = torch.zeros_like(zoom)
        across = torch.stack([zoom * (1 - 2 * mirrored), zero, moved[:, 0]], -1)
        down = torch.stack([zero, zoom, moved[:, 1]], -1)
        return torch.stack([across, down], 1)


class Changes(NamedTuple):
    """Changes of each of B clips. None makes no change."""

    placed: Tensor | None = None  # an affine map of the pictures, as `torch.nn.functional.affine_grid` takes it, (B, 2, 3)
    light: Tensor | None = None  # a factor and an offset of the standardised gray levels, (B, 2)
    begin: Tensor | None = None  # the time at which the clip begins, ms, (B,) float64
    seen: Tensor | None = None  # whether the pictures are present, (B,) bool (otherwise they are zero)
    heard: Tensor | None = None  # whether the sound is present


def timeline_steps(clips: Clips) -> Tensor:
    """The number of different times of frames and sound of each clip, (R,) int64."""
    both = (torch.split(part.arrays["time"], part.offset.diff().tolist()) for part in (clips.video, clips.sound))
    return torch.tensor([len(torch.unique(torch.cat(times))) for times in zip(*both, strict=True)])


def samples_of(clips: Ragged, rows: Tensor, steps: int) -> Samples:
    """The samples of some clips, padded with zeros to `steps` steps."""
    lengths = clips.offset[rows + 1] - clips.offset[rows]
    return Samples(clips.padded("x", rows, steps), clips.padded("time", rows, steps), lengths)


def begun(samples: Samples, begin: Tensor) -> Samples:
    """The samples of clips that begin at other times; the times of padding remain 0."""
    valid = valid_steps(len(samples.time), samples.lengths)
    return samples._replace(time=torch.where(valid, samples.time + begin, samples.time))


def pictures_of(frames: Tensor, changes: Changes) -> Tensor:
    """Standardised pictures (T, B, 1, 48, 48) of frames (T, B, 48, 48) in gray levels."""
    x = standardised(frames)
    if changes.light is not None:
        x = x * changes.light[:, 0].view(1, -1, 1, 1) + changes.light[:, 1].view(1, -1, 1, 1)
    if changes.placed is not None:
        # All frames of a clip are the channels of one image, so that they are moved alike.
        images = x.transpose(0, 1)
        grid = functional.affine_grid(changes.placed, [len(images), 1, *x.shape[2:]], align_corners=False)
        x = functional.grid_sample(images, grid, padding_mode="border", align_corners=False).transpose(0, 1)
    if changes.seen is not None:
        x = x * changes.seen.view(1, -1, 1, 1)
    return x.unsqueeze(2)


def labels(timeline: Timeline, words: Tensor, spans: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The word of each step, whether it is inside a word, and which of the sentence's words it is: three tensors (T, B).

    A step at time t is inside a word that begins before t and ends at t or later: a sample's time is the end of what it measured.
    """
    time = timeline.time.unsqueeze(-1)
    inside = (spans[..., 0] < time) & (time <= spans[..., 1]) & timeline.valid.unsqueeze(-1)  # (T, B, 6)
    segment = inside.int().argmax(-1)  # the first of several words
    y = words.expand(len(segment), -1, -1).gather(-1, segment.unsqueeze(-1)).squeeze(-1)
    return y, inside.any(-1), segment
