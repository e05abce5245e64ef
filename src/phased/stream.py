"""Stream: a layer fed event by event, touching open units only; and OneSequence, on which all such classes stand."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from phased import check, clock, ops
from phased.cell import CELLS, State, Weights
from phased.gate import TimeGate
from phased.layer import PhasedRNN
from phased.parameters import check_layer

TIMES = frozenset((float, int, np.float64, np.int64, np.int32))
"""Types of a time that need no conversion and are exact."""

ARRAYS, INDICES = frozenset((np.ndarray,)), frozenset((int, np.int64))
"""Types of features, and of an index into a table, that need no conversion."""

MARK, VERSION = b"phased", 1
"""The beginning of what `dump` returns."""
MODEL, DIGEST = 16, 16
"""Bytes of the identity of a model, and of the digest of a dump."""
NOT_OF_MODEL = "state must be of this model, got one of another. Load the model that it was made with."
TIME = 8
"""Bytes of the time, with which the bytes of a state begin."""


class OneSequence:
    """A sequence that takes events. All that changes is its state `_now`, a small value with a `copy`.

    Copies share `_model`, the weights, which never change. It has `start()`, the state before the first event; `pack(state)`, a
    state as bytes, and `unpack(data)`; and its `identity`, MODEL bytes that tell it from models with other answers.
    """

    _model: Any
    _now: Any

    def reset(self) -> None:
        """Forget all events; the next one may have any time.

        Example:
            >>> import torch
            >>> from phased import PhasedLSTM, Stream
            >>> stream = Stream(PhasedLSTM(3, 8))
            >>> h = stream.push(torch.randn(3), 1e6)
            >>> stream.reset()
            >>> h = stream.push(torch.randn(3), 0.0)
        """
        self._now = self._model.start()

    def copy(self) -> Self:
        """Make another sequence on the same weights, with its own copy of the state and the time.

        Returns:
            The new sequence.

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
        other._model, other._now = self._model, self._now.copy()
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def dump(self) -> bytes:
        """Write the state and the time as bytes, for a file or a database; `restore` continues from there.

        Returns:
            About a kilobyte. It has no weights, and is for this model only.

        Example:
            >>> import torch
            >>> from phased import PhasedLSTM, Stream
            >>> rnn = PhasedLSTM(3, 8)
            >>> first, second = Stream(rnn), Stream(rnn)
            >>> h = first.push(torch.randn(3), 5.0)
            >>> second.restore(first.dump())
            >>> second.time
            5.0
        """
        content = b"".join((MARK, VERSION.to_bytes(2, "little"), self._model.identity, self._model.pack(self._now)))
        return content + hashlib.blake2b(content, digest_size=DIGEST).digest()

    def restore(self, state: bytes) -> None:
        """Continue from what `dump` returned. An error leaves the sequence as it was.

        Args:
            state: What `dump` returned, of a sequence of the same model.

        Raises:
            ValueError: The state is of another model or another version of phased, or it is cut off or damaged.

        Example:
            >>> import torch
            >>> from phased import PhasedLSTM, Stream
            >>> stream = Stream(PhasedLSTM(3, 8))
            >>> before = stream.dump()
            >>> h = stream.push(torch.randn(3), 5.0)
            >>> stream.restore(before)
            >>> stream.time is None
            True
        """
        begin = len(MARK) + 2
        end = len(state) - DIGEST if type(state) is bytes else 0
        if end < begin + MODEL or hashlib.blake2b(state[:end], digest_size=DIGEST).digest() != state[end:]:
            raise ValueError(f"state must be what dump() returned, got {check.kind(state)} that is cut off or damaged.")
        version = int.from_bytes(state[len(MARK) : begin], "little")
        if state[: len(MARK)] != MARK or version != VERSION:
            raise ValueError(f"state must be of version {VERSION}, got {version}. Make it with this version of phased.")
        if state[begin : begin + MODEL] != self._model.identity:
            raise ValueError(NOT_OF_MODEL)
        self._now = self._model.unpack(state[begin + MODEL : end])

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self._model, "now": self._model.pack(self._now)}

    def __setstate__(self, values: dict[str, Any]) -> None:
        self._model = values["model"]
        self._now = self._model.unpack(values["now"])


def identity(settings: Any, tensors: Iterable[Tensor]) -> bytes:
    """Identifies settings, by their `repr`, and tensors on the CPU."""
    total = hashlib.blake2b(repr(settings).encode(), digest_size=MODEL)
    for tensor in tensors:
        total.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode() + tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.digest()


