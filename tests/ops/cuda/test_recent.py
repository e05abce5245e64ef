"""A layer on a GPU remembers its last calls. What is not like one of them is found, and checked as before."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from layers import each_layer, states
from phased import PhasedGRU, PhasedLSTM
from phased.init import LogUniform
from phased.ops.cuda import count
from phased.recent import KEPT

pytestmark = pytest.mark.usefixtures("a_gpu_in_numpy")

STEPS, BATCH, FEATURES, UNITS = 9, 4, 3, 7


@pytest.fixture(autouse=True)
def _guessed(monkeypatch):
    monkeypatch.setattr(count.Count, "expected", 10**4)


def made(kind=PhasedLSTM, **settings):
    """A layer on the GPU that does not watch its openings, and the same on the reference."""
    settings = {"period": LogUniform(2, 40), "ratio_on": 0.4, **settings}
    layer = kind(FEATURES, UNITS, backend="cuda", **settings)
    twin = kind(FEATURES, UNITS, backend="reference", **settings)
    twin.load_state_dict(layer.state_dict())
    for each in (layer, twin):
        each._openings.active = False
    return layer, twin


def batch(seed=0, steps=STEPS, batch_first=False):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(steps, BATCH, FEATURES, generator=draw)
    time = torch.rand(steps, BATCH, dtype=torch.float64, generator=draw).cumsum(0) * 10
    return (x.transpose(0, 1).contiguous(), time.T.contiguous()) if batch_first else (x, time)


def assert_same(layer, twin, *call, **more):
    """The same results and gradients."""
    found, wanted = layer(*call, **more), twin(*call, **more)
    flat = [(found[0], wanted[0]), *zip(states(found[1]), states(wanted[1]), strict=True)]
    for a, b in flat:
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
        assert a.shape == b.shape
    if not found[0].requires_grad:
        return
    for output, (a, b) in zip(("output", "final"), (flat[0], flat[-1]), strict=True):
        learned = [[p for p in each.parameters() if p.requires_grad] for each in (layer, twin)]
        one, other = [torch.autograd.grad(y.square().sum(), p, retain_graph=True) for y, p in zip((a, b), learned, strict=True)]
        for x, y in zip(one, other, strict=True):
            torch.testing.assert_close(x, y, atol=1e-4, rtol=1e-3, msg=output)


def remembered(layer, monkeypatch):
    """Whether a call does without checks from now on: they raise."""
    assert layer._recent is not None
    with monkeypatch.context() as patch:
        patch.setattr(type(layer), "_operands", lambda self: pytest.fail("checked"))
        layer(*batch(9, batch_first=layer.batch_first))


@each_layer
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_call_like_the_last_is_not_checked_and_is_right(monkeypatch, make, batch_first, bias):
    rnn, twin = made(make, batch_first=batch_first, bias=bias)
    for seed in range(4):
        assert_same(rnn, twin, *batch(seed, batch_first=batch_first))
    remembered(rnn, monkeypatch)
    with torch.no_grad():
        assert_same(rnn, twin, *batch(5, batch_first=batch_first))
        remembered(rnn, monkeypatch)


def test_parameters_that_an_optimiser_changes_are_read_anew():
    rnn, twin = made()
    optimisers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (rnn, twin)]
    for seed in range(4):
        assert_same(rnn, twin, *batch(seed))
        for each, optimiser in zip((rnn, twin), optimisers, strict=True):
            optimiser.zero_grad()
            each(*batch(seed))[0].square().sum().backward()
            optimiser.step()


def other_values(rnn):
    rnn.weight_hh_l0.data = rnn.weight_hh_l0.data * 2


def another_parameter(rnn):
    rnn.bias_ih_l0 = nn.Parameter(rnn.bias_ih_l0.detach() + 1)


def fixed(rnn):
    rnn.period_l0.requires_grad_(False)


class Halved(nn.Module):
    def forward(self, stored):
        return stored / 2


CHANGES = {
    "values by .data": other_values,
    "another parameter": another_parameter,
    "a parameter that is no longer learned": fixed,
    "a parametrisation": lambda rnn: parametrize.register_parametrization(rnn, "weight_ih_l0", Halved()),
    "a leak": lambda rnn: setattr(rnn, "leak", 0.1),
    "another shape of the gate": lambda rnn: setattr(rnn, "gate", "square"),
    "eval": lambda rnn: rnn.eval(),
    "another open ratio": lambda rnn: rnn.ratio_on_l0.data.fill_(0.9),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_has_changed_in_a_layer_is_found(change):
    rnn, twin = made(leak=0.01) if change is CHANGES["eval"] else made()
    for seed in range(3):
        rnn(*batch(seed))
    for each in (rnn, twin):
        change(each)
    for seed in range(3):
        assert_same(rnn, twin, *batch(seed))


CALLS = {
    "more steps": lambda: (batch(1, steps=STEPS + 2), {}),
    "integer times": lambda: ((batch()[0], torch.arange(STEPS).unsqueeze(1).expand(STEPS, BATCH)), {}),
    "other strides": lambda: ((batch()[0].transpose(0, 1).contiguous().transpose(0, 1), batch()[1]), {}),
    "an input to be learned": lambda: ((batch()[0].requires_grad_(), batch()[1]), {}),
    "a state": lambda: ((*batch(), tuple(torch.randn(1, BATCH, UNITS) for _ in range(2))), {}),
    "lengths": lambda: (batch(), {"lengths": [9, 0, 3, 5]}),
    "no batch": lambda: ((batch()[0][:, 0], batch()[1][:, 0]), {}),
    "one sequence": lambda: ((batch()[0][:, :1], batch()[1][:, :1]), {}),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_of_another_kind_between_others_is_right(call):
    rnn, twin = made()
    given, more = call()
    for seed in range(3):
        assert_same(rnn, twin, *batch(seed))
        assert_same(rnn, twin, *given, **more)
        assert_same(rnn, twin, *given, **more)


WRONG = {
    "an input of another dtype": (lambda x, time: (x.double(), time), TypeError, "dtype"),
    "an input that is a list": (lambda x, time: (x.tolist(), time), TypeError, "torch.Tensor"),
    "times of another shape": (lambda x, time: (x, time[:-1]), ValueError, "shape"),
    "times that are a list": (lambda x, time: (x, time.tolist()), TypeError, "torch.Tensor"),
    "no times": (lambda x, time: (x, None), TypeError, "torch.Tensor"),
    "times that need a gradient": (lambda x, time: (x, time.double().requires_grad_()), RuntimeError, "gradient to time"),
    "features that are missing": (lambda x, time: (x[..., :2], time), ValueError, "features"),
}


@pytest.mark.parametrize("wrong, error, words", WRONG.values(), ids=WRONG)
def test_a_wrong_call_raises_as_the_first_one_does(wrong, error, words):
    rnn, _ = made()
    for seed in range(3):
        rnn(*batch(seed))
    with pytest.raises(error, match=words):
        rnn(*wrong(*batch()))


def test_a_parameter_of_a_wrong_shape_raises():
    rnn, _ = made()
    for seed in range(3):
        rnn(*batch(seed))
    rnn.weight_hh_l0.data = rnn.weight_hh_l0.data[:, :-1]
    with pytest.raises(ValueError, match="weight_hh_l0 must have shape"):
        rnn(*batch())


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace.* is deprecated:DeprecationWarning")
def test_transforms_and_tracers_are_refused_all_the_same():
    rnn, _ = made()
    for seed in range(3):
        rnn(*batch(seed))
    with pytest.raises(RuntimeError, match=r"torch\.func"):
        torch.func.vmap(lambda x, time: rnn(x, time)[0])(*(each.unsqueeze(0) for each in batch()))
    with pytest.raises(RuntimeError, match=r"torch\.jit\.trace"):
        torch.jit.trace(rnn, batch(), check_trace=False)


def test_autocast_is_noticed():
    rnn, _ = made()
    fresh = copy.deepcopy(rnn)
    for seed in range(3):
        exact = rnn(*batch(seed))[0]
    found = {}
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype):
            rounded, wanted = [[each(*batch(2))[0] for _ in range(3)] for each in (rnn, fresh)]
        assert all(torch.equal(a, b) for a, b in zip(rounded, wanted, strict=True))
        found[dtype] = rounded[-1]
    assert not torch.equal(found[torch.bfloat16], exact)
    assert not torch.equal(found[torch.bfloat16], found[torch.float16])
    assert torch.equal(rnn(*batch(2))[0], exact)


def test_the_first_batches_of_training_are_watched():
    rnn, _ = made(period=1e9, shift=5e8)  # no unit opens
    rnn._openings.active = True
    for seed in range(3):
        rnn(*batch(seed))
    assert rnn._openings.batches == 3


def test_copies_start_without_memories():
    rnn, twin = made()
    for seed in range(3):
        rnn(*batch(seed))
    assert rnn._recent is not None
    assert rnn._recent._calls
    for copied in (copy.deepcopy(rnn), pickle.loads(pickle.dumps(rnn))):
        assert not copied._recent._calls
        assert_same(copied, twin, *batch())
        another_parameter(copied)
        assert not torch.equal(copied(*batch())[0], rnn(*batch())[0])
    assert_same(rnn, twin, *batch())


def test_a_bounded_number_of_shapes_is_remembered():
    rnn, _ = made()
    for steps in range(1, KEPT + 4):
        for seed in range(2):
            rnn(*batch(seed, steps=steps))
    assert len(rnn._recent._calls) == 3


@pytest.mark.parametrize("settings", [{"num_layers": 2}, {"bidirectional": True}, {"peephole": True}], ids=str)
def test_layers_whose_calls_are_not_remembered_are_right(settings):
    rnn, twin = made(**settings)
    for seed in range(3):
        assert_same(rnn, twin, *batch(seed))
    assert rnn._recent is None or not rnn._recent._calls


def test_a_gru_returns_its_state_alone():
    rnn, _ = made(PhasedGRU)
    shapes = {tuple(rnn(*batch(seed))[1].shape) for seed in range(4)}
    assert shapes == {(1, BATCH, UNITS)}
