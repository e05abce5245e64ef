"""Settings of networks, and the networks of the synthetic tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from phased.init import LogUniform
from phased.layer import PhasedLSTM
from phased.learn.model import Model, Readout
from phased_lab.runs.baselines import Baseline, Normalised

ModelName = Literal["phased", "lstm", "bn-lstm"]
FirstWeights = Literal["torch", "normal"]


class Network:
    """Base class of the frozen dataclasses with the settings of an experiment's networks.

    `applies` names the settings of each model. Other settings keep their defaults and are not in the record.
    """

    applies: ClassVar[Mapping[str, tuple[str, ...]]]
    model: str

    def settings(self) -> dict[str, Any]:
        """The settings that apply to this model, for the record."""
        return {"model": self.model, **{name: getattr(self, name) for name in self.applies[self.model]}}

    def build(self, task: Any, seed: int) -> Any:
        """Return the network for a task, initialised from the seed. torch's random state is restored."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.network(task)

    def network(self, task: Any) -> Model:
        """The network for a task, with random weights."""
        raise NotImplementedError


@dataclass(frozen=True)
class NetworkConfig(Network):
    """A recurrent layer and a linear layer. Settings that do not apply to a model keep their defaults."""

    model: ModelName = "phased"
    units: int = 110  # as in the paper, in all three tasks
    # The Phased LSTM's gates. Periods are initialised to exp U(a, b): for waves (1, 3) in the authors' code, (0, 3) in the
    # paper's text. For waves the open ratio is learned.
    period: tuple[float, float] = (1.0, 3.0)
    ratio_on: float = 0.05
    learn_ratio_on: bool = True
    leak: float = 1e-3
    # False: the baselines have no peepholes, and in the paper all else is equal.
    peephole: bool = False
    # Of the BN-LSTM; the default is that of the authors' code.
    normalise: Normalised = "input"
    # Of the baselines: their time feature, in ms or steps, is divided by this.
    time_unit: float = 1.0
    # Initial weights. "normal" is the authors' choice: N(0, 0.1), and biases 0, except -0.1 for the input gate.
    weights: FirstWeights = "torch"

    applies: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "phased": ("units", "weights", "period", "ratio_on", "learn_ratio_on", "leak", "peephole"),
        "lstm": ("units", "weights", "time_unit"),
        "bn-lstm": ("units", "weights", "time_unit", "normalise"),
    }

    def settings(self) -> dict[str, Any]:
        """The settings that apply to this model, for the record; periods in words."""
        low, high = self.period
        return {name: f"exp U({low:g}, {high:g})" if name == "period" else value for name, value in super().settings().items()}

    def network(self, task: Any) -> Readout:
        """A recurrent layer and a linear layer, for a task's features and classes."""
        layer: PhasedLSTM | Baseline
        if self.model == "phased":
            low, high = self.period
            layer = PhasedLSTM(
                task.features,
                self.units,
                period=LogUniform(math.exp(low), math.exp(high)),
                ratio_on=self.ratio_on,
                learn_ratio_on=self.learn_ratio_on,
                leak=self.leak,
                peephole=self.peephole,
            )
        else:
            layer = Baseline(task.features, self.units, self.normalise if self.model == "bn-lstm" else None, self.time_unit)
        model = Readout(layer, task.classes)
        if self.weights == "normal":
            draw_normal(layer.lstm if isinstance(layer, Baseline) else layer)
        return model


@torch.no_grad()
def draw_normal(rnn: nn.Module) -> None:
    """Weights and peepholes from N(0, 0.1); biases 0, except -0.1 for the input gate. Time gates do not change."""
    for name, values in rnn.named_parameters():
        if name.startswith("weight"):
            nn.init.normal_(values, std=0.1)
        elif name.startswith("bias"):
            values.zero_()
            if name.startswith("bias_ih"):
                values[: len(values) // 4] = -0.1
