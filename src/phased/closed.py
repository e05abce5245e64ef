"""Units that no step of a data set opens: which ones they are, and shifts with which they open."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phased import check, clock, ops
from phased.gate import TimeGate
from phased.layer import PhasedRNN
from phased.schedule import CHUNK


def never_open(rnn: PhasedRNN, time: Any, lengths: Any = None) -> Tensor:
    """Find the units that are closed at every step of every sequence, without a leak: they learn nothing from this data.

    Which units stay closed in single sequences is in `updates(rnn, time, lengths) == 0`.

    Args:
        rnn: The layer.
        time: Times of all sequences: a list with an array for each of them, one array, or a padded batch as the layer takes it.
        lengths: Number of steps of each sequence of a padded batch that are data. Default: all.

    Shape:
        With T steps, B sequences, H units, L layers and N directions:

        - time: each array of a list (steps,), of any length; a padded batch (T, B), or (B, T) if the layer has `batch_first`.
        - lengths: (B,).
        - returned: (L * N, H).

    Returns:
        True for each unit that never opens, bool.

    Raises:
        TypeError: rnn is no PhasedLSTM or PhasedGRU, or time is not made of real numbers.
        ValueError: Shapes do not fit; times are not finite, go backwards or were made equal by rounding.

    Example:
        >>> import torch
        >>> from phased import PhasedLSTM, never_open
        >>> rnn = PhasedLSTM(3, 2, period=torch.tensor([10.0, 1000.0]), shift=torch.tensor([0.0, 500.0]))
        >>> never_open(rnn, [torch.arange(100), torch.arange(250)])
        tensor([[False,  True]])
    """
    times = _times(rnn, time, lengths)
    return torch.stack([_closed(gate, times) for gate in _gates(rnn)])


def wake(rnn: PhasedRNN, time: Any, lengths: Any = None) -> int:
    """Change the shifts of units that are closed at every step of every sequence, so that each is fully open at one of them.

    A unit's shift moves by the least time that achieves this. Units that open already, periods and open ratios stay as they are.
    Call it once, before training: with `learn_shift=True` shifts move on from there.

    Args:
        rnn: The layer.
        time: Times of all sequences: a list with an array for each of them, one array, or a padded batch as the layer takes it.
        lengths: Number of steps of each sequence of a padded batch that are data. Default: all.

    Shape:
        - time, lengths: those of `never_open`.

    Returns:
        The number of units whose shift has changed.

    Raises:
        TypeError: rnn is no PhasedLSTM or PhasedGRU, or time is not made of real numbers.
        ValueError: Shapes do not fit; times are not finite, go backwards or were made equal by rounding; or there is no step.

    Example:
        >>> import torch
        >>> from phased import PhasedLSTM, never_open, wake
        >>> rnn = PhasedLSTM(3, 2, period=torch.tensor([10.0, 1000.0]), shift=torch.tensor([0.0, 500.0]))
        >>> wake(rnn, torch.arange(100))
        1
        >>> bool(never_open(rnn, torch.arange(100)).any())
        False
    """
    times = _times(rnn, time, lengths)
    if not len(times):
        raise ValueError("time must have at least one step, got none. Pass the times of the training data.")
    changed = 0
    for index, gate in enumerate(_gates(rnn)):
        units = _closed(gate, times).nonzero().flatten()
        if len(units):
            asleep = gate.of(units)
            # The step whose phase is the least goes to the middle of the open phase, where the gate is fully open.
            later = (_least_phase(asleep, times) - asleep.ratio_on / 2) * asleep.period
            rnn.set_shift(index, gate.shift.index_add(0, units, later))
        changed += len(units)
    return changed


def _times(rnn: PhasedRNN, time: Any, lengths: Any) -> Tensor:
    """The times of all sequences in one tensor (N,), on the layer's device."""
    if not isinstance(rnn, PhasedRNN):
        raise TypeError(f"rnn must be a PhasedLSTM or PhasedGRU, got {check.kind(rnn)}.")
    if rnn.device.type == "meta":
        raise ValueError("rnn must have values, got parameters on the meta device. Load or draw them first.")
    return clock.read(time, lengths, rnn.batch_first).time.to(rnn.device)


def _gates(rnn: PhasedRNN) -> list[TimeGate]:
    with torch.no_grad():
        return [gate._replace(leak=0.0) for gate in rnn.gates()]


def _closed(gate: TimeGate, times: Tensor) -> Tensor:
    """Whether each unit is closed at all of the times, (H,) bool."""
    return ~ops.count(gate, times.unsqueeze(1), None).any(0)


def _least_phase(gate: TimeGate, times: Tensor) -> Tensor:
    """The least phase of each unit at any of the times, (units,)."""
    size = max(1, CHUNK // gate.period.numel())
    return torch.stack([gate.phase(some.unsqueeze(-1)).amin(0) for some in torch.split(times, size)]).amin(0)
