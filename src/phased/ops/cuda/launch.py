"""A problem as the kernels' arguments: one allocation for its schedule, and the launches that fill and follow it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from phased.gate import LONGEST_PERIOD, SHORTEST_PERIOD, SMALLEST_RATIO
from phased.ops.contract import Problem, without_autocast
from phased.ops.cuda import CELLS, SHAPES, kernels
from phased.ops.cuda.constants import (
    FOUND_BYTES,
    GATE,
    GROUPED,
    LANES,
    OF_BLOCK_BYTES,
    PRODUCTS,
    STRETCH,
    TAPE_MACRO,
    Build,
    struct_bytes,
)
from phased.ops.cuda.launch_list import launch_list_of, multiply
from phased.ops.cuda.layout import CROWDED, Plan, blocks, padded, plan, sorted_before, step_plan, too_large
from phased.ops.cuda.steps import DenseSteps, OpenSteps, Place
from phased.ops.native import address, contiguous, contiguous_rows, resolved

MANY = 3072  # above this many blocks a separate kernel computes the prefix sum
MANY_FEATURES = 32  # from which eight threads multiply the input of an event; of fewer four, of one feature one
LARGEST = 2**31 - 1024  # rows and events are numbered by 32-bit integers, in whole tiles and groups

# Units from which dense layers have a matrix product at every step (`DenseSteps`): faster at all sizes measured, from 136 on.
MANY_UNITS = 129

# Where all units have events, one matrix product multiplies the input with the weights of all units, from WIDE_DENSE features on.
# Not in layers of up to WIDE_UNITS units with fewer multiply-adds than MANY_PRODUCTS: Python bounds their passes, which can be
# listed without it.
WIDE_DENSE, WIDE_UNITS, MANY_PRODUCTS = 8, 64, 1 << 25

REALS = {torch.float32: "float", torch.float64: "double"}


EVERY = 1 << 62  # more than there are events

Slot = tuple[int, int]
"""Where a kernel reports how many events there are, and the mark that it adds to its numbers: the kernels' struct Slot."""
NOWHERE: Slot = (0, 0)


class Capacity(NamedTuple):
    """How many events memory is allocated for: in the batch, on the tape for a backward pass, and in a step.

    `most_open`: whether so many units are open that the input's products with all of them, as one matrix product, are faster than
    with the open ones alone. `crowded`: whether steps have so many events that other kernels are faster; None: the GPU finds out.
    """

    arrivals: int
    tape: int
    most: int
    most_open: bool = False
    crowded: bool | None = False


