"""Fusion: a layer for each sensor, and a merged layer on what they hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from phased import check
from phased.cost import updates
from phased.encoding import encoded
from phased.fusion import arguments
from phased.fusion.arguments import Clock, Samples
from phased.fusion.timeline import Timeline, Times, hold, merge


class Parts(NamedTuple):
    """A value for each layer of a `Fusion`, such as its state or its count of updates.

    Args:
        sensors: The value of each sensor's layer, by the name of the sensor.
        merged: The value of the merged layer.
    """

    sensors: Mapping[str, Any]
    merged: Any


class Fused(NamedTuple):
    """What a `Fusion` returns: `output, timeline, state`.

    Args:
        output: Output of the merged layer at each step of the timeline, (T, B, H).
        timeline: The times of the steps, their number in each sequence, and the latest sample of each sensor.
        state: The last state of each layer, as the layer returns it; None for the layer of a sensor without samples.
    """

    output: Tensor
    timeline: Timeline
    state: Parts


class Fusion(nn.Module):
    """A network for several sensors: a layer for each, and a merged layer above them.

    The layer of a sensor runs at the samples of its own sensor. Between them its last output is held. The merged layer runs at
    every time at which any sensor has a sample, and receives what all layers hold at that time. There are no zeros for missing
    samples, and no interpolation.

    A layer is a `PhasedLSTM`, a `PhasedGRU`, or any module with a `hidden_size` and the call
    `output, state = layer(x, time, lengths=lengths)`; unidirectional, with the steps first.

    Args:
        sensors: The layer of each sensor, by name. The merged layer receives their outputs in this order.
        merged: The layer above them, whose input size is the sum of their hidden sizes.
        encoders: For sensors that need one, a module from samples (N, ...) to the features of the layer, (N, D), such as a
            convolutional network of images. It is applied to samples and not to padding.
        dropout: Probability with which an input of the merged layer is set to 0 in training.
        encode_padding: Whether encoders are applied to padding too, whose features are ignored. This avoids a synchronisation
            with a GPU. It is for encoders that treat every sample alone, and for which padding is valid input.

    Shape:
        See `forward`.

    Raises:
        TypeError: A layer or an encoder is no module, or a layer has no hidden_size.
        ValueError: Sizes do not fit, a layer is bidirectional or has batch_first, or an encoder has no sensor.
        KeyError: The name of a sensor has a dot, or torch.nn.ModuleDict uses it.

    Example:
        >>> import torch
        >>> from phased import Fusion, PhasedLSTM, Uniform, open_at_samples
        >>> fusion = Fusion(
        ...     {"video": PhasedLSTM(64, 20, **open_at_samples()), "audio": PhasedLSTM(39, 30, **open_at_samples())},
        ...     merged=PhasedLSTM(50, 40, period=Uniform(10, 1000)),
        ... )
        >>> frames = torch.randn(75, 8, 64), 40.0 * torch.arange(75).unsqueeze(1).expand(75, 8)
        >>> sound = torch.randn(298, 8, 39), 20 + 10.0 * torch.arange(298).unsqueeze(1).expand(298, 8)
        >>> output, timeline, state = fusion({"video": frames, "audio": sound})
        >>> output.shape, timeline.time[:4, 0].tolist()
        (torch.Size([299, 8, 40]), [0.0, 20.0, 30.0, 40.0])
    """

    def __init__(
        self,
        sensors: Mapping[str, nn.Module],
        merged: nn.Module,
        encoders: Mapping[str, nn.Module] | None = None,
        dropout: float = 0.0,
        encode_padding: bool = False,
    ) -> None:
        super().__init__()
        arguments.network(sensors, merged, encoders or {})
        check.number("dropout", dropout, low=0.0, high=1.0)
        check.flag("encode_padding", encode_padding)
        self.sensors = nn.ModuleDict(sensors)
        self.encoders = nn.ModuleDict(encoders or {})
        self.merged = merged
        self.dropout, self.encode_padding = float(dropout), bool(encode_padding)
        self.hidden_size: int = merged.hidden_size  # type: ignore[assignment]

    def forward(
        self, streams: Mapping[str, Any], hx: Parts | None = None, extra: Times | None = None, steps: int | None = None
    ) -> Fused:
        """Run all layers over a batch.

        Args:
            streams: For each sensor its samples, `(x, time)` or `(x, time, lengths)`, such as `phased.learn.Samples`; None for a
                sensor that has none. In a sequence without samples of a sensor its length is 0.
            hx: Initial state of each layer; `Fused.state` of the part of the sequences before this one. Default: zeros.
            extra: Times of further updates of the merged layer, or a pair of times and lengths; a grid, for example.
            steps: Steps of the timeline, padding included: see `Timeline.of`.

        Shape:
            With B sequences, T_s samples of a sensor, T steps of the timeline and H units of the merged layer:

            - x: (T_s, B, D); with an encoder (T_s, B, ...).
            - time: (T_s, B), integers or floats, never decreasing.
            - lengths: (B,).
            - output: (T, B, H).

        Returns:
            `output, timeline, state`. Output and timeline end with padding where a sequence is shorter than the longest.

        Raises:
            TypeError: Samples are no tensors, or have another dtype than their layer.
            ValueError: A sensor is unknown or missing, shapes, batches or devices do not fit; or, on a CPU, times go backwards.

        Example:
            >>> import torch
            >>> from phased import Fusion, PhasedGRU, open_at_samples
            >>> sensors = {name: PhasedGRU(2, 4, **open_at_samples()) for name in ("left", "right")}
            >>> fusion = Fusion(sensors, PhasedGRU(8, 5))
            >>> left = torch.randn(2, 1, 2), torch.tensor([[0.0], [1.5]])
            >>> output, timeline, state = fusion({"left": left, "right": None}, extra=torch.tensor([[1.0]]))
            >>> timeline.time.flatten().tolist(), timeline.latest["left"].flatten().tolist()
            ([0.0, 1.0, 1.5], [0, 0, 1])
        """
        given = arguments.streams(streams, list(self.sensors))
        timeline = self._timeline(given, extra, steps)
        before = Parts(dict.fromkeys(self.sensors), None) if hx is None else checked_state(hx, list(self.sensors))
        held, states = [], {}
        for name in self.sensors:
            output, states[name] = self._sensor(name, given.get(name), timeline, before.sensors[name])
            held.append(hold(output, timeline.latest[name], top(before.sensors[name])))
        x = nn.functional.dropout(torch.cat(held, -1), self.dropout, self.training)
        output, final = run(self.merged, x, Clock(timeline.time, timeline.lengths), before.merged)
        return Fused(output, timeline, Parts(states, final))

    def timeline(self, streams: Mapping[str, Any], extra: Times | None = None, steps: int | None = None) -> Timeline:
        """Make the timeline of a batch without running the network, for example to give each step its label.

        Args:
            streams: Samples of each sensor, as `forward` takes them.
            extra: Times of further updates.
            steps: Steps of the timeline, padding included.

        Returns:
            The timeline that `forward` returns for the same arguments.

        Example:
            >>> import torch
            >>> from phased import Fusion, PhasedGRU
            >>> fusion = Fusion({"left": PhasedGRU(2, 4)}, PhasedGRU(4, 5))
            >>> fusion.timeline({"left": (torch.randn(2, 1, 2), torch.tensor([[0.0], [1.5]]))}).time.tolist()
            [[0.0], [1.5]]
        """
        return self._timeline(arguments.streams(streams, list(self.sensors)), extra, steps)

    def updates(self, streams: Mapping[str, Any], extra: Times | None = None) -> Parts:
        """Count the updates of each unit of each layer, as `phased.updates` does for one layer.

        Args:
            streams: Samples of each sensor, as `forward` takes them.
            extra: Times of further updates.

        Shape:
            Each count is (L, B, H) for L layers of H units.

        Returns:
            The counts of each sensor's layer and of the merged layer, int64.

        Raises:
            TypeError: A layer is no PhasedLSTM or PhasedGRU.

        Example:
            >>> import torch
            >>> from phased import Fusion, PhasedGRU, open_at_samples
            >>> sensors = {name: PhasedGRU(2, 1, **open_at_samples()) for name in ("left", "right")}
            >>> fusion = Fusion(sensors, PhasedGRU(2, 1, **open_at_samples()))
            >>> clock = torch.arange(3.0).unsqueeze(1)
            >>> counts = fusion.updates({"left": (torch.randn(3, 1, 2), clock), "right": (torch.randn(3, 1, 2), clock + 0.5)})
            >>> counts.sensors["left"].item(), counts.sensors["right"].item(), counts.merged.item()
            (3, 3, 6)
        """
        given = arguments.streams(streams, list(self.sensors))
        timeline = self._timeline(given, extra, None)
        nothing = Clock(timeline.time[:0], torch.zeros_like(timeline.lengths))
        clocks = {name: given[name].clock if name in given else nothing for name in self.sensors}
        counts = {name: updates(self.sensors[name], *clocks[name]) for name in self.sensors}  # type: ignore[arg-type]
        return Parts(counts, updates(self.merged, timeline.time, timeline.lengths))  # type: ignore[arg-type]

    def extra_repr(self) -> str:
        """The settings, for `repr`."""
        return f"dropout={self.dropout:g}, encode_padding={self.encode_padding}"

    def _timeline(self, given: Mapping[str, Samples], extra: Times | None, steps: int | None) -> Timeline:
        return merge(list(self.sensors), {name: samples.clock for name, samples in given.items()}, extra, steps)

    def _sensor(self, name: str, samples: Samples | None, timeline: Timeline, hx: Any) -> tuple[Tensor, Any]:
        """Outputs of a sensor's layer at its samples, (T_s, B, H), and its last state; without samples no outputs, and `hx`."""
        layer = self.sensors[name]
        if samples is None or not self._has_rows(name, samples):
            like = next(layer.parameters(), torch.empty(0, device=timeline.time.device))
            units: int = layer.hidden_size  # type: ignore[assignment]
            return like.new_zeros(0, timeline.time.shape[1], units), hx
        x, clock = samples
        with arguments.about(f"sensor {name!r}"):
            if name in self.encoders:
                x = encoded(self.encoders[name], x, clock.lengths, self.encode_padding)
            return run(layer, x, clock, hx)

    def _has_rows(self, name: str, samples: Samples) -> bool:
        """Whether a layer has rows to compute, or an encoder rows to encode: batch normalisation would make NaN of none."""
        x, clock = samples
        rows = x.shape[1] if self.encode_padding else clock.lengths.any()
        return bool(len(x) and (name not in self.encoders or rows))


def run(layer: nn.Module, x: Tensor, clock: Clock, hx: Any) -> tuple[Tensor, Any]:
    """Output and last state of a layer; layers that take no initial state can run without one."""
    time, lengths = clock
    output, state = layer(x, time, lengths=lengths) if hx is None else layer(x, time, hx=hx, lengths=lengths)
    return output, state


def top(state: Any) -> Tensor | None:
    """The output that belongs to a state: h of the last layer, (B, H)."""
    h = state[0] if isinstance(state, tuple) else state
    return None if h is None else h[-1]


def checked_state(given: Any, names: Collection[str]) -> Parts:
    """A state with an entry for each sensor."""
    if not isinstance(given, Parts):
        raise TypeError(f"the state must be Parts, as a fusion returns them, got {check.kind(given)}.")
    arguments.complete("the states", given.sensors, names, "a layer that starts from zero")
    return given
