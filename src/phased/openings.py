"""Which units have not opened in a layer's first training batches, and the warning about them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from phased import notice, ops, tracing
from phased.fitting import fitted
from phased.gate import TimeGate

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
        self._turn = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_turn"}

    def __setstate__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)
        self._turn = threading.Lock()

    @torch.no_grad()
    def watch(self, gates: Sequence[TimeGate], time: Tensor, lengths: Tensor | None, directions: int) -> None:
        """Take the times (T, B) of a training batch into account; after the last batch, warn of units that have not opened.

        A batch without samples does not count, nor does one of single steps: that is a part of longer sequences. Of batches that
        several threads compute at the same time, one counts.
        """
        if len(time) < 2 or not time.numel() or not _readable(time) or not self._turn.acquire(blocking=False):
            return
        try:
            self._watch(gates, time, lengths, directions)
        finally:
            self._turn.release()

    def _watch(self, gates: Sequence[TimeGate], time: Tensor, lengths: Tensor | None, directions: int) -> None:
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
    some = slice(max(1, GAPS // len(time)))
    try:
        settings = fitted(time[:, some].cpu(), None if lengths is None else lengths[some].cpu(), ratio_on=ratio_on)
    except ValueError:  # times that stand still, or, with check_time=False, go backwards
        return ""
    law, ratio = settings["period"], settings["ratio_on"]
    larger = f", ratio_on={_digits(ratio)}" if ratio > ratio_on else ""
    return f"period=LogUniform({_digits(law.low)}, {_digits(law.high)}){larger}"


def _digits(value: float) -> str:
    """A number with three significant digits, without an exponent where it is short: 1000, not 1e+03."""
    return f"{float(f'{value:.3g}'):.15g}"


def _readable(time: Tensor) -> bool:
    """Whether values may be read, now or in a later call: outside of tracers, transforms and captured CUDA graphs."""
    if not tracing.readable(time) or tracing.in_forward_mode():
        return False
    return not (time.is_cuda and torch.cuda.is_current_stream_capturing())
