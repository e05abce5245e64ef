"""The recurrence on an NVIDIA GPU: one team of warps a sequence, open units only at leak 0, all of them otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from phased.cell import LSTM, State, Weights
from phased.gate import LONGEST_PERIOD, SHAPES, SHORTEST_PERIOD, SMALLEST_RATIO
from phased.ops import compiler
from phased.ops.layout import RECORD, Plan, arrival, blocks, padded, plan
from phased.ops.operator import Gradients, Problem, Result, operator
from phased.schedule import valid_steps

# A rough phase is good to BLUR of a cycle for times up to NEAR periods from zero: see GateMemory in the compiled core.
BLUR, NEAR = 2.0**-11, 2.0**39

STRETCH = 256  # rows a warp sorts by unit
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
    """Why a layer of so many units does not fit the kernels and what would cure that, or None."""
    why: str | None = _too_large(units, dtype, device.index)
    return why


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _too_large(units: int, dtype: torch.dtype, index: int | None) -> str | None:
    device = torch.cuda.current_device() if index is None else index
    try:
        for name in ("forward", "backward", "dense_forward", "dense_backward"):
            plan(name, units, 1, units, torch.finfo(dtype).bits // 8, device)
    except ValueError as error:
        return str(error)
    return None


class Call:
    """A problem as the kernels take it: addresses, and the tensors that must outlive the call."""

    def __init__(self, problem: Problem) -> None:
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
        self.has_c = len(self.state) > 1
        self.kind = self.device, "Lstm" if problem.cell is LSTM else "Gru", REALS[problem.input.dtype]
        self._common = compiler.common(*self.kind)
        self._pack()

    def launch(self, name: str, grid: int | tuple[int, int, int], block: int, *arguments: Any) -> None:
        """Run one of the kernels around the recurrence."""
        if (grid if isinstance(grid, int) else min(grid)) > 0:
            self._common.launch(name, self.device, grid, block, *arguments)

    def run(self, layout: Plan, *arguments: Any) -> None:
        """Run the recurrence."""
        sizes = (self.batch, self.steps, self.units, self.pitch, self.lengths)
        threads = -(-layout.block // 128) * 128
        dense = layout.name.startswith("dense")
        kernels = compiler.recurrence(*self.kind, dense, blocks(self.units), layout.warps, layout.helpers, threads)
        given = (*sizes, *arguments, layout.ring)
        kernels.launch(layout.name, self.device, layout.grid, layout.block, *given, shared=layout.shared)

    def warps(self, count: int) -> tuple[int, int]:
        """Grid and block for one warp each."""
        return min(-(-count // 8), 65536), 256

    def empty(self, *size: Any, dtype: torch.dtype | None = None) -> Tensor:
        """Memory on the GPU."""
        return self.input.new_empty(*size, dtype=dtype)

    def _pack(self) -> None:
        """The weights as units read them, and the gates."""
        units, features, pitch = self.units, self.features, self.pitch
        self.weights_of_units = self.empty(units * 4 * (pitch + features + 1))
        self.gates = self.empty(6, units, dtype=torch.float64)
        gate = [g.contiguous() for g in self.problem.gate.parameters()]
        grid = min(-(-self.weights_of_units.numel() // 256), 4096)
        sizes = (SHORTEST_PERIOD, LONGEST_PERIOD, SMALLEST_RATIO, units, features, pitch, BLUR)
        self.launch("pack", grid, 256, *self.weights[:4], *gate, *sizes, self.wh, self.wx, self.bias, self.gates)

    @property
    def wh(self) -> Tensor:
        """Each unit's rows of weights on h, (units, 4, pitch)."""
        return self.weights_of_units

    @property
    def bias(self) -> Tensor:
        """Each unit's biases, (units, 4)."""
        return self.weights_of_units[self.units * 4 * self.pitch :]

    @property
    def wx(self) -> Tensor:
        """Each unit's rows of weights on x, (units, 4, features)."""
        return self.weights_of_units[self.units * 4 * (self.pitch + 1) :]

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
    """The schedule: for each row its bits and where its events start; for each event its place, and what it brings."""

    mask: Tensor | None  # (rows, words) int32; none where every unit has an event in every row
    start: Tensor  # (rows + 1,) int64
    places: Tensor | None  # (2, events) int32: units and rows, for a backward pass
    arrivals: Tensor  # (events, bytes)
    busy: float  # open units at a step, on average


