"""How many events a batch has: the GPU counts them, and until it has reported the number, a guess by the last batches."""

from __future__ import annotations

import torch
from torch import Tensor

from phased.ops.cuda.constants import FOUND_BYTES
from phased.ops.cuda.launch import Call
from phased.ops.cuda.pinned import ring

# The most events per row in a layer's last batches, by the address of the gate's periods. A guess: code that uses it checks
# afterwards whether it was too low.
EXPECTED: dict[int, float] = {}
LAYERS = 4096  # entries, at most
DECAY = 0.98  # of an entry, with each batch


class Count:
    """The most events of a row, and the number of all events: the GPU reports them when it has counted."""

    def __init__(self, call: Call) -> None:
        self._device, self._rows, self._layer = call.device, call.rows, call.problem.gate.period.data_ptr()
        self._found = call.found - call.schedule.data_ptr()
        self.ticket = ring(self._device).ticket()

    @property
    def expected(self) -> int | None:
        """A guess by the last batches, an eighth more than they had; None for a first batch."""
        of_row = EXPECTED.get(self._layer)
        return None if of_row is None else int(1.125 * of_row * self._rows) // 1024 * 1024 + 2048

    def wait(self, schedule: Tensor) -> Tensor:
        """The two numbers. If no kernel has reported them, they are read from the schedule."""
        found = schedule[self._found : self._found + FOUND_BYTES]
        reported = ring(self._device).wait(self.ticket) or found.view(torch.int64).tolist()
        if self._layer not in EXPECTED and len(EXPECTED) >= LAYERS:
            EXPECTED.clear()
        EXPECTED[self._layer] = max(reported[1] / max(1, self._rows), DECAY * EXPECTED.get(self._layer, 0.0))
        return torch.tensor(reported, device="cpu")
