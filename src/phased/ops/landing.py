"""Numbers that a kernel writes into the CPU's memory while neither waits for the other."""

from __future__ import annotations

import ctypes
import threading
import time

import torch

PLACES = 1024
WIDTH = 4  # 64-bit numbers of a place: two that are told, the ticket, and one that makes places whole
PATIENCE = 0.01  # seconds


class Landing:
    """A ring of places. Who launches a kernel takes a ticket; the kernel writes two numbers to its place, and the ticket last.

    So nobody need give a place back: when the ring has gone round, it is another ticket's.
    """

    def __init__(self) -> None:
        pinned = torch.cuda.is_available()
        self._memory = torch.zeros(PLACES * WIDTH, dtype=torch.int64, device="cpu", pin_memory=pinned)
        self._numbers = (ctypes.c_int64 * (PLACES * WIDTH)).from_address(self._memory.data_ptr())
        self._last = 0
        self._lock = threading.Lock()

    def ticket(self) -> tuple[int, int]:
        """A ticket, and where in memory its place is, for the CPU and the GPU alike."""
        with self._lock:
            self._last += 1
            ticket = self._last
        return ticket, self._memory.data_ptr() + 8 * WIDTH * (ticket % PLACES)

    def wait(self, ticket: int) -> tuple[int, int] | None:
        """The two numbers; or None, if they are late, or if the place may be another ticket's by now."""
        numbers, first = self._numbers, WIDTH * (ticket % PLACES)
        patient_until = 0.0
        while numbers[first + 2] < ticket:
            now = time.perf_counter()
            patient_until = patient_until or now + PATIENCE
            if now > patient_until:
                return None
            time.sleep(0)  # others may want to go on
        told = numbers[first], numbers[first + 1]
        return told if self._last < ticket + PLACES else None  # else a kernel may have been writing there meanwhile


_LANDINGS: dict[int, Landing] = {}
_LOCK = threading.Lock()


def landing(device: int) -> Landing:
    """Where the kernels of a GPU tell the CPU something: one ring, for good, as kernels may yet write to it."""
    found = _LANDINGS.get(device)
    if found is None:
        with _LOCK:
            found = _LANDINGS.get(device) or _LANDINGS.setdefault(device, Landing())
    return found
