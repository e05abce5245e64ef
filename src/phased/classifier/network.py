"""The network of a classifier: an embedding of events, a gated layer, a linear layer or two; and its configuration."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from phased import check
from phased.data.recording import NMNIST, Sensor
from phased.fields import FLAT, Between, Malformed, OneOf
from phased.gate import SHAPES
from phased.layer import PhasedGRU, PhasedLSTM, PhasedRNN
from phased.learn.model import Readout
from phased.lookup import look_up
from phased.model_folder import MOST

LAYERS: dict[str, type[PhasedRNN]] = {layer.cell.name: layer for layer in (PhasedLSTM, PhasedGRU)}
Size = Annotated[int, Between(1, MOST)]
STD = 0.3  # of the vectors of pixels at first


class EventEmbedding(nn.Module):
    """An event's features: a learned vector of its pixel, and its polarity as -1 or 1.

    Args:
        sensor: the size of the camera, width and height in pixels.
        size: the length of a pixel's vector.
        smooth: how many pixels apart the first vectors of two pixels are still similar, so that training needs fewer recordings:
            the standard deviation of a Gaussian by which random vectors are blurred. 0 for vectors that are drawn independently.

    Shape:
        - address: (N,) int64, `(y * width + x) * 2 + polarity`.
        - returned: (N, size + 1).

    Raises:
        TypeError: size is no int, or smooth no number.
        ValueError: size is below 1, smooth is negative, or sensor is not two sizes of at least 1.

    Example:
        >>> import torch
        >>> from phased.classifier import EventEmbedding
        >>> encoder = EventEmbedding()
        >>> address = torch.tensor([(17 * 34 + 12) * 2 + 1])  # polarity 1 at x = 12, y = 17
        >>> encoder(address).shape
        torch.Size([1, 41])
    """

    def __init__(self, sensor: tuple[int, int] = NMNIST, size: int = 40, smooth: float = 0.0) -> None:
        super().__init__()
        check.positive_int("size", size)
        check.number("smooth", smooth, low=0.0)
        self.sensor = Sensor.of(sensor)
        self.size = size
        self.pixel = nn.Embedding(self.sensor.width * self.sensor.height, size)
        nn.init.normal_(self.pixel.weight, std=STD)
        if smooth:
            with torch.no_grad():
                self.pixel.weight.copy_(blurred(self.pixel.weight, self.sensor, smooth))

    @property
    def features(self) -> int:
        """The number of features of an event."""
        return self.size + 1

    def forward(self, address: Tensor) -> Tensor:
        """The features of events, (N, size + 1), from their addresses, (N,)."""
        return look_up(self.table(), address)

    def table(self) -> Tensor:
        """The features of every address, (addresses, size + 1): the table of a `phased.Stream` of addresses."""
        vector = self.pixel.weight.repeat_interleave(2, 0)
        polarity = vector.new_tensor([-1.0, 1.0]).repeat(len(vector) // 2)
        return torch.cat((vector, polarity.unsqueeze(-1)), -1)

    def extra_repr(self) -> str:
        """The size of the camera, which no submodule prints."""
        return f"{self.sensor.width} x {self.sensor.height} pixels, {self.size} + 1 features"


def blurred(vectors: Tensor, sensor: Sensor, distance: float) -> Tensor:
    """Vectors of pixels, (pixels, size), blurred over the camera by a Gaussian, and scaled back to STD."""
    images = vectors.T.reshape(-1, sensor.height, sensor.width)
    across, down = (torch.arange(length, dtype=vectors.dtype) for length in (sensor.width, sensor.height))
    wide, high = (torch.exp(-(((axis.unsqueeze(1) - axis) / distance) ** 2) / 2) for axis in (across, down))
    wide, high = (kernel / kernel.norm(dim=1, keepdim=True) for kernel in (wide, high))  # vectors at the border are as long
    images = high @ images @ wide.T
    scaled: Tensor = STD / images.square().mean().sqrt() * images
    return scaled.flatten(1).T


@dataclass(frozen=True)
class Score:
    """The share of recordings that are classified correctly.

    Args:
        accuracy: the share.
        recordings: how many.
        about: which recordings: "recorded by a camera, test set".
        simulated: whether the event camera in software made them.
    """

    accuracy: Annotated[float, Between(0, 1)]
    recordings: int
    about: str
    simulated: bool


@dataclass(frozen=True)
class About:
    """How a classifier was trained and tested; nothing here changes its answers.

    Args:
        command: the command that trained it.
        data: the recordings it was trained on.
        scores: its accuracy on recordings that were not used in training.
        longest: the duration of the longest recordings that it was tested on, in ms; None if that is not known.
        versions: of the packages that trained it.
        date: when it was trained.
    """

    command: str = ""
    data: str = ""
    scores: tuple[Score, ...] = ()
    longest: Annotated[float, Between(0, sys.float_info.max)] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    date: str = ""


class Sizes(NamedTuple):
    """Everything about a network except its outputs and the values of its parameters."""

    sensor: Annotated[Sensor, Between(1, MOST)]
    embedding: Size
    cell: Annotated[str, OneOf(tuple(LAYERS))]
    units: Size
    layers: Size
    gate: Annotated[str, OneOf(tuple(SHAPES))] = "triangle"
    bias: bool = True
    peephole: bool = False
    mean: bool = False  # whether the linear layer also reads the mean output
    hidden: Annotated[int, Between(0, MOST)] = 0  # ReLUs before the linear layer

    def build(self, outputs: int) -> Readout:
        """A network of these sizes: float64 for parameters of time, float32 for others."""
        encoder = EventEmbedding(self.sensor, self.embedding)
        rnn = LAYERS[self.cell](
            encoder.features, self.units, self.layers, self.bias, gate=self.gate, peephole=self.peephole, dtype=torch.float32
        )
        return Readout(rnn, outputs, encoder=encoder, mean=self.mean, hidden=self.hidden).float()


@dataclass(frozen=True)
class Config:
    """What `config.json` holds, except for format, version and digest."""

    sizes: Annotated[Sizes, FLAT]
    classes: tuple[str, ...]
    time_unit: Literal["ms"] = "ms"
    about: Annotated[About, FLAT] = About()

    def __post_init__(self) -> None:
        if len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
            raise Malformed(f"its 'classes' must be at least two different names, got {list(self.classes)}")

    def build(self) -> Readout:
        """A network of this configuration."""
        return self.sizes.build(len(self.classes))


def sizes_of(model: Any) -> Sizes:
    """The sizes of a model; a TypeError or ValueError if it is none that classifies events."""
    if not isinstance(model, Readout):
        raise TypeError(f"model must be a phased.learn.Readout, got {check.kind(model)}.")
    if not isinstance(model.encoder, EventEmbedding):
        raise TypeError(f"model must have an EventEmbedding as its encoder, got {check.kind(model.encoder)}.")
    if not isinstance(model.rnn, PhasedRNN):
        raise TypeError(f"model must have a PhasedLSTM or PhasedGRU, got {check.kind(model.rnn)}: others have no open units.")
    if model.classes is None or model.every_step:
        raise ValueError("model must classify whole sequences. Make the Readout with classes=10, every_step=False.")
    encoder, rnn, hidden = model.encoder, model.rnn, 0 if model.hidden is None else model.hidden.out_features
    sizes = (encoder.sensor, encoder.size, rnn.cell.name, rnn.hidden_size, rnn.num_layers)
    return Sizes(*sizes, rnn.gate, rnn.bias, rnn.peephole, model.mean, hidden)
