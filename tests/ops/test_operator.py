"""A backend as a torch operator: traced, checked by torch itself, and what it keeps."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from contract import Case, assert_same, device_of, each_backend, each_backend_once, each_leak
from phased.cell import CELLS, Weights
from phased.gate import TimeGate
from phased.ops.contract import Problem
from phased.ops.operator import pack


def registered(backend: str) -> Any:
    if not hasattr(torch.ops.phased, backend):
        pytest.skip(f"the backend {backend} registers no operator of its own")
    return getattr(torch.ops.phased, backend)


# Every two of the values occur together.
PAIRS = [("lstm", 0.0, True), ("lstm", 0.01, False), ("gru", 0.0, False), ("gru", 0.01, True)]


@each_backend_once
@pytest.mark.parametrize("cell, leak, keep", PAIRS)
def test_torch_finds_nothing_wrong_with_the_operator(backend, cell, leak, keep):
    case = Case(cell, steps=4, batch=2, hidden=3, leak=leak, lengths=[4, 2], peephole=cell == "lstm", seed=1)
    operator = registered(backend)
    arguments = case.operator_arguments(backend, keep)
    if not keep:
        arguments = torch.utils._pytree.tree_map_only(Tensor, Tensor.detach, arguments)
    torch.library.opcheck(operator, arguments)


@each_backend_once
@pytest.mark.parametrize("cell, leak, dynamic", PAIRS)
def test_traced_without_a_graph_break_it_computes_the_same(backend, cell, leak, dynamic):
    torch.compiler.reset()
    case = Case(cell, leak=leak, lengths=[11, 0, 4], peephole=cell == "lstm")
    want = case.gradients(backend)
    case.run = torch.compile(case.run, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for a, b in zip(case.gradients(backend), want, strict=True):
        assert_same(a, {name: value.cpu() for name, value in b.items()}, case.dtype, "traced,")


@each_backend
@each_leak
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_a_gate_that_an_optimiser_pushed_out_of_range_is_bounded(backend, leak, traced):
    torch.compiler.reset()
    case = Case(leak=leak)
    with torch.no_grad():
        case.leaves["period"][0], case.leaves["ratio_on"][1], case.leaves["ratio_on"][2] = -3.0, -0.5, 7.0
    want = case.run("reference")
    run = torch.compile(case.run, fullgraph=True, backend="aot_eager") if traced else case.run
    for got, expected in zip(run(backend, case.on(backend)), want, strict=True):
        torch.testing.assert_close(got.cpu(), expected)


@each_backend
@each_leak
def test_the_operator_returns_none_of_its_inputs(backend, leak):
    """An operator that hands back what it was given breaks functional graphs: an empty sequence is the temptation."""
    case = Case(steps=0, leak=leak)
    leaves = case.on(backend)
    given_memory = {leaf.untyped_storage().data_ptr() for leaf in leaves.values()} - {0}
    for result in case.run(backend, leaves):
        assert result.untyped_storage().data_ptr() not in given_memory


def kept(case: Case, backend: str) -> int:
    """How many numbers a forward pass keeps for its backward pass, besides what it was given and what it returned."""
    leaves = case.on(backend)
    numbers: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        numbers[tensor.untyped_storage().data_ptr()] = tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        results = case.run(backend, leaves)
    for tensor in (*leaves.values(), *results):
        numbers.pop(tensor.untyped_storage().data_ptr(), None)
    return sum(numbers.values())


@each_backend
@each_leak
def test_inference_without_gradients_keeps_no_tape(backend, leak):
    case = Case(leak=leak)
    leaves = {name: leaf.detach() for name, leaf in case.on(backend).items()}
    problem = Problem(
        CELLS[case.cell],
        TimeGate(leaves["period"], leaves["shift"], leaves["ratio_on"], leak, case.shape),
        leaves["input"],
        case.time.to(device_of(backend)),
        (leaves["h_0"], leaves["c_0"]),
        Weights(*(leaves.get(name) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))),
        None,
    )
    forward = registered(backend)
    assert forward(*pack(problem), False)[2] == []
    assert sum(tensor.numel() for tensor in forward(*pack(problem), True)[2]) > 0
    with torch.no_grad():
        assert not any(result.requires_grad for result in case.run(backend))


@each_backend
def test_at_leak_zero_what_training_keeps_grows_with_open_events_only(backend):
    short, long = (Case(hidden=200, steps=steps, ratio=(0.05, 0.05)) for steps in (50, 250))
    grown = kept(long, backend) - kept(short, backend)
    with_leak = kept(replace(long, leak=0.01), backend) - kept(replace(short, leak=0.01), backend)
    assert 0 < grown < with_leak / 8
