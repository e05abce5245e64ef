"""A problem as the GPU's kernels take it: one piece of memory for its schedule, and the launches that fill and follow it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from phased.cell import LSTM
from phased.gate import LONGEST_PERIOD, SHAPES, SHORTEST_PERIOD, SMALLEST_RATIO
from phased.ops import compiler
from phased.ops.contract import Problem
from phased.ops.layout import RECORD, Plan, arrival, blocks, padded, plan
from phased.ops.memory import address, contiguous, contiguous_rows

# A rough phase is good to BLUR of a cycle for times up to NEAR periods from zero: see GateMemory in the compiled core.
BLUR, NEAR = 2.0**-11, 2.0**39

STRETCH = 64  # rows a block finds the events of, as in schedule.cu
LARGEST = 2**31 - 1  # rows and events are numbered by 32-bit integers

REALS = {torch.float32: "float", torch.float64: "double"}


class Room(NamedTuple):
    """How many events of a batch can arrive, how many of them be kept for a backward pass, and how many a step can have."""

    arrivals: int
    tape: int
    most: int


class Call:
    """A problem as the kernels take it, and its schedule: who is open when, and weights and gates as the units read them.

    The schedule is one piece of memory; its parts go by their addresses. A backward pass takes over that of its forward pass.
    """

    def __init__(self, problem: Problem, schedule: Tensor | None = None) -> None:
        x = problem.input
        self.problem = problem
        self.steps, self.batch, self.features = x.shape
        self.units = problem.weights.hh.shape[1]
        self.dense = problem.gate.leak > 0
        self.device = x.device.index
        self.input = contiguous_rows(x)
        self.time = problem.time.to(torch.float64).resolve_neg()
        self.lengths = None if problem.lengths is None else contiguous(problem.lengths)
        self.state = [contiguous(s) for s in problem.state]
        self.weights = [None if w is None else contiguous(w) for w in problem.weights]
        self.rows = self.steps * self.batch
        self.blocks = -(-self.rows // STRETCH)
        self.pitch = padded(self.units)
        self.size = x.element_size()
        self.square = SHAPES.index(problem.gate.shape)
        self.peephole = int(problem.weights.peephole is not None)
        self.added_up = False
        self.kind = self.device, "Lstm" if problem.cell is LSTM else "Gru", REALS[x.dtype]
        self._common = compiler.common(*self.kind)
        parts = known_parts(self.rows, self.units, self.features, self.size, self.dense)
        self.schedule = self.bytes(parts[-1]) if schedule is None else schedule
        base = address(self.schedule)
        # Of each unit: weights on h (4, pitch), biases (4), weights on x (4, features), gate (of (6, units)); zeros (units). What
        # is found: the most events of a row, how many in all, and of each block; where a row's events start; who is open, by rows
        # (rows, words) and by units (32 words, rows / 32). And for 128 columns of a unit's weights each, whose turn it is to add
        # their gradients up.
        self.wh, self.bias, self.wx, self.gates, self.found, self.start, self.zeros, self.mask, self.by_unit, self.turns = [
            base + part for part in parts[:-1]
        ]
        if self.dense:  # everybody is open always, more or less
            self.found = self.start = self.mask = self.by_unit = 0
        # The times with their strides, by sequence and by step; the input with those by step and by sequence, and its width.
        self.clock = address(self.time), self.time.stride(1), self.time.stride(0)
        self.rows_of_input = address(self.input), self.input.stride(0), self.input.stride(1), self.features

    def launch(self, name: str, grid: int | tuple[int, int, int], block: int, *arguments: float) -> None:
        """Run one of the kernels around the recurrence."""
        if (grid if isinstance(grid, int) else min(grid)) > 0:
            self._common.launch(name, self.device, grid, block, arguments)

    def run(self, name: str, events: int, most: int, *arguments: float) -> None:
        """Run the recurrence over so many events, at most so many in a step."""
        layout = self.plan(name, events, most)
        threads = -(-layout.block // 128) * 128
        sizes = (self.peephole, blocks(self.units), layout.warps, layout.helpers, threads)
        kernels = compiler.recurrence(*self.kind, layout.source, *sizes)
        given = (self.batch, self.steps, self.units, self.pitch, address(self.lengths), *arguments, layout.ring, layout.most)
        kernels.launch(layout.name, self.device, layout.grid, layout.block, given, layout.shared)

    def plan(self, name: str, events: int, most: int) -> Plan:
        """The layout of the recurrence."""
        busy = round(events / max(1, self.rows))
        return plan(
            f"dense_{name}" if self.dense else name, self.units, self.batch, busy, -(-most // 8) * 8, self.size, self.device
        )

    def empty(self, *size: int, dtype: torch.dtype | None = None) -> Tensor:
        """Memory on the GPU."""
        return self.input.new_empty(size, dtype=dtype)

    def bytes(self, *size: int) -> Tensor:
        """Memory on the GPU that has no type."""
        return self.input.new_empty(size, dtype=torch.uint8)

    def prepare(self) -> None:
        """Have weights and gates packed as the units read them; and, without a leak, have it found who is open when."""
        gate = [contiguous(g) for g in self.problem.gate.parameters()]
        given = (*map(address, self.weights[:4]), *map(address, gate), SHORTEST_PERIOD, LONGEST_PERIOD, SMALLEST_RATIO)
        sizes = (self.units, self.features, self.pitch, BLUR)
        turns = (self.turns, 0 if self.dense else self.units * wide(self.units, self.features))
        packing = (*given, *sizes, self.wh, self.wx, self.bias, self.zeros, self.gates, *turns)
        grid = min(-(-self.units * 4 * (self.pitch + self.features + 1) // 1024), 1024)
        if self.dense:
            self.launch("pack", grid, 256, *packing)
            return
        seen = (*self.clock, address(self.lengths), self.batch, self.steps, NEAR)
        self.launch("find_open", max(grid, self.blocks), 256, *packing, *seen, self.mask, self.by_unit, self.start, self.found)

    def add_up(self, place: int = 0, ticket: int = 0) -> None:
        """Have events counted, and told at a ticket's place, if there is one."""
        self.launch("add_up", 1, 1024, self.found, self.blocks, place, ticket)
        self.added_up = True

    def take(self, room: Room, place: int = 0, ticket: int = 0) -> tuple[Tensor, list[Tensor], Tensor]:
        """Have all steps taken: the output, the final state, and the tape, a line for each event there is room for.

        Where there are more events than that the tape is left as it was; the rest is right all the same. Unless events have been
        counted before, they are now.
        """
        if max(self.rows, room.arrivals) > LARGEST:
            raise ValueError(
                f"a batch may have {LARGEST} steps and open events in all, got {self.rows} and {room.arrivals}. Split the batch."
            )
        output = self.empty(self.steps, self.batch, self.units)
        final = [self.empty(self.batch, self.units) for _ in range(self.problem.cell.states)]
        arrivals = self.bytes(room.arrivals, arrival(self.size))
        tape = self.bytes(room.tape, taped(self.size, self.dense))
        if self.dense and self.lengths is not None:
            tape.zero_()  # padding has events too, which nobody comes by
        unit, row, records = places_in(tape, self.size, self.dense)
        sizes = (self.batch, self.steps, self.units, float(self.problem.gate.leak), self.square)
        lanes = min(32, 1 << (self.features - 1).bit_length()) if self.features else 1
        given = (self.mask, self.start, self.found, *self.rows_of_input, self.wx, self.bias, lanes, unit, row, room.tape)
        counting = (arrivals.data_ptr(), int(self.added_up), place, ticket)
        self.launch("fill", self.blocks, 256, *self.clock, self.gates, *sizes, *given, *counting)
        if self.batch:
            inputs = (self.start, self.mask, arrivals.data_ptr(), self.wh, address(self.weights[4]), *states(self.state))
            results = (output.data_ptr(), *states(final), records, self.found, room.tape)
            self.run("forward", room.tape or room.arrivals, room.most, *inputs, *results)
        return output, final, tape


