"""Values replaced behind the layer's back, by torch's own means: the numbers are right, or the parameter is named."""

import re

import pytest
import torch
from torch.func import functional_call
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from layers import each_layer, lstm
from phased import PhasedLSTM, Stream, updates
from phased.init import LogUniform
from strategies import clocks
from wrong import Wrong, table

X, T = torch.randn(9, 4, 3), clocks(9, 4)
GATE_NAMES = ("period", "shift", "ratio_on")


@each_layer
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_checkpoint_in_any_dtype_can_be_assigned(make, dtype):
    saved = make(3, 5, period=LogUniform(2, 40), ratio_on=0.5)
    state = {name: value.to(dtype) for name, value in saved.state_dict().items()}
    rnn = make(3, 5)
    rnn.load_state_dict(state, assign=True)
    assert rnn.dtype == dtype
    for name, parameter in rnn.named_parameters():
        assert parameter.dtype == (torch.float64 if name.startswith(GATE_NAMES) else dtype)
        assert parameter.requires_grad == saved.get_parameter(name).requires_grad
        assert torch.equal(parameter, state[name].to(parameter.dtype))
    copied = make(3, 5, dtype=dtype)
    copied.load_state_dict(state)
    x = X.to(dtype)
    assert torch.equal(rnn.eval()(x, T)[0], copied.eval()(x, T)[0])
    rnn.train()(x, T)[0].sum().backward()
    assert rnn.period_l0.grad.dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_gates_of_another_dtype_are_computed_in_float64(dtype):
    rnn, other = lstm(), lstm()
    with torch.no_grad():
        for name in GATE_NAMES:
            parameter = rnn.get_parameter(f"{name}_l0")
            parameter.data = parameter.data.to(dtype)
    other.load_state_dict(rnn.state_dict())
    assert torch.equal(rnn(X, T)[0], other(X, T)[0])
    assert torch.equal(updates(rnn, T), updates(other, T))
    assert torch.equal(Stream(rnn).run(X[:, 0], T[:, 0]), Stream(other).run(X[:, 0], T[:, 0]))
    assert rnn.bfloat16().period_l0.dtype == torch.float64


def test_a_vector_of_all_parameters_goes_round():
    """parameters_to_vector promotes to float64, and vector_to_parameters leaves it so."""
    rnn, x = lstm(), X.double()
    want, _ = rnn(X, T)
    vector_to_parameters(parameters_to_vector(rnn.parameters()), rnn.parameters())
    assert rnn.dtype == torch.float64
    torch.testing.assert_close(rnn(x, T)[0].float(), want)
    with pytest.raises(TypeError, match=r"input must have the layer's dtype, torch\.float64, got torch\.float32\. Call"):
        rnn(X, T)
    assert torch.equal(rnn.float()(X, T)[0], want)


def called_with(**values: torch.Tensor) -> object:
    return functional_call(lstm(), values, (X, T))


def with_data(name: str, value: torch.Tensor) -> object:
    rnn = lstm()
    rnn.get_parameter(name).data = value
    return rnn(X, T)


def on_meta(name: str) -> PhasedLSTM:
    """All but one parameter loaded, as when a checkpoint lacks a key."""
    with torch.device("meta"):
        rnn = PhasedLSTM(3, 5)
    rnn.load_state_dict({key: value for key, value in lstm().state_dict().items() if key != name}, strict=False, assign=True)
    return rnn


META = ValueError, "All parameters must have values"
OF_IH = "must have the dtype of weight_ih_l0, torch.float32"
ONES = torch.ones(6, dtype=torch.float64)

# The parameter, a call with another value, the error, what its message says is expected and what it says came
ROWS = [
    ("bias_hh_l0", lambda: with_data("bias_hh_l0", torch.randn(4)), ValueError, "must have shape (20,)", "got (4,)"),
    ("weight_ih_l0", lambda: called_with(weight_ih_l0=torch.randn(20, 4)), ValueError, "must have shape (20, 3)", "got (20, 4)"),
    ("weight_hh_l0", lambda: with_data("weight_hh_l0", torch.randn(5, 20)), ValueError, "must have shape (20, 5)", "got (5, 20)"),
    ("period_l0", lambda: called_with(period_l0=ONES), ValueError, "must have shape (5,)", "got (6,)"),
    ("period_l0", lambda: called_with(period_l0=ONES[0]), ValueError, "must have shape (5,)", "got ()"),
    ("weight_hh_l0", lambda: called_with(weight_hh_l0=torch.randn(20, 5).double()), TypeError, OF_IH, "got torch.float64. Call"),
    ("bias_ih_l0", lambda: with_data("bias_ih_l0", torch.randn(20).bfloat16()), TypeError, OF_IH, "got torch.bfloat16"),
    (
        "weight_ih_l0",
        lambda: called_with(weight_ih_l0=torch.ones(20, 3).char()),
        TypeError,
        "must be floating point",
        "torch.int8",
    ),
]
MISFITS = [
    Wrong(f"{n}. {name}", call, error, re.escape(f"{name} {expected}"), re.escape(got))
    for n, (name, call, error, expected, got) in enumerate(ROWS)
]
MISFITS += [
    Wrong(f"{name} left on meta", lambda name=name: on_meta(name)(X, T), *META, f"got {name} on meta", r"assign=True.*to_empty")
    for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "period_l0", "ratio_on_l0")
]
MISFITS += [
    Wrong("updates of a period on meta", lambda: updates(on_meta("period_l0"), T), *META, "got period_l0 on meta"),
    Wrong("a stream of a weight on meta", lambda: Stream(on_meta("weight_hh_l0")), *META, "got weight_hh_l0 on meta"),
]


@table(MISFITS)
def test_a_parameter_that_does_not_fit_is_named(wrong):
    wrong.assert_says_so()
