"""A stack of layers, event by event, by the compiled core: open units only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from phased.cell import Cell, Weights
from phased.gate import TimeGate
from phased.ops.native import KINDS, address, contiguous, core

AT_ONCE = 1 << 16  # events in one call of the core; Python notices an interrupt between calls


class CoreStepper:
    """The core has copies of the weights. A state is an object of the core, too.

    With a table, the first layer's input product is looked up, not computed.
    """

    def __init__(self, cell: Cell, weights: Sequence[Weights], gates: Sequence[TimeGate], table: Tensor | None) -> None:
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
                    "features": w.ih.shape[1] if folded is None else 0,
                    "shape": core.SHAPES[gate.shape],
                    "weights": [address_of(matrix) for matrix in w[:4]],
                    "peephole": address_of(w.peephole),
                    "gate": [address_of(values) for values in gate.parameters()],
                    "entries": 0 if folded is None else len(folded),
                    "table": 0 if folded is None else address_of(fold(cell, w, folded)),
                }
            )
        self._units, self._dtype = weights[0].hh.shape[1], weights[0].hh.dtype
        self.native = stack = getattr(core, "Stack" + KINDS[self._dtype])(core.CELLS[cell.name], self._units, layers)
        self.start, self.push, self.pack, self.unpack = stack.start, stack.push, stack.pack, stack.unpack

    def run(self, state: Any, x: Tensor, time: Tensor) -> Tensor:
        """Take events, many in one call; other Python threads run during it."""
        outputs = torch.empty(len(time), self._units, dtype=self._dtype, device="cpu")
        x, time = contiguous(x), contiguous(time)
        for first in range(0, len(time), AT_ONCE):
            events, times, out = (tensor[first : first + AT_ONCE] for tensor in (x, time, outputs))
            row, index = (0, address(events)) if x.dtype == torch.int64 else (address(events), 0)
            self.native.run(state, row, index, address(times), len(times), address(out))
        return outputs


def fold(cell: Cell, weights: Weights, table: Tensor) -> Tensor:
    """What each entry of the table (entries, D) adds to the core's four products of each unit: (entries, H, 4)."""
    products = (table @ weights.ih.T).view(len(table), cell.gates, -1)
    if cell.gates < core.PRODUCTS:  # the other products are of h alone, or unused
        products = torch.cat((products, products.new_zeros(len(table), core.PRODUCTS - cell.gates, products.shape[2])), 1)
    return products.transpose(1, 2)
