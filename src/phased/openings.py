"""Which units have not opened in a layer's first training batches, and the warning about them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from phased import notice, tracing
from phased.fitting import fitted
from phased.gate import TimeGate
from phased.schedule import CHUNK, valid_steps

BATCHES = 20
"""Training batches after which a unit that has not opened is reported."""

# How many times, spread over the first batch, are compared before all of them. By default a unit is open for a twentieth of its
# period: nearly all units open at one of the first 128 times, and nearly all others at one of the next 2,048.
SPREAD = (128, 2048)
# Phases computed in each batch, except in the last. Where many units stay closed, a part of the times is compared, at least
# AT_LEAST, at other places in each batch. Where few stay closed, all times are.
WORK, AT_LEAST = 1 << 18, 2048
# Phases computed together on a CPU: below the size from which torch starts threads, and their intermediates fit the L2 cache.
AT_ONCE = (1 << 15) - 1
# Samples that the suggested periods are computed from.
GAPS = 1 << 20


class Openings:
    """The units of a layer that have opened in no training batch yet; `active` until all have opened or BATCHES are over.

    On a GPU the first and the last batch synchronise; those between accumulate a mask on the device.
    """

    def __init__(self) -> None:
        self.active = True
        self.batches = 0
        self._closed: list[Closed] = []
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
        times, valid = _samples(time, lengths)
        if not times.numel():
            return
        in_force = [gate._replace(leak=0.0).bounded() for gate in gates]
        first = not self.batches
        self.batches += 1
        last = self.batches == BATCHES
        if first:
            self._closed = [Closed(gate) for gate in in_force]
        for closed, gate in zip(self._closed, in_force, strict=True):
            for spread in (*SPREAD, None) if first else (None,):
                stride = max(1, len(times) // (spread or self._count(len(times), len(closed.units))))
                some = slice(self.batches % stride, None, stride)
                closed.compare(gate, times[some], None if valid is None else valid[some])
                if first or last:
                    closed.drop()
        self.active = not last and any(len(closed.units) for closed in self._closed)
        if last and any(len(closed.units) for closed in self._closed):
            leak = max(gate.leak for gate in gates)
            notice.warn(self._message(in_force, leak, time, lengths, directions))

    def _count(self, times: int, units: int) -> int:
        """How many times of the batch to compare with so many units: all of them in the last batch, or if that is little work."""
        if self.batches == BATCHES or times * units <= WORK:
            return max(1, times)
        return max(AT_LEAST, WORK // units)

    def _message(self, gates: Sequence[TimeGate], leak: float, time: Tensor, lengths: Tensor | None, directions: int) -> str:
        counts, ratios = [], []
        for index, (closed, gate) in enumerate(zip(self._closed, gates, strict=True)):
            if len(closed.units):
                backwards = " backwards" if index % directions else ""
                counts.append(f"{len(closed.units)} of {gate.period.numel()} units of layer {index // directions}{backwards}")
                ratios.append(float(gate.ratio_on[closed.units].min()))
        effect = "they learn through the leak alone" if leak > 0 else "they learn nothing"
        settings = suggested(time, lengths, min(ratios))
        example = f", e.g. {settings} (phased.fitted)" if settings else ""
        other = "" if leak > 0 else "; or leak=1e-3, with which closed gates learn as well"
        return (
            f"{', '.join(counts)} have opened in no sequence of the first {BATCHES} training batches: no sample falls into "
            f"their open time, so {effect}. Choose periods that fit the data's own times{example}, or a larger ratio_on; or move "
            f"the shifts of these units before training: phased.wake(layer, time){other}."
        )


class Closed:
    """Units of one layer and direction that were closed when last read, and whether each has opened since."""

    def __init__(self, gate: TimeGate) -> None:
        self.units = torch.arange(gate.period.numel(), device=gate.period.device)
        self.opened = torch.zeros(gate.period.numel(), dtype=torch.bool, device=gate.period.device)

    def compare(self, gate: TimeGate, times: Tensor, valid: Tensor | None) -> None:
        """Compare the units with times (N,), of which `valid` are samples; on a CPU, stop when all units have opened."""
        if not len(self.units):
            return
        self.units, self.opened = self.units.to(times.device), self.opened.to(times.device)  # the layer may have moved
        begin = 0
        while begin < len(times) and len(self.units):
            chunk = slice(begin, begin + max(1, (AT_ONCE if times.is_cpu else CHUNK) // len(self.units)))
            some = gate.of(self.units.unsqueeze(-1))
            is_open = some.is_open(some.phase(times[chunk]))
            self.opened |= (is_open if valid is None else is_open & valid[chunk]).any(-1)
            begin = chunk.stop
            if times.is_cpu:
                self.drop()

    def drop(self) -> None:
        """Forget the units that have opened; this reads the mask, which synchronises with a GPU."""
        if bool(self.opened.any()):
            self.units = self.units[~self.opened]
            self.opened = torch.zeros_like(self.units, dtype=torch.bool)


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


def _samples(time: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The times of a batch (T, B) in one dimension; with lengths, samples alone on a CPU, or which ones are samples on a GPU."""
    if lengths is None:
        return (time if time.is_contiguous() else time.t()).flatten(), None
    valid = valid_steps(len(time), lengths)
    return (time[valid], None) if time.is_cpu else (time.flatten(), valid.flatten())


def _readable(time: Tensor) -> bool:
    """Whether values may be read, now or in a later call: outside of tracers, transforms and captured CUDA graphs."""
    if not tracing.readable(time) or tracing.in_forward_mode():
        return False
    return not (time.is_cuda and torch.cuda.is_current_stream_capturing())
