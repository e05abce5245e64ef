"""How many events a batch has: the GPU counts them, and until it has reported the number, a guess by the last batches."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from phased.ops.cuda.constants import FOUND_BYTES
from phased.ops.cuda.launch import Call
from phased.ops.cuda.pinned import PATIENCE, Slot, ring


class Seen(NamedTuple):
    """What a layer's last batches had: the most events per row, the most events of a row, and the last one's events per row."""

    of_row: float
    most: float
    last: float


# By the address of the gate's periods. A guess: code that uses it checks afterwards whether it was too low.
EXPECTED: dict[int, Seen] = {}
NONE = Seen(0.0, 0.0, 0.0)
LAYERS = 4096  # entries, at most
DECAY = 0.98  # of an entry, with each batch


class Count:
    """The most events of a row, and the number of all events: the GPU reports them when it has counted."""

    def __init__(self, call: Call, period: Tensor) -> None:
        self._rows, self._layer = call.rows, period.data_ptr()
        self._found = call.offset_of_found
        self._ring = ring(call.device)
        self._ticket = self._ring.ticket()

    @property
    def slot(self) -> Slot:
        """Where the GPU reports them."""
        return self._ticket.place

    @property
    def expected(self) -> int | None:
        """A guess by the last batches, an eighth to a quarter more than they had; None for a first batch.

        It is one of few numbers, because passes are listed for each.
        """
        seen = EXPECTED.get(self._layer)
        if seen is None:
            return None
        most = int(1.125 * seen.of_row * self._rows)
        step = max(2048, 1 << max(0, most.bit_length() - 4))
        return (most // step + 1) * step

    @property
    def likely(self) -> tuple[int, int] | None:
        """A guess by the last batches of the most events of a row, an eighth more than they had, and of all events."""
        seen = EXPECTED.get(self._layer)
        return None if seen is None else (int(1.125 * seen.most) // 8 * 8 + 16, int(seen.last * self._rows))

    def wait(self, schedule: Tensor, patience: float = PATIENCE) -> tuple[int, int]:
        """The two numbers. If no kernel has reported them after so many seconds, they are read from the schedule."""
        reported = self._ring.wait(self._ticket, patience)
        if reported is None:
            most, events = schedule[self._found : self._found + FOUND_BYTES].view(torch.int64).tolist()
            reported = most, events
        if self._layer not in EXPECTED and len(EXPECTED) >= LAYERS:
            EXPECTED.clear()
        most, of_row = reported[0], reported[1] / max(1, self._rows)
        before = EXPECTED.get(self._layer, NONE)
        EXPECTED[self._layer] = Seen(max(of_row, DECAY * before.of_row), max(most, DECAY * before.most), of_row)
        return reported
