"""Stream: a layer fed event by event, touching open units only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from phased import check, check_events, ops
from phased.cell import CELLS, Weights
from phased.gate import TimeGate
from phased.layer import PhasedRNN
from phased.ops.contract import Stepper
from phased.ops.cpu.stepper import CoreStepper

TIMES = frozenset((float, int, np.float64, np.int64, np.int32))
"""Types of a time that need no conversion and are exact."""

WHOLE = 2.0**24
"""Below this float32 has every whole number."""

INDICES = frozenset((int, np.int64))
"""Types of an index into a table that need no conversion."""


class Stream:
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
        self._start(stepper_of(*self._parts))

    def _start(self, stepper: Stepper) -> None:
        """Run on this stepper from now on."""
        self._stepper = stepper
        compiled = stepper if isinstance(stepper, CoreStepper) else None
        self._core = compiled.core if compiled is not None and self._entries is None else None
        self._looking_up = compiled if self._entries is not None else None

    def reset(self) -> None:
        """Set the states to zero; the next event may have any time.

        Example:
            >>> import torch
            >>> from phased import PhasedLSTM, Stream
            >>> stream = Stream(PhasedLSTM(3, 8))
            >>> h = stream.push(torch.randn(3), 1e6)
            >>> stream.reset()
            >>> h = stream.push(torch.randn(3), 0.0)
        """
        self._stepper.restore(tuple(torch.zeros_like(s) for s in self._stepper.state()), -math.inf)

    def copy(self) -> Stream:
        """Make another stream on the same weights, with its own copy of the state and the time.

        Returns:
            The new stream.

        Example:
            >>> import torch
            >>> from phased import PhasedLSTM, Stream
            >>> first = Stream(PhasedLSTM(3, 8))
            >>> second = first.copy()
            >>> h = first.push(torch.randn(3), 5.0)
            >>> first.time, second.time
            (5.0, None)
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._start(self._stepper.copy())
        return other

    def __copy__(self) -> Stream:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Stream:
        return self.copy()

    def __getstate__(self) -> dict[str, Any]:
        values = {name: value for name, value in self.__dict__.items() if name not in ("_stepper", "_core", "_looking_up")}
        # As arrays: torch sends a tensor to another process as shared memory, which would end with these temporary tensors.
        return values | {"state": [s.numpy() for s in self._stepper.state()], "time": self._stepper.time}

    def __setstate__(self, values: dict[str, Any]) -> None:
        self.__dict__.update({name: value for name, value in values.items() if name not in ("state", "time")})
        self._start(stepper_of(*self._parts))
        self._stepper.restore(tuple(torch.tensor(s, device="cpu") for s in values["state"]), values["time"])

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
        state = self._stepper.state()
        return state if len(state) > 1 else state[0]

    @state.setter
    def state(self, value: Any) -> None:
        shape = tuple(self._stepper.state()[0].shape)
        given = check.state(value, self._names, shape, self._dtype, torch.device("cpu"))
        for name, values in zip(self._names, given, strict=True):
            check_events.finite_values(name, values)
        self._stepper.restore(tuple(s.detach() for s in given), self._stepper.time)

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
        time = self._stepper.time
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
        if self._core is not None and type(x) is np.ndarray and (type(t) in TIMES or self._is_plain(t)):  # the short path
            try:
                return self._core.push(x, self.input_size, t)
            except (TypeError, ValueError):
                pass  # the checks below accept the event or say what is wrong with it
        looking_up, entries = self._looking_up, self._entries
        if looking_up is not None and entries is not None and type(x) in INDICES and (type(t) in TIMES or self._is_plain(t)):
            # The short path of an index. numpy would compare in float32, where the largest float64 overflows.
            h = looking_up.push_index(x, t if type(t) in TIMES else float(t), entries)
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
        return type(t) is np.float32 and bool(abs(t) < WHOLE or t != self._stepper.time)

    def _take(self, rows: Tensor, times: Tensor) -> Tensor:
        """Take all events, or none if that is interrupted."""
        state, time = self._stepper.state(), self._stepper.time
        try:
            return self._stepper.run(rows, times)
        except BaseException:
            self._stepper.restore(state, time)
            raise

    def _events(self, x: Any) -> Tensor:
        values = check_events.numbers("x", x)
        return values.to("cpu") if self._entries is not None else values.to("cpu", self._dtype)


def stepper_of(cell: str, weights: Sequence[Weights], gates: Sequence[TimeGate], table: Tensor | None, backend: str) -> Stepper:
    """A stepper from parts that can be pickled; the cell is given by its name."""
    return ops.stepper(CELLS[cell], weights, gates, table, backend)
