"""The compiled core on CPU tensors: open events only at leak 0, matrix products with a fused cell otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from phased.cell import LSTM, Cell, Weights
from phased.gate import SHAPES
from phased.ops.contract import Gradients, Problem, Result
from phased.ops.fallback import warn_once
from phased.ops.memory import address, contiguous, contiguous_rows
from phased.ops.operator import filled, operator
from phased.schedule import valid_steps


def load() -> tuple[Any, str | None]:
    """The compiled core, or why there is none."""
    try:
        return import_module("phased._core"), None
    except ImportError as error:
        return None, f"the compiled core is missing ({error}). Install a C++17 compiler (GCC or Clang), then: {reinstall()}"


def reinstall() -> str:
    """The command that builds the core. A released package must not come from pip's cache, which holds the one without a core."""
    checkout = Path(__file__).parents[3]
    if (checkout / "CMakeLists.txt").is_file():
        return f"pip install --force-reinstall --no-deps --editable {checkout}"
    return "pip install --force-reinstall --no-deps --no-cache-dir --no-binary phased phased"


core, MISSING = load()


def usable() -> bool:
    """Whether there is a core; the first call without one warns."""
    if MISSING is not None:
        warn_once(torch.device("cpu"), "compiled core", MISSING)
    return MISSING is None


# Open shares from which on whole matrix products are faster than open units one by one; measured by `phased bench cpu`.
BREAK_EVEN = 0.5

KINDS = {torch.float32: "32", torch.float64: "64"}


def cell_number(cell: Cell) -> int:
    """A cell as the core names it."""
    return 0 if cell is LSTM else 1


class Call:
    """A problem as the core takes it: addresses, and the tensors that must outlive the call. Gradients are not recorded here."""

    def __init__(self, problem: Problem) -> None:
        steps, batch, features = problem.input.shape
        self.input = contiguous_rows(problem.input)
        self.time = contiguous(problem.time.to(torch.float64).t())
        lengths = problem.lengths
        self.lengths = torch.full((batch,), steps, dtype=torch.int64, device="cpu") if lengths is None else contiguous(lengths)
        self.state = [contiguous(s) for s in problem.state]
        self.weights = [None if w is None else contiguous(w) for w in problem.weights]
        self.gate = [contiguous(g) for g in problem.gate.parameters()]
        self.kind = KINDS[problem.input.dtype]
        self.cell = problem.cell
        self.units = problem.weights.hh.shape[1]
        self.fields = 6 if problem.cell is LSTM else 4
        self.core = self.function("Problem")(
            cell_number(problem.cell),
            SHAPES.index(problem.gate.shape),
            problem.gate.leak,
            batch,
            steps,
            features,
            self.units,
            address(self.input),
            self.input.stride(1),
            self.input.stride(0),
            address(self.time),
            address(self.lengths),
            *self.states(self.state),
            [address(w) for w in self.weights[:4]],
            address(self.weights[4]),
            [address(g) for g in self.gate],
            torch.get_num_threads(),
        )

    def function(self, name: str) -> Any:
        """The core's function or class for this dtype."""
        return getattr(core, name + self.kind)

    def states(self, tensors: list[Tensor]) -> tuple[int, int]:
        """Addresses of h and c; the GRU has no c."""
        return address(tensors[0]), address(tensors[1]) if len(tensors) > 1 else 0


def is_dense(problem: Problem) -> bool:
    """Whether every unit works at every step, or so many that it is faster to let them all."""
    return problem.gate.leak > 0 or bool(problem.gate.ratio_on.mean() > BREAK_EVEN)


def bounded(problem: Problem) -> Problem:
    """The problem with its gate bounded. torch itself does not look whether a tensor's storage was freed."""
    for value in problem.gate.parameters():
        address(value)
    return problem._replace(gate=problem.gate.bounded())


def forward(problem: Problem, keep: bool) -> Result:
    """Output, final state and, to keep, the tape."""
    problem = bounded(problem)
    call = Call(problem)
    x = problem.input
    steps, batch, _ = x.shape
    output = x.new_empty(steps, batch, call.units)
    final = [torch.empty_like(s, memory_format=torch.contiguous_format) for s in call.state]
    results = (address(output), *call.states(final))
    saved: list[Tensor] = []
    if is_dense(problem):
        size = batch * steps * call.fields * core.whole_units(call.units) if keep else 0
        saved = allocate(x, slots=0, tape=size) if keep else []
        if keep:
            saved[0].zero_()  # a dense pass has no rows of events
        call.function("forward_dense")(call.core, *results, address(saved[-1]) if keep else 0)
    elif keep:
        schedule = call.function("schedule")(call.core)
        saved = allocate(x, slots=schedule.slots, tape=call.fields * schedule.slots)
        call.function("forward")(call.core, schedule, *results, *map(address, saved))
    else:
        call.function("infer")(call.core, *results)
    return Result(output, tuple(final), saved)


