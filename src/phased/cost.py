"""What a layer costs: the updates its units make, as the paper counts them, and a penalty that makes it cheaper."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phased import check
from phased.layer import PhasedRNN
from phased.schedule import count


def updates(rnn: PhasedRNN, time: Tensor, lengths: Any = None) -> Tensor:
    """How often each unit is open over each sequence, without a leak: int64 (layers x directions, B, H), unbatched without B.

    time is shaped as for the layer: (T, B), (B, T) with batch_first, or (T,). Its mean is the paper's updates per neuron.
    """
    if not isinstance(rnn, PhasedRNN):
        raise TypeError(f"rnn must be a PhasedLSTM or PhasedGRU, got {check.kind(rnn)}.")
    check.tensor("time", time)
    if time.dim() not in (1, 2):
        batched = "(batch, steps)" if rnn.batch_first else "(steps, batch)"
        raise ValueError(f"time must have shape {batched} or, unbatched, (steps,), got {check.shape(time)}.")
    check.times(time, time.shape, rnn.device)
    t = time.unsqueeze(1) if time.dim() == 1 else time.transpose(0, 1) if rnn.batch_first else time
    length = None if lengths is None else check.lengths(lengths, t.shape[1], t.shape[0], t.device)
    t = rnn.checked_time(t, length)
    counts = torch.stack([count(gate._replace(leak=0.0), t, length) for gate in rnn.gates()])
    return counts.squeeze(1) if time.dim() == 1 else counts


def openness_cost(rnn: PhasedRNN) -> Tensor:
    """The mean square of the open ratios of all units, a number in (0, 1] with its gradient.

    Add a multiple of it to a loss, with `learn_ratio_on=True`: training then trades accuracy for updates. The square presses on
    units that are open much and leaves alone those nearly closed, which a cost of the ratio itself would shut for good.
    """
    if not isinstance(rnn, PhasedRNN):
        raise TypeError(f"rnn must be a PhasedLSTM or PhasedGRU, got {check.kind(rnn)}.")
    return torch.stack([gate.ratio_on for gate in rnn.gates()]).square().mean()