def find(call: Call, keep: bool) -> Events:
    """Who is open when; with a leak everybody, always.

    The memory that events take is allocated once their number is known, for which the GPU is waited for. A CUDA graph that is
    being recorded cannot wait: it gets memory for the most events there can be.
    """
    gate, rows, units = call.problem.gate, call.rows, call.units
    mask = None
    if gate.leak > 0:
        events, busy = rows * units, float(units)
        start = torch.arange(0, events + 1, units, device=call.input.device)
    else:
        mask, start = call.empty(rows, call.words, dtype=torch.int32), call.empty(rows + 1, dtype=torch.int64)
        sizes = (call.batch, call.steps, units, NEAR, BLUR)
        call.launch("find_open", *call.warps(max(1, rows)), *call.clock, call.lengths, call.gates, *sizes, mask, start)
        torch.cumsum(start, 0, out=start)
        if torch.cuda.is_current_stream_capturing():
            events, busy = rows * units, units / 10
        else:
            events = int(start[-1])
            busy = events / max(1, rows)
    if max(rows, events) > LARGEST:
        raise ValueError(f"a batch may have {LARGEST} steps and open events in all, got {rows} and {events}. Split the batch.")
    places = call.empty(2, events, dtype=torch.int32) if keep else None
    unit, row = (None, None) if places is None else places.unbind(0)
    arrivals = call.empty(events, arrival(call.size), dtype=torch.uint8)
    sizes = (call.batch, call.steps, units, float(gate.leak), call.square)
    call.launch("fill", *call.warps(rows), *call.clock, call.gates, *sizes, mask, start, unit, row, arrivals)
    lanes = min(32, 1 << (call.features - 1).bit_length()) if call.features else 1
    grid = min(-(-events * lanes // 256), 8192)
    call.launch("input_terms", grid, 256, *call.rows_of_input, call.steps, rows, start, call.wx, call.bias, lanes, arrivals)
    return Events(mask, start, places, arrivals, busy)


def forward(problem: Problem, keep: bool) -> Result:
    """Output, final state and, to keep, the schedule and the tape."""
    with torch.cuda.device(problem.input.device):
        call = Call(problem)
        events = find(call, keep)
        output = call.empty(call.steps, call.batch, call.units)
        final = [torch.empty_like(s) for s in call.state]
        tape = call.empty(len(events.arrivals), RECORD) if keep else None
        if call.batch:
            name = "forward" if events.mask is not None else "dense_forward"
            layout = plan(name, call.units, call.batch, round(events.busy), call.size, call.device)
            inputs = (events.start, events.mask, events.arrivals, call.wh, call.weights[4], *states(call.state))
            call.run(layout, *inputs, output, *states(final), tape)
        if tape is None or events.places is None:
            return Result(output, tuple(final), [])
        mask = call.empty(0, call.words, dtype=torch.int32) if events.mask is None else events.mask
        return Result(output, tuple(final), [mask, events.start, events.places, tape])


def states(tensors: list[Tensor]) -> tuple[Tensor | None, Tensor | None]:
    """h and c; the GRU has no c."""
    return tensors[0], tensors[1] if len(tensors) > 1 else None


def backward(problem: Problem, result: Result, to_output: Tensor | None, to_final: State, with_input: bool = True) -> Gradients:
    """Gradients of everything, given those of the output and the final state; that of the input where it is wanted."""
    with torch.cuda.device(problem.input.device), torch.autocast("cuda", enabled=False):
        _, start, places, tape = result.saved
        unit, row = places.unbind(0)
        call = Call(problem)
        count = unit.numel()
        to_rows = to_output if to_output is None or to_output.stride(-1) == 1 or call.units <= 1 else to_output.contiguous()
        strides = (0, 0) if to_rows is None else (to_rows.stride(0), to_rows.stride(1))
        peephole = call.weights[4]
        to_products, to_others = call.empty(count, 4), call.empty(count, 1 if peephole is None else 4)
        if problem.gate.leak > 0 and call.lengths is not None:
            to_products.zero_()  # padding has events too, which nobody comes by
        to_end = [d.contiguous() for d in to_final]
        to_state = [torch.empty_like(s) for s in call.state]
        if call.batch:
            name = "backward" if problem.gate.leak == 0 else "dense_backward"
            layout = plan(name, call.units, call.batch, round(count / max(1, call.rows)), call.size, call.device)
            given = (start, unit, row, tape, call.wh, peephole, to_rows, *strides, *states(to_end))
            call.run(layout, *given, to_products, to_others, *states(to_state))
        to_gate = tuple(call.empty(call.units, dtype=torch.float64) for _ in range(3))
        to_peephole = None if peephole is None else torch.empty_like(peephole)
        spread = dense_gradients if problem.gate.leak > 0 else sparse_gradients
        sums, to_x = spread(call, result, to_products, to_others, to_gate, to_peephole, with_input)
        matrices = [None if w is None else torch.empty_like(w) for w in call.weights[:4]]
        size = sums[0].numel()
        call.launch("unpack", min(-(-size // 256), 4096), 256, sums, sums.shape[0], call.units, call.features, *matrices)
        ih, hh, bias_ih, bias_hh = matrices
        assert ih is not None
        assert hh is not None
        return Gradients(to_x, tuple(to_state), Weights(ih, hh, bias_ih, bias_hh, to_peephole), to_gate)


def sparse_gradients(
    call: Call,
    result: Result,
    to_products: Tensor,
    to_others: Tensor,
    to_gate: tuple[Tensor, ...],
    to_peephole: Tensor | None,
    with_input: bool,
) -> tuple[Tensor, Tensor | None]:
    """Over open events: sums for the weights (splits, units, 4, columns), the gradient to the input; the gate's are written."""
    mask, start, places, _ = result.saved
    unit, row = places.unbind(0)
    units, features = call.units, call.features
    ends, order = by_unit(call, mask, start, unit.numel())
    columns = units + features + 1
    wide = -(-columns // 128)
    sums = call.empty(max(1, min(32, 2048 // (units * wide))), units, 4, columns)
    listed = (order, ends, ends.shape[1], row)
    seen = (result.output, call.state[0], *call.rows_of_input, call.batch, call.steps, units)
    call.launch("weight_sums", (units, wide, sums.shape[0]), 128, to_products, *listed, *seen, sums)
    gate = (call.gates, call.steps, units, 0.0, call.square)
    call.launch("gate_sums", units, 256, to_others, *listed, *call.clock, *gate, *to_gate, to_peephole)
    to_x = None
    if with_input:
        to_x = call.empty(call.steps, call.batch, features)
        sizes = (call.batch, call.steps, features)
        call.launch("input_gradient", *call.warps(call.rows), to_products, start, unit, call.wx, *sizes, to_x)
    return sums, to_x


def dense_gradients(
    call: Call,
    result: Result,
    to_products: Tensor,
    to_others: Tensor,
    to_gate: tuple[Tensor, ...],
    to_peephole: Tensor | None,
    with_input: bool,
) -> tuple[Tensor, Tensor | None]:
    """The same where every unit works at every step: matrix products."""
    steps, batch, units, features = call.steps, call.batch, call.units, call.features
    x = call.input.transpose(0, 1)
    if call.lengths is not None:  # padding may hold anything, and 0 * NaN is NaN
        x = torch.where(valid_steps(steps, call.lengths).t().unsqueeze(-1), x, 0)
    rows = call.empty(batch, steps, units + features + 1)  # [h before | x | 1], as every unit sees them
    if steps:
        rows[:, 0, :units] = call.state[0]
        rows[:, 1:, :units] = result.output[:-1].transpose(0, 1)
    rows[..., units:-1] = x
    rows[..., -1] = 1
    flat = to_products.view(batch * steps, 4 * units)
    sums = (flat.T @ rows.view(batch * steps, units + features + 1)).view(1, units, 4, units + features + 1)
    stretches = 4 * torch.cuda.get_device_properties(call.device).multi_processor_count
    partial = call.empty(stretches, 6, units, dtype=torch.float64)
    threads = min(256, -(-units // 32) * 32)
    sizes = (batch, steps, units, float(call.problem.gate.leak), call.square, 0 if to_peephole is None else 1)
    call.launch("dense_gate_sums", stretches, threads, to_others, *call.clock, call.lengths, call.gates, *sizes, partial)
    call.launch("finish_gate_sums", units, 6 * 32, partial, stretches, call.gates, units, *to_gate, to_peephole)
    to_x = None
    if with_input:
        to_x = (flat @ call.wx.view(4 * units, features)).view(batch, steps, features).transpose(0, 1).contiguous()
    return sums, to_x


def by_unit(call: Call, mask: Tensor, start: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Events sorted by unit, and in a unit by row: where each unit's end in each stretch of rows, and their numbers."""
    stretches = max(1, -(-call.rows // STRETCH))
    ends = call.empty(call.words * 32, stretches, dtype=torch.int64)
    order = call.empty(count, dtype=torch.int32)
    if not call.rows:
        return ends.zero_(), order
    sizes = (call.rows, call.words, STRETCH, stretches)
    grid = -(-call.words * stretches // 8), 256
    call.launch("count_by_unit", *grid, mask, *sizes, ends)
    ends = ends.view(-1).cumsum(0).view_as(ends)
    call.launch("order_by_unit", *grid, mask, start, *sizes, ends, order)
    return ends, order


def saved_like(problem: Problem, unknown: Callable[[], Any]) -> list[Tensor]:
    """Empty tensors like those `forward` saves, for tracing."""
    x = problem.input
    steps, batch, _ = x.shape
    units = problem.weights.hh.shape[1]
    dense = problem.gate.leak > 0
    events = steps * batch * units if dense else unknown()
    return [
        x.new_empty(0 if dense else steps * batch, -(-units // 32), dtype=torch.int32),
        x.new_empty(steps * batch + 1, dtype=torch.int64),
        x.new_empty(2, events, dtype=torch.int32),
        x.new_empty(events, RECORD),
    ]


recurrence = operator("cuda", forward, backward, saved_like)
