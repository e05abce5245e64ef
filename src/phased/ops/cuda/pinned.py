"""A ring of slots in pinned memory, where a kernel writes numbers for the CPU while neither blocks."""

from __future__ import annotations

import ctypes
import threading
import time

import torch

SLOTS = 1024
WIDTH = 4  # 64-bit numbers of a slot: two that are reported, the ticket, and one for alignment
PATIENCE = 0.01  # seconds


class Ring:
    """Each launch takes a ticket; its kernel writes two numbers to the ticket's slot, and the ticket last.

    So slots are never freed: after SLOTS more tickets a slot belongs to another one.
    """

    def __init__(self) -> None:
        pinned = torch.cuda.is_available()
        self._memory = torch.zeros(SLOTS * WIDTH, dtype=torch.int64, device="cpu", pin_memory=pinned)
        self._numbers = (ctypes.c_int64 * (SLOTS * WIDTH)).from_address(self._memory.data_ptr())
        self._last = 0
        self._lock = threading.Lock()

    def ticket(self) -> tuple[int, int]:
        """A ticket, and the address of its slot, which is valid for the CPU and the GPU."""
        with self._lock:
            self._last += 1
            ticket = self._last
        return ticket, self._memory.data_ptr() + 8 * WIDTH * (ticket % SLOTS)

    def wait(self, ticket: int) -> tuple[int, int] | None:
        """The two numbers; None if they are late, or if the slot may belong to another ticket by now."""
        numbers, first = self._numbers, WIDTH * (ticket % SLOTS)
        deadline = 0.0
        while numbers[first + 2] < ticket:
            now = time.perf_counter()
            deadline = deadline or now + PATIENCE
            if now > deadline:
                return None
            time.sleep(0)  # lets other threads run
        reported = numbers[first], numbers[first + 1]
        return reported if self._last < ticket + SLOTS else None  # else another kernel may have written there


_RINGS: dict[int, Ring] = {}
_LOCK = threading.Lock()


def ring(device: int) -> Ring:
    """The ring of a GPU. It is never freed, because kernels may still write to it."""
    found = _RINGS.get(device)
    if found is None:
        with _LOCK:
            found = _RINGS.get(device) or _RINGS.setdefault(device, Ring())
    return found
