"""The contract: every backend computes what the reference computes, outputs, final states and every gradient."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from contract import Case, assert_contract, assert_same, each_backend, each_backend_and_reference, each_cell, each_leak
from phased.cell import CELLS
from phased.gate import SHAPES
from phased.schedule import valid_steps
from strategies import apart, poisoned, ragged, seeds

# Equal to the reference


@each_backend
@each_cell
@each_leak
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("extras", ["plain", "bias", "peephole", "bias and peephole"])
def test_every_backend_equals_reference_with_every_option(backend, cell, leak, shape, dtype, extras):
    if "peephole" in extras and cell == "gru":
        extras = extras.replace("peephole", "")  # a GRU has none
    case = Case(cell, leak=leak, shape=shape, dtype=dtype, bias="bias" in extras, peephole="peephole" in extras)
    assert_contract(case, backend)


@each_backend
@each_cell
@each_leak
@pytest.mark.parametrize("hidden", [1, 7, 110, 129])
@pytest.mark.parametrize("inputs", [1, 5])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_every_backend_equals_reference_at_every_size(backend, cell, leak, hidden, inputs, dtype):
    case = Case(cell, leak=leak, hidden=hidden, inputs=inputs, dtype=dtype, ratio=(0.05, 0.3), peephole=cell == "lstm")
    assert_contract(case, backend)


@each_backend
@each_cell
@each_leak
@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("batch", [0, 1, 4])
def test_every_backend_equals_reference_for_empty_and_tiny_batches(backend, cell, leak, steps, batch):
    assert_contract(Case(cell, steps=steps, batch=batch, leak=leak, peephole=cell == "lstm"), backend)
    assert_contract(Case(cell, steps=steps, batch=batch, leak=leak, lengths=[steps] * batch), backend)


@each_backend
@each_cell
@each_leak
@pytest.mark.parametrize("lengths", [[11, 0, 4], [0, 0, 0], [11, 11, 11], [1, 2, 0]])
def test_every_backend_equals_reference_in_ragged_batches(backend, cell, leak, lengths):
    assert_contract(Case(cell, leak=leak, lengths=lengths, peephole=cell == "lstm"), backend)


@each_backend
@given(
    seeds,
    st.sampled_from(sorted(CELLS)),
    st.sampled_from([0.0, 0.01]),
    st.sampled_from(sorted(SHAPES)),
    ragged,
    st.integers(1, 6),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)
def test_every_backend_equals_reference_whatever_is_drawn(backend, seed, cell, leak, shape, lengths, hidden, inputs, bias, peep):
    assert_contract(
        Case(
            cell,
            9,
            len(lengths),
            inputs,
            hidden,
            bias,
            peep and cell == "lstm",
            leak,
            shape,
            lengths=lengths,
            ratio=(0.02, 1.0),
            seed=seed,
        ).poison_padding(),
        backend,
    )


@each_backend
@each_cell
@each_leak
@pytest.mark.parametrize("to", ["output", "state", "both"])
def test_a_gradient_may_come_to_the_output_the_final_state_or_both(backend, cell, leak, to):
    assert_contract(Case(cell, leak=leak, peephole=cell == "lstm"), backend, to)
    assert_contract(Case(cell, leak=leak, lengths=[5, 0, 11]), backend, to)


@each_backend
@each_cell
@each_leak
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_times_may_be_integers_and_far_from_zero(backend, cell, leak, dtype):
    assert_contract(Case(cell, leak=leak, dtype=dtype, integer_time=True), backend)
    assert_contract(Case(cell, leak=leak, dtype=dtype, start=1e9), backend)
    assert_contract(
        Case(cell, leak=leak, dtype=dtype, start=1e9, integer_time=True, lengths=[3, 11, 0]).poison_padding(), backend
    )
    assert_contract(Case(cell, leak=leak, dtype=dtype, start=-1e6), backend)


@each_backend
@each_cell
@each_leak
def test_no_unit_open_and_every_unit_open(backend, cell, leak):
    asleep = Case(cell, leak=leak)
    asleep.leaves["period"] = torch.full((7,), 1e6, dtype=torch.float64)
    asleep.leaves["shift"] = torch.full((7,), 5e5, dtype=torch.float64)
    assert_contract(asleep, backend)
    assert_contract(Case(cell, leak=leak, shape="square", ratio=(1.0, 1.0)), backend)


@each_backend
@each_cell
@each_leak
def test_memory_may_lie_in_any_order(backend, cell, leak):
    """Transposed, strided and expanded tensors mean the same numbers."""
    case = Case(cell, leak=leak, peephole=cell == "lstm")
    want = case.gradients("reference")
    for name, leaf in case.leaves.items():
        if leaf.dim() == 3:
            case.leaves[name] = leaf.transpose(0, 1).contiguous().transpose(0, 1)
        elif leaf.dim() == 2:
            case.leaves[name] = leaf.T.contiguous().T
        else:
            case.leaves[name] = torch.stack([leaf, leaf], -1)[:, 0]
        assert not case.leaves[name].is_contiguous()
    case.time = case.time.T.contiguous().T
    with poisoned():
        got = case.gradients(backend)
    for a, b in zip(got, want, strict=True):
        assert_same(a, b, case.dtype, "non-contiguous")


@each_backend
@each_leak
def test_one_clock_expanded_over_the_batch_and_one_state_too(backend, leak):
    case = Case(leak=leak)
    case.time = case.time[:, :1].expand(-1, 3)
    for name in ("h_0", "c_0"):
        case.leaves[name] = case.leaves[name][:1].expand(3, -1)
    assert_contract(case, backend)


# Padding


@each_backend_and_reference
@each_cell
@each_leak
@pytest.mark.parametrize("integer_time", [False, True], ids=["float", "int64"])
def test_poison_in_the_padding_reaches_nothing(backend, cell, leak, integer_time):
    clean = Case(cell, leak=leak, lengths=[4, 0, 11], integer_time=integer_time, peephole=cell == "lstm")
    dirty = replace(clean).poison_padding()
    with poisoned():
        got = dirty.gradients(backend)
    for a, b in zip(got, clean.gradients("reference"), strict=True):
        assert_same(a, b, clean.dtype, "with poisoned padding,")


@each_backend_and_reference
@each_leak
def test_padding_keeps_the_state_and_its_output_is_zero(backend, leak):
    case = Case(leak=leak, lengths=[4, 0, 11]).poison_padding()
    output, h_n, c_n = (result.cpu() for result in case.run(backend))
    assert (output[4:, 0] == 0).all()
    assert (output[:, 1] == 0).all()
    assert torch.equal(h_n[1], case.leaves["h_0"][1])
    assert torch.equal(c_n[1], case.leaves["c_0"][1])
    assert torch.equal(h_n[0], output[3, 0])
    assert torch.equal(h_n[2], output[10, 2])


@each_backend_and_reference
@each_cell
@each_leak
def test_a_gradient_to_the_outputs_of_padding_goes_nowhere(backend, cell, leak):
    case = Case(cell, leak=leak, lengths=[4, 0, 11])
    leaves = case.on(backend)
    output = case.run(backend, leaves)[0]
    padding = ~valid_steps(11, torch.tensor([4, 0, 11])).to(output.device)
    grads = torch.autograd.grad(output, list(leaves.values()), 1e3 * padding.unsqueeze(-1).expand_as(output).to(output))
    assert all((grad == 0).all() for grad in grads)


@each_backend_and_reference
@each_leak
def test_padded_steps_have_no_gradient_to_their_input(backend, leak):
    case = Case(leak=leak, lengths=[4, 0, 11])
    _, grads = case.gradients(backend)
    assert (grads["input"][4:, 0] == 0).all()
    assert (grads["input"][:, 1] == 0).all()
    assert (grads["input"][:4, 0] != 0).any()


# Gradients against finite differences


def smooth_case(**settings: Any) -> Case:
    """A small case no phase of which is near a corner of its gate."""
    for seed in range(1000):
        case = Case(steps=5, batch=2, inputs=2, hidden=2, ratio=(0.4, 0.9), seed=seed, **settings)
        tau, s, r_on = case.leaves["period"], case.leaves["shift"], case.leaves["ratio_on"]
        phi = ((case.time.unsqueeze(-1).double() - s) % tau) / tau
        if all((apart(phi, corner) > 0.004).all() for corner in (0.0 * r_on, r_on / 2, r_on)):
            return case
    raise AssertionError("no smooth case found")


@each_backend_and_reference
@each_cell
@each_leak
@pytest.mark.parametrize("shape", SHAPES)
def test_gradcheck(backend, cell, leak, shape):
    case = smooth_case(cell=cell, leak=leak, shape=shape, peephole=cell == "lstm", lengths=[5, 3])
    names, leaves = zip(*case.on(backend).items(), strict=True)

    def results(*values: Tensor) -> tuple[Tensor, ...]:
        return tuple(case.run(backend, dict(zip(names, values, strict=True))))

    assert torch.autograd.gradcheck(results, leaves)


# The same every time


@each_backend_and_reference
@each_cell
@each_leak
def test_two_runs_give_the_same_bits(backend, cell, leak):
    case = Case(cell, hidden=40, batch=8, steps=30, leak=leak, dtype=torch.float32)
    first, second = case.gradients(backend), case.gradients(backend)
    for a, b in zip(first, second, strict=True):
        assert all(torch.equal(a[name], b[name]) for name in a)


@each_backend_and_reference
@each_cell
@each_leak
def test_nothing_that_was_passed_in_is_changed(backend, cell, leak):
    case = Case(cell, leak=leak, lengths=[11, 0, 4], peephole=cell == "lstm").poison_padding()
    before = {name: leaf.clone() for name, leaf in case.leaves.items()}
    time = case.time.clone()
    case.gradients(backend)
    for name, leaf in case.leaves.items():
        torch.testing.assert_close(leaf, before[name], rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(case.time, time, rtol=0, atol=0, equal_nan=True)


@each_backend
@each_cell
@each_leak
def test_only_what_is_asked_for_is_differentiated(backend, cell, leak):
    """A frozen gate, or frozen weights: the other gradients stay what they are."""
    case = Case(cell, leak=leak)
    _, want = case.gradients("reference")
    for wanted in ("input", "period", "weight_hh", "h_0"):
        leaves = {name: leaf.detach().requires_grad_(name == wanted) for name, leaf in case.on(backend).items()}
        results = case.run(backend, leaves)
        draw = torch.Generator().manual_seed(case.seed + 1)
        loss = sum((r * torch.randn(r.shape, generator=draw, dtype=torch.float64).to(r)).sum() for r in results)
        loss.backward()
        assert_same({wanted: leaves[wanted].grad}, {wanted: want[wanted]}, case.dtype, "gradient to")
        assert all(leaf.grad is None for name, leaf in leaves.items() if name != wanted)


@each_backend
@each_leak
def test_a_graph_can_be_walked_twice(backend, leak):
    case = Case(leak=leak)
    leaves = case.on(backend)
    loss = case.run(backend, leaves)[0].square().sum()
    first = torch.autograd.grad(loss, list(leaves.values()), retain_graph=True)
    second = torch.autograd.grad(loss, list(leaves.values()))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
