"""The backward pass on a GPU: all steps in reverse, then gradients to weights, input and gates over all events at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from phased.cell import Weights
from phased.ops.cuda.constants import GATE_SUMS, GROUPED, LANES, PRODUCTS
from phased.ops.cuda.launch import EVERY, CudaCall, copy_state, is_crowded, parts_of_tape, states, unwritten
from phased.ops.cuda.layout import (
    CROWDED,
    FEW,
    Plan,
    SumPlan,
    gate_sums_plan,
    sorted_before,
    sorted_sums_plan,
    sums_plan,
    unit_sums_plan,
)
from phased.ops.cuda.steps import DenseSteps, OpenSteps, Place
from phased.ops.native import address, contiguous, contiguous_rows

ROWS_OF_BLOCK = 8  # for which `dense_rows` has a warp each
Batches = tuple[int, int, int]
"""Which batches a kernel is for: where the GPU has counted their events, and from how many to below how many they have.

While a graph is recorded their number is not known. Kernels for all numbers are launched then, and the one for the number runs.
"""
ALWAYS: Batches = (0, 0, 0)


class Density(NamedTuple):
    """What the kernels of a backward pass depend on besides its sizes: how many events its steps have."""

    most: int  # of a step, at most: a multiple of 8
    busy: int  # of a step, on average
    crowded: bool  # whether small layers have other kernels for so many
    few: bool  # whether they are sorted by unit before they are summed

    @staticmethod
    def of(rows: int, units: int, most: int, count: int) -> Density:
        """Of so many events in all, at most so many in a step."""
        busy, crowded = round(count / max(1, rows)), is_crowded(rows, units, count)
        return Density(-(-most // 8) * 8, busy, crowded, count < few_events(rows, units))


def few_events(rows: int, units: int) -> int:
    """The number of events below which they are sorted by unit."""
    return int(FEW * rows * units)


class Backward:
    """A backward pass over the events on a tape, with memory for `count`: its arguments and its results.

    While a graph is recorded, `count` is that of all units being open, and so is the density.
    """

    def __init__(
        self,
        call: CudaCall,
        output: Tensor,
        tape: Tensor,
        count: int,
        density: Density,
        to_output: Tensor | None,
        to_final: Sequence[Tensor | None],
    ) -> None:
        self.call, self.output, self.count, self.density = call, output, count, density
        self.tape = tape
        self.unit, self.row, self.records = parts_of_tape(tape, call.size, call.dense, call.tape_dtype)
        self.to_output = None if to_output is None else contiguous_rows(to_output)
        self.to_final = [None if d is None else contiguous(d) for d in to_final]
        self.to_state = tuple(call.empty(*s.shape) for s in call.state)
        self.step_kernels = self.kernels_of_steps()

    def kernels_of_steps(self) -> list[tuple[Plan, Batches]]:
        """Kernels for all steps, and the batches that each is for; none if every step is a launch."""
        call, (most, busy, crowded, _) = self.call, self.density
        if call.step_plan is not None or call.by_steps:
            return []
        if torch.cuda.is_current_stream_capturing() and call.rows and not call.dense and call.units <= GROUPED:
            few, many = (call.plan("backward", busy, most, each) for each in (False, True))
            bound = CROWDED * call.rows
            return [(few, ALWAYS)] if few == many else [(few, (call.found, 0, bound)), (many, (call.found, bound, EVERY))]
        return [(call.plan("backward", busy, most, crowded), ALWAYS)]

    def run_steps(self, to_products: int, to_others: int) -> None:
        """All steps in reverse: the gradients to every event's products, and to its openness and peepholes."""
        call, to = self.call, self.to_output
        if call.by_steps:
            self.run_dense_steps(to_products, to_others)
        elif call.batch:
            given = (call.start, call.mask, self.unit, self.row, self.records, call.wh, address(call.peepholes))
            wanted = (address(to), *((0, 0) if to is None else (to.stride(0), to.stride(1))), *states(self.to_final))
            if call.step_plan is not None:
                to_state = self.running_state()  # in use until all launches are made
                results = (to_products, to_others, *states(to_state))
                OpenSteps(call, call.step_plan).backward((*given, *wanted, *results, *ALWAYS), whole=bool(self.to_state))
            for layout, of in self.step_kernels:
                call.run(layout, *given, *wanted, to_products, to_others, *states(self.to_state), *of)

    def running_state(self) -> Sequence[Tensor]:
        """Memory for the gradients to the state, which hold those to the final state before the steps."""
        call = self.call
        to_state = self.to_state or tuple(call.empty(call.batch, call.units) for _ in self.to_final)
        copy_state(to_state, self.to_final)
        return to_state

    def run_dense_steps(self, to_products: int, to_others: int) -> None:
        """The same for many units: a matrix product at every step."""
        call, to = self.call, self.to_output
        to_state = self.running_state()
        strides = (0, 0) if to is None else (to.stride(0), to.stride(1))
        seen = Place(call.steps - 1, call.steps, address(call.lengths), tape=self.records)
        wanted = seen._replace(to_output=address(to), output_step=strides[0], output_batch=strides[1])
        DenseSteps(call).backward(wanted._replace(to_products=to_products, to_others=to_others), to_state)

    def allocate(self) -> tuple[int, ...]:
        """Allocate the gradients to weights and gates, while the GPU is busy; the kernels' struct Unpacking."""
        call = self.call
        ih, hh, bias_ih, bias_hh, peephole = [None if w is None else call.empty(*w.shape) for w in call.problem.weights]
        assert ih is not None
        assert hh is not None
        self.to_weights = Weights(ih, hh, bias_ih, bias_hh, peephole)
        self.to_gate = tuple(call.empty(call.units, dtype=torch.float64) for _ in range(3))
        matrices = [address(to) for to in (ih, hh, bias_ih, bias_hh)]
        return call.units, call.features, *matrices, call.gates, *[address(to) for to in (*self.to_gate, peephole)]

    def unpack(self, sums: int, splits: int, gate_sums: int, stretches: int, to: Sequence[int], of: Batches) -> None:
        """Add up the sums of all blocks, and write them as gradients in torch's layout, if there are so many events."""
        call = self.call
        grid = min(call.units * PRODUCTS, 4096)
        call.launch("unpack", grid, 256, sums, splits, gate_sums, stretches, *to, *of)

    def kernels_of_sums(self) -> list[tuple[SumPlan, Batches]]:
        """Kernels that sum gradients to weights, and the batches that each is for."""
        call = self.call
        if sorted_before(call.units):
            return [(unit_sums_plan(call.units, call.features), ALWAYS)]
        given = call.rows, call.units, call.features, call.size, call.device
        if torch.cuda.is_current_stream_capturing() and call.rows:
            bound = few_events(call.rows, call.units)
            few, many = (call.found, 0, bound), (call.found, bound, EVERY)
            return [(sorted_sums_plan(*given), few), (sums_plan(*given), many)]
        return [((sorted_sums_plan if self.density.few else sums_plan)(*given), ALWAYS)]

    def sorted_events(self) -> tuple[Tensor, Tensor]:
        """The numbers of events by unit, those of a unit in their order, and where those of each unit begin (units + 1).

        While a graph is recorded, `count` is that of all units being open, and what follows the last event has no unit.
        """
        first = self.unit - self.tape.data_ptr()
        units = self.tape.view(-1)[first : first + 4 * self.count].view(torch.int32)
        found, events = torch.sort(units, stable=True)
        return events, torch.searchsorted(found, torch.arange(self.call.units + 1, dtype=torch.int32, device=found.device))

    def sparse(self, with_input: bool) -> Tensor | None:
        """All gradients, over open events; returns the one to the input, if it is wanted."""
        call, units, features = self.call, self.call.units, self.call.features
        ways = self.kernels_of_sums()
        of_gates = gate_sums_plan(call.rows, units, call.peephole, call.device)
        stretches = [plan.grid[2] if plan.gates else of_gates.grid[0] for plan, _ in ways]
        sizes = (
            self.count * PRODUCTS * call.size,  # to each event's products
            self.count * (4 if call.peephole else 1) * call.size,  # to its openness and peepholes
            max(stretches) * GATE_SUMS * units * 8,  # sums for the gates
            max(plan.grid[2] for plan, _ in ways) * units * PRODUCTS * (units + features + 1) * call.size,  # sums for the weights
        )
        parts = list(accumulate((-(-size // 16) * 16 for size in sizes), initial=0))
        memory = call.bytes(parts[-1])
        to_products, to_others, gate_sums, sums = [memory.data_ptr() + part for part in parts[:-1]]
        if any(layout.together for layout, _ in self.step_kernels):
            unwritten(memory[: sizes[0]])
        self.run_steps(to_products, to_others)
        initial_h = (states(call.state)[0], units) if call.state else (call.zeros, 0)
        seen = (self.unit, self.row, call.mask, call.start, self.output.data_ptr(), *initial_h, *call.rows_of_input)
        gating = (to_others, *call.clock, call.gates, call.square, call.peephole, gate_sums)
        for plan, of in ways:
            by_unit = self.sorted_events() if sorted_before(units) else ()
            more = gating if plan.gates else map(address, by_unit)
            summed = (to_products, *seen, call.batch, call.steps, units, plan.ring, sums, *of, *more)
            call.launch(plan.name, plan.grid, plan.block, *summed, shared=plan.shared)
            if not plan.gates:
                events = (call.start, self.unit, self.row, call.batch, call.steps, units, *of)
                call.launch(of_gates.name, of_gates.grid, of_gates.block, *gating, *events, shared=of_gates.shared)
        to = self.allocate()
        for (plan, of), many in zip(ways, stretches, strict=True):
            self.unpack(sums, plan.grid[2], gate_sums, many, to, of)
        if not with_input:
            return None
        return self.input_gradient(to_products)

    def input_gradient(self, to_products: int) -> Tensor:
        """The gradient to the input, from those to every event's products."""
        call = self.call
        to_x = call.empty(call.steps, call.batch, call.features)
        through = (to_products, call.start, self.unit, call.wx, call.batch, call.steps, call.units, call.features)
        call.launch("input_gradient", min(-(-call.rows // 8), 65536), 256, *through, to_x.data_ptr())
        return to_x

    def dense(self, with_input: bool) -> Tensor | None:
        """The same where every unit has an event at every step: matrix products."""
        call, units, features, steps, batch = self.call, self.call.units, self.call.features, self.call.steps, self.call.batch
        to_products = call.empty(batch * steps, PRODUCTS * units)
        to_others = call.empty(self.count, 4 if call.peephole else 1)
        rows = call.empty(batch * steps, units + features + 1)  # [h before | x | 1], the input of every unit
        if call.by_steps and call.lengths is not None:
            to_products.zero_()  # padding has events too, which no step writes
        self.run_steps(to_products.data_ptr(), to_others.data_ptr())
        seen = (self.output.data_ptr(), states(call.state)[0], *call.rows_of_input, address(call.lengths), batch, steps, units)
        grid = min(-(-call.rows // ROWS_OF_BLOCK), 65536)
        call.launch("dense_rows", grid, ROWS_OF_BLOCK * LANES, *seen, rows.data_ptr(), to_products.data_ptr())
        sums = call.product(to_products, rows)
        stretches = 8 * torch.cuda.get_device_properties(call.device).multi_processor_count
        gate_sums = call.empty(stretches, GATE_SUMS, units, dtype=torch.float64)
        sizes = (batch, steps, units, float(call.problem.gate.leak), call.square, call.peephole)
        given = (to_others.data_ptr(), *call.clock, address(call.lengths), call.gates, *sizes)
        call.launch("dense_gate_sums", stretches, min(256, -(-units // LANES) * LANES), *given, gate_sums.data_ptr())
        self.unpack(sums.data_ptr(), 1, gate_sums.data_ptr(), stretches, self.allocate(), ALWAYS)
        if not with_input:
            return None
        if not call.is_small or call.multiplies_input:
            return (to_products @ call.input_weights()).view(batch, steps, features).transpose(0, 1).contiguous()
        return self.input_gradient(to_products.data_ptr())
