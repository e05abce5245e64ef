"""The network of Fig. 6: a layer for each sensor, two merged layers, and 51 words; with Phased LSTM, LSTM or BN-LSTM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from phased.fusion import Fusion, hold, open_at_samples
from phased.init import Uniform
from phased.layer import PhasedLSTM
from phased.learn.batch import Batch, Samples
from phased.learn.model import Model, Updates
from phased_lab.lipreader.network import FEATURES, SOUND, Words, convolutions, phased_network
from phased_lab.runs.baselines import Baseline, Normalised, NormalisedInput
from phased_lab.runs.network import Network

ModelName = Literal["phased", "bn-lstm", "lstm"]
SECOND = 1000.0  # ms; the baselines receive the time in seconds


@dataclass(frozen=True)
class LipNetwork(Network):
    """The settings of one of the three networks."""

    model: ModelName = "phased"
    units: tuple[int, int, int, int] = (110, 150, 250, 250)  # of the video layer, the audio layer, Merged-1 and Merged-2
    normalised: bool = False  # batch normalisation of the convolutions
    dropout: float = 0.0  # of the inputs of Merged-1 and Merged-2 and of the outputs of Merged-2
    # Of the Phased LSTM: initial periods, ms, open ratio and leak of the merged layers.
    periods: tuple[tuple[float, float], tuple[float, float]] = ((10.0, 1000.0), (500.0, 3000.0))
    ratio_on: float = 0.05
    learn_ratio_on: bool = False
    leak: float = 0.0
    layers_normalised: bool = False  # batch normalisation of the input of every layer, as in a BN-LSTM
    # Of the BN-LSTM, as in the other experiments.
    normalise: Normalised = "input"

    applies: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "phased": ("units", "normalised", "dropout", "periods", "ratio_on", "learn_ratio_on", "leak", "layers_normalised"),
        "bn-lstm": ("units", "normalised", "dropout", "normalise"),
        "lstm": ("units", "normalised", "dropout"),
    }

    def network(self, task: Any) -> Model:
        """The network for a task's words."""
        video, audio, *merged = self.units
        fusion = Fusion(
            {"video": self.layer(FEATURES, video, **open_at_samples()), "audio": self.layer(SOUND, audio, **open_at_samples())},
            self.merged(video + audio, *merged),
            {"video": convolutions(self.normalised)} if self.model == "phased" else {},
            dropout=self.dropout,
            encode_padding=True,
        )
        if self.model == "phased":
            return (WordsNormalised if self.layers_normalised else Words)(fusion, task.classes, self.dropout)
        return WordsByStep(fusion, convolutions(self.normalised), task.classes, self.dropout)

    def layer(self, features: int, units: int, **gate: Any) -> PhasedLSTM | NormalisedInput | Baseline:
        """A recurrent layer of the model. The baselines have no gate."""
        if self.model != "phased":
            return Baseline(features, units, self.normalise if self.model == "bn-lstm" else None, time_unit=SECOND)
        layer = PhasedLSTM(features, units, **gate)
        return NormalisedInput(layer) if self.layers_normalised else layer

    def merged(self, features: int, first: int, second: int) -> nn.Module:
        """Merged-1 and Merged-2."""
        gate: dict[str, Any] = {"ratio_on": self.ratio_on, "learn_ratio_on": self.learn_ratio_on, "leak": self.leak}
        periods = [Uniform(*span) for span in self.periods]
        if self.model != "phased" or self.layers_normalised:
            lower = self.layer(features, first, period=periods[0], **gate)
            return Two(lower, self.layer(first, second, period=periods[1], **gate), self.dropout)
        assert first == second
        return PhasedLSTM(features, first, num_layers=2, dropout=self.dropout, period=periods, **gate)


class Two(nn.Module):
    """Two layers, one above the other, with the signature of one."""

    def __init__(self, lower: Any, upper: Any, dropout: float) -> None:
        super().__init__()
        self.lower, self.upper, self.dropout = lower, upper, nn.Dropout(dropout)
        self.hidden_size = upper.hidden_size

    def forward(self, input: Tensor, time: Tensor, lengths: Tensor) -> tuple[Tensor, Any]:
        """The output of the upper layer, (T, B, H), and its last state."""
        middle, _ = self.lower(input, time, lengths=lengths)
        output: tuple[Tensor, Any] = self.upper(self.dropout(middle), time, lengths=lengths)
        return output


class WordsNormalised(Words):
    """The same with layers whose input is normalised."""

    def updates(self, batch: Batch) -> Updates | None:
        """The updates of the network without normalisation, which has the same gates."""
        return self.folded().updates(batch)

    def folded(self) -> Words:
        """The network of a lip reader that computes what this one computes in eval, without normalising inputs of layers."""
        sensors = {name: layer.folded() for name, layer in self.fusion.sensors.items()}  # type: ignore[operator]
        merged: Any = self.fusion.merged
        layers = [merged.lower.folded(), merged.upper.folded()]
        state = {name: value for name, value in self.state_dict().items() if name.startswith(("linear.", "fusion.encoders."))}
        for name, layer in sensors.items():
            state |= {f"fusion.sensors.{name}.{own}": value for own, value in layer.state_dict().items()}
        for number, layer in enumerate(layers):
            state |= {f"fusion.merged.{own[:-1]}{number}": value for own, value in layer.state_dict().items()}
        units = (*(layer.hidden_size for layer in sensors.values()), layers[0].hidden_size)
        normalised = any(isinstance(module, nn.BatchNorm2d) for module in self.fusion.encoders.modules())
        with torch.random.fork_rng(devices=[]):
            network = phased_network(units, len(layers), self.linear.out_features, normalised)
        network.load_state_dict(state)
        return network.to(self.linear.weight.device).eval()


class WordsByStep(Words):
    """The same of layers that work at every step of the timeline.

    Between its samples the latest features of a sensor are repeated: an LSTM needs an input at every step.
    """

    def __init__(self, fusion: Fusion, convolutions: nn.Module, classes: int, dropout: float = 0.0) -> None:
        super().__init__(fusion, classes, dropout)
        self.convolutions = convolutions

    def samples(self, batch: Batch) -> Mapping[str, Samples]:
        """The features of each sensor, repeated at every step of the timeline."""
        streams = dict(batch.streams)
        pictures = streams["video"]
        features = self.convolutions(pictures.x.flatten(0, 1)).unflatten(0, pictures.x.shape[:2])
        streams["video"] = pictures._replace(x=features)
        timeline = self.fusion.timeline(streams, steps=len(batch.y))
        return {
            name: Samples(hold(samples.x, timeline.latest[name]), timeline.time, timeline.lengths)
            for name, samples in streams.items()
        }

    def updates(self, batch: Batch) -> Updates | None:
        """Nothing: all units are updated at every step."""
        return None
