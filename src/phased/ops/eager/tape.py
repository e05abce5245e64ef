"""What a forward pass saves for its backward pass, and the adjoint of `hold`: shared by the sparse and the dense passes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from phased.cell import Cell, Proposal, State


@dataclass
class Tape:
    """What a forward pass saves for its backward pass: for each event the kept values, the proposal, the previous state."""

    values: Tensor  # (height, ...)
    cell: Cell

    @staticmethod
    def height(cell: Cell) -> int:
        """Values saved for an event."""
        return cell.kept + 2 * cell.states

    def write(self, where: slice | int, proposal: Proposal, previous: State) -> None:
        """Store a proposal and the state before it."""
        values = (*proposal.kept, *proposal.state, *previous)
        if len(values) != len(self.values):  # torch would only warn
            raise ValueError(f"the cell {self.cell.name!r} must keep {self.cell.kept} values, got {len(proposal.kept)}.")
        torch.stack(values, out=self.values[:, where])

    def read(self, where: slice | int) -> tuple[Proposal, State]:
        """Load what `write` stored."""
        kept, values = self.cell.kept, self.values[:, where].unbind(0)
        return Proposal(values[kept : kept + self.cell.states], values[:kept]), values[kept + self.cell.states :]


def release(k: Tensor, to: State, proposed: State, previous: State) -> tuple[State, Tensor, State]:
    """The adjoint of `hold`: gradients to the proposal, to k, and to the previous state."""
    to_k = sum((d * (new - old) for d, new, old in zip(to, proposed, previous, strict=True)), torch.zeros_like(k))
    return tuple(k * d for d in to), to_k, tuple((1 - k) * d for d in to)
