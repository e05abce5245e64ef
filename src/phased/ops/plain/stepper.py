"""A stack of layers, event by event, in plain PyTorch: open units only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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

    def __init__(self, cell: Cell, weights: Sequence[Weights], gates: Sequence[TimeGate], table: Tensor | None) -> None:
        self._cell, self._weights, self._gates, self._table = cell, weights, gates, table
        self.shape = len(weights), weights[0].hh.shape[1]

    def start(self) -> PlainState:
        """A state of zeros."""
        return PlainState(tuple(self._weights[0].hh.new_zeros(self.shape) for _ in range(self._cell.states)))

    def run(self, at: PlainState, x: Tensor, time: Tensor) -> Tensor:
        """Take events one after another."""
        rows = x if self._table is None else self._table[x]
        outputs = rows.new_empty(len(rows), self.shape[1])
        for j, (row, t) in enumerate(zip(rows, time, strict=True)):
            outputs[j] = self._advance(at.tensors, row, t)
            at.time = float(t)
        return outputs

    def push(self, at: PlainState, x: Any, time: Any) -> None:
        """There is no shorter path."""

    def tensors(self, at: PlainState) -> State:
        """Copies of the state."""
        return at.copy().tensors

    def set(self, at: PlainState, state: State, time: float) -> None:
        """Give a state these values."""
        at.tensors, at.time = tuple(s.clone() for s in state), time

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