def allocate(x: Tensor, slots: Any, tape: Any) -> list[Tensor]:
    """What a forward pass leaves: row starts; unit, openness and side of each open event; and what its cell keeps."""
    steps, batch, _ = x.shape
    return [
        x.new_empty(batch, steps + 1, dtype=torch.int64),
        x.new_empty(slots, dtype=torch.int32),
        x.new_empty(slots),
        x.new_empty(slots, dtype=torch.uint8),
        x.new_empty(tape),
    ]


def backward(
    problem: Problem, result: Result, to_output: Tensor | None, to_final: Sequence[Tensor | None], with_input: bool = True
) -> Gradients:
    """Gradients of everything, given those of the output and the final state; that of the input where it is wanted."""
    problem = bounded(problem)
    call = Call(problem)
    x = problem.input
    output = result.output
    to_rows = None if to_output is None else contiguous_rows(to_output)
    strides = (0, 0) if to_rows is None else (to_rows.stride(1), to_rows.stride(0))
    to_end = [contiguous(d) for d in filled(to_final, result.final)]
    to_state = [torch.empty_like(s) for s in call.state]
    to_gate = torch.empty(3, call.units, dtype=torch.float64, device="cpu")
    to_peephole = None if problem.weights.peephole is None else x.new_empty(3, call.units)
    given = (address(to_rows), *strides, *call.states(to_end))
    dense = is_dense_tape(call, result.saved)
    if dense:
        to_products = x.new_empty(*output.shape[:2], 4, call.units)
        call.function("backward_dense")(
            call.core,
            address(output),
            address(result.saved[-1]),
            *given,
            address(to_products),
            *call.states(to_state),
            address(to_peephole),
            address(to_gate),
        )
        to_x, matrices = dense_gradients(problem, call, output, to_products, with_input)
    else:
        to_x = x.new_empty(x.shape)
        matrices = [None if w is None else torch.empty_like(w) for w in call.weights[:4]]
        call.function("backward")(
            call.core,
            *map(address, result.saved),
            result.saved[1].numel(),
            address(output),
            *given,
            address(to_x),
            *call.states(to_state),
            [address(m) for m in matrices],
            address(to_peephole),
            address(to_gate),
        )
    ih, hh, bias_ih, bias_hh = matrices
    assert ih is not None
    assert hh is not None
    return Gradients(to_x, tuple(to_state), Weights(ih, hh, bias_ih, bias_hh, to_peephole), tuple(g.clone() for g in to_gate))


def is_dense_tape(call: Call, saved: Sequence[Tensor]) -> bool:
    """Whether a dense pass saved this: a sparse one has spare slots even where nothing was open. Sizes that fit neither raise."""
    start, unit, k, side, tape = saved
    slots, (steps, batch, _) = unit.numel(), call.input.shape
    expected = call.fields * slots if slots else batch * steps * call.fields * core.whole_units(call.units)
    if start.shape != (batch, steps + 1) or not k.numel() == side.numel() == slots or tape.numel() != expected:
        raise ValueError("saved must be what the forward pass of the same problem saved, got other sizes.")
    return slots == 0


def dense_gradients(
    problem: Problem, call: Call, output: Tensor, to_products: Tensor, with_input: bool
) -> tuple[Tensor | None, list[Tensor | None]]:
    """Gradients to the input and the weights: one large product each of those to the cells' products (T, B, 4, H)."""
    x, units = call.input, call.units
    if problem.lengths is not None:  # padding may hold anything, and 0 * NaN is NaN
        x = torch.where(valid_steps(x.shape[0], call.lengths).unsqueeze(-1), x, 0)
    features = x.shape[2]
    rows = x.new_ones(*x.shape[:2], features + units + 1)  # [x | h before | 1], as every unit reads them
    rows[..., :features] = x
    if len(rows):
        rows[0, :, features:-1] = call.state[0]
        rows[1:, :, features:-1] = output[:-1]
    flat = to_products.view(-1, 4 * units)
    whole = (flat.T @ rows.view(-1, rows.shape[2])).view(4, units, rows.shape[2])
    # The GRU's n has a product of its own for the input, the third, and for the state, the fourth.
    from_x, from_h = (whole, whole) if problem.cell is LSTM else (whole[:3], whole[[0, 1, 3]])
    matrices: list[Tensor | None] = [
        from_x[..., :features].flatten(0, 1).contiguous(),
        from_h[..., features:-1].flatten(0, 1).contiguous(),
    ]
    biased = problem.weights.bias_ih is not None
    matrices += [from_x[..., -1].flatten().clone(), from_h[..., -1].flatten().clone()] if biased else [None, None]
    if not with_input:
        return None, matrices
    weight = call.weights[0]
    assert weight is not None
    return (flat[:, : len(weight)] @ weight).view(x.shape), matrices


def saved_like(problem: Problem, unknown: Callable[[], Any]) -> list[Tensor]:
    """Empty tensors like those `forward` saves, for tracing."""
    return allocate(problem.input, slots=unknown(), tape=unknown())


recurrence = operator("cpu", forward, backward, saved_like)
