"""A stack of layers, event by event, by the compiled core: open units only."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from phased.cell import Cell, State, Weights
from phased.gate import TimeGate
from phased.ops.native import KINDS, address, contiguous, core

AT_ONCE = 1 << 16  # events in one call of the core; Python notices an interrupt between calls


class CoreStepper:
    """The core keeps weights and state in its own memory."""

    def __init__(self, stream: Any, shape: tuple[int, int], states: int, dtype: torch.dtype) -> None:
        self.core, self._shape, self._states, self._dtype = stream, shape, states, dtype
        # One event of a table: index, time and output in place, so that an event allocates nothing but what is returned.
        self._one = (
            torch.empty(1, dtype=torch.int64, device="cpu"),
            torch.empty(1, dtype=torch.float64, device="cpu"),
            torch.empty(shape[1], dtype=dtype, device="cpu"),
        )
        self._index, self._time, self._h = (tensor.numpy() for tensor in self._one)
        self._addresses = tuple(address(tensor) for tensor in self._one)

    @classmethod
    def create(cls, cell: Cell, weights: Sequence[Weights], gates: Sequence[TimeGate], table: Tensor | None) -> CoreStepper:
        """A stepper with copies of these weights. With a table, the first layer's input product is looked up, not computed."""
        alive: list[Tensor] = []  # keeps memory that addresses point to until the core has copied it

        def address_of(tensor: Tensor | None) -> int:
            if tensor is not None:
                alive.append(tensor := contiguous(tensor))
            return address(tensor)

        layers = []
        for index, (w, gate) in enumerate(zip(weights, gates, strict=True)):
            folded = table if index == 0 else None
            layers.append(
                {
                    "units": w.hh.shape[1],
                    "features": w.ih.shape[1] if folded is None else 0,
                    "shape": core.SHAPES[gate.shape],
                    "weights": [address_of(matrix) for matrix in w[:4]],
                    "peephole": address_of(w.peephole),
                    "period": address_of(gate.period),
                    "shift": address_of(gate.shift),
                    "ratio_on": address_of(gate.ratio_on),
                    "entries": 0 if folded is None else len(folded),
                    "table": 0 if folded is None else address_of(fold(cell, w, folded)),
                }
            )
        dtype = weights[0].hh.dtype
        stream = getattr(core, "Stream" + KINDS[dtype])(core.CELLS[cell.name], layers)
        return cls(stream, (len(weights), weights[0].hh.shape[1]), cell.states, dtype)

    @property
    def time(self) -> float:
        """The time of the last event."""
        return float(self.core.time)

    def run(self, x: Tensor, time: Tensor) -> Tensor:
        """Process events, many in one call; other Python threads run during it."""
        outputs = torch.empty(len(time), self._shape[1], dtype=self._dtype, device="cpu")
        x, time = contiguous(x), contiguous(time)
        for first in range(0, len(time), AT_ONCE):
            events, times, out = (tensor[first : first + AT_ONCE] for tensor in (x, time, outputs))
            row, index = (0, address(events)) if x.dtype == torch.int64 else (address(events), 0)
            self.core.run(row, index, address(times), len(times), address(out))
        return outputs

    def push_index(self, index: int, time: float, entries: int) -> Any:
        """Process one event of a table by the shortest path, and return the output, (H,); None if the event is not valid."""
        if not (0 <= index < entries and self.core.time <= time and abs(time) <= sys.float_info.max):
            return None
        self._index[0], self._time[0] = index, time
        at_index, at_time, at_h = self._addresses
        self.core.run(0, at_index, at_time, 1, at_h)
        return self._h.copy()

    def state(self) -> State:
        """A copy of the state."""
        state = tuple(torch.empty(self._shape, dtype=self._dtype, device="cpu") for _ in range(self._states))
        self.core.get(address(state[0]), address(state[-1]))
        return state

    def restore(self, state: State, time: float) -> None:
        """Continue from this state, after this time."""
        state = tuple(contiguous(s) for s in state)
        self.core.set(address(state[0]), address(state[-1]), time)

    def copy(self) -> CoreStepper:
        """Another stepper with the same weights and its own state."""
        return CoreStepper(self.core.copy(), self._shape, self._states, self._dtype)


def fold(cell: Cell, weights: Weights, table: Tensor) -> Tensor:
    """What each entry of the table (entries, D) adds to the core's four products of each unit: (entries, H, 4)."""
    products = (table @ weights.ih.T).view(len(table), cell.gates, -1)
    if cell.gates < core.PRODUCTS:  # the other products are of h alone, or unused
        products = torch.cat((products, products.new_zeros(len(table), core.PRODUCTS - cell.gates, products.shape[2])), 1)
    return products.transpose(1, 2)
