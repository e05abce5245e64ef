"""A forward and a backward pass as a torch operator, so that autograd, torch.compile and torch.export see one opaque step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from phased import tracing
from phased.cell import CELLS, State, Weights
from phased.gate import SHAPES, TimeGate
from phased.ops.contract import EventCount, Gradients, Problem, Replay, Result, without_autocast

Forward = Callable[..., Result]
"""Of a problem, and whether to keep what a backward pass needs."""
Backward = Callable[[Problem, Result, "Tensor | None", Sequence["Tensor | None"], bool], Gradients]
SavedLike = Callable[[Problem, Callable[[], Any]], list[Tensor]]

_PROBLEM = (
    "str cell, str shape, float leak, Tensor input, Tensor time, Tensor[] state, Tensor[] weights, Tensor[] gate, "
    "Tensor? lengths, ScalarType? autocast"
)
_FORWARD_SCHEMA = f"({_PROBLEM}, bool keep) -> (Tensor, Tensor[], Tensor[])"
_BACKWARD_SCHEMA = (
    f"({_PROBLEM}, Tensor output, Tensor[] final, Tensor[] saved, Tensor? to_output, Tensor[] to_final)"
    " -> (Tensor, Tensor[], Tensor[], Tensor[])"
)


def pack(problem: Problem) -> tuple[Any, ...]:
    """A problem as the arguments of an operator."""
    cell, gate, input, time, state, weights, lengths, autocast = problem
    return cell.name, gate.shape, gate.leak, input, time, list(state), weights.present(), gate.parameters(), lengths, autocast


def unpack(
    cell: str,
    shape: str,
    leak: float,
    input: Tensor,
    time: Tensor,
    state: Sequence[Tensor],
    weights: Sequence[Tensor],
    gate: Sequence[Tensor],
    lengths: Tensor | None,
    autocast: torch.dtype | None,
) -> Problem:
    """The inverse of `pack`."""
    if cell not in CELLS or shape not in SHAPES or len(gate) != 3 or not 2 <= len(weights) <= 5:
        raise ValueError(
            f"expected a cell of {sorted(CELLS)}, a gate shape of {sorted(SHAPES)}, 2 to 5 weights and 3 gate tensors, "
            f"got {cell!r}, {shape!r}, {len(weights)} and {len(gate)}."
        )
    return Problem(
        CELLS[cell],
        TimeGate(gate[0], gate[1], gate[2], leak, shape),
        input,
        time,
        tuple(state),
        Weights.from_present(weights),
        lengths,
        autocast,
    )


def _like(tensor: Tensor) -> Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def filled(gradients: Sequence[Tensor | None], like: Sequence[Tensor]) -> State:
    """Zeros in place of gradients that are None."""
    return tuple(torch.zeros_like(x) if d is None else d for d, x in zip(gradients, like, strict=True))


def split(tensors: Sequence[Tensor], counts: Sequence[int]) -> list[list[Tensor]]:
    """As many tensors as each count says, one group after another."""
    rest = iter(tensors)
    return [[*islice(rest, count)] for count in counts]


class Operator:
    """A forward and a backward pass as torch operators phased::<name> and phased::<name>_backward. Call it with a problem.

    Args:
        name: of the operator.
        forward, backward: the two passes. Outputs and gradients are contiguous, whatever the layout of the arguments.
        saved_like: `saved_like(problem, unknown)` makes empty tensors like those a forward pass saves; `unknown()` is a size that
            data determine.
        begin: the forward pass of training, if it is another: it may return before it knows the integers that it saves.
        empty_state: whether the passes take a state without tensors, which stands for zeros.
        autocast: whether the passes may run in a region of autocast; else it is switched off around them.
        numbers: how many integers a forward pass saves.
        find: `find(problem)` is what the backend knows of an earlier problem like this one, or None. The earlier one was checked,
            so this one is not. `forward` and `begin` get it as one more argument.
        replay: `replay(earlier)(input, time)` is the same for an earlier problem with another input and other times.
    """

    def __init__(
        self,
        name: str,
        forward: Forward,
        backward: Backward,
        saved_like: SavedLike,
        *,
        begin: Callable[..., Result] | None = None,
        empty_state: bool = False,
        autocast: bool = False,
        numbers: int = 0,
        find: Callable[[Problem], Any] | None = None,
        replay: Callable[[Problem], Callable[[Tensor, Tensor], Any] | None] | None = None,
    ) -> None:
        self._forward, self._empty_state, self._autocast, self._find, self._replay = forward, empty_state, autocast, find, replay
        self._operator = register(name, forward, backward, saved_like, empty_state, numbers)
        self._eager = eager_function(forward, backward, begin)

    def __call__(self, problem: Problem) -> tuple[Tensor, State]:
        """Output and final state."""
        if problem.time.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(
                "a gradient to time needs a layer whose every step autograd records, got a time that requires grad. "
                'Pass time.detach(), or make the layer with backend="reference".'
            )
        compiling = torch.compiler.is_compiling()
        if compiling or not self._empty_state:
            problem = problem.started()
        differentiable = [problem.input, *problem.state, *problem.weights.present(), *problem.gate.parameters()]
        keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in differentiable)
        with nullcontext() if self._autocast else without_autocast(problem.input.device.type):
            if compiling:  # the operator checks the problem when it runs
                output, final, _ = self._operator(*pack(problem), keep)
                return output, tuple(final)
            found = None if self._find is None else self._find(problem)
            if found is None:
                problem.check(self._empty_state)
            replayed = () if found is None else (found,)
            if keep:
                output, *final = self._eager.apply(problem, replayed, *differentiable)  # type: ignore[no-untyped-call]
            else:
                output, final = self._forward(problem, keep, *replayed)[:2]
            return output, tuple(final)

    def replay(self, problem: Problem) -> Replay | None:
        """See `Backend.replay`."""
        replay = None if self._replay is None or problem.time.requires_grad else self._replay(problem)
        if replay is None:
            return None
        forward = self._forward
        cell, gate, _, _, state, weights, lengths, autocast = problem
        others = [*state, *weights.present(), *gate.parameters()]
        learns = any(tensor.requires_grad for tensor in (problem.input, *others))
        # Function.apply without its support for torch.func: tensors of a transform are like no others, and never get here.
        apply = tracing.apply_of(self._eager)

        def run(input: Tensor, time: Tensor) -> tuple[Tensor, State] | None:
            replayed = replay(input, time)
            if replayed is None:
                return None
            like = Problem(cell, gate, input, time, state, weights, lengths, autocast)
            if learns and torch.is_grad_enabled():
                output, *final = apply(like, (replayed,), input, *others)
                return output, tuple(final)
            return forward(like, False, replayed)[:2]

        return run


def register(name: str, forward: Forward, backward: Backward, saved_like: SavedLike, empty_state: bool, numbers: int) -> Any:
    """The torch operator phased::<name>, with its autograd formula phased::<name>_backward and shapes for tracing.

    An operator returns tensors only, so the integers that a forward pass saves are the last of them, on the CPU.
    """

    def like_saved(problem: Problem, unknown: Callable[[], Any]) -> list[Tensor]:
        known = [torch.empty(numbers, dtype=torch.int64, device="cpu")] if numbers else []
        return [*saved_like(problem, unknown), *known]

    def run_forward(*args: Any) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        problem = unpack(*args[:-1])
        problem.check(empty_state)
        result = forward(problem, args[-1])
        known = [torch.tensor(result.event_count.numbers, device="cpu")] if numbers and args[-1] else []
        return result.output, list(result.final), [*result.saved, *known]

    def run_backward(*args: Any) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
        output, final, saved, to_output, to_final = args[-5:]
        problem = unpack(*args[:-5])
        problem.check(empty_state)
        tensors, known = (saved[:-1], tuple(saved[-1].tolist())) if numbers else (saved, ())
        result = Result(output, tuple(final), tensors, EventCount(known))
        with without_autocast(problem.input.device.type):
            gradients = backward(problem, result, to_output, tuple(to_final), True)
        assert gradients.input is not None
        return gradients.input, list(gradients.state), gradients.weights.present(), list(gradients.gate)

    forward_op: Any = torch.library.custom_op(f"phased::{name}", run_forward, mutates_args=(), schema=_FORWARD_SCHEMA)
    backward_op: Any = torch.library.custom_op(f"phased::{name}_backward", run_backward, mutates_args=(), schema=_BACKWARD_SCHEMA)

    @forward_op.register_fake  # type: ignore[untyped-decorator]
    def _(*args: Any) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        problem, keep = unpack(*args[:-1]), args[-1]
        steps, batch, _ = problem.input.shape
        output = problem.input.new_empty(steps, batch, problem.weights.hh.shape[1])
        saved = like_saved(problem, lambda: torch.library.get_ctx().new_dynamic_size()) if keep else []
        return output, [_like(s) for s in problem.state], saved

    @backward_op.register_fake  # type: ignore[untyped-decorator]
    def _(*args: Any) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
        problem = unpack(*args[:-5])
        groups = problem.state, problem.weights.present(), problem.gate.parameters()
        to_state, to_weights, to_gate = ([_like(tensor) for tensor in group] for group in groups)
        return _like(problem.input), to_state, to_weights, to_gate

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, list[Tensor], list[Tensor]]) -> None:
        cell, shape, leak, input, time, state, weights, gate, lengths, autocast, _ = inputs
        out, final, saved = output
        ctx.set_materialize_grads(False)
        ctx.settings, ctx.autocast = (cell, shape, leak), autocast
        ctx.counts = [len(group) for group in (state, weights, gate, final, saved)]
        ctx.save_for_backward(input, time, lengths, out, *state, *weights, *gate, *final, *saved)

    def run_autograd(ctx: Any, to_output: Tensor | None, to_final: list[Tensor | None], _: Any) -> tuple[Any, ...]:
        input, time, lengths, out, *rest = ctx.saved_tensors
        state, weights, gate, final, saved = split(rest, ctx.counts)
        to_end = list(filled(to_final or [None] * len(final), final))
        to_input, to_state, to_weights, to_gate = backward_op(
            *ctx.settings, input, time, state, weights, gate, lengths, ctx.autocast, out, final, saved, to_output, to_end
        )
        return None, None, None, to_input, None, to_state, to_weights, to_gate, None, None, None

    forward_op.register_autograd(run_autograd, setup_context=setup_context)
    backward_op.register_autograd(refuse_second_derivative)
    return forward_op


def eager_function(forward: Forward, backward: Backward, begin: Callable[..., Result] | None) -> type[torch.autograd.Function]:
    """The same as an autograd.Function, without the operator's dispatch, which costs half a millisecond a call."""

    class Eager(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, problem: Problem, replayed: tuple[Any, ...], *tensors: Tensor) -> tuple[Tensor, ...]:
            result = (
                forward(problem, True, *replayed) if begin is None or tracing.saving_is_hooked() else begin(problem, *replayed)
            )
            states = len(problem.state)
            counts = 1, states, len(tensors) - states - 4, 3, 1, len(result.final), len(result.saved)
            ctx.settings = problem.cell, problem.gate[3:], problem.autocast, result.event_count, counts
            ctx.fast_backward = result.fast_backward
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*tensors, result.output, *result.final, *result.saved, problem.time, problem.lengths)
            return result.output, *result.final

        @staticmethod
        def backward(ctx: Any, to_output: Tensor | None, *to_final: Tensor | None) -> tuple[Any, ...]:
            *kept, time, lengths = saved = ctx.saved_tensors
            differentiable = torch.is_grad_enabled()  # create_graph=True
            if ctx.fast_backward is not None and not differentiable:
                found = ctx.fast_backward(saved, ctx.settings[3], to_output, to_final)
                if found is not None:
                    return None, None, *found
            cell, kind, autocast, events, counts = ctx.settings
            (input,), state, weights, gate, (output,), final, tape = split(kept, counts)
            matrices, own_gate = Weights.from_present(weights), TimeGate(gate[0], gate[1], gate[2], *kind)
            problem = Problem(cell, own_gate, input, time, tuple(state), matrices, lengths, autocast)
            result = Result(output, tuple(final), tape, events)
            with torch.no_grad() if differentiable else nullcontext(), without_autocast(input.device.type):
                gradients = backward(problem, result, to_output, to_final, ctx.needs_input_grad[2])
            results = (gradients.input, *gradients.state, *gradients.weights.present(), *gradients.gate)
            if differentiable:
                depends_on = [t for t in (input, *state, *weights, *gate, to_output, *to_final) if t is not None]
                results = FirstDerivative.apply(len(results), *results, *depends_on)  # type: ignore[no-untyped-call]
            return None, None, *results

    return Eager


class FirstDerivative(torch.autograd.Function):
    """Gradients as they are, connected to what they depend on: differentiating them again raises instead of giving zero."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Tensor | None) -> tuple[Tensor | None, ...]:
        """The first `count` tensors."""
        return tuple(None if tensor is None else tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        """Raise."""
        refuse_second_derivative(ctx)


def refuse_second_derivative(ctx: Any, *_: Any) -> Any:
    """The backward pass of a backward pass."""
    raise RuntimeError(
        "second derivatives (a gradient penalty, create_graph=True) need a layer whose every step autograd records. "
        'Make the layer with backend="reference", or set layer.backend = "reference" for this loss.'
    )
