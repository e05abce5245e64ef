"""A recurrence to compute, by any backend on any device, and what it must equal: the reference."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from instructions import CoreOn
from phased import ops
from phased.cell import CELLS, Weights
from phased.gate import TimeGate
from phased.ops.contract import Problem
from phased.ops.operator import pack
from phased.schedule import valid_steps
from strategies import clocks, poisoned

TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def device_of(backend: str) -> str:
    return ops.backends()[backend].device or "cpu"


def backend_parameters(*, reference: bool = False, sets: int | None = None) -> list[Any]:
    """Every backend there is, the core under all instruction sets or its best `sets`; one that cannot run here is skipped."""
    found = []
    for name in [name for name in ops.backends() if reference or name != "reference"]:
        why = ops.backends()[name].missing()
        marks = [pytest.mark.gpu] if device_of(name) == "cuda" else []
        marks += [pytest.mark.skip(reason=why)] if why else []
        if name == "cpu":
            found += [pytest.param(each, marks=marks, id=f"cpu {each.instructions}".strip()) for each in CoreOn.each()[:sets]]
        else:
            found.append(pytest.param(name, marks=marks))
    return found


each_backend = pytest.mark.parametrize("backend", backend_parameters())
# What torch's compiler sees of the core is the same under every instruction set; tracing takes longer than all of them.
each_backend_once = pytest.mark.parametrize("backend", backend_parameters(sets=1))
each_backend_and_reference = pytest.mark.parametrize("backend", backend_parameters(reference=True))
each_cell = pytest.mark.parametrize("cell", sorted(CELLS))
each_leak = pytest.mark.parametrize("leak", [0.0, 0.01])


@dataclass
class Case:
    """A recurrence to compute, by any backend on any device."""

    cell: str = "lstm"
    steps: int = 11
    batch: int = 3
    inputs: int = 2
    hidden: int = 7
    bias: bool = True
    peephole: bool = False
    leak: float = 0.0
    shape: str = "triangle"
    dtype: torch.dtype = torch.float64
    autocast: torch.dtype | None = None
    lengths: Sequence[int] | None = None
    ratio: tuple[float, float] = (0.05, 0.6)
    start: float = 0.0
    integer_time: bool = False
    seed: int = 0
    leaves: dict[str, Tensor] = field(init=False)
    time: Tensor = field(init=False)

    def __post_init__(self) -> None:
        torch.manual_seed(self.seed)
        gates, states, hidden = CELLS[self.cell].gates, CELLS[self.cell].states, self.hidden

        def randn(*size: int) -> Tensor:
            return torch.randn(*size, dtype=self.dtype)

        scale = hidden**-0.5
        self.leaves = {"input": randn(self.steps, self.batch, self.inputs)}
        self.leaves |= {name: 0.5 * randn(self.batch, hidden) for name in ("h_0", "c_0")[:states]}
        self.leaves |= {"weight_ih": randn(gates * hidden, self.inputs), "weight_hh": scale * randn(gates * hidden, hidden)}
        if self.bias:
            self.leaves |= {"bias_ih": randn(gates * hidden), "bias_hh": randn(gates * hidden)}
        if self.peephole:
            self.leaves["peephole"] = randn(3, hidden)
        low, high = self.ratio
        unit = torch.rand(3, hidden, dtype=torch.float64)
        self.leaves |= {"period": 5 + 20 * unit[0], "shift": 25 * unit[1], "ratio_on": low + (high - low) * unit[2]}
        self.time = clocks(self.steps, self.batch, span=100.0, start=self.start)
        if self.integer_time:
            self.time = (self.time * 1000).round().long()
            self.leaves["period"] *= 1000
            self.leaves["shift"] *= 1000

    def poison_padding(self) -> "Case":
        """NaN, or the smallest integer, in every step beyond a sequence's length."""
        padding = ~valid_steps(self.steps, torch.tensor(self.lengths, dtype=torch.int64))
        self.leaves["input"] = self.leaves["input"].masked_fill(padding.unsqueeze(-1), float("nan"))
        worst = float("nan") if self.time.is_floating_point() else torch.iinfo(torch.int64).min
        self.time = self.time.masked_fill(padding, worst)
        return self

    def problem(self, backend: str, leaves: dict[str, Tensor]) -> Problem:
        """What is to be computed, on the backend's device."""
        device = device_of(backend)
        gate = TimeGate(leaves["period"], leaves["shift"], leaves["ratio_on"], self.leak, self.shape)
        weights = Weights(*(leaves.get(name) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "peephole")))
        state = tuple(leaves[name] for name in ("h_0", "c_0") if name in leaves)
        lengths = None if self.lengths is None else torch.tensor(self.lengths, dtype=torch.int64, device=device)
        return Problem(CELLS[self.cell], gate, leaves["input"], self.time.to(device), state, weights, lengths, self.autocast)

    def run(self, backend: str, leaves: dict[str, Tensor] | None = None) -> list[Tensor]:
        """Output and final states."""
        output, final = ops.recurrence(self.problem(backend, self.on(backend) if leaves is None else leaves), backend)
        return [output, *final]

    def operator_arguments(self, backend: str, keep: bool) -> tuple[Any, ...]:
        """What the backend's torch operator is given."""
        return *pack(self.problem(backend, self.on(backend))), keep

    def on(self, backend: str) -> dict[str, Tensor]:
        """The leaves on the backend's device, with their strides as they are, wanting gradients."""
        return {name: leaf.detach().to(device_of(backend)).requires_grad_() for name, leaf in self.leaves.items()}

    def gradients(self, backend: str, to: str = "both") -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Results by name and gradients by name, for random gradients to the output, the final state or both."""
        leaves = self.on(backend)
        names = ["output", "h_n", "c_n"]
        results = dict(zip(names, self.run(backend, leaves), strict=False))
        draw = torch.Generator().manual_seed(self.seed + 1)
        loss = torch.zeros((), dtype=torch.float64, device=device_of(backend))
        for name, result in results.items():
            cotangent = torch.randn(result.shape, generator=draw, dtype=torch.float64).to(result)
            if to == "both" or (to == "output") == (name == "output"):
                loss = loss + (result * cotangent).sum()
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        grads = {
            name: torch.zeros_like(leaf) if grad is None else grad
            for (name, leaf), grad in zip(leaves.items(), found, strict=True)
        }
        return {name: result.detach() for name, result in results.items()}, grads


def assert_same(got: dict[str, Tensor], want: dict[str, Tensor], dtype: torch.dtype, what: str) -> None:
    """Equal up to the rounding of this dtype, measured against the largest entry: a gradient to a period may be 1e7, or 1e-7."""
    assert got.keys() == want.keys()
    for name, expected in want.items():
        value = got[name].cpu()
        assert value.dtype == expected.dtype, f"{what} {name}"
        assert value.shape == expected.shape, f"{what} {name}"
        assert value.isfinite().all(), f"{what} {name} is not finite"
        scale = max(1.0, float(expected.abs().max())) if expected.numel() else 1.0
        worst = float((value - expected).abs().max()) / scale if expected.numel() else 0.0
        assert worst <= TOLERANCE[dtype], f"{what} {name} is off by {worst:.2e} of its largest entry"


def assert_contract(case: Case, backend: str, to: str = "both") -> None:
    with poisoned():
        results, gradients = case.gradients(backend, to)
    want_results, want_gradients = case.gradients("reference", to)
    assert_same(results, want_results, case.dtype, "result")
    assert_same(gradients, want_gradients, case.autocast or case.dtype, "gradient to")
