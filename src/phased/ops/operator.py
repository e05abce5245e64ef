"""A forward and backward pass made a torch operator, so that autograd, torch.compile and torch.export see one opaque step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from phased.cell import CELLS, Cell, State, Weights
from phased.gate import TimeGate


class Problem(NamedTuple):
    """What a recurrence is given: input (T, B, D), time (T, B), the initial state, each (B, H), lengths (B,) or None.

    A state without tensors is all zeros: `phased.ops` gives it to whoever can do without.
    The gate's numbers are as an optimiser left them: whoever computes with them bounds them first (TimeGate.bounded).
    """

    cell: Cell
    gate: TimeGate
    input: Tensor
    time: Tensor
    state: State
    weights: Weights
    lengths: Tensor | None


class Result(NamedTuple):
    """What it gives: output (T, B, H), the final state, each (B, H), and what its backward pass needs.

    The last of that may not be known yet: then `later`, given the first, waits for it.
    """

    output: Tensor
    final: State
    saved: list[Tensor]
    later: Callable[[Tensor], Tensor] | None = None

    def complete(self) -> list[Tensor]:
        """All that is saved."""
        return self.saved if self.later is None else [*self.saved, self.later(self.saved[0])]


class Gradients(NamedTuple):
    """What its backward pass gives: gradients to input, initial state, weights, and the gate's period, shift and ratio_on."""

    input: Tensor | None
    state: State
    weights: Weights
    gate: tuple[Tensor, ...]


Recurrence = Callable[[Cell, TimeGate, Tensor, Tensor, State, Weights, "Tensor | None"], tuple[Tensor, State]]
Forward = Callable[[Problem, bool], Result]
Backward = Callable[[Problem, Result, "Tensor | None", Sequence["Tensor | None"], bool], Gradients]

_PROBLEM = (
    "str cell, str shape, float leak, Tensor input, Tensor time, Tensor[] state, Tensor[] weights, Tensor[] gate, Tensor? lengths"
)
_FORWARD_SCHEMA = f"({_PROBLEM}, bool keep) -> (Tensor, Tensor[], Tensor[])"
_BACKWARD_SCHEMA = (
    f"({_PROBLEM}, Tensor output, Tensor[] final, Tensor[] saved, Tensor? to_output, Tensor[] to_final)"
    " -> (Tensor, Tensor[], Tensor[], Tensor[])"
)


def pack(problem: Problem) -> tuple[Any, ...]:
    """A problem as the arguments of an operator."""
    cell, gate, input, time, state, weights, lengths = problem
    return cell.name, gate.shape, gate.leak, input, time, list(state), weights.present(), gate.parameters(), lengths


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
) -> Problem:
    """The inverse of `pack`."""
    return Problem(
        CELLS[cell],
        TimeGate(gate[0], gate[1], gate[2], leak, shape),
        input,
        time,
        tuple(state),
        Weights.from_present(weights),
        lengths,
    )


