"""The cells: what a unit would become (Eqs. 1-5, 7, 9), and how much of it is accepted (Eqs. 8, 10).

A cell is two functions of element-wise arithmetic, a proposal and its adjoint. They take the matrix products as given, so the
same lines serve every unit of a batch (shape (B, H)) and only the open ones (shape (events,)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

State = tuple[Tensor, ...]
"""(h, c) for the LSTM, (h,) for the GRU."""


class Weights(NamedTuple):
    """One layer's weights as `torch.nn.LSTM` lays them out, the G products of a unit (i, f, g, o for the LSTM) stacked.

    ih (G*H, D), hh (G*H, H), biases (G*H,), peephole (3, H).
    """

    ih: Tensor
    hh: Tensor
    bias_ih: Tensor | None = None
    bias_hh: Tensor | None = None
    peephole: Tensor | None = None

    def present(self) -> list[Tensor]:
        """The weights that are not None, in order: 2, +2 with biases, +1 with peepholes."""
        return [w for w in self if w is not None]

    @staticmethod
    def from_present(weights: Sequence[Tensor]) -> Weights:
        """The inverse of `present`."""
        bias_ih, bias_hh = weights[2:4] if len(weights) >= 4 else (None, None)
        return Weights(weights[0], weights[1], bias_ih, bias_hh, weights[-1] if len(weights) % 2 else None)

    def map(self, function: Callable[[Tensor], Tensor]) -> Weights:
        """The weights with a function applied to each."""
        return Weights(function(self.ih), function(self.hh), *(None if w is None else function(w) for w in self[2:]))


class Proposal(NamedTuple):
    """A state to be accepted, and the values that the adjoint needs: for the LSTM those of its own gates (i, f, g, o)."""

    state: State
    kept: tuple[Tensor, ...]


class Gradient(NamedTuple):
    """Gradients of one proposal: to the input and recurrent products (G, ...), the previous state, the peepholes (3, ...)."""

    from_x: Tensor
    from_h: Tensor
    previous: State
    peephole: Tensor | None


@dataclass(frozen=True)
class Cell:
    """A cell as an engine sees it: numbers of a unit's products, states and kept values; a proposal and its adjoint."""

    name: str
    gates: int  # products of a unit: rows of torch's stacked weights
    states: int  # h, or h and c
    kept: int  # values in `Proposal.kept`
    propose: Callable[[Tensor, Tensor, State, Tensor | None], Proposal]
    adjoint: Callable[[State, Proposal, State, Tensor | None], Gradient]
    peepholes: bool = False  # whether its gates may look at c


def products(rows: Tensor, weight: Tensor, bias: Tensor | None, gates: int) -> Tensor:
    """The products of all rows (B, K) with all units' weights (G*H, K), one slice for each of the cell's own gates: (G, B, H)."""
    stacked = linear(rows, weight, bias)
    return stacked.view(*rows.shape[:-1], gates, weight.shape[0] // gates).movedim(-2, 0)


def hold(k: Tensor, proposed: State, previous: State) -> State:
    """Accept the proposal as far as the gate is open (Eqs. 8 and 10)."""
    return tuple(k * new + (1 - k) * old for new, old in zip(proposed, previous, strict=True))


def propose_lstm(from_x: Tensor, from_h: Tensor, previous: State, peephole: Tensor | None) -> Proposal:
    """Eqs. 1-2, 7, 4 and 9: from the products (4, ...), order i, f, g, o, to (h~, c~). With peepholes the output gate sees c~."""
    _, c = previous
    pre_i, pre_f, pre_g, pre_o = (from_x + from_h).unbind(0)
    if peephole is not None:
        pre_i = pre_i + peephole[0] * c
        pre_f = pre_f + peephole[1] * c
    i, f, g = pre_i.sigmoid(), pre_f.sigmoid(), pre_g.tanh()
    proposed_c = f * c + i * g
    if peephole is not None:
        pre_o = pre_o + peephole[2] * proposed_c
    o = pre_o.sigmoid()
    return Proposal((o * proposed_c.tanh(), proposed_c), (i, f, g, o))


def adjoint_lstm(to: State, proposal: Proposal, previous: State, peephole: Tensor | None) -> Gradient:
    """The gradient of `propose_lstm`, given the gradients to h~ and c~."""
    to_h, to_c = to
    _, c = previous
    i, f, g, o = proposal.kept
    proposed_c = proposal.state[1]
    squashed = proposed_c.tanh()
    to_o = to_h * squashed * o * (1 - o)
    to_c = to_c + to_h * o * (1 - squashed * squashed)
    if peephole is not None:
        to_c = to_c + to_o * peephole[2]
    to_i = to_c * g * i * (1 - i)
    to_f = to_c * c * f * (1 - f)
    to_g = to_c * i * (1 - g * g)
    to_previous = to_c * f
    to_peephole = None
    if peephole is not None:
        to_previous = to_previous + to_i * peephole[0] + to_f * peephole[1]
        to_peephole = torch.stack((to_i * c, to_f * c, to_o * proposed_c))
    products = torch.stack((to_i, to_f, to_g, to_o))
    return Gradient(products, products, (torch.zeros_like(to_h), to_previous), to_peephole)


def propose_gru(from_x: Tensor, from_h: Tensor, previous: State, peephole: Tensor | None) -> Proposal:
    """`torch.nn.GRU`'s equations as a proposal: from the products (3, ...), order r, z, n, to h~."""
    (h,) = previous
    r = (from_x[0] + from_h[0]).sigmoid()
    z = (from_x[1] + from_h[1]).sigmoid()
    n = (from_x[2] + r * from_h[2]).tanh()
    return Proposal(((1 - z) * n + z * h,), (r, z, n, from_h[2]))


def adjoint_gru(to: State, proposal: Proposal, previous: State, peephole: Tensor | None) -> Gradient:
    """The gradient of `propose_gru`, given the gradient to h~."""
    (to_h,), (h,) = to, previous
    r, z, n, h_term = proposal.kept
    to_n = to_h * (1 - z) * (1 - n * n)
    to_z = to_h * (h - n) * z * (1 - z)
    to_r = to_n * h_term * r * (1 - r)
    return Gradient(torch.stack((to_r, to_z, to_n)), torch.stack((to_r, to_z, to_n * r)), (to_h * z,), None)


LSTM = Cell("lstm", gates=4, states=2, kept=4, propose=propose_lstm, adjoint=adjoint_lstm, peepholes=True)
GRU = Cell("gru", gates=3, states=1, kept=4, propose=propose_gru, adjoint=adjoint_gru)
CELLS = {cell.name: cell for cell in (LSTM, GRU)}
