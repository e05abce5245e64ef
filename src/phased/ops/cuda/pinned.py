"""A ring of slots in pinned memory, where a kernel writes numbers for the CPU while neither blocks."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from typing import NamedTuple

import torch

SLOTS = 1024
WIDTH = 2  # 64-bit numbers of a slot
BITS = 40  # of a number; the bits above are the mark of its launch
MARKS = 1 << 62 - BITS
PATIENCE = 0.01  # seconds
# Seconds for which a waiting thread yields its core instead of sleeping: on Linux even a sleep of 0 took 70 microseconds.
BRIEFLY = 0.001


Slot = tuple[int, int]
"""Where a kernel reports its numbers, and the mark it adds to them: the kernels' struct Slot."""
NOWHERE: Slot = (0, 0)


class Ticket(NamedTuple):
    """A launch's number, and the address of its slot, which is valid for the CPU and the GPU."""

    number: int
    slot: int

    @property
    def mark(self) -> int:
        """What the kernel adds to the numbers that it writes; never 0, so that it is not that of an empty slot."""
        return (self.number % MARKS + 1) << BITS

    @property
    def place(self) -> Slot:
        """What the kernel is given."""
        return self.slot, self.mark


class Ring:
    """Each launch takes a ticket; its kernel writes two numbers to the ticket's slot, each with the ticket's mark.

    So slots are never freed: after SLOTS more tickets a slot belongs to another one. And no memory needs an order: a number with
    the right mark is the right one, whatever the CPU has seen of the other, on every kind of host.
    """

    def __init__(self) -> None:
        pinned = torch.cuda.is_available()
        self._memory = torch.zeros(SLOTS * WIDTH, dtype=torch.int64, device="cpu", pin_memory=pinned)
        self._numbers = (ctypes.c_int64 * (SLOTS * WIDTH)).from_address(self._memory.data_ptr())
        self._last = 0
        self._lock = threading.Lock()

    def ticket(self) -> Ticket:
        """A ticket."""
        with self._lock:
            self._last += 1
            number = self._last
        return Ticket(number, self._memory.data_ptr() + 8 * WIDTH * (number % SLOTS))

    def wait(self, ticket: Ticket, patience: float = PATIENCE) -> tuple[int, int] | None:
        """The two numbers; None if they are not there after so many seconds, or if the slot belongs to another ticket by now."""
        first, mark = WIDTH * (ticket.number % SLOTS), ticket.mark >> BITS
        begin = 0.0
        while True:
            one, two = self._numbers[first], self._numbers[first + 1]
            if one >> BITS == mark == two >> BITS:
                return one & (1 << BITS) - 1, two & (1 << BITS) - 1
            now = time.perf_counter()
            begin = begin or now
            if now > begin + patience or self._last >= ticket.number + SLOTS:
                return None
            if now < begin + BRIEFLY and hasattr(os, "sched_yield"):  # not on Windows
                os.sched_yield()
            else:
                time.sleep(0)


_RINGS: dict[int, Ring] = {}
_LOCK = threading.Lock()


def ring(device: int) -> Ring:
    """The ring of a GPU. It is never freed, because kernels may still write to it."""
    found = _RINGS.get(device)
    if found is None:
        with _LOCK:
            found = _RINGS.get(device) or _RINGS.setdefault(device, Ring())
    return found
