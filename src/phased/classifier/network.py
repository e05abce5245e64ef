"""A classifier's configuration, and its network: an embedding of events, a gated layer, a linear layer or two."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor

from phased import check
from phased.classifier.encoder import EventEmbedding
from phased.data.recordings import NMNIST, Sensor
from phased.fields import FLAT, Between, Malformed, OneOf
from phased.gate import SHAPES
from phased.layer import PhasedGRU, PhasedLSTM, PhasedRNN
from phased.learn.model import Readout
from phased.model_folder import MOST

LAYERS: dict[str, type[PhasedRNN]] = {layer.cell.name: layer for layer in (PhasedLSTM, PhasedGRU)}
Size = Annotated[int, Between(1, MOST)]


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
    encoder, rnn = model.encoder, model.rnn
    return Sizes(
        encoder.sensor,
        encoder.size,
        rnn.cell.name,
        rnn.hidden_size,
        rnn.num_layers,
        rnn.gate,
        rnn.bias,
        rnn.peephole,
        model.mean,
        0 if model.hidden is None else model.hidden.out_features,
    )


def sizes_in(state: Mapping[str, Tensor], sensor: Sensor = NMNIST, gate: str = "triangle") -> Sizes:
    """The sizes of the network that a state_dict is of; sensor and gate, which shapes do not tell, are given."""
    check.choice("gate", gate, tuple(SHAPES))
    missing = [name for name in ("encoder.pixel.weight", "rnn.weight_hh_l0", "linear.weight") if name not in state]
    if missing:
        raise ValueError(f"the network must be a Readout with an EventEmbedding, got one without '{missing[0]}'.")
    pixels, embedding = state["encoder.pixel.weight"].shape
    if pixels != sensor.width * sensor.height:
        raise ValueError(f"the network must have {sensor.width} x {sensor.height} pixels, got {pixels} in all.")
    rows, units = state["rnn.weight_hh_l0"].shape
    cell = next((name for name, layer in LAYERS.items() if layer.cell.gates * units == rows), None)
    if cell is None:
        raise ValueError(f"the network must have an LSTM or a GRU, got {rows} recurrent rows for {units} units.")
    layers = sum(re.fullmatch(r"rnn\.weight_hh_l\d+", name) is not None for name in state)
    bias, peephole = "rnn.bias_ih_l0" in state, "rnn.weight_ci_l0" in state
    width = state["linear.weight"].shape[1]
    hidden, read = state["hidden.weight"].shape if "hidden.weight" in state else (0, width)
    return Sizes(sensor, embedding, cell, units, layers, gate, bias, peephole, read == 2 * units, hidden)
