"""Numbers that the kernels and their host side share: each is written once, here, and the kernels receive it as a macro.

Sizes of the kernels' structs are computed here too, because memory is allocated by them. The kernels assert each at compile time.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch

LANES = 32  # threads of a warp
COLUMNS = 4 * LANES  # columns of a block of weights: four for each lane

PRODUCTS = 4  # of a unit, in either cell
GATE = 6  # numbers of a unit's gate, doubles
GATE_SUMS = 6  # sums over a unit's events: for period, shift and ratio_on, and for three peepholes

STRETCH = 64  # rows for which one block finds the open units
SUM_WARPS = 16  # of a block that sums gradients to weights, at most
SUM_UNIT_BYTES = 16  # of a number of each of a warp's units there: so many units that their sums fit into registers
UNIT_WARPS = 8  # of a block in which a warp sums all events of a unit
SORTING_WARPS = 24  # of a block that sorts events by unit before it sums them, at most
SUM_COLUMNS = 4  # of a lane there; or one more
RECORD = 8  # numbers of an event on the tape
ROUNDS = 8  # events of which a warp computes the cell at once, where weights are streamed
BLOCKS_AT_ONCE = 4  # blocks of a row of weights that a warp has in registers at once, at most

LATE = 4  # groups of asynchronous copies that may be in flight
AHEAD = LATE + 1  # rows of the output's gradient fetched ahead where weights are streamed: the one in use, and those in flight
HELD_AHEAD = LATE + 2  # the same where weights are held in shared memory: one more is settled

PARTS = 4  # words of 32 units in a layer whose weights are held in shared memory, at most
ENDS = 4 * LANES  # steps whose last event is known in shared memory
LISTED = 4  # steps whose first events are listed

GROUPED = 128  # units of a layer whose sequences are computed in groups, at most
SPAN = 8  # lanes that multiply an event there
PASS = 32  # events there whose cells are computed at once, forwards; twice as many where a sequence has many warps
EVENTS = 128  # events there that a sequence has in shared memory, a power of two; forwards twice as many likewise
# Backwards, where not all weights fit into shared memory there: units whose weights are in registers, and threads of a block, at
# most. More would not fit.
KEPT, KEPT_THREADS = 24, 384

SPREAD_UNITS = 8  # of a block where a layer's units are spread over the multiprocessors

OPEN_BLOCKS = 4  # of those that compute a step of an open unit, on a multiprocessor, at least: more hide the latency of memory

SMALL = 128  # units of a layer whose weights are in registers and shared memory, at most: four threads each
HELD_FOURS = 16  # fours of its weights in the registers of a thread

PLACE = 11  # integers and addresses that say where the events of a run by steps are

FOUND_BYTES = 16  # the most events of a row and the number of all, before the numbers of each block
OF_BLOCK_BYTES = 8  # numbers of a block
SEEN_BYTES = 24  # three addresses of an event

SHARED = {name.lower(): value for name, value in globals().items() if name.isupper() and isinstance(value, int)}
"""All numbers above, as macros."""

# PHASED_TAPE by the dtype that numbers on the tape are rounded to; None if they are not rounded.
TAPE_MACRO = {None: 0, torch.bfloat16: 1, torch.float16: 2}


def open_sequences(size: int) -> int:
    """Sequences whose gradients a block of `open_step_sums` adds up: as many as fit."""
    return 128 // size


@cache
def struct_bytes(size: int, tape_dtype: torch.dtype | None = None) -> dict[str, int]:
    """Bytes of the kernels' structs, by name, for numbers of `size` bytes, on the tape possibly in half precision."""
    listed = 4 * LISTED * LANES + 4 * ENDS  # both integers
    slots = PARTS * LANES  # for the units of a layer whose weights are held in shared memory
    return {
        "four": 4 * size,
        "record": RECORD * (size if tape_dtype is None else tape_dtype.itemsize),
        "unit_row": 8,  # unit and row of an event
        "head": 16,  # unit, row and openness
        "arrival": 16 + 4 * size,  # a head, and what input and bias add to the products
        "held_head": 8 if size == 4 else 16,  # unit and openness
        "held_forward_memory": 5 * slots * size + listed,  # two copies of h and of its changes, and c
        "held_backward_memory": (2 + HELD_AHEAD) * slots * size + listed,  # gradients to h, to c, and rows of the output's
        "grouped_forward": 2 * GROUPED * size + 16,  # h, c, and where steps end
        "spread_row": SPREAD_UNITS * PRODUCTS * size,  # weights between a unit and those of a block
        "open_sums": open_sequences(size) * COLUMNS * size,  # of a warp
        # Gradients to h, to c and to products; of two steps, where their events' weights are.
        "grouped_backward": 6 * GROUPED * size + 2 * (4 * GROUPED + LANES + 16),
    }


class Build(NamedTuple):
    """A cell, types of numbers, and sizes of a recurrence: all that kernels are compiled for. The kernels around it use no size.

    Args:
        cell: name of the kernels' struct.
        real: "float" or "double".
        tape_dtype: to which numbers on the tape are rounded, if they are.
        peephole: 1 with peepholes.
        blocks: of columns in a row of weights.
        warps: of a sequence.
        helpers: its warps that move data.
        threads: of a block.
        beyond: whether some weights are not in shared memory, where there is a kernel for either.
    """

    cell: str
    real: str
    tape_dtype: torch.dtype | None = None
    peephole: int = 0
    blocks: int = 1
    warps: int = 1
    helpers: int = 1
    threads: int = LANES
    beyond: int = 0

    def macros(self) -> dict[str, str | int]:
        """The macros that kernels are compiled with."""
        size = {"float": 4, "double": 8}[self.real]
        given = self._asdict() | {"cell": f"phased::{self.cell}", "tape": TAPE_MACRO[self.tape_dtype]}
        del given["tape_dtype"]
        structs = {f"{name}_bytes": count for name, count in struct_bytes(size, self.tape_dtype).items()}
        return {**given, "open_sequences": open_sequences(size), **SHARED, **structs}
