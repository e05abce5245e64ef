"""Units that no step opens: the warning after the first training batches, and how to find and open them before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from phased import clock, notice, ops, tracing
from phased.gate import TimeGate
from phased.parameters import GatedModule, check_layer
from phased.schedule import CHUNK

BATCHES = 20
"""Training batches after which a unit that has not opened is reported."""

# Samples that the suggested periods are computed from.
GAPS = 1 << 20


class Openings:
    """The units of a layer that have opened in no training batch yet; `active` until all have opened or BATCHES are over.

    On a GPU the first and the last batch synchronise; those between accumulate a mask on the device.
    """

    def __init__(self) -> None:
        self.active = True
        self.batches = 0
        self._opened: Tensor | None = None  # (layers and directions, H)

    @torch.no_grad()
    def watch(self, gates: Sequence[TimeGate], time: Tensor, lengths: Tensor | None, directions: int) -> None:
        """Take the times (T, B) of a training batch into account; after the last batch, warn of units that have not opened.

        A batch without samples does not count, nor does one of single steps: that is a part of longer sequences.
        """
        if len(time) < 2 or not time.numel() or not tracing.readable(time) or tracing.in_forward_mode():
            return
        if time.is_cuda and torch.cuda.is_current_stream_capturing():
            return
        if lengths is not None and lengths.is_cpu and not lengths.any():
            return
        self.batches += 1
        in_force = [gate.bounded() for gate in gates]
        opened = torch.stack([ops.count(gate, time, lengths).any(0) for gate in in_force])
        self._opened = opened if self._opened is None else opened | self._opened.to(opened.device)  # the layer may have moved
        last = self.batches == BATCHES
        if last or self.batches == 1:
            self.active = not (last or bool(self._opened.all()))
            if last and not self._opened.all():
                notice.warn(self._message(in_force, ~self._opened, time, lengths, directions))

    def _message(self, gates: Sequence[TimeGate], closed: Tensor, time: Tensor, lengths: Tensor | None, directions: int) -> str:
        counts, ratios = [], []
        for index, (units, gate) in enumerate(zip(closed, gates, strict=True)):
            if units.any():
                backwards = " backwards" if index % directions else ""
                counts.append(f"{int(units.sum())} of {len(units)} units of layer {index // directions}{backwards}")
                ratios.append(float(gate.ratio_on[units].min()))
        leak = max(gate.leak for gate in gates)
        effect = "they learn through the leak alone" if leak > 0 else "they learn nothing"
        settings = suggested(time, lengths, min(ratios))
        example = f", e.g. {settings} (phased.fitted)" if settings else ""
        other = "" if leak > 0 else "; or leak=1e-3, with which closed gates learn as well"
        return (
            f"{', '.join(counts)} have opened in no sequence of the first {BATCHES} training batches: no sample falls into "
            f"their open time, so {effect}. Choose periods that fit the data's own times{example}, or a larger ratio_on; or move "
            f"the shifts of these units before training: phased.wake(layer, time){other}."
        )


def suggested(time: Tensor, lengths: Tensor | None, ratio_on: float) -> str:
    """The settings of `fitted` for times like these, as keyword arguments of a layer; empty if they have none."""
    from phased import fitting  # not with every layer

    some = slice(max(1, GAPS // len(time)))
    try:
        clocks = clock.read(time[:, some].cpu(), None if lengths is None else lengths[some].cpu())
        settings = fitting.settings(clocks, ratio_on)
    except ValueError:  # times that stand still, or, with check_time=False, go backwards
        return ""
    law, ratio = settings["period"], settings["ratio_on"]
    larger = f", ratio_on={_digits(ratio)}" if ratio > ratio_on else ""
    return f"period=LogUniform({_digits(law.low)}, {_digits(law.high)}){larger}"


def _digits(value: float) -> str:
    """A number with three significant digits, without an exponent where it is short: 1000, not 1e+03."""
    return f"{float(f'{value:.3g}'):.15g}"


def never_open(rnn: GatedModule, time: Any, lengths: Any = None) -> Tensor:
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


def wake(rnn: GatedModule, time: Any, lengths: Any = None) -> int:
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


def _times(rnn: GatedModule, time: Any, lengths: Any) -> Tensor:
    """The times of all sequences in one tensor (N,), on the layer's device."""
    check_layer(rnn)
    if rnn.device.type == "meta":
        raise ValueError("rnn must have values, got parameters on the meta device. Load or draw them first.")
    return clock.read(time, lengths, rnn.batch_first).time.to(rnn.device)


def _gates(rnn: GatedModule) -> list[TimeGate]:
    with torch.no_grad():
        return [gate._replace(leak=0.0) for gate in rnn.gates()]


def _closed(gate: TimeGate, times: Tensor) -> Tensor:
    """Whether each unit is closed at all of the times, (H,) bool."""
    return ~ops.count(gate, times.unsqueeze(1), None).any(0)


def _least_phase(gate: TimeGate, times: Tensor) -> Tensor:
    """The least phase of each unit at any of the times, (units,)."""
    size = max(1, CHUNK // gate.period.numel())
    return torch.stack([gate.phase(some.unsqueeze(-1)).amin(0) for some in torch.split(times, size)]).amin(0)