class Stack:
    """The weights of a stack of layers: a `Stepper` with a copy of them, and the checks that its events need.

    Args:
        cell: name of the cell.
        weights: of each layer.
        gates: of each layer.
        table: inputs by index, (entries, D); None where events are features.
        backend: name of the backend.
    """

    def __init__(
        self, cell: str, weights: Sequence[Weights], gates: Sequence[TimeGate], table: Tensor | None, backend: str
    ) -> None:
        self.parts = cell, weights, gates, table, backend
        self.names = ("h_0", "c_0")[: CELLS[cell].states]
        self.dtype, self.input_size = weights[0].ih.dtype, weights[0].ih.shape[1]
        self.shape = len(weights), weights[0].hh.shape[1]
        self.entries = None if table is None else len(table)
        self.usual = ARRAYS if table is None else INDICES
        own = ops.stepper(CELLS[cell], weights, gates, table, backend)
        self.native, self.start, self.run, self.push = own.native, own.start, own.run, own.push
        self.pack, self.unpack = own.pack, own.unpack

    @classmethod
    def of(cls, rnn: PhasedRNN, table: Tensor | None = None) -> Stack:
        """Copies of the weights of a layer, on the CPU and in no less than float32."""
        dtype = torch.promote_types(rnn.dtype, torch.float32)

        def own(value: Tensor, dtype: torch.dtype | None = dtype, name: str = "rnn") -> Tensor:
            check.finite_values(name, value)
            return value.detach().to("cpu", dtype, copy=True)

        weights = [w.map(own) for w in rnn.weights()]
        gates = [TimeGate._make((*(own(value, None) for value in gate.parameters()), 0.0, gate.shape)) for gate in rnn.gates()]
        return cls(rnn.cell.name, weights, gates, None if table is None else own(table, name="table"), rnn.backend)

    @cached_property
    def identity(self) -> bytes:
        """Identifies the weights, the gates, the cell and the table."""
        cell, weights, gates, table, _ = self.parts
        tensors = [tensor for w, gate in zip(weights, gates, strict=True) for tensor in (*w.present(), *gate.parameters())]
        shapes = [gate.shape for gate in gates]
        return identity((cell, shapes), tensors if table is None else [*tensors, table])

    @cached_property
    def open_time(self) -> float:
        """The shortest open time of all units."""
        return min(float((gate.period * gate.ratio_on).min()) for gate in self.parts[2])

    def values(self, state: Any) -> State:
        """Copies of h and c of a state, (L, H) each."""
        found = torch.frombuffer(bytearray(self.pack(state)), dtype=self.dtype, offset=TIME)
        return found.view(len(self.names), *self.shape).unbind(0)

    def state(self, values: Sequence[Tensor], time: float) -> Any:
        """The state of these values and this time."""
        return self.unpack(b"".join((np.float64(time).tobytes(), *(value.contiguous().numpy().tobytes() for value in values))))

    def __reduce__(self) -> tuple[Any, ...]:
        return Stack, self.parts


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

    _model: Stack

    def __init__(self, rnn: PhasedRNN, table: Tensor | None = None) -> None:
        check_layer(rnn)
        if rnn.bidirectional:
            raise ValueError("rnn must not be bidirectional: its backward direction needs the future. Use bidirectional=False.")
        if table is not None:
            check.table(table, rnn.input_size)
        self._model = Stack.of(rnn, table)
        self._now = self._model.start()

    def __setstate__(self, values: dict[str, Any]) -> None:
        if "_parts" in values:  # of an earlier version
            cell, weights, gates, table, backend = values["_parts"]
            self._model = Stack(cell, weights, gates, table, ops.renamed(backend))
            self._now = self._model.state([torch.from_numpy(value) for value in values["state"]], values["time"])
        else:
            super().__setstate__(values)

    @property
    def input_size(self) -> int:
        """The number of features of an event."""
        return self._model.input_size

    @property
    def hidden_size(self) -> int:
        """The number of units of a layer."""
        return self._model.shape[1]

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
        state = self._model.values(self._now)
        return state if len(state) > 1 else state[0]

    @state.setter
    def state(self, value: Any) -> None:
        model = self._model
        given = check.state(value, model.names, model.shape, model.dtype, torch.device("cpu"))
        for name, values in zip(model.names, given, strict=True):
            check.finite_values(name, values)
        self._now = model.state([s.detach().resolve_neg() for s in given], self._now.time)

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
        model = self._model
        if type(x) in model.usual and (type(t) in TIMES or self._is_plain(t)):  # the short path
            try:
                h = model.push(self._now, x, t)
            except TypeError:  # a number that is too large for a float
                h = None
            if h is not None:
                return h
        rows, time = self._events(x, many=False), clock.moment(t, self.time, model.open_time)
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
        rows, times = self._events(x, many=True), check.numbers("time", t)
        clock.events(times, rows, self.time, self._model.open_time)
        outputs = self._take(rows, times.to("cpu", torch.float64))
        return outputs if isinstance(x, Tensor) else outputs.numpy()

    def _is_plain(self, t: Any) -> bool:
        """Whether a time is float32 and rounding cannot have made it equal to the last."""
        return type(t) is np.float32 and bool(abs(t) < clock.EXACT_FLOAT32 or t != self._now.time)

    def _take(self, rows: Tensor, times: Tensor) -> Tensor:
        """Take all events, or none if that is interrupted."""
        after = self._now.copy()
        outputs = self._model.run(after, rows, times)
        self._now = after
        return outputs

    def _events(self, x: Any, many: bool) -> Tensor:
        model = self._model
        rows = check.numbers("x", x).to("cpu", None if model.entries is not None else model.dtype)
        check.events(rows, model.input_size, model.entries, many)
        return rows
