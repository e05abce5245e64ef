"""Life as a module: saved, copied, converted, autocast, compiled and exported, it stays the same layer."""

import copy
import io
import pickle
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn

from layers import Layer, assert_close, assert_equal, each_layer, flat
from phased import PhasedLSTM
from phased.init import LogUniform, Uniform
from strategies import clocks

# Life as a module


def full(make: type) -> Layer:
    settings = {"peephole": True} if make is PhasedLSTM else {}
    return make(3, 5, 2, bidirectional=True, period=LogUniform(2, 40), ratio_on=Uniform(0.1, 0.9), **settings)


def from_state_dict(rnn: Layer) -> Layer:
    other, file = full(type(rnn)), io.BytesIO()
    torch.save(rnn.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file))
    return other


@each_layer
@pytest.mark.parametrize("copied", [from_state_dict, copy.deepcopy, lambda rnn: pickle.loads(pickle.dumps(rnn))])
def test_a_state_dict_a_deep_copy_and_a_pickle_are_the_same_layer_and_independent(make, copied):
    rnn, x, time = full(make), torch.randn(9, 4, 3), clocks(9, 4)
    other = copied(rnn)
    assert_equal(rnn(x, time), other(x, time))
    assert_equal(rnn.eval()(x, time), other.eval()(x, time))
    assert [p.requires_grad for p in rnn.parameters()] == [p.requires_grad for p in other.parameters()]
    assert repr(rnn) == repr(other)
    with torch.no_grad():
        other.period_l0.fill_(1.0)
    assert not (rnn.period_l0 == 1.0).any()


GATE_NAMES = ("period", "shift", "ratio_on")


@each_layer
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a model"])
@pytest.mark.parametrize("named", [False, True], ids=["to", "by name"])
def test_a_change_of_dtype_keeps_parameters_of_time_exact_with_their_gradients_and_optimiser(make, dtype, inside, named):
    rnn = make(3, 5, period=LogUniform(1, 1e3), ratio_on=0.5)
    optimiser = torch.optim.SGD(rnn.parameters(), lr=1.0)
    rnn(torch.randn(9, 4, 3), clocks(9, 4))[0].sum().backward()
    exact = {name: (p.clone(), p.grad) for name, p in rnn.named_parameters() if name.startswith(GATE_NAMES)}
    model = nn.ModuleList([rnn]) if inside else rnn
    change = {torch.float16: model.half, torch.bfloat16: model.bfloat16, torch.float32: model.float, torch.float64: model.double}
    change[dtype]() if named else model.to(dtype)
    for name, parameter in rnn.named_parameters():
        if name in exact:
            value, grad = exact[name]
            assert parameter.dtype == torch.float64
            assert torch.equal(parameter, value)
            assert parameter.grad is grad is None or torch.equal(parameter.grad, grad)
            assert parameter.requires_grad == value.requires_grad
        else:
            assert parameter.dtype == dtype
    optimiser.step()
    assert (rnn.period_l0 != exact["period_l0"][0]).any()


@each_layer
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_runs_and_is_close(make, training, dtype):
    rnn = make(3, 16, 2, bidirectional=True, period=LogUniform(2, 40), ratio_on=0.4).train(training).to(dtype)
    wide = copy.deepcopy(rnn).to(torch.float32)
    x, time = torch.randn(30, 4, 3).to(dtype), clocks(30, 4, start=1e9)
    output, *final = flat(rnn(x, time))
    assert {value.dtype for value in (output, *final)} == {dtype}
    assert_close((output.float(), [s.float() for s in final]), wide(x.float(), time), rtol=0.02, atol=0.02)
    output.float().square().sum().backward()
    for p in rnn.parameters():
        assert p.grad is None or (p.grad.isfinite().all() and p.grad.dtype == p.dtype)


# Autocast


@each_layer
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("backend", ["reference", "eager", "auto"])
def test_under_autocast_outputs_and_states_have_the_same_bits(make, training, backend):
    rnn = make(3, 16, 2, period=LogUniform(0.5, 4), ratio_on=0.3, leak=0.01, backend=backend).train(training)
    x, time = torch.randn(30, 4, 3), clocks(30, 4, start=1.7e9)
    want, k = rnn(x, time), rnn.gates()[0](time)
    for low in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", low):
            assert_equal(rnn(x, time), want)
            assert torch.equal(rnn.gates()[0](time), k)


