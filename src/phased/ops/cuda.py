"""The recurrence on an NVIDIA GPU: one team of warps a sequence, open units only at leak 0, all of them otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from phased.cell import LSTM, Weights
from phased.gate import LONGEST_PERIOD, SHAPES, SHORTEST_PERIOD, SMALLEST_RATIO
from phased.ops import compiler
from phased.ops.layout import HELD, RECORD, Plan, arrival, blocks, padded, plan
from phased.ops.operator import Gradients, Problem, Result, operator
from phased.schedule import valid_steps

# A rough phase is good to BLUR of a cycle for times up to NEAR periods from zero: see GateMemory in the compiled core.
BLUR, NEAR = 2.0**-11, 2.0**39

STRETCH = 64  # rows a block finds the events of, as in schedule.cu
SMALL = 2**27  # bytes of events that inference may take without asking how many there are
LARGEST = 2**31 - 1  # rows and events are numbered by 32-bit integers

REALS = {torch.float32: "float", torch.float64: "double"}


def missing(device: torch.device | None = None) -> str | None:
    """Why the kernels cannot run on a GPU, or on the current one, and what would cure that; or None."""
    why: str | None = _missing(None if device is None else device.index)
    return why


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _missing(index: int | None) -> str | None:
    if not torch.cuda.is_available():
        return compiler.missing(0)
    return compiler.missing(torch.cuda.current_device() if index is None else index)


def too_large(units: int, dtype: torch.dtype, device: torch.device) -> str | None:
    """Why a layer of so many units, half of them open at once, does not fit the kernels and what would cure that, or None."""
    why: str | None = _too_large(units, dtype, device.index)
    return why


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _too_large(units: int, dtype: torch.dtype, index: int | None) -> str | None:
    device = torch.cuda.current_device() if index is None else index
    try:
        for name in ("forward", "backward", "dense_forward", "dense_backward"):
            plan(name, units, 1, units // 2, units // 2, torch.finfo(dtype).bits // 8, device)
    except ValueError as error:
        return str(error)
    return None


def starts(rows: int) -> int:
    """Numbers that say where rows start: one a row and one behind them, two that were counted, and one a block."""
    return rows + 3 + max(1, -(-rows // STRETCH))


class Call:
    """A problem as the kernels take it. A backward pass takes over how its forward pass packed weights and gates."""

    def __init__(self, problem: Problem, packed: tuple[Tensor, Tensor] | None = None) -> None:
        self.problem = problem
        self.steps, self.batch, self.features = problem.input.shape
        self.units = problem.weights.hh.shape[1]
        self.device = problem.input.device.index
        self.input = problem.input if problem.input.stride(-1) == 1 or self.features <= 1 else problem.input.contiguous()
        self.time = problem.time.to(torch.float64)
        self.lengths = None if problem.lengths is None else problem.lengths.contiguous()
        self.state = [s.contiguous() for s in problem.state]
        self.weights = [None if w is None else w.contiguous() for w in problem.weights]
        self.rows = self.steps * self.batch
        self.words = -(-self.units // 32)
        self.pitch = padded(self.units)
        self.size = problem.input.element_size()
        self.square = SHAPES.index(problem.gate.shape)
        self.kind = self.device, "Lstm" if problem.cell is LSTM else "Gru", REALS[problem.input.dtype]
        self._common = compiler.common(*self.kind)
        self.blocks = -(-self.rows // STRETCH)
        sparse = packed is None and problem.gate.leak == 0
        self.start = self.empty(starts(self.rows) if sparse else 0, dtype=torch.int64)
        # Where find_open leaves the most events of a row and how many there are in all, and before each block's rows.
        self.found = self.start[self.rows + 1 :] if sparse else None
        self.weights_of_units, self.gates = self._pack() if packed is None else packed

    def launch(self, name: str, grid: int | tuple[int, int, int], block: int, *arguments: Any) -> None:
        """Run one of the kernels around the recurrence."""
        if (grid if isinstance(grid, int) else min(grid)) > 0:
            self._common.launch(name, self.device, grid, block, *arguments)

    def run(self, layout: Plan, *arguments: Any) -> None:
        """Run the recurrence."""
        sizes = (self.batch, self.steps, self.units, self.pitch, self.lengths)
        threads = -(-layout.block // 128) * 128
        sizes_of = (self.peephole, blocks(self.units), layout.warps, layout.helpers, threads)
        kernels = compiler.recurrence(*self.kind, layout.source, *sizes_of)
        given = (*sizes, *arguments, layout.ring, layout.most)
        kernels.launch(layout.name, self.device, layout.grid, layout.block, *given, shared=layout.shared)

    def plan(self, name: str, events: int, most: int) -> Plan:
        """The layout of the recurrence."""
        return plan(name, self.units, self.batch, round(events / max(1, self.rows)), -(-most // 8) * 8, self.size, self.device)

    @property
    def peephole(self) -> int:
        """Whether there are peepholes."""
        return int(self.weights[4] is not None)

    def warps(self, count: int) -> tuple[int, int]:
        """Grid and block for one warp each."""
        return min(-(-count // 8), 65536), 256

    def empty(self, *size: Any, dtype: torch.dtype | None = None) -> Tensor:
        """Memory on the GPU."""
        return self.input.new_empty(*size, dtype=dtype)

    def _pack(self) -> tuple[Tensor, Tensor]:
        """The weights as units read them, and the gates; and zeros where find_open counts."""
        units, features, pitch = self.units, self.features, self.pitch
        weights, gates = self.empty(units * 4 * (pitch + features + 1)), self.empty(6, units, dtype=torch.float64)
        gate = [g.contiguous() for g in self.problem.gate.parameters()]
        parts = weights, weights[self._after_wh + 4 * units :], weights[self._after_wh :]
        grid = min(-(-weights.numel() // 256), 4096)
        sizes = (SHORTEST_PERIOD, LONGEST_PERIOD, SMALLEST_RATIO, units, features, pitch, BLUR)
        self.launch("pack", grid, 256, *self.weights[:4], *gate, *sizes, *parts, gates, self.found)
        return weights, gates

    @property
    def _after_wh(self) -> int:
        return self.units * 4 * self.pitch

    @property
    def wh(self) -> Tensor:
        """Each unit's rows of weights on h, (units, 4, pitch)."""
        return self.weights_of_units

    @property
    def bias(self) -> Tensor:
        """Each unit's biases, (units, 4)."""
        return self.weights_of_units[self._after_wh :]

    @property
    def wx(self) -> Tensor:
        """Each unit's rows of weights on x, (units, 4, features)."""
        return self.weights_of_units[self._after_wh + 4 * self.units :]

    @property
    def clock(self) -> tuple[Any, ...]:
        """The times and their strides, by sequence and by step."""
        return self.time, self.time.stride(1), self.time.stride(0)

    @property
    def rows_of_input(self) -> tuple[Any, ...]:
        """The input, its strides by step and by sequence, and its width."""
        return self.input, self.input.stride(0), self.input.stride(1), self.features


