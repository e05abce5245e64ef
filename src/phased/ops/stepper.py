"""Which stepper a stream runs on: a backend's, or the one in plain PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from phased import ops
from phased.cell import Cell, Weights
from phased.gate import TimeGate
from phased.ops.contract import Stepper, check_weights
from phased.ops.plain.stepper import PlainStepper

DEVICE = torch.device("cpu")  # streams compute there


def stepper(cell: Cell, weights: Sequence[Weights], gates: Sequence[TimeGate], table: Tensor | None, backend: str) -> Stepper:
    """The stepper of the named backend, for "auto" of the first one on the CPU; plain PyTorch where it has none or is missing."""
    units, dtype = weights[0].hh.shape[-1], weights[0].hh.dtype
    for layer, (w, gate) in enumerate(zip(weights, gates, strict=True)):
        check_weights(cell, w, gate, w.ih.shape[-1] if layer == 0 else units, dtype, DEVICE)
    names = ops.backends() if backend == "auto" else (backend,)
    able = [b for b in ops.BACKENDS if b.name in names and b.stepper is not None and b.device == DEVICE.type]
    chosen = ops.first_usable(able, DEVICE)
    make = PlainStepper if chosen is None or chosen.stepper is None else chosen.stepper
    return make(cell, weights, gates, table)
