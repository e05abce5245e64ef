"""Tensors that do not fit raise before compiled code sees them: no read or write outside, no silently wrong number."""

import warnings

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.two_tensor import TwoTensor

from contract import Case, device_of, each_backend, each_backend_and_reference, each_backend_once, each_cell, each_leak
from phased import PhasedGRU, PhasedLSTM, Stream, ops, updates
from phased.cell import CELLS
from phased.ops.operator import pack

WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "peephole")
GATE = ("period", "shift", "ratio_on")


MISFITS = {
    "short": lambda t: t[:-1],
    "long": lambda t: torch.cat((t, t[-1:])),
    "narrow": lambda t: t[..., :-1],
    "wide": lambda t: torch.cat((t, t[..., -1:]), -1),
    "flat": lambda t: t.flatten()[:0],
    "half": lambda t: t.half(),
    "bfloat16": lambda t: t.bfloat16(),
    "another float": lambda t: t.to(torch.float32 if t.dtype == torch.float64 else torch.float64),
    "meta": lambda t: t.to("meta"),
    "complex": lambda t: t.to(torch.complex64),
    "integer": lambda t: t.long(),
}


each_tensor = pytest.mark.parametrize("name", ["input", "h_0", "c_0", *WEIGHTS, *GATE])


@each_tensor
@pytest.mark.parametrize("misfit", MISFITS)
def test_a_tensor_of_another_shape_dtype_or_device_raises(name, misfit):
    assert_refused("cpu", 0.0, name, misfit)


@each_backend_once
@each_leak
@each_tensor
def test_every_backend_refuses_what_does_not_fit(backend, leak, name):
    assert_refused(backend, leak, name, "narrow")


def assert_refused(backend, leak, name, misfit):
    """By the recurrence, and by the operator itself, which a compiled graph calls."""
    case = Case(leak=leak, peephole=True, dtype=torch.float32)
    leaves = {key: leaf.detach() for key, leaf in case.on(backend).items()}
    leaves[name] = MISFITS[misfit](leaves[name])
    with pytest.raises((TypeError, ValueError), match=r"must (have|be)|needs (CPU|CUDA) tensors"):
        case.run(backend, leaves)
    if misfit != "meta":  # torch then computes shapes alone
        with pytest.raises((TypeError, ValueError), match=r"must (have|be)"):
            operator(backend)(*pack(case.problem(backend, leaves)), True)


@each_backend
@pytest.mark.parametrize("misfit", ["short", "long", "narrow", "wide", "meta", "complex"])
def test_times_of_another_shape_or_device_raise(backend, misfit):
    case = Case()
    problem = case.problem(backend, case.on(backend))
    problem = problem._replace(time=MISFITS[misfit](problem.time))
    with pytest.raises(ValueError, match="time must have shape"):
        ops.recurrence(problem, backend)


@each_backend
@each_cell
@each_leak
@pytest.mark.parametrize("lengths", [[12, 3, 3], [10**6, 1, 1], [-5, 3, 3], [2**62, 0, 0], [-(2**63), 0, 0]])
def test_lengths_beyond_the_steps_raise_or_count_as_the_nearest(backend, cell, leak, lengths):
    """In the operator itself, which a compiled graph calls: on a GPU reading lengths would wait for it, so kernels clamp."""
    case = Case(cell, leak=leak, lengths=lengths)
    if device_of(backend) == "cpu" and backend != "eager":
        with pytest.raises(ValueError, match=r"lengths must be in \[0, 11\], the steps of input, got"):
            operator(backend)(*case.operator_arguments(backend, keep=True))
        return
    output, final, _ = operator(backend)(*case.operator_arguments(backend, keep=True))
    nearest = Case(cell, leak=leak, lengths=[min(max(n, 0), 11) for n in lengths])
    for got, want in zip([output, *final], nearest.run("reference"), strict=True):
        torch.testing.assert_close(got.cpu(), want)


@each_backend
@pytest.mark.parametrize("lengths", [[3], [3, 3, 3, 3], [[3, 3, 3]]])
def test_a_wrong_number_of_lengths_raises(backend, lengths):
    case = Case()
    problem = case.problem(backend, case.on(backend))
    problem = problem._replace(lengths=torch.tensor(lengths, device=device_of(backend)))
    with pytest.raises(ValueError, match="lengths must have shape"):
        ops.recurrence(problem, backend)


def operator(backend):
    return getattr(torch.ops.phased, backend)


