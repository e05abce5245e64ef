"""Passes whose launches are listed once for their sizes, and repeated with each call's addresses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from phased.cell import CELLS, Weights
from phased.gate import TimeGate
from phased.ops.contract import Gradients, Problem, Result
from phased.ops.cuda import uncounted
from phased.ops.cuda.gradients import Backward, Density
from phased.ops.cuda.launch import Call, Capacity
from phased.ops.cuda.listing import Allocation, Listing
from phased.ops.cuda.pinned import Slot
from phased.ops.cuda.sum_layout import sorted_before
from phased.ops.native import address, contiguous, contiguous_rows, resolved

KEPT = 256  # lists, for sizes used last


class Form(NamedTuple):
    """A batch without its tensors' addresses and values."""

    cell: str
    gate: str
    leak: float
    input: torch.Size
    strides: tuple[int, ...]  # of the input
    clock: tuple[int, ...]  # strides of the times
    dtype: torch.dtype
    device: torch.device
    units: int
    ragged: bool
    states: int
    biased: bool
    peephole: bool
    autocast: torch.dtype | None

    def problem(self, listing: Listing) -> Problem:
        """The batch with placeholders, in the order of `form_of`."""
        steps, batch, features = self.input
        cell, units, real = CELLS[self.cell], self.units, self.dtype
        stacked = cell.gates * units

        def tensor(*shape: int, dtype: torch.dtype = real) -> Tensor:
            return listing.tensor(shape, dtype)

        x = listing.tensor(self.input, real, self.strides)
        time = listing.tensor((steps, batch), torch.float64, self.clock)
        lengths = tensor(batch, dtype=torch.int64) if self.ragged else None
        state = tuple(tensor(batch, units) for _ in range(self.states))
        ih, hh = tensor(stacked, features), tensor(stacked, units)
        bias_ih, bias_hh = (tensor(stacked), tensor(stacked)) if self.biased else (None, None)
        weights = Weights(ih, hh, bias_ih, bias_hh, tensor(3, units) if self.peephole else None)
        period, shift, ratio_on = (tensor(units, dtype=torch.float64) for _ in range(3))
        gate = TimeGate(period, shift, ratio_on, self.leak, self.gate)
        return Problem(cell, gate, x, time, state, weights, lengths, self.autocast)


def tensors_of(problem: Problem) -> list[Tensor]:
    """The tensors of a problem, in the order in which its form has placeholders for them."""
    weights, gate, lengths = problem.weights, problem.gate, problem.lengths
    others = [*problem.state, *weights.present(), gate.period, gate.shift, gate.ratio_on]
    return [problem.input, problem.time, *others] if lengths is None else [problem.input, problem.time, lengths, *others]


