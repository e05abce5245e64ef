"""The cost of a layer: the updates of its units, as the paper counts them, and a penalty on open gates."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phased import check, ops
from phased.layer import PhasedRNN
from phased.parameters import check_layer


def updates(rnn: PhasedRNN, time: Tensor, lengths: Any = None) -> Tensor:
    """Count the steps of each sequence at which each unit is open, without a leak; their mean is the paper's updates per neuron.

    Args:
        rnn: The layer.
        time: Times as the layer takes them.
        lengths: Number of steps of each sequence that are data, as the layer takes them. Default: all.

    Shape:
        With T steps, B sequences, H units, L layers and N directions:

        - time: (T, B); (B, T) if the layer has `batch_first`; (T,) without a batch.
        - lengths: (B,).
        - returned: (L * N, B, H); (L * N, H) without a batch.

    Returns:
        The counts, int64.

    Raises:
        TypeError: rnn is no PhasedLSTM or PhasedGRU, or time is no tensor of real numbers.
        ValueError: Shapes or devices do not fit; or, on a CPU, times are not finite or go backwards.

    Example:
        >>> import torch
        >>> from phased import PhasedLSTM, updates
        >>> rnn = PhasedLSTM(3, 2, period=10.0, shift=0.0, ratio_on=0.3)
        >>> updates(rnn, torch.arange(20))  # open at 0, 1, 2 and at 10, 11, 12
        tensor([[6, 6]])
    """
    check_layer(rnn)
    check.tensor("time", time)
    if time.dim() not in (1, 2):
        batched = "(batch, steps)" if rnn.batch_first else "(steps, batch)"
        raise ValueError(f"time must have shape {batched} or, unbatched, (steps,), got {check.shape(time)}.")
    check.times(time, time.shape, rnn.device)
    t = time.unsqueeze(1) if time.dim() == 1 else time.transpose(0, 1) if rnn.batch_first else time
    length = None if lengths is None else check.lengths(lengths, t.shape[1], t.shape[0], t.device)
    t = rnn.checked_time(t, length)
    counts = torch.stack([ops.count(gate, t, length) for gate in rnn.gates()])
    return counts.squeeze(1) if time.dim() == 1 else counts


def openness_cost(rnn: PhasedRNN) -> Tensor:
    """The mean square of the open ratios of all units: a price on updates, to add to a loss.

    With `learn_ratio_on=True` training then trades accuracy for updates. The gradient of the square is large for units that are
    open for long and small for those nearly closed. A price on the ratio itself would close these for good.

    Args:
        rnn: The layer.

    Returns:
        A float64 scalar in (0, 1] with its gradient to the open ratios.

    Raises:
        TypeError: rnn is no PhasedLSTM or PhasedGRU.

    Example:
        >>> from phased import PhasedLSTM, openness_cost
        >>> rnn = PhasedLSTM(3, 8, ratio_on=0.2, learn_ratio_on=True)
        >>> round(openness_cost(rnn).item(), 6)
        0.04
    """
    check_layer(rnn)
    return torch.stack([gate.ratio_on for gate in rnn.gates()]).square().mean()
