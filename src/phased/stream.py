"""Stream: a layer fed event by event, touching open units only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from phased import check, check_events
from phased.cell import CELLS, Weights
from phased.gate import TimeGate
from phased.layer import PhasedRNN
from phased.ops.contract import Stepper
from phased.ops.cpu.stepper import CoreStepper
from phased.ops.stepper import stepper

TIMES = frozenset((float, int, np.float64, np.float32, np.int64, np.int32))
"""Types of a time that need no further look."""


class Stream:
    """One sequence through a PhasedLSTM or PhasedGRU, event by event, as the layer computes it in eval.

    The weights are copied when the stream is made; `copy()` makes more streams that share them. numpy in gives numpy out, tensors
    in give tensors out. With `table`, (entries, input_size), events are indices into it, and cost no input product at all.
    One stream serves one thread at a time; different streams are free to run in different threads.
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
        self._core = stepper.core if isinstance(stepper, CoreStepper) and self._entries is None else None

    def reset(self) -> None:
        """Forget everything: zero states, and any time may come next."""
        self._stepper.restore(tuple(torch.zeros_like(s) for s in self._stepper.state()), -math.inf)

    def copy(self) -> Stream:
        """Another stream with the same weights, which are shared, and its own copy of the state and time."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._start(self._stepper.copy())
        return other

    def __copy__(self) -> Stream:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Stream:
        return self.copy()

    def __getstate__(self) -> dict[str, Any]:
        values = {name: value for name, value in self.__dict__.items() if name not in ("_stepper", "_core")}
        # As arrays: what pickles tensors for another process keeps only their addresses, and these tensors end here.
        return values | {"state": [s.numpy() for s in self._stepper.state()], "time": self._stepper.time}

    def __setstate__(self, values: dict[str, Any]) -> None:
        self.__dict__.update({name: value for name, value in values.items() if name not in ("state", "time")})
        self._start(stepper_of(*self._parts))
        self._stepper.restore(tuple(torch.tensor(s, device="cpu") for s in values["state"]), values["time"])

    @property
    def state(self) -> Any:
        """A copy of the state as the layer takes it for an unbatched sequence: (h, c), or h for the GRU, each (layers, H)."""
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
        """The time of the last event, or None before the first."""
        time = self._stepper.time
        return None if time == -math.inf else time

    def push(self, x: Any, t: float) -> Any:
        """Take one event, features x (input_size,) or an index, at time t; the output of the last layer, (H,)."""
        if self._core is not None and type(x) is np.ndarray and type(t) in TIMES:  # the short path
            try:
                return self._core.push(x, self.input_size, t)
            except (TypeError, ValueError):
                pass  # the checks below name what is wrong with the event, or take it
        rows = self._events(x)
        time = check_events.moment(t)
        check_events.event(rows, float(time), self.input_size, self._entries, self.time)
        h = self._take(rows.unsqueeze(0), time.view(1))[0]
        return h if isinstance(x, Tensor) else h.numpy()

    def run(self, x: Any, t: Any) -> Any:
        """Take many events, features (N, input_size) or indices (N,), at times (N,); the outputs, (N, H).

        All events are taken or none: a bad one anywhere is found before any is taken, and an interrupted run (Ctrl-C) leaves the
        stream as it was.
        """
        rows, times = self._events(x), check_events.numbers("time", t)
        check_events.events(rows, times, self.input_size, self._entries, self.time, lambda: self._open_time)
        outputs = self._take(rows, times.to("cpu", torch.float64))
        return outputs if isinstance(x, Tensor) else outputs.numpy()

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
    """A stepper made of parts that can be pickled: a cell goes by its name."""
    return stepper(CELLS[cell], weights, gates, table, backend)