def test_without_its_protection_autocast_would_round_the_reference(monkeypatch):
    """So the test above compares something: autocast rounds the matrix products of PyTorch."""
    rnn = PhasedLSTM(3, 16, period=LogUniform(0.5, 4), ratio_on=0.3, backend="reference")
    x, time = torch.randn(30, 4, 3), clocks(30, 4)
    want = rnn(x, time)[0]
    monkeypatch.setattr("phased.ops.reference.without_autocast", lambda device: nullcontext())
    with torch.autocast("cpu", torch.bfloat16):
        assert not torch.equal(rnn(x, time)[0], want)


def test_under_autocast_a_layer_trains_between_others_that_compute_in_bfloat16():
    rnn, time = PhasedLSTM(3, 16, period=LogUniform(0.5, 4), ratio_on=0.3), clocks(30, 4, start=1e6)
    with torch.autocast("cpu", torch.bfloat16):
        x = nn.Linear(3, 3)(torch.randn(30, 4, 3))
        output, _ = rnn(x, time)
        loss = nn.Linear(16, 2)(output).float().square().mean()
    assert x.dtype == torch.bfloat16
    assert torch.equal(output, rnn(x.float(), time)[0])
    loss.backward()
    for p in rnn.parameters():
        assert p.grad is None or (p.grad.dtype == p.dtype and p.grad.isfinite().all())


@pytest.mark.parametrize("backend", ["eager", "auto"])
@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_a_backward_pass_may_be_inside_the_autocast_region_too(backend, leak):
    rnn = PhasedLSTM(3, 8, 2, bidirectional=True, period=LogUniform(0.5, 4), ratio_on=0.3, leak=leak, backend=backend)
    x, time = torch.randn(30, 4, 3), clocks(30, 4)

    def gradients(inside):
        with torch.autocast("cpu", torch.bfloat16):
            loss = rnn(x, time)[0].sum()
            if inside:
                return torch.autograd.grad(loss, rnn.weight_hh_l0)[0]
        return torch.autograd.grad(loss, rnn.weight_hh_l0)[0]

    assert torch.equal(gradients(inside=True), gradients(inside=False))


# Compile and export


def assert_compiled_equals_eager(rnn: Layer, compiled: Any, shapes: list[tuple[int, int]], lengths: bool = False) -> None:
    for steps, batch in shapes:
        x, time = torch.randn(steps, batch, 3), clocks(steps, batch)
        length = torch.arange(batch) % (steps + 1) if lengths else None
        results = []
        for run in (rnn, compiled):
            rnn.zero_grad()
            found = flat(run(x, time, lengths=length))
            if rnn.training:
                sum(value.sin().sum() for value in found).backward()
            results.append([*found, *(p.grad.clone() for p in rnn.parameters() if p.grad is not None)])
        for got, want in zip(*results, strict=True):
            torch.testing.assert_close(got, want)


@pytest.fixture
def fresh_compiler() -> None:
    torch.compiler.reset()


@each_layer
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_without_a_graph_break_it_equals_eager(make, training):
    rnn = make(3, 5, period=8.0, ratio_on=0.4, leak=0.01).train(training)
    compiled = torch.compile(rnn, fullgraph=True, backend="aot_eager")
    assert_compiled_equals_eager(rnn, compiled, [(9, 4), (12, 3)])


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # torch's own, on importing its compiler
def test_compiled_by_inductor_it_equals_eager():
    rnn = PhasedLSTM(3, 5, period=8.0, ratio_on=0.4, leak=0.0)
    assert_compiled_equals_eager(rnn, torch.compile(rnn, fullgraph=True), [(9, 4)])


@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_with_every_option_and_dynamic_shapes_it_equals_eager():
    rnn = PhasedLSTM(3, 5, 2, bidirectional=True, peephole=True, period=8.0, ratio_on=0.4, leak=0.0, learn_ratio_on=True)
    compiled = torch.compile(rnn, fullgraph=True, dynamic=True, backend="aot_eager")
    assert_compiled_equals_eager(rnn, compiled, [(9, 4), (5, 2)], lengths=True)


@each_layer
def test_an_exported_layer_takes_any_steps_and_any_batch_and_survives_a_file(make, tmp_path):
    rnn = make(3, 5, 2, bidirectional=True, period=8.0, ratio_on=0.4).eval()
    steps, batch = torch.export.Dim("steps", min=2), torch.export.Dim("batch", min=2)
    program = torch.export.export(
        rnn,
        (torch.randn(9, 4, 3), clocks(9, 4)),
        dynamic_shapes={"input": {0: steps, 1: batch}, "time": {0: steps, 1: batch}},
    )
    torch.export.save(program, tmp_path / "layer.pt2")
    exported = torch.export.load(tmp_path / "layer.pt2").module()
    for shape in ((9, 4), (30, 2), (3, 7)):
        x, time = torch.randn(*shape, 3), clocks(*shape)
        assert_close(exported(x, time), rnn(x, time))
