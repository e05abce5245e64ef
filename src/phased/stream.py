"""Stream: a layer fed event by event, touching open units only."""

from __future__ import annotations

import math
import struct
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from phased import check, check_events
from phased.cell import CELLS
from phased.gate import TimeGate
from phased.layer import PhasedRNN
from phased.one_sequence import OneSequence, identity
from phased.ops.stepper import stepper

TIMES = frozenset((float, int, np.float64, np.int64, np.int32))
"""Types of a time that need no conversion and are exact."""

WHOLE = 2.0**24
"""Below this float32 has every whole number."""

ARRAYS = frozenset((np.ndarray,))
INDICES = frozenset((int, np.int64))
"""Types of features, and of an index into a table, that need no conversion."""


class Stream(OneSequence):
    """One sequence through a PhasedLSTM or PhasedGRU, event by event, as the layer computes it in eval.

    The weights are copied when the stream is made; `copy()` makes more streams that share them. numpy in gives numpy out, tensors
    in give tensors out. One thread at a time may use a stream; different streams may run in different threads.

    Args:
        rnn: The layer, not bidirectional.
        table: Inputs by index. If given, an event is an index into it, and its product with the weights is looked up.

    Shape:
        - table: (entries, input_size).

    Raises:
        TypeError: rnn is no PhasedLSTM or PhasedGRU, or table is no tensor of floats.
        ValueError: rnn is bidirectional or has values that are not finite, or table does not fit it.

    Example:
        >>> import torch
        >>> from phased import PhasedLSTM, Stream
        >>> rnn = PhasedLSTM(3, 8).eval()
        >>> stream = Stream(rnn)
        >>> x, time = torch.randn(50, 3), torch.arange(50.0)
        >>> for event, t in zip(x, time):
        ...     h = stream.push(event, t)
        >>> torch.allclose(h, rnn(x, time)[0][-1], atol=1e-6)
        True
    """

    def __init__(self, rnn: PhasedRNN, table: Tensor | None = None) -> None:
        if not isinstance(rnn, PhasedRNN):
            raise TypeError(f"rnn must be a PhasedLSTM or PhasedGRU, got {check.kind(rnn)}.")
        if rnn.bidirectional:
            raise ValueError("rnn must not be bidirectional: its backward direction needs the future. Use bidirectional=False.")
        self.input_size = rnn.input_size
        self.hidden_size = rnn.hidden_size
        self._names = rnn.state_names
        self._dtype = torch.promote_types(rnn.dtype, torch.float32)

        def own(name: str, value: Tensor, dtype: torch.dtype | None = self._dtype) -> Tensor:
            check_events.finite_values(name, value)
            return value.detach().to("cpu", dtype, copy=True)

        def own_gate(gate: TimeGate) -> TimeGate:
            period, shift, ratio_on = (own("rnn", value, None) for value in gate.parameters())
            return TimeGate(period, shift, ratio_on, 0.0, gate.shape)

        if table is not None:
            check_events.table(table, self.input_size)
        self._entries = None if table is None else len(table)
        weights = [w.map(partial(own, "rnn"), partial(own, "rnn")) for w in rnn.weights()]
        gates = [own_gate(gate) for gate in rnn.gates()]
        self._open_time = rnn.shortest_open_time()
        self._parts = (rnn.cell.name, weights, gates, None if table is None else own("table", table), rnn.backend)
        self._settle()

    def _settle(self) -> None:
        """Make a stepper of the parts, and begin."""
        cell, weights, gates, table, backend = self._parts
        self._usual = ARRAYS if table is None else INDICES
        self._stepper = stepper(CELLS[cell], weights, gates, table, backend)
        self._identity: list[bytes] = []
        self._now = self._start()

    def _start(self) -> Any:
        return self._stepper.start()

    def _identify(self) -> bytes:
        cell, weights, gates, table, _ = self._parts
        tensors = [tensor for w, gate in zip(weights, gates, strict=True) for tensor in (*w.present(), *gate.parameters())]
        shapes = [gate.shape for gate in gates]
        return identity((cell, shapes), tensors if table is None else [*tensors, table])

    def _pack(self) -> bytes:
        return struct.pack("<d", self._now.time) + b"".join(s.numpy().tobytes() for s in self._stepper.tensors(self._now))

    def _unpack(self, data: bytes) -> Any:
        state, shape = self._start(), (-1, *self._stepper.shape)
        values = torch.frombuffer(bytearray(data[8:]), dtype=self._dtype).view(shape)
        self._stepper.set(state, values.unbind(0), struct.unpack("<d", data[:8])[0])
        return state

    def __getstate__(self) -> dict[str, Any]:
        values = {name: value for name, value in self.__dict__.items() if name not in ("_stepper", "_identity", "_usual", "_now")}
        # As arrays: torch sends a tensor to another process as shared memory, which would end with these temporary tensors.
        return values | {"state": [s.numpy() for s in self._stepper.tensors(self._now)], "time": self._now.time}

    def __setstate__(self, values: dict[str, Any]) -> None:
        self.__dict__.update({name: value for name, value in values.items() if name not in ("state", "time")})
        self._settle()
        self._stepper.set(self._now, tuple(torch.tensor(s, device="cpu") for s in values["state"]), values["time"])

    @property
    def state(self) -> Any:
        """A copy of the state, as the layer takes it for an unbatched sequence; assign one to set it.

        Shape:
            - h, c: (L, H), for L layers of H units.

        Returns:
            `(h, c)` for a PhasedLSTM, `h` for a PhasedGRU.

        Raises:
            TypeError: A state that is assigned has another type or dtype.
            ValueError: A state that is assigned has another shape, or values that are not finite.

        Example:
            >>> import torch
            >>> from phased import PhasedLSTM, Stream
            >>> rnn = PhasedLSTM(3, 8)
            >>> stream, other = Stream(rnn), Stream(rnn)
            >>> outputs = stream.run(torch.randn(50, 3), torch.arange(50.0))
            >>> other.state = stream.state
            >>> torch.equal(other.state[0], stream.state[0])
            True
        """
        state = self._stepper.tensors(self._now)
        return state if len(state) > 1 else state[0]

    @state.setter
    def state(self, value: Any) -> None:
        given = check.state(value, self._names, self._stepper.shape, self._dtype, torch.device("cpu"))
        for name, values in zip(self._names, given, strict=True):
            check_events.finite_values(name, values)
        self._stepper.set(self._now, tuple(s.detach() for s in given), self._now.time)

    @property
    def time(self) -> float | None:
        """The time of the last event, or None before the first.

        Example:
            >>> import torch
            >>> from phased import PhasedLSTM, Stream
            >>> stream = Stream(PhasedLSTM(3, 8))
            >>> outputs = stream.run(torch.randn(2, 3), torch.tensor([1.0, 2.5]))
            >>> stream.time
            2.5
        """
        time = self._now.time
        return None if time == -math.inf else time

    def push(self, x: Any, t: float) -> Any:
        """Take one event.

        Args:
            x: Its features, or its index if the stream has a table: a tensor, an array or a list.
            t: Its time, not before that of the last event.

        Shape:
            - x: (input_size,), or () for an index.
            - returned: (H,).

        Returns:
            The output of the last layer: a tensor if x is one, otherwise an array.

        Raises:
            TypeError: x or t are no real numbers, or x is no int64 index where the stream has a table.
            ValueError: x has another shape, x or t are not finite, t is before the last event, or in a dtype below float64 that
                rounds it to the time of the last event. The state stays as it was.

        Example:
            >>> import torch
            >>> from phased import PhasedLSTM, Stream
            >>> stream = Stream(PhasedLSTM(3, 8))
            >>> stream.push(torch.randn(3), 0.5).shape
            torch.Size([8])
        """
        if type(x) in self._usual and (type(t) in TIMES or self._is_plain(t)):  # the short path
            try:
                h = self._stepper.push(self._now, x, t)
            except TypeError:  # a number that is too large for a float
                h = None
            if h is not None:
                return h
        rows = self._events(x)
        time = check_events.moment(t, self.time, self._open_time)
        check_events.event(rows, float(time), self.input_size, self._entries, self.time)
        h = self._take(rows.unsqueeze(0), time.view(1))[0]
        return h if isinstance(x, Tensor) else h.numpy()

    def run(self, x: Any, t: Any) -> Any:
        """Take many events, or none: a wrong event anywhere raises first, and Ctrl-C leaves the stream as it was.

        Args:
            x: Features of the events, or indices if the stream has a table: a tensor, an array or a list.
            t: Times of the events, never decreasing and not before the last event.

        Shape:
            - x: (N, input_size), or (N,) for indices.
            - t: (N,).
            - returned: (N, H).

        Returns:
            The outputs of the last layer after each event: a tensor if x is one, otherwise an array.

        Raises:
            TypeError: x or t are no real numbers, or x is no int64 indices where the stream has a table.
            ValueError: Shapes do not fit, values are not finite, or times go backwards.

        Example:
            >>> import torch
            >>> from phased import PhasedGRU, Stream
            >>> stream = Stream(PhasedGRU(3, 8))
            >>> stream.run(torch.randn(100, 3), torch.arange(100.0)).shape
            torch.Size([100, 8])
        """
        rows, times = self._events(x), check_events.numbers("time", t)
        check_events.events(rows, times, self.input_size, self._entries, self.time, lambda: self._open_time)
        outputs = self._take(rows, times.to("cpu", torch.float64))
        return outputs if isinstance(x, Tensor) else outputs.numpy()

    def _is_plain(self, t: Any) -> bool:
        """Whether a time is float32 and rounding cannot have made it equal to the last."""
        return type(t) is np.float32 and bool(abs(t) < WHOLE or t != self._now.time)

    def _take(self, rows: Tensor, times: Tensor) -> Tensor:
        """Take all events, or none if that is interrupted."""
        after = self._now.copy()
        outputs = self._stepper.run(after, rows, times)
        self._now = after
        return outputs

    def _events(self, x: Any) -> Tensor:
        values = check_events.numbers("x", x)
        return values.to("cpu") if self._entries is not None else values.to("cpu", self._dtype)
