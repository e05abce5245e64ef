"""FusionStream: a fusion fed sample by sample, as the sensors deliver them."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from phased import check, check_events, clock
from phased.encoding import check_features
from phased.fusion import arguments
from phased.fusion.module import Fusion
from phased.fusion.parts import Parts
from phased.fusion.standing import Standing, batched, in_state, output_of
from phased.fusion.timeline import Timeline, hold
from phased.stream import TIMES, Stream

WHOLE = 2.0**53
"""Below this float64 has every whole number."""


class FusionStream:
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

    def __init__(self, fusion: Fusion) -> None:
        if not isinstance(fusion, Fusion):
            raise TypeError(f"fusion must be a Fusion, got {check.kind(fusion)}. For a single layer use Stream.")
        streams = {}
        for name, layer in fusion.sensors.items():
            with arguments.of(f"sensor {name!r}"):
                streams[name] = Stream(layer)  # type: ignore[arg-type]
        with arguments.of("merged"):
            merged = Stream(fusion.merged)  # type: ignore[arg-type]
        self._encoders: dict[str, nn.Module] = {
            name: deepcopy(encoder).to("cpu").eval().requires_grad_(False) for name, encoder in fusion.encoders.items()
        }
        self._dtypes = {name: output_of(stream).dtype for name, stream in streams.items()}
        self._now = Standing.at(None, streams, merged)
        self._open_time = min(layer.shortest_open_time() for layer in (*fusion.sensors.values(), fusion.merged))  # type: ignore[operator]
        self.hidden_size = fusion.hidden_size

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
        check_events.after(time, now.time)
        sensors, held = dict(now.sensors), dict(now.held)
        for name, x in samples.items():
            sensors[name] = sensors[name].copy()
            with arguments.of(f"sensor {name!r}"):
                row = self._encoded(name, check_events.numbers("x", x).unsqueeze(0))[0]
                if type(t) not in TIMES:  # several sensors may share a time; one sensor may by rounding
                    check_events.moment(t, sensors[name].time, self._open_time)
                held[name] = sensors[name].push(row.numpy(), float(time))
        before = now.before if time == now.time else now.after
        after = before.copy()
        h = after.push(np.concatenate(list(held.values())), float(time))
        self._now = Standing(time, sensors, held, before, after)
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
            with arguments.of(f"sensor {name!r}"):
                if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                    raise TypeError(
                        f"samples must be a pair (x, time), got {check.kind(pair)}. Pass both, or None for no samples."
                    )
                x, t = pair
                rows[name] = self._encoded(name, check_events.numbers("x", x))
                times[name] = check_events.numbers("time", t).to("cpu")
        further = None if extra is None else check_events.numbers("extra", extra).to("cpu").unsqueeze(1)
        clocks = {name: times[name].unsqueeze(1) if name in times else None for name in now.sensors}
        timeline = Timeline.of(clocks, further)
        time = timeline.time.squeeze(1)
        if not len(time):
            return now.after.run(torch.zeros(0, now.after.input_size), time), time
        check_events.after(time[0].item(), now.time)

        sensors, held, outputs = dict(now.sensors), dict(now.held), []
        for name in now.sensors:
            initial = torch.from_numpy(held[name]).unsqueeze(0)
            own = initial[:0]
            if name in rows:
                sensors[name] = sensors[name].copy()
                with arguments.of(f"sensor {name!r}"):
                    own = sensors[name].run(rows[name], times[name])
                held[name] = output_of(sensors[name]).numpy()
            outputs.append(hold(own.unsqueeze(1), timeline.latest[name], initial).squeeze(1))
        x = torch.cat(outputs, -1)
        before = (now.before if time[0].item() == now.time else now.after).copy()
        first = before.run(x[:-1], time[:-1])
        after = before.copy()
        output = torch.cat([first, after.run(x[-1:], time[-1:])])
        self._now = Standing(time[-1].item(), sensors, held, before, after)
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
        given = arguments.state(value, now.sensors)
        sensors = {}
        for name, stream in now.sensors.items():
            with arguments.of(f"sensor {name!r}"):
                sensors[name] = in_state(stream, given.sensors[name])
        with arguments.of("merged"):
            merged = in_state(now.after, given.merged)
        self._now = Standing.at(now.time, sensors, merged)

    def reset(self) -> None:
        """Set all states to zero; the next sample may have any time.

        Example:
            >>> import torch
            >>> from phased import Fusion, FusionStream, PhasedGRU
            >>> stream = FusionStream(Fusion({"left": PhasedGRU(2, 4)}, PhasedGRU(4, 5)))
            >>> h = stream.push({"left": torch.randn(2)}, 1e6)
            >>> stream.reset()
            >>> h = stream.push({"left": torch.randn(2)}, 0.0)
        """
        sensors = {name: stream.copy() for name, stream in self._now.sensors.items()}
        merged = self._now.after.copy()
        for stream in (*sensors.values(), merged):
            stream.reset()
        self._now = Standing.at(None, sensors, merged)

    def copy(self) -> FusionStream:
        """Make another stream on the same weights, with its own state and time.

        Returns:
            The new stream.

        Example:
            >>> import torch
            >>> from phased import Fusion, FusionStream, PhasedGRU
            >>> first = FusionStream(Fusion({"left": PhasedGRU(2, 4)}, PhasedGRU(4, 5)))
            >>> second = first.copy()
            >>> h = first.push({"left": torch.randn(2)}, 5.0)
            >>> first.time, second.time
            (5.0, None)
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __copy__(self) -> FusionStream:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> FusionStream:
        return self.copy()

    @torch.no_grad()
    def _encoded(self, name: str, rows: Tensor) -> Tensor:
        """The input of a sensor's layer for samples (N, ...)."""
        if not len(rows):  # whatever its shape, as in `Fusion`
            rows = torch.zeros(0, self._now.sensors[name].input_size)
        elif name in self._encoders:
            encoder = self._encoders[name]
            like = next(encoder.parameters(), rows)
            features: Tensor = encoder(rows.to("cpu", like.dtype if rows.is_floating_point() else rows.dtype))
            rows = check_features(features, len(rows))
        return rows.to("cpu", self._dtypes[name])


def moment(t: Any) -> float:
    """One time. Whole numbers stay int: nanoseconds that float64 would round to one number are different times."""
    if type(t) in TIMES and -WHOLE < t < WHOLE:
        return float(t)
    given = clock.signed(check_events.numbers("time", t))
    rounded = check_events.moment(given, None, 0.0)
    return float(rounded) if given.is_floating_point() else int(given)