# Tensors whose values are not where their address says


@each_backend
@each_cell
@each_leak
@pytest.mark.parametrize("name", ["input", "h_0", "weight_ih", "weight_hh", "bias_hh", "period", "shift"])
def test_values_that_torch_negates_when_it_reads_them_are_read_so(backend, cell, leak, name):
    """As `.imag` of a conjugate is: a view of memory that holds the values with the other sign."""
    case = Case(cell, leak=leak)
    want = case.run("reference")
    leaves = case.on(backend)
    leaves[name] = torch._neg_view(-leaves[name])
    assert leaves[name].is_neg()
    for got, expected in zip(case.run(backend, leaves), want, strict=True):
        torch.testing.assert_close(got.cpu(), expected)


@each_backend
@each_leak
def test_gradients_that_torch_negates_when_it_reads_them_are_read_so(backend, leak):
    case = Case(leak=leak)
    leaves = case.on(backend)
    output, h, _ = case.run(backend, leaves)
    to_output, to_h = torch.randn_like(output), torch.randn_like(h)
    names = ["input", "weight_hh"]
    want = torch.autograd.grad([output, h], [leaves[name] for name in names], [to_output, to_h], retain_graph=True)
    negated = [torch._neg_view(-to_output), torch._neg_view(-to_h)]
    for got, expected in zip(torch.autograd.grad([output, h], [leaves[name] for name in names], negated), want, strict=True):
        torch.testing.assert_close(got, expected)


def freed(tensor: Tensor) -> Tensor:
    """As sharded training leaves a parameter whose values are elsewhere for now."""
    other = tensor.clone()
    other.untyped_storage().resize_(0)
    return other


def wrapped(tensor: Tensor) -> Tensor:
    return TwoTensor(tensor, tensor)


def zeros(tensor: Tensor) -> Tensor:
    return torch._efficientzerotensor(tensor.shape, dtype=tensor.dtype)


@pytest.mark.parametrize("leak", [0.0, 0.01])
@pytest.mark.parametrize("name", ["input", "h_0", *WEIGHTS[:4], *GATE])
@pytest.mark.parametrize("change", [freed, wrapped, zeros])
def test_a_tensor_without_memory_of_its_own_raises_in_the_core(leak, name, change):
    case = Case(leak=leak)
    leaves = {key: leaf.detach() for key, leaf in case.leaves.items()}
    leaves[name] = change(leaves[name])
    got = outcome(lambda: case.run("cpu", leaves))
    if isinstance(got, str):
        assert "must have its values in memory of its own" in got
    else:  # zeros for a gate's shift, which are copied to plain memory on the way
        torch.testing.assert_close(got, case.run("reference", leaves))


def outcome(run):
    try:
        return run()
    except ValueError as error:
        return str(error)


