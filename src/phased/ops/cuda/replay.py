"""Calls that are like earlier ones are replayed: no check, no layout, only addresses.

The launches of a pass are listed once for a signature, and replayed with the addresses of each call. A call is recognised by one
comparison of its tensors with those of an earlier call, which was checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from phased.cell import CELLS, Weights
from phased.gate import TimeGate
from phased.ops.calls import Calls
from phased.ops.contract import EventCount, Gradients, Problem, Result
from phased.ops.cuda import counting
from phased.ops.cuda.gradients import Backward, Density
from phased.ops.cuda.launch import Capacity, CudaCall, Slot
from phased.ops.cuda.launch_list import Allocation, LaunchList, allocate
from phased.ops.cuda.layout import sorted_before
from phased.ops.native import address, contiguous, contiguous_rows, resolved

KEPT = 256  # passes of a signature, and signatures, for sizes used last
# Forward passes of a signature before it is listed: to list a pass takes several times as long as to run it, and lengths may not
# repeat.
LISTED_AFTER = 2
SIGNATURES = 4096  # of which passes are counted, at most
KEYS = 256  # of calls, at most
ALIKE_EACH = 8  # kinds of calls with the same key, at most: they differ in strides, in types of tensors, in what is learned


class Key(NamedTuple):
    """The numbers and words that are the same in two problems of one signature. Their tensors are alike, too."""

    cell: str
    gate: str
    leak: float
    input: torch.Size
    autocast: torch.dtype | None
    states: int
    ragged: bool
    biased: tuple[bool, bool]
    peephole: bool


def key_of(problem: Problem) -> Key:
    """The key of a problem."""
    cell, gate, x, _, state, (_, _, bias_ih, bias_hh, peephole), lengths, autocast = problem
    biased = bias_ih is not None, bias_hh is not None
    return Key(cell.name, gate.shape, gate.leak, x.shape, autocast, len(state), lengths is not None, biased, peephole is not None)


class Signature(NamedTuple):
    """A call without its tensors' addresses and values."""

    key: Key
    strides: tuple[int, ...]  # of the input
    clock: tuple[int, ...]  # strides of the times
    dtype: torch.dtype
    device: torch.device
    units: int

    def problem(self, launches: LaunchList) -> Problem:
        """A problem with placeholders for its tensors, in the order of `tensors_of`."""
        key, units, real = self.key, self.units, self.dtype
        (steps, batch, features), cell = key.input, CELLS[key.cell]
        stacked = cell.gates * units

        def tensor(*shape: int, dtype: torch.dtype = real) -> Tensor:
            return launches.tensor(shape, dtype)

        x = launches.tensor(key.input, real, self.strides)
        time = launches.tensor((steps, batch), torch.float64, self.clock)
        lengths = tensor(batch, dtype=torch.int64) if key.ragged else None
        state = tuple(tensor(batch, units) for _ in range(key.states))
        ih, hh = tensor(stacked, features), tensor(stacked, units)
        bias_ih, bias_hh = (tensor(stacked), tensor(stacked)) if any(key.biased) else (None, None)
        weights = Weights(ih, hh, bias_ih, bias_hh, tensor(3, units) if key.peephole else None)
        period, shift, ratio_on = (tensor(units, dtype=torch.float64) for _ in range(3))
        gate = TimeGate(period, shift, ratio_on, float(key.leak), key.gate)
        return Problem(cell, gate, x, time, state, weights, lengths, key.autocast)


def tensors_of(problem: Problem) -> list[Tensor]:
    """The tensors of a problem, in the order in which its signature has placeholders for them."""
    weights, gate, lengths = problem.weights, problem.gate, problem.lengths
    others = [*problem.state, *weights.present(), gate.period, gate.shift, gate.ratio_on]
    return [problem.input, problem.time, *others] if lengths is None else [problem.input, problem.time, lengths, *others]


