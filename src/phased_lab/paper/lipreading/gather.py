"""Batches of clips: their samples, the changes of training, and labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from phased.data.ragged import Ragged
from phased.fusion import Timeline
from phased.learn.batch import Samples
from phased.schedule import valid_steps
from phased_lab.clips import Clips
from phased_lab.lipreader.network import standardised


class Changes(NamedTuple):
    """What is done to each of B clips; None leaves clips as they are.

    `placed` is an affine map of its pictures, (B, 2, 3), as `torch.nn.functional.affine_grid` takes it; `light` a factor and an
    offset of its standardised gray levels, (B, 2); `begin` the time at which it begins, (B,) float64, ms; `noise` makes
    what is added to its standardised sound, from the shape; `seen` and `heard` are whether its pictures and its sound are
    present, (B,) bool. A modality that is not present is zero.
    """

    placed: Tensor | None = None
    light: Tensor | None = None
    begin: Tensor | None = None
    noise: Callable[..., Tensor] | None = None
    seen: Tensor | None = None
    heard: Tensor | None = None


def timeline_steps(clips: Clips) -> Tensor:
    """The number of different times of frames and sound of each clip, (R,) int64."""
    counts = []
    for row in range(len(clips)):
        times = [part.rows(torch.tensor([row])).arrays["time"] for part in (clips.video, clips.sound)]
        counts.append(len(torch.unique(torch.cat(times))))
    return torch.tensor(counts)


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


def heard(sound: Tensor, changes: Changes) -> Tensor:
    """The sound with its noise, and zero where it is not present."""
    x = sound if changes.noise is None else sound + changes.noise(*sound.shape)
    return x if changes.heard is None else x * changes.heard.view(1, -1, 1)


def labels(timeline: Timeline, words: Tensor, spans: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The word of each step, whether it is inside a word, and which of the sentence's words it is: three tensors (T, B).

    A step at time t is inside a word that begins before t and ends at t or later: a sample's time is the end of what it measured.
    """
    time = timeline.time.unsqueeze(-1)
    inside = (spans[..., 0] < time) & (time <= spans[..., 1]) & timeline.valid.unsqueeze(-1)  # (T, B, 6)
    segment = inside.int().argmax(-1)  # the first of several words
    y = words.expand(len(segment), -1, -1).gather(-1, segment.unsqueeze(-1)).squeeze(-1)
    return y, inside.any(-1), segment