def test_real_tensors_among_fake_ones_raise():
    rnn, x, t = PhasedLSTM(3, 8), torch.randn(5, 2, 3), torch.arange(5.0).unsqueeze(1).expand(5, 2)
    with FakeTensorMode(allow_non_fake_inputs=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, about the address of a fake tensor
        with pytest.raises(ValueError, match="must have its values in memory of its own, got a FakeTensor"):
            rnn(x, t)


@each_backend
def test_a_gradient_to_time_raises_and_names_the_backend_that_has_one(backend):
    case = Case()
    problem = case.problem(backend, case.on(backend))
    time = problem.time.requires_grad_()
    with pytest.raises(RuntimeError, match=r'a gradient to time .*time\.detach\(\).*backend="reference"'):
        ops.recurrence(problem._replace(time=time), backend)
    with torch.no_grad():
        ops.recurrence(problem._replace(time=time), backend)


def test_batched_gradients_raise_and_name_the_backend_that_has_them():
    rnn = PhasedLSTM(2, 3, backend="cpu", leak=0.0)
    x = torch.randn(4, 1, 2, requires_grad=True)
    output, _ = rnn(x, torch.arange(4.0).unsqueeze(1))
    with pytest.raises(ValueError, match='backend="reference"'):
        torch.autograd.grad(output, x, torch.ones(5, *output.shape), is_grads_batched=True)


# Gates that are not numbers


@each_backend_and_reference
@each_cell
@each_leak
@pytest.mark.parametrize("name", GATE)
@pytest.mark.parametrize("shape", ["triangle", "square"])
def test_a_gate_that_is_nan_shows_in_its_unit(backend, cell, leak, name, shape):
    """The unit is not silently closed; others read it when they open, and their own outputs before that stay finite."""
    case = Case(cell, leak=leak, shape=shape, batch=2, lengths=[11, 6])
    case.leaves[name][3] = float("nan")
    output, *final = case.run(backend)
    assert output[0, :, [0, 1, 2, 4, 5, 6]].isfinite().all()
    assert output[:, 0, 3].isnan().all()
    assert output[:6, 1, 3].isnan().all()
    assert (output[6:, 1] == 0).all()
    assert all(s[:, 3].isnan().all() for s in final)


def test_units_whose_gate_is_nan_count_as_open():
    rnn = PhasedLSTM(1, 4, period=10.0, ratio_on=0.5)
    with torch.no_grad():
        rnn.period_l0[1] = float("nan")
    assert updates(rnn, torch.arange(20.0))[0].tolist() == [10, 20, 10, 10]


# Second derivatives


@each_backend
@each_leak
@pytest.mark.parametrize("head", ["none", "linear"])
def test_second_derivatives_raise_and_name_the_backend_that_has_them(backend, leak, head):
    case = Case(leak=leak, dtype=torch.float64)
    leaves = case.on(backend)
    output, *_ = case.run(backend, leaves)
    loss = output.sum() if head == "none" else output.square().sum()
    (to_input,) = torch.autograd.grad(loss, leaves["input"], create_graph=True)
    assert to_input.requires_grad
    with pytest.raises(RuntimeError, match='backend="reference"'):
        to_input.square().sum().backward()
    (again,) = torch.autograd.grad(case.run(backend, leaves)[0].sum(), leaves["input"], create_graph=True)
    with pytest.raises(RuntimeError, match='backend="reference"'):
        torch.autograd.grad(again.square().sum(), leaves["weight_hh"], allow_unused=True)


@each_backend
def test_first_derivatives_do_not_change_with_create_graph(backend):
    case = Case()
    leaves = case.on(backend)
    plain = torch.autograd.grad(case.run(backend, leaves)[0].sum(), list(leaves.values()), allow_unused=True)
    graph = torch.autograd.grad(case.run(backend, leaves)[0].sum(), list(leaves.values()), create_graph=True, allow_unused=True)
    for one, other in zip(plain, graph, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.equal(one, other)


def test_a_gradient_penalty_works_on_the_reference():
    rnn = PhasedGRU(2, 5, period=7.0, ratio_on=0.5, backend="reference", dtype=torch.float64)
    x = torch.randn(6, 3, 2, dtype=torch.float64, requires_grad=True)
    output, _ = rnn(x, torch.arange(6.0).unsqueeze(1).expand(6, 3))
    (to_x,) = torch.autograd.grad(output.sum(), x, create_graph=True)
    to_x.square().sum().backward()
    assert rnn.weight_hh_l0.grad.abs().sum() > 0


# Layers and streams


def test_torchs_default_device_plays_no_part():
    rnn = PhasedLSTM(2, 5, leak=0.0)
    x, t = torch.randn(9, 2), torch.arange(9.0)
    want, _ = rnn(x, t)
    with torch.device("meta"):
        got, _ = rnn(x, t)
        got.sum().backward()
        streamed = Stream(rnn).run(x.numpy(), t.numpy())
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(torch.from_numpy(streamed), want.detach())


@pytest.mark.parametrize("change", ["units", "dtype"])
def test_a_stream_of_layers_that_do_not_fit_each_other_raises(change):
    rnn = PhasedLSTM(2, 6, num_layers=2)
    with torch.no_grad():
        for name, parameter in rnn.named_parameters():
            if name.endswith("_l1"):
                size = [3 * n // 6 if n % 6 == 0 else n for n in parameter.shape]
                parameter.data = torch.ones(size, dtype=parameter.dtype) if change == "units" else parameter.data.half()
    with pytest.raises((TypeError, ValueError), match=r"_l1 must"):
        Stream(rnn)


def test_an_unknown_cell_or_gate_in_a_direct_call_raises():
    *problem, keep = Case().operator_arguments("cpu", keep=False)
    for index, value in ((0, "rnn"), (1, "circle")):
        changed = [*problem]
        changed[index] = value
        with pytest.raises(ValueError, match=f"expected a cell of {sorted(CELLS)!r}".replace("[", r"\[").replace("]", r"\]")):
            torch.ops.phased.cpu(*changed, keep)
