"""The schedule: from timestamps alone, which unit is open at which step, and how far."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from phased.gate import TimeGate

# Phases computed together: bounds each float64 intermediate to 32 MiB, whatever the length of the sequences.
CHUNK = 1 << 22


class Schedule(NamedTuple):
    """Open events in compressed rows, ordered by step, then sequence, then unit.

    Row j * B + b is step j of sequence b: its events are start[row] to start[row + 1]. An event is a unit and its openness.
    """

    start: Tensor  # (T * B + 1,) int64
    unit: Tensor  # (events,) int64
    openness: Tensor  # (events,) float64

    def rows(self) -> Tensor:
        """The row of each event, (events,) int64."""
        counts = self.start.diff()
        return torch.repeat_interleave(torch.arange(counts.numel(), device=counts.device), counts, output_size=self.unit.numel())


def valid_steps(steps: int, lengths: Tensor) -> Tensor:
    """Which steps are data and not padding, (T, B) bool."""
    return torch.arange(steps, device=lengths.device).unsqueeze(-1) < lengths


def open_chunks(gate: TimeGate, time: Tensor, lengths: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Phase and open units of consecutive chunks of steps, each (steps, B, H). With a leak above 0 every unit is open, always."""
    steps, batch = time.shape
    valid = None if lengths is None else valid_steps(steps, lengths)
    size = max(1, CHUNK // max(1, batch * gate.period.numel()))
    for begin in range(0, steps, size):
        chunk = slice(begin, begin + size)
        phi = gate.phase(time[chunk].unsqueeze(-1))
        is_open = gate.is_open(phi)
        yield phi, is_open if valid is None else is_open & valid[chunk].unsqueeze(-1)


@torch.no_grad()
def schedule(gate: TimeGate, time: Tensor, lengths: Tensor | None = None) -> Schedule:
    """The open events of a batch, on its device: time (T, B), lengths (B,) where sequences are shorter."""
    counts, units, openness = [], [], []
    for phi, is_open in open_chunks(gate, time, lengths):
        unit = is_open.nonzero()[:, -1]
        counts.append(is_open.sum(-1).flatten())
        units.append(unit)
        openness.append(gate.of(unit).openness(phi[is_open]))
    start = torch.zeros(time.numel() + 1, dtype=torch.int64, device=time.device)
    if not counts:
        return Schedule(start, start.new_zeros(0), start.new_zeros(0, dtype=torch.float64))
    torch.cumsum(torch.cat(counts), 0, out=start[1:])
    return Schedule(start, torch.cat(units), torch.cat(openness))


@torch.no_grad()
def count(gate: TimeGate, time: Tensor, lengths: Tensor | None = None) -> Tensor:
    """How often each unit is open in each sequence, (B, H) int64."""
    total = torch.zeros(time.shape[1], gate.period.numel(), dtype=torch.int64, device=time.device)
    for _, is_open in open_chunks(gate, time, lengths):
        total += is_open.sum(0)
    return total
