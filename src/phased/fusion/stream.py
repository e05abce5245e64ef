"""FusionStream: a fusion fed sample by sample, as the sensors deliver them."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from phased import check, clock
from phased.encoding import check_features
from phased.fusion import arguments
from phased.fusion.arguments import about
from phased.fusion.module import Fusion, Parts, checked_state
from phased.fusion.timeline import Timeline, hold
from phased.stream import TIMES, OneSequence, Stream, identity


class Now(NamedTuple):
    """The layers of a stream of several sensors after a time. Nothing in it changes later: an update copies what it changes.

    So copies of a stream share it, and an error during an update leaves it as it was.
    """

    time: float | None
    sensors: Mapping[str, Stream]
    held: Mapping[str, NDArray[Any]]  # the latest output of each sensor's layer, (H,)
    before: Stream  # the merged layer before the update at this time
    after: Stream  # and after it

    @classmethod
    def at(cls, time: float | None, sensors: Mapping[str, Stream], before: Stream, after: Stream) -> Now:
        """Layers in these states; what is held follows from them."""
        return cls(
            time,
            sensors,
            {name: stream._model.values(stream._now)[0][-1].numpy() for name, stream in sensors.items()},
            before,
            after,
        )

    def copy(self) -> Now:
        """The same."""
        return self

    @property
    def layers(self) -> tuple[Stream, ...]:
        """Every layer."""
        return (*self.sensors.values(), self.before, self.after)


class Layers:
    """The layers of a fusion, which streams share, before their first sample; and its encoders in eval."""

    def __init__(self, fusion: Fusion) -> None:
        self.sensors = {}
        for name, layer in fusion.sensors.items():
            with about(f"sensor {name!r}"):
                self.sensors[name] = Stream(layer)  # type: ignore[arg-type]
        with about("merged"):
            self.merged = Stream(fusion.merged)  # type: ignore[arg-type]
        self.encoders: dict[str, nn.Module] = {
            name: deepcopy(encoder).to("cpu").eval().requires_grad_(False) for name, encoder in fusion.encoders.items()
        }
        self.open_time = min(stream._model.open_time for stream in (*self.sensors.values(), self.merged))

    @cached_property
    def identity(self) -> bytes:
        """Identifies the weights of all layers and encoders."""
        models = [stream._model.identity for stream in (*self.sensors.values(), self.merged)]
        tensors = [value for name in sorted(self.encoders) for value in self.encoders[name].state_dict().values()]
        return identity((*self.sensors, *self.encoders, *models), (value for value in tensors if isinstance(value, Tensor)))

    def start(self) -> Now:
        """The state before the first sample."""
        return Now.at(None, self.sensors, self.merged, self.merged)

    def pack(self, now: Now) -> bytes:
        """A state as bytes: the time, whether it is a whole number, and the states of the layers."""
        time = math.nan if now.time is None else now.time
        clock = struct.pack("<q?" if isinstance(time, int) else "<d?", time, isinstance(time, int))
        return clock + b"".join(stream._model.pack(stream._now) for stream in now.layers)

    def unpack(self, data: bytes) -> Now:
        """The state from what `pack` returned."""
        time: float = struct.unpack_from("<q" if data[8] else "<d", data)[0]
        begin, layers = 9, []
        for stream in (*self.sensors.values(), self.merged, self.merged):
            end = begin + len(stream._model.pack(stream._now))
            layers.append(other := stream.copy())
            other._now = stream._model.unpack(data[begin:end])
            begin = end
        *sensors, before, after = layers
        return Now.at(None if time != time else time, dict(zip(self.sensors, sensors, strict=True)), before, after)

    @torch.no_grad()
    def encoded(self, name: str, rows: Tensor) -> Tensor:
        """The input of a sensor's layer for samples (N, ...)."""
        model = self.sensors[name]._model
        if not len(rows):  # whatever its shape, as in `Fusion`
            rows = torch.zeros(0, model.input_size)
        elif name in self.encoders:
            encoder = self.encoders[name]
            like = next(encoder.parameters(), rows)
            features: Tensor = encoder(rows.to("cpu", like.dtype if rows.is_floating_point() else rows.dtype))
            rows = check_features(features, len(rows))
        return rows.to("cpu", model.dtype)


