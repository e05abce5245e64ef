"""Batches that run before their events are counted: which, and memory for how many events."""

from __future__ import annotations

from functools import cache

import torch

from phased.ops.cuda.constants import GROUPED, HELD, struct_bytes
from phased.ops.cuda.count import Count
from phased.ops.cuda.launch import LARGEST, Call, Capacity, is_crowded
from phased.ops.cuda.layout import plan

# One matrix product of the input with the weights of all units is faster than products with those of open units alone, from WIDE
# features on, if more than a share of OPEN units are open.
WIDE, OPEN = 32, 0.1
# A batch whose events take at most this share of a GPU's memory with all units open allocates for all, without their number.
SMALL = 1 / 256


def small(call: Call) -> bool:
    """Whether to allocate for all units being open instead of waiting for the number of events."""
    if call.rows * call.units * struct_bytes(call.size)["arrival"] > SMALL * memory(call.device):
        return False
    return guessable(call)


@cache
def memory(device: int) -> int:
    """Bytes of a GPU's memory."""
    return int(torch.cuda.get_device_properties(device).total_memory)


def guessable(call: Call) -> bool:
    """Whether the forward passes of batches of this many sequences have kernels that run without the number of events."""
    if call.dense or call.units > max(HELD, GROUPED):
        return False
    return fits_all_open(call.units, call.batch, call.size, call.device, call.tape_dtype)


@cache
def fits_all_open(units: int, batch: int, size: int, device: int, tape_dtype: torch.dtype | None) -> bool:
    """Whether small layers of this size have their kernels even with all units open at once."""
    most = -(-units // 8) * 8
    few, many = (plan("forward", units, batch, units, most, size, device, tape_dtype, crowded) for crowded in (False, True))
    return not few.together and not many.together


def all_open(call: Call, tape: int) -> Capacity:
    """The capacity for all units being open, with so much room on the tape; kernels for as many events as the GPU will find."""
    crowded = None if guessable(call) else False
    return Capacity(call.rows * call.units, tape, call.units, call.multiplies_input, crowded)


def guessed(call: Call, count: Count, keep: bool) -> Capacity | None:
    """The capacity for a batch by the last ones; None if there were none, or if it is not clear which kernels it needs."""
    expected, every, is_small = count.expected, call.rows * call.units, small(call)
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


def kernels_for(call: Call, events: float) -> tuple[bool, bool]:
    """What `Capacity` says of the kernels for so many events."""
    # A small batch may also be run without the number of events, and then has to give the same bits.
    most_open = call.features >= WIDE and events > OPEN * call.rows * call.units and not small(call)
    return most_open, is_crowded(call.rows, call.units, events)
