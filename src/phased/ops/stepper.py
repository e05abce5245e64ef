"""A stack of layers taken event by event, open units only: by the compiled core, or in plain PyTorch where there is none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from phased.cell import LSTM, Cell, State, Weights, hold
from phased.gate import SHAPES, TimeGate
from phased.ops import cpu
from phased.ops.contract import check_weights
from phased.ops.memory import address, contiguous

AT_ONCE = 1 << 16  # events the core takes in one call; between calls an interrupt is noticed


class Stepper(Protocol):
    """What a stream runs on; the state of all layers is one tensor each for h and c, (layers, H)."""

    def run(self, x: Tensor, time: Tensor) -> Tensor:
        """Take events, rows (N, D) or indices (N,) into the table, at float64 times (N,); the last layer's output, (N, H)."""

    @property
    def time(self) -> float:
        """Of the last event; -inf before the first."""

    def state(self) -> State:
        """A copy of the state."""

    def restore(self, state: State, time: float) -> None:
        """Go on from this state, after this time."""

    def copy(self) -> Stepper:
        """Another one with the same weights, not copied, and its own state."""


def stepper(cell: Cell, weights: Sequence[Weights], gates: Sequence[TimeGate], table: Tensor | None, backend: str) -> Stepper:
    """The compiled core where it can run, unless the layer's backend says otherwise; the weights are copied."""
    units, dtype, device = weights[0].hh.shape[-1], weights[0].hh.dtype, torch.device("cpu")
    for layer, (w, gate) in enumerate(zip(weights, gates, strict=True)):
        check_weights(cell, w, gate, w.ih.shape[-1] if layer == 0 else units, dtype, device)
    compiled = backend in ("auto", "cpu") and cpu.usable()
    return CoreStepper.create(cell, weights, gates, table) if compiled else PlainStepper(cell, weights, gates, table)


class PlainStepper:
    """In plain PyTorch, by the same equations as the layers."""

    def __init__(self, cell: Cell, weights: Sequence[Weights], gates: Sequence[TimeGate], table: Tensor | None) -> None:
        self._cell, self._weights, self._gates, self._table = cell, weights, gates, table
        self.time = -math.inf
        shape = (len(weights), weights[0].hh.shape[1])
        self._state: State = tuple(weights[0].hh.new_zeros(shape) for _ in range(cell.states))

    def run(self, x: Tensor, time: Tensor) -> Tensor:
        """Take events one after another."""
        rows = x if self._table is None else self._table[x]
        outputs = rows.new_empty(len(rows), self._state[0].shape[1])
        for j, (row, t) in enumerate(zip(rows, time, strict=True)):
            outputs[j] = self._advance(row, t)
            self.time = float(t)
        return outputs

    def state(self) -> State:
        """A copy of the state."""
        return tuple(s.clone() for s in self._state)

    def restore(self, state: State, time: float) -> None:
        """Go on from this state, after this time."""
        self._state, self.time = tuple(s.clone() for s in state), time

    def copy(self) -> PlainStepper:
        """Another one with the same weights and its own state."""
        other = PlainStepper(self._cell, self._weights, self._gates, self._table)
        other.restore(self._state, self.time)
        return other

    def _advance(self, x: Tensor, time: Tensor) -> Tensor:
        """All layers see the same time (the paper's Figure 2a)."""
        for layer, (weights, gate) in enumerate(zip(self._weights, self._gates, strict=True)):
            state = tuple(s[layer] for s in self._state)
            phi = gate.phase(time)
            unit = gate.is_open(phi).nonzero().squeeze(-1)
            if unit.numel():
                k = gate.of(unit).openness(phi[unit]).to(x.dtype)
                previous = tuple(s[unit] for s in state)
                from_x = self._products(weights.ih, weights.bias_ih, unit, x)
                from_h = self._products(weights.hh, weights.bias_hh, unit, state[0])
                peephole = None if weights.peephole is None else weights.peephole[:, unit]
                proposal = self._cell.propose(from_x, from_h, previous, peephole)
                for whole, new in zip(state, hold(k, proposal.state, previous), strict=True):
                    whole[unit] = new
            x = state[0]
        return x

    def _products(self, weight: Tensor, bias: Tensor | None, unit: Tensor, row: Tensor) -> Tensor:
        """The gates' products of the open units, (G, open)."""
        products = weight.view(self._cell.gates, -1, len(row))[:, unit] @ row
        return products if bias is None else products + bias.view(self._cell.gates, -1)[:, unit]


class CoreStepper:
    """By the compiled core, which keeps weights and state in its own memory."""

    def __init__(self, core: Any, shape: tuple[int, int], states: int, dtype: torch.dtype) -> None:
        self.core, self._shape, self._states, self._dtype = core, shape, states, dtype

    @classmethod
    def create(cls, cell: Cell, weights: Sequence[Weights], gates: Sequence[TimeGate], table: Tensor | None) -> CoreStepper:
        """A stepper with copies of these weights. With a table, the first layer's input product is looked up, not computed."""
        alive: list[Tensor] = []  # what addresses point into, until the core has copied it

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
                    "shape": SHAPES.index(gate.shape),
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
        core = getattr(cpu.core, "Stream" + cpu.KINDS[dtype])(cpu.cell_number(cell), layers)
        return cls(core, (len(weights), weights[0].hh.shape[1]), cell.states, dtype)

    @property
    def time(self) -> float:
        """Of the last event."""
        return float(self.core.time)

    def run(self, x: Tensor, time: Tensor) -> Tensor:
        """Take events, many at a call; other Python threads run meanwhile."""
        outputs = torch.empty(len(time), self._shape[1], dtype=self._dtype, device="cpu")
        x, time = contiguous(x), contiguous(time)
        for first in range(0, len(time), AT_ONCE):
            events, times, out = (tensor[first : first + AT_ONCE] for tensor in (x, time, outputs))
            row, index = (0, address(events)) if x.dtype == torch.int64 else (address(events), 0)
            self.core.run(row, index, address(times), len(times), address(out))
        return outputs

    def state(self) -> State:
        """A copy of the state."""
        state = tuple(torch.empty(self._shape, dtype=self._dtype, device="cpu") for _ in range(self._states))
        self.core.get(address(state[0]), address(state[-1]))
        return state

    def restore(self, state: State, time: float) -> None:
        """Go on from this state, after this time."""
        state = tuple(contiguous(s) for s in state)
        self.core.set(address(state[0]), address(state[-1]), time)

    def copy(self) -> CoreStepper:
        """Another one with the same weights and its own state."""
        return CoreStepper(self.core.copy(), self._shape, self._states, self._dtype)


def fold(cell: Cell, weights: Weights, table: Tensor) -> Tensor:
    """What each entry of the table (entries, D) adds to the core's four products of each unit: (entries, H, 4)."""
    products = (table @ weights.ih.T).view(len(table), cell.gates, -1)
    if cell is not LSTM:  # the GRU's fourth product is the recurrent half of its third
        products = torch.cat((products, products.new_zeros(len(table), 1, products.shape[2])), 1)
    return products.transpose(1, 2)
