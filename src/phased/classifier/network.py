"""The sizes of a classifier's network, from which it is built: an embedding of events, a gated layer, a linear layer or two."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from phased import check
from phased.cell import CELLS
from phased.classifier.encoder import EventEmbedding
from phased.data.recordings import NMNIST, Sensor
from phased.gate import SHAPES
from phased.layer import PhasedGRU, PhasedLSTM, PhasedRNN
from phased.learn.readout import Readout
from phased.parameters import GATE, PEEPHOLES, is_of_time

LAYERS: dict[str, type[PhasedRNN]] = {layer.cell.name: layer for layer in (PhasedLSTM, PhasedGRU)}


class Sizes(NamedTuple):
    """Everything about a network except the values of its parameters."""

    sensor: Sensor
    embedding: int
    cell: str
    units: int
    layers: int
    outputs: int
    gate: str = "triangle"
    bias: bool = True
    peephole: bool = False
    mean: bool = False  # whether the linear layer also reads the mean output
    hidden: int = 0  # ReLUs before the linear layer

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every parameter, by its name in the state_dict; nothing is allocated."""
        rows = CELLS[self.cell].gates * self.units
        found: dict[str, tuple[int, ...]] = {"encoder.pixel.weight": (self.sensor.width * self.sensor.height, self.embedding)}
        for layer in range(self.layers):
            features = self.units if layer else self.embedding + 1
            own: dict[str, tuple[int, ...]] = {"weight_ih": (rows, features), "weight_hh": (rows, self.units)}
            own |= dict.fromkeys(("bias_ih", "bias_hh") if self.bias else (), (rows,))
            own |= dict.fromkeys((*(PEEPHOLES if self.peephole else ()), *GATE), (self.units,))
            found |= {f"rnn.{name}_l{layer}": shape for name, shape in own.items()}
        read = (1 + self.mean) * self.units
        if self.hidden:
            found |= {"hidden.weight": (self.hidden, read), "hidden.bias": (self.hidden,)}
        return found | {"linear.weight": (self.outputs, self.hidden or read), "linear.bias": (self.outputs,)}

    def load(self, state: Mapping[str, Tensor]) -> Readout:
        """A network of these sizes in eval, with copies of these parameters: float64 for those of time, float32 for others."""
        with torch.random.fork_rng(devices=[]):  # the parameters that are drawn here are replaced
            encoder = EventEmbedding(self.sensor, self.embedding)
            rnn = LAYERS[self.cell](
                encoder.features, self.units, self.layers, self.bias, gate=self.gate, peephole=self.peephole, dtype=torch.float32
            )
            model = Readout(rnn, self.outputs, encoder=encoder, mean=self.mean, hidden=self.hidden).float()
        model.load_state_dict(dict(state))  # a plain dict: with the settings of the layer, another leak would be refused
        return model.requires_grad_(False).eval()


def dtype_of(name: str) -> torch.dtype:
    """The dtype of a parameter of this name in a network's state_dict."""
    return torch.float64 if is_of_time(name.removeprefix("rnn.")) else torch.float32


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
        model.classes,
        rnn.gate,
        rnn.bias,
        rnn.peephole,
        model.mean,
        0 if model.hidden is None else model.hidden.out_features,
    )


def sizes_in(state: Mapping[str, Tensor], sensor: Sensor = NMNIST, gate: str = "triangle") -> Sizes:
    """The sizes of the network that a state_dict is of; sensor and gate, which shapes do not tell, are given."""
    check.choice("gate", gate, SHAPES)
    missing = [name for name in ("encoder.pixel.weight", "rnn.weight_hh_l0", "linear.weight") if name not in state]
    if missing:
        raise ValueError(f"the network must be a Readout with an EventEmbedding, got one without '{missing[0]}'.")
    pixels, embedding = state["encoder.pixel.weight"].shape
    if pixels != sensor.width * sensor.height:
        raise ValueError(f"the network must have {sensor.width} x {sensor.height} pixels, got {pixels} in all.")
    rows, units = state["rnn.weight_hh_l0"].shape
    cell = next((cell.name for cell in CELLS.values() if cell.gates * units == rows), None)
    if cell is None:
        raise ValueError(f"the network must have an LSTM or a GRU, got {rows} recurrent rows for {units} units.")
    layers = sum(re.fullmatch(r"rnn\.weight_hh_l\d+", name) is not None for name in state)
    bias, peephole = "rnn.bias_ih_l0" in state, "rnn.weight_ci_l0" in state
    outputs, width = state["linear.weight"].shape
    hidden, read = state["hidden.weight"].shape if "hidden.weight" in state else (0, width)
    return Sizes(sensor, embedding, cell, units, layers, outputs, gate, bias, peephole, read == 2 * units, hidden)