class CudaCall:
    """A problem as the kernels' arguments, and its schedule: open units of each row, and weights and gates as units read them.

    The schedule is one allocation; its parts are passed as addresses. A backward pass uses that of its forward pass.
    """

    def __init__(self, problem: Problem, schedule: Tensor | None = None) -> None:
        x = problem.input
        self.problem = problem
        self.steps, self.batch, self.features = x.shape
        self.units = problem.weights.hh.shape[1]
        self.device = x.device.index
        self.dense = is_dense(problem)
        self.by_steps = self.dense and self.units >= MANY_UNITS
        self.input = contiguous_rows(x)
        self.time = resolved(problem.time if problem.time.dtype is torch.float64 else problem.time.to(torch.float64))
        self.lengths = None if problem.lengths is None else contiguous(problem.lengths)
        self.state = [contiguous(s) for s in problem.state]
        self.rows = self.steps * self.batch
        self.blocks = -(-self.rows // STRETCH)
        self.pitch = padded(self.units)
        self.size = x.element_size()
        self.square = SHAPES[problem.gate.shape]
        self.peepholes = None if problem.weights.peephole is None else contiguous(problem.weights.peephole)
        self.peephole = int(self.peepholes is not None)
        self.added_up = False
        self.tape_dtype = tape_dtype_of(problem)
        self.build = Build(CELLS[problem.cell.name], REALS[x.dtype], self.tape_dtype, self.peephole)
        self._common = kernels.common(self.device, self.build.cell, self.build.real)
        self.step_plan = None if self.dense else step_plan(self.units, self.batch, self.size, self.device)
        parts = known_parts(self.rows, self.units, self.features, self.size, self.dense)
        self.bytes_of_schedule, self.bytes_of_event = parts[-1], taped(self.size, self.dense, self.tape_dtype)
        self.schedule = self.bytes(parts[-1]) if schedule is None else schedule
        base = address(self.schedule)
        # Of each unit: weights on h (4, pitch), biases (4), weights on x (features, 4), gate (of (GATE, units)). The schedule:
        # numbers of events (struct Found), where a row's events start; zeros (units); which units are open, a bit each, by rows
        # (rows, words).
        self.wh, self.bias, self.wx, self.gates, self.found, self.start, self.zeros, self.mask = [
            base + part for part in parts[:-1]
        ]
        self.offset_of_found = self.found - base
        if self.dense:  # all units have an event in every row
            self.found = self.start = self.mask = 0
        # The times with their strides, by sequence and by step; the input with those by step and by sequence, and its width.
        self.clock = address(self.time), self.time.stride(1), self.time.stride(0)
        self.rows_of_input = address(self.input), self.input.stride(0), self.input.stride(1), self.features

    def launch(self, name: str, grid: int | tuple[int, int, int], block: int, *arguments: float, shared: int = 0) -> None:
        """Run one of the kernels around the recurrence, with so many bytes of dynamic shared memory."""
        if (grid if isinstance(grid, int) else min(grid)) > 0:
            self._start(self._common, name, grid, block, arguments, shared)

    def run(self, layout: Plan, *arguments: float) -> None:
        """Run the recurrence."""
        given = (self.batch, self.steps, self.units, self.pitch, address(self.lengths), *arguments, layout.ring, layout.most)
        compiled = compiled_for(layout, self.units, self.device, self.build)
        self._start(compiled, layout.name, layout.grid, layout.block, given, layout.shared, layout.together)

    def _start(
        self,
        compiled: kernels.Kernels,
        name: str,
        grid: int | tuple[int, int, int],
        block: int,
        arguments: Sequence[float],
        shared: int,
        together: bool = False,
    ) -> None:
        """Launch a kernel; if the tensors are placeholders, list it."""
        launches = launch_list_of(self.input)
        if launches is not None:
            assert not together
            launches.add(compiled, name, grid, block, arguments, shared)
        else:
            compiled.launch(name, self.device, grid, block, arguments, shared, together)

    def plan(self, name: str, busy: int, most: int, crowded: bool = False) -> Plan:
        """The layout of the recurrence over steps of so many events on average, and at most so many."""
        kernel = f"dense_{name}" if self.dense else name
        return plan(kernel, self.units, self.batch, busy, -(-most // 8) * 8, self.size, self.device, self.tape_dtype, crowded)

    @property
    def is_small(self) -> bool:
        """Whether every unit has an event at every step, and the kernels are those that keep all weights (small.cu)."""
        return self.dense and not self.by_steps and self.plan("forward", self.units, self.units).name.startswith("small")

    @property
    def multiplies_input(self) -> bool:
        """Whether the input is multiplied with the weights of all units at once, where every unit has an event at every step."""
        if not self.dense or self.features < WIDE_DENSE:
            return False
        return self.units > WIDE_UNITS or self.rows * self.units * self.features >= MANY_PRODUCTS or not self.is_small

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """The matrix product left.T @ right; if the tensors are placeholders, list it."""
        out, launches = self.empty(left.shape[1], right.shape[1]), launch_list_of(self.input)
        (multiply if launches is None else launches.multiply)(left, right, out)
        return out

    def ways(self, events: int, capacity: Capacity) -> list[tuple[Plan, int, int]]:
        """Forward passes to launch, and from how many to below how many events each is computed."""
        if self.by_steps or self.step_plan is not None:
            return []
        busy = round(events / max(1, self.rows))
        if capacity.crowded is not None:
            return [(self.plan("forward", busy, capacity.most, capacity.crowded), 0, EVERY)]
        few, many = (self.plan("forward", busy, capacity.most, crowded) for crowded in (False, True))
        bound = CROWDED * self.rows
        return [(few, 0, EVERY)] if few == many else [(few, 0, bound), (many, bound, EVERY)]

    def empty(self, *size: int, dtype: torch.dtype | None = None) -> Tensor:
        """Memory on the GPU."""
        return self.input.new_empty(size, dtype=dtype)

    def bytes(self, *size: int) -> Tensor:
        """Untyped memory on the GPU."""
        return self.input.new_empty(size, dtype=torch.uint8)

    def prepare(self) -> None:
        """Pack weights and gates as the units read them; without a leak, also find the open units of each row."""
        if self.rows > LARGEST:
            raise ValueError(f"a batch may have {LARGEST} steps in all, got {self.rows}. Split the batch.")
        weights = [None if w is None else contiguous(w) for w in self.problem.weights[:4]]
        gate = [contiguous(g) for g in self.problem.gate.parameters()]
        given = (*map(address, (*weights, *gate)), SHORTEST_PERIOD, LONGEST_PERIOD, SMALLEST_RATIO)
        sizes = (self.units, self.features, self.pitch)
        packing = (*given, *sizes, self.wh, self.wx, self.bias, self.zeros, self.gates)
        grid = min(-(-self.units * PRODUCTS * (self.pitch + self.features + 1) // 1024), 1024)
        if self.dense:
            self.launch("pack", grid, 256, *packing)
            return
        seen = (*self.clock, address(self.lengths), self.batch, self.steps)
        self.launch("find_open", max(grid, self.blocks), 128, *packing, *seen, self.mask, self.start, self.found)

    def input_products(self) -> Tensor:
        """The products of the input with the weights of all units, (steps * batch, units * PRODUCTS)."""
        with without_autocast("cuda"):
            return self.input.reshape(self.rows, self.features) @ self.input_weights().T

    def input_weights(self) -> Tensor:
        """The weights on the input in the order of the products, (units * PRODUCTS, features)."""
        first = self.wx - self.schedule.data_ptr()
        packed = self.schedule[first : first + PRODUCTS * self.units * self.features * self.size]
        by_unit = packed.view(self.input.dtype).view(self.units, self.features, PRODUCTS)
        return by_unit.transpose(1, 2).reshape(PRODUCTS * self.units, self.features)

    def recurrent_weights(self) -> Tensor:
        """The weights on h as they are packed, (units * PRODUCTS, units)."""
        first = self.wh - self.schedule.data_ptr()
        packed = self.schedule[first : first + PRODUCTS * self.units * self.pitch * self.size]
        return packed.view(self.input.dtype).view(PRODUCTS * self.units, self.pitch)[:, : self.units]

    def add_up(self, slot: Slot = NOWHERE) -> None:
        """Count the events, and report their number to a slot."""
        self.launch("add_up", 1, 1024, self.found, self.blocks, *slot)
        self.added_up = True

    def count_and_run(self, capacity: Capacity, slot: Slot = NOWHERE) -> tuple[Tensor, list[Tensor], Tensor]:
        """`run_forward` of events that are not counted yet: by a kernel for all blocks or, of few blocks, by each block."""
        if not self.dense and self.blocks > MANY:
            self.add_up(slot)
            slot = NOWHERE
        return self.run_forward(capacity, slot)

    def run_forward(self, capacity: Capacity, slot: Slot = NOWHERE) -> tuple[Tensor, list[Tensor], Tensor]:
        """All steps: the output, the final state, and the tape.

        If there are more events than the tape's capacity, the tape is not written; the other results are right all the same. If
        there are more than the capacity for the batch or for a step, nothing is written. Events are counted here unless `add_up`
        has counted them.
        """
        if capacity.arrivals > LARGEST:
            raise ValueError(f"a batch may have {LARGEST} open events in all, got {capacity.arrivals}. Split the batch.")
        output = self.empty(self.steps, self.batch, self.units)
        final = [self.empty(self.batch, self.units) for _ in range(self.problem.cell.states)]
        arrivals = self.bytes(capacity.arrivals, struct_bytes(self.size)["arrival"])
        tape = self.bytes(capacity.tape, self.bytes_of_event)
        if self.dense and self.lengths is not None and not self.is_small:
            tape.zero_()  # padding has events too, which no step writes
        if not self.dense and sorted_before(self.units) and torch.cuda.is_current_stream_capturing():
            tape.fill_(127)  # where there is no event, no unit: see Backward.sorted_events
        unit, row, records = parts_of_tape(tape, self.size, self.dense, self.tape_dtype)
        room, exchange, ways = capacity.tape, None, self.ways(capacity.tape or capacity.arrivals, capacity)
        if any(layout.together for layout, _, _ in ways):
            exchange = unwritten(self.empty(capacity.arrivals))
            if not room:  # such blocks read which units have events, which is on the tape if there is one
                room, listed = capacity.arrivals, self.empty(2, capacity.arrivals, dtype=torch.int32)
                unit, row = listed.data_ptr(), listed.data_ptr() + 4 * room
        sizes = (self.batch, self.steps, self.units, float(self.problem.gate.leak), self.square)
        lanes = 1 if self.features < 2 else 4 if self.features < MANY_FEATURES else 8
        products = self.input_products() if capacity.most_open else None
        weights = (self.wx, self.bias, address(products))
        given = (self.mask, self.start, self.found, *self.rows_of_input, *weights, lanes, unit, row, room)
        counting = (arrivals.data_ptr(), capacity.arrivals, int(self.added_up), *slot)
        self.launch("fill", self.blocks, 128, *self.clock, self.gates, *sizes, *given, *counting)
        if self.by_steps:
            copy_state(final, self.state)
            place = Place(0, self.steps, address(self.lengths), arrivals.data_ptr(), output.data_ptr(), records)
            DenseSteps(self).forward(place, final)
        elif self.batch and self.step_plan is not None and not self.steps:
            copy_state(final, self.state)  # no launch does
        elif self.batch:
            inputs = (self.start, self.mask, arrivals.data_ptr(), self.wh, address(self.peepholes), *states(self.state))
            counted = self.found if self.rows else 0  # without rows nothing counts
            results = (output.data_ptr(), *states(final), records, counted, capacity.tape, unit, address(exchange))
            if self.step_plan is not None:
                OpenSteps(self, self.step_plan).forward((*inputs, *results, 0, capacity.arrivals + 1, capacity.most))
            for layout, least, below in ways:
                self.run(layout, *inputs, *results, least, min(below, capacity.arrivals + 1), capacity.most)
        return output, final, tape


@cache
def compiled_for(layout: Plan, units: int, device: int, build: Build) -> kernels.Kernels:
    """The kernel that a layout is for."""
    threads = -(-layout.block // (4 * LANES)) * 4 * LANES
    sizes = (layout.blocks or blocks(units), layout.warps, layout.helpers, threads, layout.beyond)
    return kernels.recurrence(device, layout.source, Build(build.cell, build.real, build.tape_dtype, build.peephole, *sizes))


def is_crowded(rows: int, units: int, events: float) -> bool:
    """Whether steps have so many events, if all steps together have these, that a small layer has other kernels for them."""
    return units <= GROUPED and events >= CROWDED * rows


def is_dense(problem: Problem) -> bool:
    """Whether every unit has an event at every step: with a leak, or in a layer too large for the kernels of open units."""
    weights = problem.weights
    return problem.gate.leak > 0 or too_large(weights.hh.shape[1], weights.peephole is not None, problem.input.device.index)


def tape_dtype_of(problem: Problem) -> torch.dtype | None:
    """The autocast dtype that numbers on the tape are rounded to; None if they are not rounded."""
    return problem.autocast if problem.input.dtype == torch.float32 and problem.autocast in TAPE_MACRO else None


def unwritten(memory: Tensor) -> Tensor:
    """Set all bits: kernels whose blocks exchange numbers wait until a number has others."""
    memory.view(torch.uint8).fill_(255)
    return memory


def copy_state(to: Sequence[Tensor], given: Sequence[Tensor | None]) -> None:
    """Copy h and c; zeros for those that are not given."""
    for own, value in zip(to, [*given, None, None], strict=False):
        own.zero_() if value is None else own.copy_(value)


def parts_of_schedule(rows: int, units: int, features: int, size: int, dense: bool) -> tuple[int, ...]:
    """Offsets of the parts that `CudaCall` names, and the size of all. In this order they are aligned without gaps."""
    words, sparse, rows_of_weights = -(-units // 32), 0 if dense else 1, PRODUCTS * units * size
    weights = [rows_of_weights * padded(units), rows_of_weights, rows_of_weights * features, GATE * units * 8]
    found = [sparse * (FOUND_BYTES + OF_BLOCK_BYTES * -(-rows // STRETCH)), sparse * 8 * (rows + 1)]
    return tuple(accumulate([*weights, *found, units * size, sparse * 4 * rows * words], initial=0))


known_parts = lru_cache(maxsize=256)(parts_of_schedule)


def taped(size: int, dense: bool, tape_dtype: torch.dtype | None) -> int:
    """Bytes of an event on the tape: its record and, where not every unit has one in every row, its unit and row."""
    structs = struct_bytes(size, tape_dtype)
    return structs["record"] + (0 if dense else structs["unit_row"])


def parts_of_tape(tape: Tensor, size: int, dense: bool, tape_dtype: torch.dtype | None) -> tuple[int, int, int]:
    """Addresses of a tape's units, rows and records; 0 for those it does not have."""
    base, capacity = tape.data_ptr(), tape.shape[0]
    if not capacity:
        return 0, 0, 0
    units = base + capacity * struct_bytes(size, tape_dtype)["record"]
    return (0, 0, base) if dense else (units, units + 4 * capacity, base)


def states(tensors: Sequence[Tensor | None]) -> tuple[int, int]:
    """Addresses of h and c; 0 for the GRU's c, and for both in an empty state."""
    h, c = [*tensors, None, None][:2]
    return address(h), address(c)
