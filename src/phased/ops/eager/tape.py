"""What a forward pass saves for its backward pass, and the adjoint of `hold`: shared by the sparse and the dense passes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from phased.cell import Cell, Proposal, State


@dataclass
class Tape:
    """What a forward pass saves for its backward pass, one column per event: the gates, the proposal, the previous state."""

    values: Tensor  # (gates + 2 * states, ...)
    cell: Cell

    @staticmethod
    def height(cell: Cell) -> int:
        """Values kept for an event; both cells need four gate values (the GRU's fourth is its recurrent term)."""
        return 4 + 2 * cell.states

    def write(self, where: slice | int, proposal: Proposal, previous: State) -> None:
        """Store a proposal and the state before it."""
        torch.stack((*proposal.gates, *proposal.state, *previous), out=self.values[:, where])

    def read(self, where: slice | int) -> tuple[Proposal, State]:
        """Load what `write` stored."""
        values = self.values[:, where].unbind(0)
        return Proposal(values[4 : 4 + self.cell.states], values[:4]), values[4 + self.cell.states :]


def release(k: Tensor, to: State, proposed: State, previous: State) -> tuple[State, Tensor, State]:
    """The adjoint of `hold`: gradients to the proposal, to k, and to the previous state."""
    to_k = sum((d * (new - old) for d, new, old in zip(to, proposed, previous, strict=True)), torch.zeros_like(k))
    return tuple(k * d for d in to), to_k, tuple((1 - k) * d for d in to)
