"""A stack of layers, event by event, in plain PyTorch: open units only."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from phased.cell import Cell, State, Weights, hold
from phased.gate import TimeGate


@dataclass
class PlainState:
    """h and c, (layers, H) each, and the time of the last event."""

    tensors: State
    time: float = -math.inf

    def copy(self) -> PlainState:
        """Another state with the same values."""
        return PlainState(tuple(s.clone() for s in self.tensors), self.time)


class PlainStepper:
    """By the same equations as the layers."""

    native = None

    def __init__(self, cell: Cell, weights: Sequence[Weights], gates: Sequence[TimeGate], table: Tensor | None) -> None:
        self._cell, self._weights, self._gates, self._table = cell, weights, gates, table
        self._shape = cell.states, len(weights), weights[0].hh.shape[1]

    def start(self) -> PlainState:
        """A state of zeros."""
        return PlainState(self._weights[0].hh.new_zeros(self._shape).unbind(0))

    def pack(self, state: PlainState) -> bytes:
        """A state as bytes."""
        return struct.pack("<d", state.time) + b"".join(s.numpy().tobytes() for s in state.tensors)

    def unpack(self, data: bytes) -> PlainState:
        """The state from what `pack` returned."""
        values = torch.frombuffer(bytearray(data), dtype=self._weights[0].hh.dtype, offset=8)
        return PlainState(values.view(self._shape).unbind(0), *struct.unpack_from("<d", data))

    def run(self, state: PlainState, x: Tensor, time: Tensor) -> Tensor:
        """Take events one after another."""
        rows = x if self._table is None else self._table[x]
        outputs = rows.new_empty(len(rows), self._shape[-1])
        for j, (row, t) in enumerate(zip(rows, time, strict=True)):
            outputs[j] = self._advance(state.tensors, row, t)
            state.time = float(t)
        return outputs

    def push(self, state: PlainState, x: Any, time: Any) -> None:
        """There is no shorter path."""

    def _advance(self, states: State, x: Tensor, time: Tensor) -> Tensor:
        """One event through all layers, at the same time in each (the paper's Figure 2a)."""
        for layer, (weights, gate) in enumerate(zip(self._weights, self._gates, strict=True)):
            state = tuple(s[layer] for s in states)
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