@dataclass
class Events:
    """The schedule: for each row its bits and where its events start; for each event its place, and what it brings.

    Where every unit has an event in every row, with a leak, no bits, starts or places are needed.
    """

    mask: Tensor  # (rows, words) int32: a bit for each unit
    by_unit: Tensor  # (32 words, rows / 32) int32: for each unit a bit for each row
    start: Tensor  # (rows + 1,) int64, and behind it what else was found
    places: Tensor  # (2, events) int32: units and rows, for a backward pass
    arrivals: Tensor  # (events, bytes)
    most: int


def look(call: Call) -> tuple[Tensor, Tensor]:
    """Have the GPU find who is open when: bits by row and by unit, not there yet. With a leak nobody need look."""
    rows = call.rows if call.problem.gate.leak == 0 else 0
    mask = call.empty(rows, call.words, dtype=torch.int32)
    by_unit = call.empty(call.words * 32, -(-rows // 32), dtype=torch.int32)
    if call.problem.gate.leak == 0:
        sizes = (call.batch, call.steps, call.units, NEAR, BLUR)
        given = (*call.clock, call.lengths, call.gates, *sizes, mask, by_unit, call.start, call.found)
        call.launch("find_open", max(1, call.blocks), 256, *given)
    return mask, by_unit


def find(call: Call, mask: Tensor, by_unit: Tensor, keep: bool) -> Events:
    """All events, from what was looked for; with a leak everybody has one, always.

    The memory that events take is allocated once their number is known, for which the GPU is waited for. A CUDA graph that is
    being recorded cannot wait: it gets memory for the most events there can be. Nor need inference on a small batch, whose events
    are forgotten at once.
    """
    gate, rows, units, start = call.problem.gate, call.rows, call.units, call.start
    dense = gate.leak > 0
    events, most = rows * units, units
    small = not keep and units <= HELD and events * arrival(call.size) <= SMALL
    small = small and call.plan("forward", events, most).name == "held_forward"
    if not dense and not small and not torch.cuda.is_current_stream_capturing():
        most, events = start[rows + 1 : rows + 3].tolist()
    if max(rows, events) > LARGEST:
        raise ValueError(f"a batch may have {LARGEST} steps and open events in all, got {rows} and {events}. Split the batch.")
    places = call.empty(2, events if keep and not dense else 0, dtype=torch.int32)
    unit, row = places.unbind(0) if len(places[0]) else (None, None)
    arrivals = call.empty(events, arrival(call.size), dtype=torch.uint8)
    sizes = (call.batch, call.steps, units, float(gate.leak), call.square)
    bits = (None, None, None) if dense else (mask, start, call.found)
    lanes = min(32, 1 << (call.features - 1).bit_length()) if call.features else 1
    given = (*bits, *call.rows_of_input, call.wx, call.bias, lanes)
    call.launch("fill", call.blocks, 256, *call.clock, call.gates, *sizes, *given, unit, row, arrivals)
    return Events(mask, by_unit, start, places, arrivals, most)


def forward(problem: Problem, keep: bool) -> Result:
    """Output, final state and, to keep, the schedule and the tape."""
    with on(problem.input.device):
        call = Call(problem)
        bits = look(call)
        output = call.empty(call.steps, call.batch, call.units)
        final = [call.empty(call.batch, call.units) for _ in range(problem.cell.states)]
        events = find(call, *bits, keep)
        tape = call.empty(len(events.arrivals), RECORD) if keep else None
        if tape is not None and problem.gate.leak > 0 and call.lengths is not None:
            tape.zero_()  # padding has events too, which nobody comes by
        if call.batch:
            name = "forward" if problem.gate.leak == 0 else "dense_forward"
            layout = call.plan(name, len(events.arrivals), events.most)
            inputs = (events.start, events.mask, events.arrivals, call.wh, call.weights[4], *states(call.state))
            call.run(layout, *inputs, output, *states(final), tape)
        if tape is None:
            return Result(output, tuple(final), [])
        most = torch.tensor(events.most)  # on the CPU, where the backward pass is planned
        saved = [events.mask, events.by_unit, events.start, events.places, tape, call.weights_of_units, call.gates, most]
        return Result(output, tuple(final), saved)


def on(device: torch.device) -> AbstractContextManager[Any]:
    """Inside, this GPU is the current one; where it is already, nothing is to be done, which is faster."""
    return nullcontext() if torch.cuda.current_device() == device.index else torch.cuda.device(device)


def states(tensors: Sequence[Tensor | None]) -> tuple[Tensor | None, Tensor | None]:
    """h and c; the GRU has no c, and a state that is all zeros neither."""
    h, c = [*tensors, None, None][:2]
    return h, c


def backward(
    problem: Problem, result: Result, to_output: Tensor | None, to_final: Sequence[Tensor | None], with_input: bool = True
) -> Gradients:
    """Gradients of everything, given those of the output and the final state; that of the input where it is wanted."""
    with on(problem.input.device), torch.autocast("cuda", enabled=False) if torch.is_autocast_enabled("cuda") else nullcontext():
        mask, _, start, places, tape, packed, gates, most = result.saved
        unit, row = places.unbind(0)
        call = Call(problem, (packed, gates))
        count = len(tape)
        to_rows = to_output if to_output is None or to_output.stride(-1) == 1 or call.units <= 1 else to_output.contiguous()
        strides = (0, 0) if to_rows is None else (to_rows.stride(0), to_rows.stride(1))
        peephole = call.weights[4]
        to_products, to_others = call.empty(count, 4), call.empty(count, 1 if peephole is None else 4)
        if problem.gate.leak > 0 and call.lengths is not None:
            to_products.zero_()  # padding has events too, which nobody comes by
        to_end = [None if d is None else d.contiguous() for d in to_final]
        to_state = [torch.empty_like(s) for s in call.state]
        if call.batch:
            layout = call.plan("backward" if problem.gate.leak == 0 else "dense_backward", count, int(most))
            given = (start, mask, unit, row, tape, call.wh, peephole, to_rows, *strides, *states(to_end))
            call.run(layout, *given, to_products, to_others, *states(to_state))
        spread = dense_gradients if problem.gate.leak > 0 else sparse_gradients
        sums, gate_sums, to_x = spread(call, result, to_products, to_others, with_input)
        to_gate = tuple(call.empty(call.units, dtype=torch.float64) for _ in range(3))
        to_peephole = None if peephole is None else torch.empty_like(peephole)
        matrices = [None if w is None else torch.empty_like(w) for w in call.weights[:4]]
        grid = min(-(-sums[0].numel() // 256), 4096)
        sizes = (sums.shape[0], call.units, call.features)
        of_gate = (gate_sums, gate_sums.shape[0], call.gates, *to_gate, to_peephole)
        call.launch("unpack", grid, 256, sums, *sizes, *matrices, *of_gate)
        ih, hh, bias_ih, bias_hh = matrices
        assert ih is not None
        assert hh is not None
        return Gradients(to_x, tuple(to_state), Weights(ih, hh, bias_ih, bias_hh, to_peephole), to_gate)


def sparse_gradients(
    call: Call, result: Result, to_products: Tensor, to_others: Tensor, with_input: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Over open events: sums for the weights (splits, units, 4, columns), for the gates (splits, 6, units), and to the input."""
    mask, by_unit, start, places = result.saved[:4]
    units, features = call.units, call.features
    columns = units + features + 1
    wide = -(-columns // 128)
    splits = max(1, min(32, 2048 // (units * wide)))
    sums, gate_sums = call.empty(splits, units, 4, columns), call.empty(splits, 6, units, dtype=torch.float64)
    initial_h = call.state[0] if call.state else call.empty(call.batch, units).zero_()
    seen = (result.output, initial_h, *call.rows_of_input, *call.clock, call.gates)
    sizes = (call.batch, call.steps, units, call.square, call.peephole)
    given = (to_products, to_others, by_unit, mask, start, *seen, *sizes)
    call.launch("event_sums", (units, wide, splits), 128, *given, sums, gate_sums)
    to_x = None
    if with_input:
        to_x = call.empty(call.steps, call.batch, features)
        through = (to_products, start, places, call.wx, call.batch, call.steps, features)
        call.launch("input_gradient", *call.warps(call.rows), *through, to_x)
    return sums, gate_sums, to_x


def dense_gradients(
    call: Call, result: Result, to_products: Tensor, to_others: Tensor, with_input: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The same where every unit works at every step: matrix products."""
    steps, batch, units, features = call.steps, call.batch, call.units, call.features
    x = call.input.transpose(0, 1)
    if call.lengths is not None:  # padding may hold anything, and 0 * NaN is NaN
        x = torch.where(valid_steps(steps, call.lengths).t().unsqueeze(-1), x, 0)
    rows = call.empty(batch, steps, units + features + 1)  # [h before | x | 1], as every unit sees them
    if steps:
        rows[:, 0, :units] = call.state[0] if call.state else 0
        rows[:, 1:, :units] = result.output[:-1].transpose(0, 1)
    rows[..., units:-1] = x
    rows[..., -1] = 1
    flat = to_products.view(batch * steps, 4 * units)
    sums = (flat.T @ rows.view(batch * steps, units + features + 1)).view(1, units, 4, units + features + 1)
    stretches = 4 * torch.cuda.get_device_properties(call.device).multi_processor_count
    partial = call.empty(stretches, 6, units, dtype=torch.float64)
    threads = min(256, -(-units // 32) * 32)
    sizes = (batch, steps, units, float(call.problem.gate.leak), call.square, call.peephole)
    call.launch("dense_gate_sums", stretches, threads, to_others, *call.clock, call.lengths, call.gates, *sizes, partial)
    to_x = None
    if with_input:
        to_x = (flat @ call.wx.view(4 * units, features)).view(batch, steps, features).transpose(0, 1).contiguous()
    return sums, partial, to_x


def saved_like(problem: Problem, unknown: Callable[[], Any]) -> list[Tensor]:
    """Empty tensors like those `forward` saves, for tracing."""
    x = problem.input
    steps, batch, _ = x.shape
    units = problem.weights.hh.shape[1]
    dense = problem.gate.leak > 0
    events = steps * batch * units if dense else unknown()
    return [
        x.new_empty(0 if dense else steps * batch, -(-units // 32), dtype=torch.int32),
        x.new_empty(-(-units // 32) * 32, 0 if dense else -(-steps * batch // 32), dtype=torch.int32),
        x.new_empty(0 if dense else starts(steps * batch), dtype=torch.int64),
        x.new_empty(2, 0 if dense else events, dtype=torch.int32),
        x.new_empty(events, RECORD),
        x.new_empty(units * 4 * (padded(units) + x.shape[2] + 1)),
        x.new_empty(6, units, dtype=torch.float64),
        torch.empty((), dtype=torch.int64),
    ]


recurrence = operator("cuda", forward, backward, saved_like)
