"""The number of events of a batch: the GPU counts and reports it. Until then a batch runs with a guess, or with room for all.

The numbers come through pinned memory, which a kernel writes and the CPU reads while neither blocks.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from phased.ops.cuda.constants import FOUND_BYTES, GROUPED, struct_bytes
from phased.ops.cuda.launch import LARGEST, Capacity, CudaCall, Slot, is_crowded
from phased.ops.cuda.layout import HELD, plan

SLOTS = 1024
WIDTH = 2  # 64-bit numbers of a slot
BITS = 40  # of a number; the bits above are the mark of its launch
MARKS = 1 << 62 - BITS
PATIENCE = 0.01  # seconds
# Seconds for which a waiting thread yields its core instead of sleeping: on Linux even a sleep of 0 took 70 microseconds.
BRIEFLY = 0.001

# One matrix product of the input with the weights of all units is faster than products with those of open units alone, from WIDE
# features on, if more than a share of OPEN units are open.
WIDE, OPEN = 32, 0.1
# A batch whose events take at most this share of a GPU's memory with all units open allocates for all, without their number.
SMALL = 1 / 256


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


class Seen(NamedTuple):
    """Events of a layer's last batches."""

    highest_mean: float  # of a row, over the rows of a batch
    highest: float  # of a row
    last_mean: float  # of a row, over the rows of the last batch


# By the address of the gate's periods. A guess: code that uses it checks afterwards whether it was too low.
EXPECTED: dict[int, Seen] = {}
NONE = Seen(0.0, 0.0, 0.0)
LAYERS = 4096  # entries, at most
DECAY = 0.98  # of an entry, with each batch


class Count:
    """The most events of a row, and the number of all events: the GPU reports them when it has counted."""

    def __init__(self, call: CudaCall, period: Tensor) -> None:
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
        most = int(1.125 * seen.highest_mean * self._rows)
        step = max(2048, 1 << max(0, most.bit_length() - 4))
        return (most // step + 1) * step

    @property
    def likely(self) -> tuple[int, int] | None:
        """A guess by the last batches of the most events of a row, an eighth more than they had, and of all events."""
        seen = EXPECTED.get(self._layer)
        return None if seen is None else (int(1.125 * seen.highest) // 8 * 8 + 16, int(seen.last_mean * self._rows))

    def wait(self, schedule: Tensor, patience: float = PATIENCE) -> tuple[int, int]:
        """The two numbers. If no kernel has reported them after so many seconds, they are read from the schedule."""
        reported = self._ring.wait(self._ticket, patience)
        if reported is None:
            most, events = schedule[self._found : self._found + FOUND_BYTES].view(torch.int64).tolist()
            reported = most, events
        if self._layer not in EXPECTED and len(EXPECTED) >= LAYERS:
            EXPECTED.clear()
        most, mean = reported[0], reported[1] / max(1, self._rows)
        before = EXPECTED.get(self._layer, NONE)
        EXPECTED[self._layer] = Seen(max(mean, DECAY * before.highest_mean), max(most, DECAY * before.highest), mean)
        return reported


def fits_all_open(call: CudaCall) -> bool:
    """Whether to allocate for all units being open instead of waiting for the number of events."""
    if call.rows * call.units * struct_bytes(call.size)["arrival"] > SMALL * memory(call.device):
        return False
    return guessable(call)


@cache
def memory(device: int) -> int:
    """Bytes of a GPU's memory."""
    return int(torch.cuda.get_device_properties(device).total_memory)


def guessable(call: CudaCall) -> bool:
    """Whether the forward passes of batches of this many sequences have kernels that run without the number of events."""
    if call.dense or call.units > max(HELD, GROUPED):
        return False
    return runs_uncounted(call.units, call.batch, call.size, call.device, call.tape_dtype)


@cache
def runs_uncounted(units: int, batch: int, size: int, device: int, tape_dtype: torch.dtype | None) -> bool:
    """Whether small layers of this size have their kernels even with all units open at once."""
    most = -(-units // 8) * 8
    few, many = (plan("forward", units, batch, units, most, size, device, tape_dtype, crowded) for crowded in (False, True))
    return not few.together and not many.together


def all_open(call: CudaCall, tape: int) -> Capacity:
    """The capacity for all units being open, with so much room on the tape; kernels for as many events as the GPU will find."""
    crowded = None if guessable(call) else False
    return Capacity(call.rows * call.units, tape, call.units, call.multiplies_input, crowded)


def guess_capacity(call: CudaCall, count: Count, keep: bool) -> Capacity | None:
    """The capacity for a batch by the last ones; None if there were none, or if it is not clear which kernels it needs."""
    expected, every, is_small = count.expected, call.rows * call.units, fits_all_open(call)
    if is_small and not keep:
        return all_open(call, 0)
    if expected is None:
        return None
    if is_small:
        return all_open(call, min(every, expected))
    seen = count.likely
    if seen is None:
        return None
    most, events = seen
    fewer, more = (kernels_for(call, part * events) for part in (0.9, 1.1))
    if fewer != more:
        return None
    room = min(expected, every, LARGEST)
    return Capacity(room, room if keep else 0, min(most, call.units), *fewer)


def kernels_for(call: CudaCall, events: float) -> tuple[bool, bool]:
    """What `Capacity` says of the kernels for so many events."""
    # A small batch may also be run without the number of events, and then has to give the same bits.
    most_open = call.features >= WIDE and events > OPEN * call.rows * call.units and not fits_all_open(call)
    return most_open, is_crowded(call.rows, call.units, events)
