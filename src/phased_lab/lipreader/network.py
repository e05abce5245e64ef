"""A lip reader's configuration, and its network: scaled inputs, a layer per sensor, merged layers, a word at every step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from phased.fields import FLAT, Between, Malformed, OneOf
from phased.fusion import Fusion, open_at_samples
from phased.layer import PhasedLSTM
from phased.learn.batch import Batch, Samples
from phased.learn.model import Model, Updates
from phased.model_folder import MOST
from phased_lab.clips import WORDS, Clip, Clips
from phased_lab.clips.cepstrum import RESOLUTIONS
from phased_lab.clips.decoding import Sense
from phased_lab.lipreader.grammar import PLACES, Timing

MIDDLE, SPAN = 110.0, 60.0  # gray levels: about the mean and the standard deviation of faces


def standardised(frames: Tensor) -> Tensor:
    """Pictures of mean 0 and deviation 1, about, from gray levels."""
    return (frames.float() - MIDDLE) / SPAN


@dataclass(frozen=True, eq=False)
class Scaling:
    """Mean and standard deviation of each MFCC and difference, (39,) float32."""

    mean: Tensor
    deviation: Tensor

    @classmethod
    def of(cls, clips: Clips, rows: Tensor) -> Scaling:
        """Measured on some clips; a coefficient that never varies is not divided."""
        audio = clips.sound.rows(rows).arrays["x"].double()
        deviation = audio.std(0)
        return cls(audio.mean(0).float(), torch.where(deviation > 0, deviation, 1.0).float())

    def __call__(self, audio: Tensor) -> Tensor:
        """Standardised rows (..., 39)."""
        return (audio - self.mean.to(audio.device)) / self.deviation.to(audio.device)


def samples_of(clip: Clip, rate: int, scaling: Scaling, sense: Sense = "both") -> dict[str, Samples]:
    """The samples of a clip, a batch of one sequence; what is not sensed is zero.

    Pictures are (F, 1, 1, 48, 48), rows of sound (M, 1, 39), times (F, 1) and (M, 1) in ms.
    """
    sound, heard = map(torch.from_numpy, clip.sound(rate))
    pictures, seen = torch.from_numpy(clip.frames), torch.from_numpy(clip.time)
    streams = {"video": (standardised(pictures)[:, None, None], seen), "audio": (scaling(sound)[:, None], heard)}
    return {
        name: Samples(x if sense in (name, "both") else torch.zeros_like(x), time[:, None], torch.tensor([len(x)]))
        for name, (x, time) in streams.items()
    }


FEATURES = 16 * 2 * 2  # of a picture, after the convolutions
SOUND = 39  # MFCCs, first and second differences


def convolutions(normalised: bool) -> nn.Sequential:
    """Three layers of 16 kernels of 5 x 5, each followed by 2 x 2 subsampling: from (N, 1, 48, 48) to (N, 64).

    The paper gives no nonlinearity and no kind of subsampling: ours are ReLU and the maximum. Without padding the sizes are
    48, 22, 9 and 2, as in the paper. Normalisation comes after the subsampling, where there is a quarter of the numbers. The
    channels of a pixel are neighbours in memory, which on a CPU takes half the time (docs/decisions.md).
    """
    layers: list[nn.Module] = []
    for inputs in (1, 16, 16):
        layers += [nn.Conv2d(inputs, 16, 5), nn.MaxPool2d(2), *([nn.BatchNorm2d(16)] if normalised else []), nn.ReLU()]
    made = nn.Sequential(*layers, nn.Flatten())
    made.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return made


class Words(Model):
    """A fusion of sensors with a linear layer that names a word at every step of the timeline."""

    def __init__(self, fusion: Fusion, classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.fusion, self.dropout = fusion, nn.Dropout(dropout)
        self.linear = nn.Linear(fusion.hidden_size, classes)

    def forward(self, batch: Batch) -> Tensor:
        """The outputs at the steps of the timeline, (T, B, classes); T is that of the labels."""
        output = self.fusion(self.samples(batch), steps=len(batch.y)).output
        words: Tensor = self.linear(self.dropout(output))
        return words

    def samples(self, batch: Batch) -> Mapping[str, Samples]:
        """The samples of each sensor, as its layer receives them."""
        return batch.streams

    def updates(self, batch: Batch) -> Updates | None:
        """The number of updates of the units of all layers, and that of a network which updates all of them at every step."""
        streams = self.samples(batch)
        made = self.fusion.updates(streams)
        timeline = self.fusion.timeline(streams, steps=len(batch.y))
        steps = timeline.lengths.sum()
        counts = [*made.sensors.values(), made.merged]
        units = sum(count.shape[0] * count.shape[2] for count in counts if count is not None)
        return Updates(torch.stack([count.sum() for count in counts if count is not None]).sum(), steps * units)


def phased_network(units: tuple[int, int, int], layers: int, classes: int, normalised: bool) -> Words:
    """A network with Phased LSTM layers of so many units: video, audio, and merged ones, whose gates are then loaded."""
    video, audio, merged = units
    fusion = Fusion(
        {"video": PhasedLSTM(FEATURES, video, **open_at_samples()), "audio": PhasedLSTM(SOUND, audio, **open_at_samples())},
        PhasedLSTM(video + audio, merged, num_layers=layers),
        {"video": convolutions(normalised)},
        encode_padding=True,
    )
    return Words(fusion, classes)


Size = Annotated[int, Between(1, MOST)]


@dataclass(frozen=True)
class About:
    """Training and tests of a lip reader. These fields do not change its answers."""

    command: str = ""  # that trained it
    data: str = ""  # the clips it was trained on
    scores: Mapping[str, float] = field(default_factory=dict)  # its accuracies on other clips, by test
    versions: Mapping[str, str] = field(default_factory=dict)  # of the packages that trained it
    date: str = ""  # when it was trained
    tested: tuple[str, ...] = ()  # the clips that were not trained on and that the scores are of, such as "s1/bbaf2n"


@dataclass(frozen=True, eq=False)
class Config:
    """What `config.json` holds, except for the digest."""

    units: tuple[Size, Size, Size]  # of the video layer, the audio layer and each merged layer
    layers: Size  # merged layers
    normalised: bool  # whether the convolutions have batch normalisation
    rate: Annotated[int, OneOf(RESOLUTIONS)]  # rows of MFCCs a second
    time_unit: Literal["ms"] = field(default="ms", kw_only=True)
    scaling: Annotated[Scaling, FLAT]  # of the MFCCs
    timing: Annotated[Timing, FLAT]  # when words are spoken
    about: Annotated[About, FLAT] = About()

    def __post_init__(self) -> None:
        if (
            len(self.scaling.mean) != SOUND
            or len(self.scaling.deviation) != SOUND
            or not bool((self.scaling.deviation > 0).all())
        ):
            raise Malformed(f"its 'mean' and 'deviation' must be {SOUND} numbers, and deviations positive")
        if len(self.timing.durations) != len(PLACES):
            raise Malformed(f"its 'durations' must be of {len(PLACES)} words, got {len(self.timing.durations)}")
        for each in (self.timing.begin, *self.timing.durations):
            if each.deviation <= 0:
                raise Malformed(f"a standard deviation must be positive, got {each.deviation}")

    def build(self) -> Words:
        """A network of this configuration."""
        return phased_network(self.units, self.layers, len(WORDS), self.normalised)