class FusionStream(OneSequence):
    """One sequence through a `Fusion`, sample by sample, as the network computes it in eval.

    Samples are pushed in the order of their times. Those of one time may be pushed together or one after another, in any order of
    the sensors: a later push of the same time repeats the update of the merged layer with all samples of that time. So the last
    output of each time is the one of the network at that step.

    The weights are copied when the stream is made; `copy()` makes more streams that share them. Computation is on the CPU.

    Args:
        fusion: The network; its layers are PhasedLSTM or PhasedGRU.

    Raises:
        TypeError: fusion is no `Fusion`, or a layer is no PhasedLSTM or PhasedGRU.
        ValueError: A layer has values that are not finite.

    Example:
        >>> import torch
        >>> from phased import Fusion, FusionStream, PhasedGRU, open_at_samples
        >>> sensors = {name: PhasedGRU(2, 4, **open_at_samples()) for name in ("left", "right")}
        >>> fusion = Fusion(sensors, PhasedGRU(8, 5, period=3.0, ratio_on=0.5)).eval()
        >>> stream = FusionStream(fusion)
        >>> x, y, z = torch.randn(3, 2)
        >>> h = stream.push({"left": x}, 0.0)
        >>> h = stream.push({"right": y}, 0.7)
        >>> h = stream.push({"left": z}, 1.0)
        >>> left, right = torch.stack([x, z]).unsqueeze(1), y.view(1, 1, 2)
        >>> output, _, _ = fusion({"left": (left, torch.tensor([[0.0], [1.0]])), "right": (right, torch.tensor([[0.7]]))})
        >>> torch.allclose(h, output[-1, 0], atol=1e-6)
        True
    """

    _model: Layers

    def __init__(self, fusion: Fusion) -> None:
        if not isinstance(fusion, Fusion):
            raise TypeError(f"fusion must be a Fusion, got {check.kind(fusion)}. For a single layer use Stream.")
        self._model = Layers(fusion)
        self._now = self._model.start()

    @property
    def hidden_size(self) -> int:
        """The number of units of the merged layer."""
        return self._model.merged.hidden_size

    def push(self, samples: Mapping[str, Any], t: float) -> Tensor:
        """Take the samples of one time.

        Args:
            samples: For each sensor that has a sample now its features, or what its encoder takes: a tensor, an array or a list.
                Without any the merged layer is updated with what is held.
            t: The time, not before the last one.

        Shape:
            - a sample: (input_size,) of its layer; with an encoder that of one sample.
            - returned: (H,).

        Returns:
            The output of the merged layer.

        Raises:
            TypeError: A sample or t are no real numbers.
            ValueError: A sensor is unknown, a sample has another shape or is not finite, or t is before the last time, or in a
                dtype below float64 that rounds it to the time of the sensor's last sample. The stream stays as it was.

        Example:
            >>> import torch
            >>> from phased import Fusion, FusionStream, PhasedGRU
            >>> stream = FusionStream(Fusion({"left": PhasedGRU(2, 4), "right": PhasedGRU(3, 4)}, PhasedGRU(8, 5)))
            >>> stream.push({"left": torch.randn(2), "right": torch.randn(3)}, 0.5).shape
            torch.Size([5])
        """
        now = self._now
        arguments.known(samples, now.sensors)
        time = moment(t)
        clock.after(time, now.time)
        sensors, held = dict(now.sensors), dict(now.held)
        for name, x in samples.items():
            sensors[name] = sensors[name].copy()
            with about(f"sensor {name!r}"):
                row = self._model.encoded(name, check.numbers("x", x).unsqueeze(0))[0]
                if type(t) not in TIMES:  # several sensors may share a time; one sensor may by rounding
                    clock.moment(t, sensors[name].time, self._model.open_time)
                held[name] = sensors[name].push(row.numpy(), float(time))
        before = now.before if time == now.time else now.after
        after = before.copy()
        h = after.push(np.concatenate(list(held.values())), float(time))
        self._now = Now(time, sensors, held, before, after)
        return torch.from_numpy(h)

    def run(self, streams: Mapping[str, tuple[Any, Any] | None], extra: Any = None) -> tuple[Tensor, Tensor]:
        """Take many samples of several sensors, or none: a wrong sample anywhere raises, and the stream stays as it was.

        If they begin at the last time of the stream, the first output replaces the last one, as in `push`.

        Args:
            streams: For each sensor that has samples a pair of samples and times: tensors, arrays or lists. Others may be None.
            extra: Times of further updates of the merged layer: a tensor, an array or a list.

        Shape:
            - samples: (N, input_size); with an encoder (N, ...).
            - times, extra: (N,), never decreasing, and not before the last time of the stream.
            - returned: (T, H) and (T,), with one step for each different time.

        Returns:
            The outputs of the merged layer, and their times.

        Raises:
            TypeError: Samples or times are no real numbers.
            ValueError: A sensor is unknown, shapes do not fit, values are not finite, or times go backwards.

        Example:
            >>> import torch
            >>> from phased import Fusion, FusionStream, PhasedGRU
            >>> stream = FusionStream(Fusion({"left": PhasedGRU(2, 4), "right": PhasedGRU(3, 4)}, PhasedGRU(8, 5)))
            >>> left, right = (torch.randn(3, 2), [0.0, 1.0, 2.0]), (torch.randn(2, 3), [0.5, 1.0])
            >>> output, time = stream.run({"left": left, "right": right})
            >>> output.shape, time.tolist()
            (torch.Size([4, 5]), [0.0, 0.5, 1.0, 2.0])
        """
        now = self._now
        arguments.known(streams, now.sensors)
        rows, times = {}, {}
        pair: Any
        for name, pair in streams.items():
            if pair is None:
                continue
            with about(f"sensor {name!r}"):
                if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                    raise TypeError(
                        f"samples must be a pair (x, time), got {check.kind(pair)}. Pass both, or None for no samples."
                    )
                x, t = pair
                rows[name] = self._model.encoded(name, check.numbers("x", x))
                times[name] = check.numbers("time", t).to("cpu")
        further = None if extra is None else check.numbers("extra", extra).to("cpu").unsqueeze(1)
        clocks = {name: times[name].unsqueeze(1) if name in times else None for name in now.sensors}
        timeline = Timeline.of(clocks, further)
        time = timeline.time.squeeze(1)
        if not len(time):
            return now.after.run(torch.zeros(0, now.after.input_size), time), time
        clock.after(time[0].item(), now.time)

        sensors, outputs = dict(now.sensors), []
        for name in now.sensors:
            initial = torch.from_numpy(now.held[name]).unsqueeze(0)
            own = initial[:0]
            if name in rows:
                sensors[name] = sensors[name].copy()
                with about(f"sensor {name!r}"):
                    own = sensors[name].run(rows[name], times[name])
            outputs.append(hold(own.unsqueeze(1), timeline.latest[name], initial).squeeze(1))
        x = torch.cat(outputs, -1)
        before = (now.before if time[0].item() == now.time else now.after).copy()
        first = before.run(x[:-1], time[:-1])
        after = before.copy()
        output = torch.cat([first, after.run(x[-1:], time[-1:])])
        self._now = Now.at(time[-1].item(), sensors, before, after)
        return output, time

    @property
    def time(self) -> float | None:
        """The last time, or None before the first.

        Example:
            >>> import torch
            >>> from phased import Fusion, FusionStream, PhasedGRU
            >>> stream = FusionStream(Fusion({"left": PhasedGRU(2, 4)}, PhasedGRU(4, 5)))
            >>> h = stream.push({"left": torch.randn(2)}, 0.5)
            >>> stream.time
            0.5
        """
        return None if self._now.time is None else float(self._now.time)

    @property
    def state(self) -> Parts:
        """A copy of the state of each layer, as a `Fusion` takes it for a batch of one sequence; assign one to set it.

        Shape:
            - h, c of a layer: (L, 1, H).

        Returns:
            The states of the sensors' layers and of the merged layer.

        Raises:
            TypeError: A state that is assigned has another type or dtype.
            ValueError: A state that is assigned has another shape, or values that are not finite.

        Example:
            >>> import torch
            >>> from phased import Fusion, FusionStream, PhasedGRU
            >>> fusion = Fusion({"left": PhasedGRU(2, 4)}, PhasedGRU(4, 5))
            >>> stream, other = FusionStream(fusion), FusionStream(fusion)
            >>> h = stream.push({"left": torch.randn(2)}, 0.5)
            >>> other.state = stream.state
            >>> torch.equal(other.state.merged, stream.state.merged)
            True
        """
        now = self._now
        return Parts({name: batched(stream.state) for name, stream in now.sensors.items()}, batched(now.after.state))

    @state.setter
    def state(self, value: Parts) -> None:
        now = self._now
        given = checked_state(value, now.sensors)
        sensors = {}
        for name, stream in now.sensors.items():
            with about(f"sensor {name!r}"):
                sensors[name] = in_state(stream, given.sensors[name])
        with about("merged"):
            merged = in_state(now.after, given.merged)
        self._now = Now.at(now.time, sensors, merged, merged)


def moment(t: Any) -> float:
    """One time. Whole numbers stay int: nanoseconds that float64 would round to one number are different times."""
    if type(t) in TIMES and abs(t) < clock.EXACT_FLOAT64:
        return float(t)
    given = clock.signed(check.numbers("time", t))
    rounded = clock.moment(given, None, 0.0)
    return float(rounded) if given.is_floating_point() else int(given)


def in_state(stream: Stream, state: Any) -> Stream:
    """A copy of a stream in another state, given as that of a batch of one sequence; None is zeros."""
    other = stream.copy()
    other.state = each(torch.zeros_like, other.state) if state is None else each(lambda s: s.squeeze(1), state)
    return other


def batched(state: Any) -> Any:
    """The state of one sequence as that of a batch."""
    return each(lambda s: s.unsqueeze(1), state)


def each(change: Callable[[Tensor], Tensor], state: Any) -> Any:
    """A state whose tensors are changed: (h, c) of a PhasedLSTM, h of a PhasedGRU."""
    return tuple(map(change, state)) if isinstance(state, tuple) else change(state)
