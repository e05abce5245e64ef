"""torch's own LSTM over a sequence, in one call and step by step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


def whole(rnn: nn.LSTM, x: Tensor) -> Callable[[], None]:
    """A function that takes x (N, D) in one call, which needs all rows in advance."""
    rows = x.unsqueeze(1)

    def run() -> None:
        with torch.no_grad():
            rnn(rows)

    return run


def steps(cell: nn.LSTMCell, x: Tensor) -> Callable[[], None]:
    """A function that takes the rows of x (N, D) one by one, in a Python loop."""
    rows, units = x.unsqueeze(1), cell.hidden_size

    def run() -> None:
        with torch.inference_mode():
            state = torch.zeros(1, units), torch.zeros(1, units)
            for row in rows:
                state = cell(row, state)

    return run