def as_read(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors of a problem as kernels read them."""
    x, time, *others = tensors
    time = resolved(time if time.dtype is torch.float64 else time.to(torch.float64))
    return [contiguous_rows(x), time, *map(contiguous, others)]


def form_of(problem: Problem, read: Sequence[Tensor]) -> Form:
    """The form of a problem, with its tensors as kernels read them."""
    weights, gate, (x, time, *_) = problem.weights, problem.gate, read
    return Form(
        problem.cell.name,
        gate.shape,
        float(gate.leak),
        x.shape,
        x.stride(),
        time.stride(),
        x.dtype,
        x.device,
        weights.hh.shape[1],
        problem.lengths is not None,
        len(problem.state),
        weights.bias_ih is not None,
        weights.peephole is not None,
        problem.autocast,
    )


class Listed(NamedTuple):
    """A listed pass, and which of the tensors that it allocates are its results."""

    listing: Listing
    results: list[int]

    def repeat(self, given: Sequence[int], early: Sequence[Tensor] = (), first: int = 0) -> list[Tensor]:
        """Its results, with these addresses and numbers. `early`: what has been allocated before, from this result on."""
        made = self.listing.repeat(given, early, self.results[first])
        return [made[i] for i in self.results]


class Lists:
    """The passes of batches of one form that have been listed so far. `call` has the sizes of such batches, and no memory."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.call = Call(form.problem(Listing(form.device)))
        self._forwards: dict[Capacity, Listed] = {}
        self._backwards: dict[tuple[Any, ...], Listed] = {}

    @cached_property
    def possible(self) -> bool:
        """Whether passes can be listed: no sorting, no launch for every step, no product of matrices that are views."""
        call = self.call
        if not call.rows or call.step_plan is not None or sorted_before(call.units):
            return False
        if call.dense:
            return call.is_small and not call.multiplies_input
        if call.features >= uncounted.WIDE and not uncounted.small(call):
            return False
        return not any(call.plan(name, call.units, call.units).together for name in ("forward", "backward"))

    @cached_property
    def gradients(self) -> list[Allocation]:
        """The gradients to weights and gates, in the order of `run_backward`."""
        weights, gate = self.call.problem.weights, self.call.problem.gate
        return [Allocation.of(each.shape, each.dtype) for each in (*weights.present(), *gate.parameters())]

    def can_go_back(self, count: int, room: int) -> bool:
        """Whether a backward pass over so many events is listed: if the tape's room is a guess, which is one of few numbers."""
        return count < room or (self.call.dense and count == room)

    def forward(self, capacity: Capacity) -> Listed:
        """A forward pass whose events are not counted yet."""
        found = self._forwards.get(capacity)
        return found or kept(self._forwards, capacity, self._list_forward(capacity))

    def backward(
        self, room: int, density: Density, to_output: tuple[int, ...] | None, to_final: tuple[bool, ...], with_input: bool
    ) -> Listed:
        """A backward pass over a tape for so many events.

        `to_output`: the strides of the gradient to the output, or None; `to_final`: which final states have a gradient.
        """
        key = room, density, to_output, to_final, with_input
        found = self._backwards.get(key)
        return found or kept(self._backwards, key, self._list_backward(*key))

    def _list_forward(self, capacity: Capacity) -> Listed:
        listing = Listing(self.form.device)
        problem = self.form.problem(listing)
        slot = (listing.number(), listing.number())
        call = Call(problem)
        call.prepare()
        output, final, tape = call.count_and_run(capacity, slot)
        return Listed(listing, [listing.made(tensor) for tensor in (output, *final, call.schedule, tape)])

    def _list_backward(
        self, room: int, density: Density, to_output: tuple[int, ...] | None, to_final: tuple[bool, ...], with_input: bool
    ) -> Listed:
        (steps, batch, _), units, real, known = self.form.input, self.form.units, self.form.dtype, self.call
        listing = Listing(self.form.device)
        problem = self.form.problem(listing)
        schedule = listing.tensor((known.bytes_of_schedule,), torch.uint8)
        output = listing.tensor((steps, batch, units), real)
        tape = listing.tensor((room, known.bytes_of_event), torch.uint8)
        wanted = None if to_output is None else listing.tensor(output.shape, real, to_output)
        at_end = [listing.tensor((batch, units), real) if given else None for given in to_final]
        back = Backward(Call(problem, schedule), output, tape, room, density, wanted, at_end)
        to_x = (back.dense if known.dense else back.sparse)(with_input)
        made = [*back.to_state, *back.to_weights.present(), *back.to_gate, *([] if to_x is None else [to_x])]
        return Listed(listing, [listing.made(tensor) for tensor in made])

    def run_backward(
        self,
        given: Sequence[int],
        room: int,
        most: int,
        count: int,
        to_output: Tensor | None,
        to_final: Sequence[Tensor | None],
        with_input: bool,
        allocated: Sequence[Tensor] = (),
    ) -> list[Tensor]:
        """Gradients to state, weights, gates and, `with_input`, the input, over the events on a tape with so much room.

        `given`: addresses of the batch's tensors, its schedule, output and tape. `allocated`: those to weights and gates, if they
        have memory already.
        """
        wanted, strides = [], None
        if to_output is not None:
            to_output = contiguous_rows(to_output)
            strides = to_output.stride()
            wanted.append(to_output)
        wanted += [contiguous(each) for each in to_final if each is not None]
        density = Density.of(self.call.rows, self.call.units, most, count)
        listed = self.backward(room, density, strides, tuple([each is not None for each in to_final]), with_input)
        return listed.repeat([*given, *map(address, wanted)], allocated, self.form.states)


def kept(lists: dict[Any, Listed], key: Any, listed: Listed) -> Listed:
    """The pass, which is kept under its key."""
    if len(lists) >= KEPT:
        lists.clear()
    lists[key] = listed
    return listed


lists_of = lru_cache(maxsize=KEPT)(Lists)


class Batch(NamedTuple):
    """A batch whose passes are listed: the lists for its form, and the addresses of its tensors as kernels read them."""

    lists: Lists
    read: list[Tensor]  # kept while kernels are launched: some may be copies
    addresses: list[int]
    own: bool  # whether none of them is a copy

    @property
    def call(self) -> Call:
        """The sizes of the batch."""
        return self.lists.call

    def run_forward(self, capacity: Capacity, slot: Slot) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The output, the final state, and what a backward pass needs: the schedule and the tape."""
        output, *final, schedule, tape = self.lists.forward(capacity).repeat([*self.addresses, *slot])
        return output, final, [schedule, tape]

    def run_backward(
        self,
        result: Result,
        most: int,
        count: int,
        to_output: Tensor | None,
        to_final: Sequence[Tensor | None],
        with_input: bool,
    ) -> Gradients:
        """All gradients, over the events on the tape."""
        (schedule, tape), states = result.saved, self.lists.form.states
        given = [*self.addresses, *map(address, (schedule, result.output, tape))]
        results = self.lists.run_backward(given, tape.shape[0], most, count, to_output, to_final, with_input)
        to_x = results.pop() if with_input else None
        return Gradients(to_x, tuple(results[:states]), Weights.from_present(results[states:-3]), tuple(results[-3:]))