def parts_of_schedule(rows: int, units: int, features: int, size: int, dense: bool) -> tuple[int, ...]:
    """Where the parts begin that `Call` names, and behind them where the last one ends. In this order they need no gaps."""
    words, looked = -(-units // 32), 0 if dense else 1
    weights = [4 * units * padded(units) * size, 4 * units * size, 4 * units * features * size, 6 * units * 8]
    found = [looked * 8 * (2 + -(-rows // STRETCH)), looked * 8 * (rows + 1)]
    bits = [looked * 4 * rows * words, looked * 4 * 32 * words * -(-rows // 32)]
    turns = looked * 4 * units * wide(units, features)
    return tuple(accumulate([*weights, *found, units * size, *bits, turns], initial=0))


known_parts = lru_cache(maxsize=256)(parts_of_schedule)


def wide(units: int, features: int) -> int:
    """Stretches of 128 columns in a unit's weights, on h and on x, and its bias."""
    return -(-(units + features + 1) // 128)


def taped(size: int, dense: bool) -> int:
    """Bytes of an event on the tape: its record, and, where not every unit has one in every row, its unit and row."""
    return RECORD * size + (0 if dense else 8)


def places_in(tape: Tensor, size: int, dense: bool) -> tuple[int, int, int]:
    """Where a tape's units, rows and records are; 0 for what it does not have."""
    base, room = tape.data_ptr(), tape.shape[0]
    if not room:
        return 0, 0, 0
    behind = base + room * RECORD * size
    return (0, 0, base) if dense else (behind, behind + 4 * room, base)


def states(tensors: Sequence[Tensor | None]) -> tuple[int, int]:
    """Addresses of h and c; the GRU has no c, and a state that is all zeros neither."""
    h, c = [*tensors, None, None][:2]
    return address(h), address(c)
