"""A forward and a backward pass as a torch operator, so that autograd, torch.compile and torch.export see one opaque step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from phased import tracing
from phased.cell import CELLS, Cell, State, Weights
from phased.gate import SHAPES, TimeGate
from phased.ops.contract import Again, Gradients, Problem, Recurrence, Result, check_gradients, check_saved
from phased.ops.precision import without_autocast

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


def operator(
    name: str,
    forward: Forward,
    backward: Backward,
    saved_like: SavedLike,
    begin: Callable[..., Result] | None = None,
    empty_state: bool = False,
    numbers: int = 0,
    recall: Callable[[Problem], Any] | None = None,
    again: Callable[[Problem], Callable[[Tensor, Tensor], Any] | None] | None = None,
) -> Recurrence:
    """The recurrence that runs `forward` and `backward` as torch operators phased::<name> and phased::<name>_backward.

    `saved_like(problem, unknown)` makes empty tensors like those a forward pass saves; `unknown()` is a size that data determine.
    `numbers`: how many integers it saves. `begin`, if given, is the forward pass of training: it may return before it knows them.
    With `empty_state`, a state without tensors stands for zeros.

    `recall(problem)`, if given, is what the backend knows of earlier problems like this one, or None. They were checked, so this
    one is not; `forward` and `begin` get it as one more argument. `again(earlier)(input, time)` is the same for an earlier
    problem with another input and other times, which are like its own.

    Outputs and gradients are contiguous, whatever the layout of the arguments.
    """
    forward_op = register(name, forward, backward, saved_like, empty_state, numbers)
    eager = eager_function(forward, backward, begin)

    def recurrence(
        cell: Cell,
        gate: TimeGate,
        input: Tensor,
        time: Tensor,
        state: State,
        weights: Weights,
        lengths: Tensor | None = None,
        autocast: torch.dtype | None = None,
    ) -> tuple[Tensor, State]:
        if time.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(
                "a gradient to time needs a layer whose every step autograd records, got a time that requires grad. "
                'Pass time.detach(), or make the layer with backend="reference".'
            )
        problem = Problem(cell, gate, input, time, state, weights, lengths, autocast)
        differentiable = [input, *state, *weights.present(), *gate.parameters()]
        keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in differentiable)
        if torch.compiler.is_compiling():  # the operator checks the problem when it runs
            output, final, _ = forward_op(*pack(problem), keep)
            return output, tuple(final)
        known = None if recall is None else recall(problem)
        if known is None:
            problem.check(empty_state)
        also = () if known is None else (known,)
        if keep:
            output, *final = eager.apply(problem, also, *differentiable)  # type: ignore[no-untyped-call]
        else:
            output, final = forward(problem, keep, *also)[:2]
        return output, tuple(final)

    def run_again(problem: Problem) -> Again | None:
        """See `Backend.again`."""
        recall_again = None if again is None or problem.time.requires_grad else again(problem)
        if recall_again is None:
            return None
        cell, gate, _, _, state, weights, lengths, autocast = problem
        others = [*state, *weights.present(), *gate.parameters()]
        learns = any(tensor.requires_grad for tensor in (problem.input, *others))
        # Function.apply without its support for torch.func: tensors of a transform are like no others, and never get here.
        apply = tracing.apply_of(eager)

        def run(input: Tensor, time: Tensor) -> tuple[Tensor, State] | None:
            known = recall_again(input, time)
            if known is None:
                return None
            like = Problem(cell, gate, input, time, state, weights, lengths, autocast)
            if learns and torch.is_grad_enabled():
                output, *final = apply(like, (known,), input, *others)
                return output, tuple(final)
            return forward(like, False, known)[:2]

        return run

    recurrence.__doc__ = f"The recurrence of `phased.ops.reference`, computed by phased::{name}."
    recurrence.again = run_again  # type: ignore[attr-defined]
    return recurrence


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
        known = [torch.tensor(result.numbers, device="cpu")] if numbers and args[-1] else []
        return result.output, list(result.final), [*result.saved, *known]

    def run_backward(*args: Any) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
        output, final, saved, to_output, to_final = args[-5:]
        problem = unpack(*args[:-5])
        problem.check(empty_state)
        meta = problem._replace(input=problem.input.to("meta"))  # so that nothing is allocated
        check_saved(saved, like_saved(meta, lambda: 0), problem.input.device)
        tensors, known = (saved[:-1], tuple(saved[-1].tolist())) if numbers else (saved, ())
        if len(known) != numbers:
            raise ValueError(
                f"the last tensor of saved must have {numbers} numbers, got {len(known)}. Pass what was saved, as it is."
            )
        result = Result(output, tuple(final), tensors, known)
        result.check(problem)
        check_gradients(result, to_output, to_final)
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
        groups: list[list[Tensor]] = []
        for count in ctx.counts:
            groups.append(rest[:count])
            rest = rest[count:]
        state, weights, gate, final, saved = groups
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
        def forward(ctx: Any, problem: Problem, also: tuple[Any, ...], *tensors: Tensor) -> tuple[Tensor, ...]:
            result = forward(problem, True, *also) if begin is None or tracing.saving_is_hooked() else begin(problem, *also)
            counts = 1 + len(problem.state), len(tensors) - 3, len(result.final)
            ctx.settings = problem.cell, problem.gate[3:], problem.autocast, result[3:5], counts
            ctx.prepared = result.prepared
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*tensors, result.output, *result.final, *result.saved, problem.time, problem.lengths)
            return result.output, *result.final

        @staticmethod
        def backward(ctx: Any, to_output: Tensor | None, *to_final: Tensor | None) -> tuple[Any, ...]:
            *kept, time, lengths = saved = ctx.saved_tensors
            again = torch.is_grad_enabled()  # create_graph=True
            if ctx.prepared is not None and not again:
                found = ctx.prepared(saved, ctx.settings[3], to_output, to_final)
                if found is not None:
                    return None, None, *found
            cell, kind, autocast, known, (weights, gates, finals) = ctx.settings
            input, *state = kept[:weights]
            end = gates + 4 + finals
            matrices, gate = Weights.from_present(kept[weights:gates]), TimeGate(*kept[gates : gates + 3], *kind)
            problem = Problem(cell, gate, input, time, tuple(state), matrices, lengths, autocast)
            result = Result(kept[gates + 3], tuple(kept[gates + 4 : end]), kept[end:], *known)
            with torch.no_grad() if again else nullcontext(), without_autocast(input.device.type):
                gradients = backward(problem, result, to_output, to_final, ctx.needs_input_grad[2])
            results = (gradients.input, *gradients.state, *gradients.weights.present(), *gradients.gate)
            if again:
                inputs = kept[: gates + 3]
                depends_on = [tensor for tensor in (*inputs, to_output, *to_final) if tensor is not None]
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