def _like(tensor: Tensor) -> Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def saving_is_hooked() -> bool:
    """Whether somebody takes what is saved (checkpoints, offloading): it must then be the same if it is computed again."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


def filled(gradients: Sequence[Tensor | None], like: Sequence[Tensor]) -> State:
    """Zeros where nobody asked for a gradient."""
    return tuple(torch.zeros_like(x) if d is None else d for d, x in zip(gradients, like, strict=True))


def operator(
    name: str,
    forward: Forward,
    backward: Backward,
    saved_like: Callable[[Problem, Callable[[], Any]], list[Tensor]],
    begin: Callable[[Problem], Result] | None = None,
) -> Recurrence:
    """The recurrence that runs `forward` and `backward` as torch operators phased::<name> and phased::<name>_backward.

    `begin` is a forward pass, to keep, that may leave something for later.
    `saved_like(problem, unknown)` makes empty tensors like those a forward pass saves; `unknown()` is a size that data decide.
    Outputs and gradients are laid out without gaps, whatever the layout of what came in.
    """

    def run_forward(*args: Any) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        result = forward(unpack(*args[:-1]), args[-1])
        return result.output, list(result.final), result.saved

    def run_backward(*args: Any) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
        output, final, saved, to_output, to_final = args[-5:]
        gradients = backward(unpack(*args[:-5]), Result(output, tuple(final), saved), to_output, tuple(to_final), True)
        assert gradients.input is not None
        return gradients.input, list(gradients.state), gradients.weights.present(), list(gradients.gate)

    forward_op: Any = torch.library.custom_op(f"phased::{name}", run_forward, mutates_args=(), schema=_FORWARD_SCHEMA)
    backward_op: Any = torch.library.custom_op(f"phased::{name}_backward", run_backward, mutates_args=(), schema=_BACKWARD_SCHEMA)

    @forward_op.register_fake  # type: ignore[untyped-decorator]
    def _(*args: Any) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        problem, keep = unpack(*args[:-1]), args[-1]
        steps, batch, _ = problem.input.shape
        output = problem.input.new_empty(steps, batch, problem.weights.hh.shape[1])
        saved = saved_like(problem, lambda: torch.library.get_ctx().new_dynamic_size()) if keep else []
        return output, [_like(s) for s in problem.state], saved

    @backward_op.register_fake  # type: ignore[untyped-decorator]
    def _(*args: Any) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
        problem = unpack(*args[:-5])
        groups = problem.state, problem.weights.present(), problem.gate.parameters()
        to_state, to_weights, to_gate = ([_like(tensor) for tensor in group] for group in groups)
        return _like(problem.input), to_state, to_weights, to_gate

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, list[Tensor], list[Tensor]]) -> None:
        cell, shape, leak, input, time, state, weights, gate, lengths, _ = inputs
        out, final, saved = output
        ctx.set_materialize_grads(False)
        ctx.settings = cell, shape, leak
        ctx.counts = [len(group) for group in (state, weights, gate, final, saved)]
        ctx.save_for_backward(input, time, lengths, out, *state, *weights, *gate, *final, *saved)

    def run_autograd(ctx: Any, to_output: Tensor | None, to_final: list[Tensor | None], _: Any) -> tuple[Any, ...]:
        input, time, lengths, out, *rest = ctx.saved_tensors
        groups: list[list[Tensor]] = []
        for count in ctx.counts:
            groups.append(rest[:count])
            rest = rest[count:]
        state, weights, gate, final, saved = groups
        to_end = list(filled(to_final or [None] * len(final), final))
        to_input, to_state, to_weights, to_gate = backward_op(
            *ctx.settings, input, time, state, weights, gate, lengths, out, final, saved, to_output, to_end
        )
        return None, None, None, to_input, None, to_state, to_weights, to_gate, None, None

    forward_op.register_autograd(run_autograd, setup_context=setup_context)

    class Eager(torch.autograd.Function):
        """The same without the operator's dispatch, which costs half a millisecond a call."""

        @staticmethod
        def forward(ctx: Any, problem: Problem, *tensors: Tensor) -> tuple[Tensor, ...]:
            result = forward(problem, True) if begin is None or saving_is_hooked() else begin(problem)
            ctx.cell, ctx.gate, ctx.later = problem.cell, problem.gate[3:], result.later
            ctx.counts = len(problem.state), len(problem.weights.present()), len(result.final)
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*tensors, result.output, *result.final, *result.saved, problem.time, problem.lengths)
            return result.output, *result.final

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, to_output: Tensor | None, *to_final: Tensor | None) -> tuple[Any, ...]:
            states, weights, finals = ctx.counts
            input, *rest, time, lengths = ctx.saved_tensors
            state, rest = rest[:states], rest[states:]
            given, rest = rest[:weights], rest[weights:]
            gate, (output, *rest) = rest[:3], rest[3:]
            final, saved = rest[:finals], rest[finals:]
            problem = Problem(
                ctx.cell, TimeGate(*gate, *ctx.gate), input, time, tuple(state), Weights.from_present(given), lengths
            )
            saved = Result(output, tuple(final), saved, ctx.later).complete()
            gradients = backward(problem, Result(output, tuple(final), saved), to_output, to_final, ctx.needs_input_grad[1])
            return None, gradients.input, *gradients.state, *gradients.weights.present(), *gradients.gate

    def recurrence(
        cell: Cell, gate: TimeGate, input: Tensor, time: Tensor, state: State, weights: Weights, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        problem = Problem(cell, gate, input, time, state, weights, lengths)
        differentiable = [input, *state, *weights.present(), *gate.parameters()]
        keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in differentiable)
        if torch.compiler.is_compiling():
            output, final, _ = forward_op(*pack(problem), keep)
        elif keep:
            output, *final = Eager.apply(problem, *differentiable)  # type: ignore[no-untyped-call]
        else:
            output, final = forward(problem, keep)[:2]
        return output, tuple(final)

    recurrence.__doc__ = f"The recurrence of `phased.ops.reference`, computed by phased::{name}."
    return recurrence