def as_read(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors of a problem as kernels read them."""
    x, time, *others = tensors
    time = resolved(time if time.dtype is torch.float64 else time.to(torch.float64))
    return [contiguous_rows(x), time, *map(contiguous, others)]


def signature_of(problem: Problem, read: Sequence[Tensor]) -> Signature:
    """The signature of a problem, with its tensors as kernels read them."""
    x, time, *_ = read
    return Signature(key_of(problem), x.stride(), time.stride(), x.dtype, x.device, problem.weights.hh.shape[1])


class ListedPass(NamedTuple):
    """A listed pass, and which of the tensors that it allocates are its results."""

    launches: LaunchList
    results: list[int]

    def replay(self, given: Sequence[int], early: Sequence[Tensor] = (), first: int = 0) -> list[Tensor]:
        """Its results, with these addresses and numbers. `early`: what has been allocated before, from this result on."""
        made = self.launches.replay(given, early, self.results[first])
        return [made[i] for i in self.results]


class Passes:
    """The listed passes of one signature. `call` has the sizes of its calls, and no memory."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.call = CudaCall(signature.problem(LaunchList(signature.device)))
        self._forwards: dict[Capacity, ListedPass] = {}
        self._backwards: dict[tuple[Any, ...], ListedPass] = {}

    @cached_property
    def is_listable(self) -> bool:
        """Whether passes can be listed: no sorting, no launch for every step, no product of matrices that are views."""
        call = self.call
        if not call.rows or call.step_plan is not None or sorted_before(call.units):
            return False
        if call.dense:
            return call.is_small and not call.multiplies_input
        if call.features >= counting.WIDE and not counting.fits_all_open(call):
            return False
        return not any(call.plan(name, call.units, call.units).together for name in ("forward", "backward"))

    @cached_property
    def gradients(self) -> list[Allocation]:
        """The gradients to weights and gates, in the order of `run_backward`."""
        weights, gate = self.call.problem.weights, self.call.problem.gate
        return [Allocation.of(each.shape, each.dtype) for each in (*weights.present(), *gate.parameters())]

    def lists_backward(self, count: int, room: int) -> bool:
        """Whether a backward pass over so many events is listed: if the tape's room is a guess, which is one of few numbers."""
        return count < room or (self.call.dense and count == room)

    def forward(self, capacity: Capacity) -> ListedPass:
        """A forward pass whose events are not counted yet."""
        return stored(self._forwards, capacity, self._list_forward, capacity)

    def backward(
        self, room: int, density: Density, to_output: tuple[int, ...] | None, to_final: tuple[bool, ...], with_input: bool
    ) -> ListedPass:
        """A backward pass over a tape for so many events.

        `to_output`: the strides of the gradient to the output, or None; `to_final`: which final states have a gradient.
        """
        key = room, density, to_output, to_final, with_input
        return stored(self._backwards, key, self._list_backward, *key)

    def _list_forward(self, capacity: Capacity) -> ListedPass:
        launches = LaunchList(self.signature.device)
        problem = self.signature.problem(launches)
        slot = (launches.number(), launches.number())
        call = CudaCall(problem)
        call.prepare()
        output, final, tape = call.count_and_run(capacity, slot)
        return ListedPass(launches, [launches.made(tensor) for tensor in (output, *final, call.schedule, tape)])

    def _list_backward(
        self, room: int, density: Density, to_output: tuple[int, ...] | None, to_final: tuple[bool, ...], with_input: bool
    ) -> ListedPass:
        (steps, batch, _), units, real, known = self.signature.key.input, self.signature.units, self.signature.dtype, self.call
        launches = LaunchList(self.signature.device)
        problem = self.signature.problem(launches)
        schedule = launches.tensor((known.bytes_of_schedule,), torch.uint8)
        output = launches.tensor((steps, batch, units), real)
        tape = launches.tensor((room, known.bytes_of_event), torch.uint8)
        wanted = None if to_output is None else launches.tensor(output.shape, real, to_output)
        at_end = [launches.tensor((batch, units), real) if given else None for given in to_final]
        back = Backward(CudaCall(problem, schedule), output, tape, room, density, wanted, at_end)
        to_x = (back.dense if known.dense else back.sparse)(with_input)
        made = [*back.to_state, *back.to_weights.present(), *back.to_gate, *([] if to_x is None else [to_x])]
        return ListedPass(launches, [launches.made(tensor) for tensor in made])

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

        `given`: addresses of the call's tensors, its schedule, output and tape. `allocated`: those to weights and gates, if they
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
        return listed.replay([*given, *map(address, wanted)], allocated, self.signature.key.states)


def stored(passes: dict[Any, ListedPass], key: Any, make: Callable[..., ListedPass], *arguments: Any) -> ListedPass:
    """The pass with this key, made if it is not there."""
    found = passes.get(key)
    if found is None:
        if len(passes) >= KEPT:
            passes.clear()
        found = passes[key] = make(*arguments)
    return found


passes_of = lru_cache(maxsize=KEPT)(Passes)


class ListedCall(NamedTuple):
    """A call whose passes are listed, and the addresses of its tensors as kernels read them."""

    passes: Passes
    read: list[Tensor]  # in use until the kernels are launched: some may be copies
    addresses: list[int]
    own: bool  # whether none of them is a copy

    @property
    def call(self) -> CudaCall:
        """The sizes of the call."""
        return self.passes.call

    def run_forward(self, capacity: Capacity, slot: Slot) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The output, the final state, and the schedule and the tape for a backward pass."""
        output, *final, schedule, tape = self.passes.forward(capacity).replay([*self.addresses, *slot])
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
        (schedule, tape), states = result.saved, self.passes.signature.key.states
        given = [*self.addresses, *map(address, (schedule, result.output, tape))]
        results = self.passes.run_backward(given, tape.shape[0], most, count, to_output, to_final, with_input)
        to_x = results.pop() if with_input else None
        return Gradients(to_x, tuple(results[:states]), Weights.from_present(results[states:-3]), tuple(results[-3:]))


class ListedBackward:
    """A listed backward pass, made ready while its forward pass runs: addresses, and memory for gradients to weights and gates.

    Autograd runs backward passes in a thread of its own. Where Python runs in two threads by turns, on two cores, its objects
    move from one core's cache to the other's, and it takes up to twice as long. So as little as possible is left for that thread.
    Other gradients may be large, and are allocated when they are computed.
    """

    def __init__(
        self, call: ListedCall, problem: Problem, output: Tensor, final: Sequence[Tensor], saved: Sequence[Tensor]
    ) -> None:
        self._passes, self._with_input = call.passes, problem.input.requires_grad
        made, (schedule, tape) = [tensor.data_ptr() for tensor in (output, *final)], saved
        x, time, *others = call.addresses
        own = others if problem.lengths is None else others[1:]
        at_schedule, at_tape = schedule.data_ptr(), tape.data_ptr()
        self._given = [*call.addresses, at_schedule, made[0], at_tape]
        self._room = tape.shape[0]
        # In the order in which autograd keeps them: see `eager_function`.
        self._kept = [x, *own, *made, at_schedule, at_tape, time]
        if problem.lengths is not None:
            self._kept.append(others[0])
        self._schedule = 1 + len(own) + len(made)  # its number among them
        self._gradients: list[Tensor] | None = allocate(self._passes.gradients, problem.input.device)

    @staticmethod
    def of(
        call: ListedCall | None, problem: Problem, output: Tensor, final: Sequence[Tensor], saved: Sequence[Tensor]
    ) -> ListedBackward | None:
        """The backward pass of a listed call, or None if kernels read a copy of one of its tensors: nobody keeps the copy."""
        return None if call is None or not call.own else ListedBackward(call, problem, output, final, saved)

    def __call__(
        self, kept: Sequence[Tensor | None], events: EventCount, to_output: Tensor | None, to_final: Sequence[Tensor | None]
    ) -> tuple[Tensor | None, ...] | None:
        """Gradients to input, state, weights and gates, or None if the pass is not as expected and has to be computed otherwise.

        It is not for a second pass over the same graph, if a parameter has other memory by now, or if there are more events than
        the tape has room for.
        """
        gradients, self._gradients = self._gradients, None
        if gradients is None or [tensor.data_ptr() for tensor in kept if tensor is not None] != self._kept:
            return None
        if not can_run(self._passes.signature.device):
            return None
        schedule = kept[self._schedule]
        assert schedule is not None
        most, count = events.complete(schedule)
        if not self._passes.lists_backward(count, self._room):
            return None
        results = self._passes.run_backward(
            self._given, self._room, most, count, to_output, to_final, self._with_input, gradients
        )
        return results.pop() if self._with_input else None, *results


class Replayable(NamedTuple):
    """What is known of calls like an earlier one, which was checked."""

    passes: Passes
    own: bool  # whether kernels read no copy of their tensors

    def call(self, tensors: list[Tensor]) -> ListedCall:
        """A call with these tensors."""
        read = tensors if self.own else as_read(tensors)
        addresses = [tensor.data_ptr() for tensor in read]
        return ListedCall(self.passes, read, addresses if 0 not in addresses else [*map(address, read)], self.own)


CALLS: Calls[Replayable] = Calls(KEYS, ALIKE_EACH)
FORWARD_PASSES: dict[Signature, int] = {}


def can_run(device: torch.device) -> bool:
    """Whether listed passes can run on a GPU right now: it is the current one, and no graph is being recorded."""
    return torch.cuda.current_device() == device.index and not torch.cuda.is_current_stream_capturing()


def find(problem: Problem) -> ListedCall | None:
    """The listed call of a problem like an earlier one, or None if there is no such problem or it cannot run right now.

    The earlier problem was checked, so this problem needs no check.
    """
    key = key_of(problem)
    if key not in CALLS or not can_run(problem.input.device):
        return None
    tensors = tensors_of(problem)
    found = CALLS.find(key, tensors)
    return None if found is None else found.call(tensors)


def replay(problem: Problem) -> Callable[[Tensor, Tensor], ListedCall | None] | None:
    """A function from another input and other times to a listed call, or None for a problem unlike all earlier ones.

    The function returns None if the call cannot run right now.
    """
    tensors, device = tensors_of(problem), problem.input.device
    found = CALLS.find(key_of(problem), tensors)
    if found is None:
        return None
    call, others = found.call, tensors[2:]
    return lambda input, time: call([input, time, *others]) if can_run(device) else None


def find_or_list(problem: Problem) -> ListedCall | None:
    """The listed call of a checked problem, or None if its passes are not listed. Calls like it are found from now on.

    Passes are not listed in large layers, while a graph is recorded, and before `LISTED_AFTER` forward passes of the signature.
    """
    found = find(problem)
    if found is not None or torch.cuda.is_current_stream_capturing():
        return found
    tensors = tensors_of(problem)
    read = as_read(tensors)
    signature = signature_of(problem, read)
    before = FORWARD_PASSES.get(signature, 0)
    if before < LISTED_AFTER:
        if len(FORWARD_PASSES) >= SIGNATURES:
            FORWARD_PASSES.clear()
        FORWARD_PASSES[signature] = before + 1
        return None
    passes = passes_of(signature)
    if not passes.is_listable:
        return None
    replayable = Replayable(passes, all(one is other for one, other in zip(tensors, read, strict=True)))
    CALLS.add(key_of(problem), tensors, replayable)
    return replayable.call(tensors)
