"""How often units open, counted by the compiled core."""

from __future__ import annotations

import torch
from torch import Tensor

from phased import schedule, tracing
from phased.gate import TimeGate
from phased.ops.core import core
from phased.ops.cpu.call import BOUNDS
from phased.ops.memory import address, contiguous


@torch.no_grad()
def count(gate: TimeGate, time: Tensor, lengths: Tensor | None) -> Tensor:
    """How often each unit is open in each sequence, (B, H) int64, without a leak; `phased.schedule.count` without the core."""
    if core is None or not (time.is_cpu and gate.period.is_cpu and tracing.readable(time)):
        return schedule.count(gate._replace(leak=0.0), time, lengths)
    (steps, batch), units = time.shape, gate.period.numel()
    clock = contiguous(time.to(torch.float64).t())
    own = torch.full((batch,), steps, dtype=torch.int64, device="cpu") if lengths is None else contiguous(lengths)
    gates = [contiguous(each) for each in gate.parameters()]
    sizes = (0, 0, 0.0, batch, steps, 0, units)  # any cell and shape: units open at the same times
    clocks = (0, 0, 0, address(clock), address(own))
    rest = (0, 0, [0, 0, 0, 0], 0, [address(each) for each in gates], BOUNDS, torch.get_num_threads())
    counts = torch.empty(batch, units, dtype=torch.int64, device="cpu")
    core.count_open32(core.Problem32(*sizes, *clocks, *rest), address(counts))
    return counts
