"""A layer on a GPU remembers its last calls. What is not like one of them is found, and checked as before."""

import copy
import pickle
import weakref

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn.utils import parametrize

from contract import Case, assert_contract
from layers import each_layer, states
from phased import PhasedGRU, PhasedLSTM
from phased.init import LogUniform
from phased.layer_calls import KEPT
from phased.ops.cuda import counting, replay

pytestmark = pytest.mark.usefixtures("an_emulated_gpu")

STEPS, BATCH, FEATURES, UNITS = 9, 4, 3, 7


@pytest.fixture(autouse=True)
def _guessed(monkeypatch):
    monkeypatch.setattr(counting.Count, "expected", 10**4)


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
    if not found[0].requires_grad or not wanted[0].requires_grad:  # of no steps the reference has no graph
        return
    for output, (a, b) in zip(("output", "final"), (flat[0], flat[-1]), strict=True):
        learned = [[p for p in each.parameters() if p.requires_grad] for each in (layer, twin)]
        one, other = [torch.autograd.grad(y.square().sum(), p, retain_graph=True) for y, p in zip((a, b), learned, strict=True)]
        for x, y in zip(one, other, strict=True):
            torch.testing.assert_close(x, y, atol=1e-4, rtol=1e-3, msg=output)


def warmed_up(**settings):
    """A layer that remembers a call, and its twin."""
    rnn, twin = made(**settings)
    for seed in range(3):
        rnn(*batch(seed, batch_first=rnn.batch_first))
    assert_remembered(rnn)
    return rnn, twin


def assert_remembered(layer):
    """A call does without checks from now on: they raise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(layer), "_operands", lambda self: pytest.fail("checked"))
        layer(*batch(9, batch_first=layer.batch_first))


@each_layer
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_call_like_the_last_is_not_checked_and_is_right(make, batch_first, bias):
    rnn, twin = made(make, batch_first=batch_first, bias=bias)
    for seed in range(4):
        assert_same(rnn, twin, *batch(seed, batch_first=batch_first))
    assert_remembered(rnn)
    with torch.no_grad():
        assert_same(rnn, twin, *batch(5, batch_first=batch_first))
        assert_remembered(rnn)


def test_layers_of_float64_are_remembered():
    rnn, twin = made(dtype=torch.float64)
    for seed in range(4):
        x, time = batch(seed)
        assert_same(rnn, twin, x.double(), time)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PhasedLSTM, "_operands", lambda self: pytest.fail("checked"))
        rnn(x.double(), time)


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
    "batch_first": lambda rnn: setattr(rnn, "batch_first", True),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_has_changed_in_a_layer_is_found(change):
    rnn, twin = warmed_up(leak=0.01) if change is CHANGES["eval"] else warmed_up()
    for each in (rnn, twin):
        change(each)
    for seed in range(3):
        assert_same(rnn, twin, *batch(seed, batch_first=rnn.batch_first))


def test_another_backend_computes_the_next_call(monkeypatch):
    rnn, _ = warmed_up()
    rnn.backend = "reference"
    monkeypatch.setattr(replay.ListedCall, "run_forward", lambda *given: pytest.fail("by the kernels"))
    rnn(*batch())


CALLS = {
    "more steps": lambda: (batch(1, steps=STEPS + 2), {}),
    "integer times": lambda: ((batch()[0], torch.arange(STEPS).unsqueeze(1).expand(STEPS, BATCH)), {}),
    "other strides": lambda: ((batch()[0].transpose(0, 1).contiguous().transpose(0, 1), batch()[1]), {}),
    "an input to be learned": lambda: ((batch()[0].requires_grad_(), batch()[1]), {}),
    "a state": lambda: ((*batch(), tuple(torch.randn(1, BATCH, UNITS) for _ in range(2))), {}),
    "lengths": lambda: (batch(), {"lengths": [9, 0, 3, 5]}),
    "no batch": lambda: ((batch()[0][:, 0], batch()[1][:, 0]), {}),
    "no steps": lambda: ((batch()[0][:0], batch()[1][:0]), {}),
    "no sequences": lambda: ((batch()[0][:, :0], batch()[1][:, :0]), {}),
    "an expanded input": lambda: ((batch()[0][:1].expand(STEPS, BATCH, FEATURES), batch()[1]), {}),
    "memory of NumPy": lambda: ((torch.from_numpy(batch(7)[0].numpy().copy()), batch()[1]), {}),
    "one sequence": lambda: ((batch()[0][:, :1], batch()[1][:, :1]), {}),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_of_another_kind_between_others_is_right(call):
    rnn, twin = warmed_up()
    given, more = call()
    for seed in range(2):
        assert_same(rnn, twin, *batch(seed))
        assert_same(rnn, twin, *given, **more)
        assert_same(rnn, twin, *given, **more)


def freed(x, time):
    x = x.clone()
    x.untyped_storage().resize_(0)
    return x, time


WRONG = {
    "an input of another dtype": (lambda x, time: (x.double(), time), TypeError, "dtype"),
    "an input that is a list": (lambda x, time: (x.tolist(), time), TypeError, "torch.Tensor"),
    "times of another shape": (lambda x, time: (x, time[:-1]), ValueError, "shape"),
    "times of one sequence": (lambda x, time: (x, time[0]), ValueError, "shape"),
    "a time": (lambda x, time: (x, time[0, 0]), ValueError, "shape"),
    "times that are a list": (lambda x, time: (x, time.tolist()), TypeError, "torch.Tensor"),
    "no times": (lambda x, time: (x, None), TypeError, "torch.Tensor"),
    "times that need a gradient": (lambda x, time: (x, time.double().requires_grad_()), RuntimeError, "gradient to time"),
    "an input whose memory was freed": (freed, (ValueError, RuntimeError), "memory of its own|setStorage"),  # ours, or torch's
    "an input without values": (lambda x, time: (x.to("meta"), time), ValueError, "device"),
    "features that are missing": (lambda x, time: (x[..., :2], time), ValueError, "features"),
}


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("wrong, error, words", WRONG.values(), ids=WRONG)
def test_a_wrong_call_raises_as_the_first_one_does(wrong, error, words, batch_first):
    rnn, _ = warmed_up(batch_first=batch_first)
    messages = []
    for each in (made(batch_first=batch_first)[0], rnn):
        with pytest.raises(error, match=words) as raised:
            each(*wrong(*batch(batch_first=batch_first)))
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


def test_a_parameter_of_a_wrong_shape_raises():
    rnn, _ = warmed_up()
    rnn.weight_hh_l0.data = rnn.weight_hh_l0.data[:, :-1]
    with pytest.raises(ValueError, match="weight_hh_l0 must have shape"):
        rnn(*batch())


@pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated:DeprecationWarning")
def test_transforms_tracers_and_tangents_are_refused_all_the_same():
    rnn, _ = warmed_up()
    with pytest.raises(RuntimeError, match=r"torch\.func"):
        torch.func.vmap(lambda x, time: rnn(x, time)[0])(*(each.unsqueeze(0) for each in batch()))
    with pytest.raises(RuntimeError, match=r"torch\.jit\.trace"):
        torch.jit.trace(rnn, batch(), check_trace=False)
    x, time = batch()
    with torch.no_grad(), forward_ad.dual_level(), pytest.raises(RuntimeError, match="forward_ad"):
        rnn(forward_ad.make_dual(x, torch.ones_like(x)), time)


def test_autocast_is_noticed():
    rnn, _ = warmed_up()
    fresh, found = copy.deepcopy(rnn), {}

    def output_and_gradient(layer, dtype):
        with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
            output = layer(*batch(2))[0]
        return output.detach(), torch.autograd.grad(output.square().sum(), layer.weight_hh_l0)[0]

    for dtype in (None, torch.bfloat16, torch.float16, None):
        repeats, wanted = [[output_and_gradient(each, dtype) for _ in range(3)] for each in (rnn, fresh)]
        for one, other in zip(repeats, wanted, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
        found[dtype] = repeats[-1]
    for low in (torch.bfloat16, torch.float16):
        assert torch.equal(found[low][0], found[None][0])
        assert not torch.equal(found[low][1], found[None][1])  # the tape was rounded
    assert not torch.equal(found[torch.bfloat16][1], found[torch.float16][1])


def test_the_first_batches_of_training_are_watched():
    rnn, _ = made(period=1e9, shift=5e8)  # no unit opens
    rnn._openings.active = True
    for seed in range(3):
        rnn(*batch(seed))
    assert rnn._openings.batches == 3


def test_copies_start_without_memories():
    rnn, twin = warmed_up()
    assert b"phased.layer_calls" not in pickle.dumps(rnn)  # a version without it can read the file
    for copied in (copy.deepcopy(rnn), pickle.loads(pickle.dumps(rnn))):
        assert copied._calls is None
        assert_same(copied, twin, *batch())
        another_parameter(copied)
        assert not torch.equal(copied(*batch())[0], rnn(*batch())[0])
    assert_same(rnn, twin, *batch())


def test_a_bounded_number_of_calls_is_remembered():
    rnn, _ = made()
    for steps in range(1, KEPT + 4):
        for seed in range(2):
            rnn(*batch(seed, steps=steps))
    assert len(rnn._calls._calls) == KEPT
    rnn(*batch(steps=KEPT))
    rnn.eval()(*batch(steps=KEPT))
    assert len(rnn._calls._calls) == KEPT


def test_training_and_evaluation_by_turns_are_both_remembered():
    rnn, _ = warmed_up()
    for _ in range(3):
        rnn.eval()(*batch())
    assert_remembered(rnn)
    assert_remembered(rnn.train())


def test_nothing_of_replaced_parameters_is_kept():
    rnn, _ = warmed_up()
    for steps in range(3, 6):
        rnn(*batch(steps=steps))
        rnn(*batch(steps=steps))
    gone = weakref.ref(rnn.weight_hh_l0)
    rnn.load_state_dict({name: value.clone() for name, value in rnn.state_dict().items()}, assign=True)
    rnn(*batch())
    assert gone() is None


def test_a_graph_that_is_recorded_is_noticed(monkeypatch):
    rnn, twin = warmed_up()
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    monkeypatch.setattr(replay.ListedCall, "run_forward", lambda *given: pytest.fail("listed"))
    assert_same(rnn, twin, *batch())


def test_times_that_a_subclass_changes_are_changed_in_every_call():
    class Slower(PhasedLSTM):
        def checked_time(self, time, lengths):
            return super().checked_time(time, lengths) / 2

    rnn, twin = made(Slower)
    for seed in range(4):
        x, time = batch(seed)
        assert_same(rnn, twin, x, time)
        assert not torch.equal(rnn(x, time)[0], rnn(x, 2 * time)[0])


@pytest.mark.parametrize("warm", [False, True])
def test_shapes_may_be_symbols(warm):
    rnn, _ = warmed_up() if warm else made()
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    x, time = (mode.from_tensor(each, symbolic_context=None) for each in batch())
    with mode:
        assert rnn(x, time)[0].dim() == 3


def test_a_second_bias_that_is_missing_is_found():
    case = Case(steps=STEPS, hidden=UNITS)
    assert_contract(case, "cuda")
    problem = case.problem("cuda", case.on("cuda"))
    broken = problem._replace(weights=problem.weights._replace(bias_hh=None))
    assert replay.find(problem) is not None
    assert replay.find(broken) is None


def test_a_backward_pass_adds_no_entry():
    case = Case(steps=STEPS, hidden=UNITS, dtype=torch.float32)
    leaves = case.on("cuda")
    output, *_ = case.run("cuda", leaves)
    before = {key: list(each) for key, each in replay.CALLS._calls.items()}
    leaves["weight_hh"].data = leaves["weight_hh"].data.T.contiguous().T  # other strides
    torch.autograd.grad(output.sum(), list(leaves.values()))
    assert before == replay.CALLS._calls


@pytest.mark.parametrize("settings", [{"num_layers": 2}, {"bidirectional": True}, {"peephole": True}], ids=str)
def test_layers_whose_calls_are_not_remembered_are_right(settings):
    rnn, twin = made(**settings)
    for seed in range(3):
        assert_same(rnn, twin, *batch(seed))
    assert rnn._calls is None or not rnn._calls._calls


def test_a_gru_returns_its_state_alone():
    rnn, _ = made(PhasedGRU)
    shapes = {tuple(rnn(*batch(seed))[1].shape) for seed in range(4)}
    assert shapes == {(1, BATCH, UNITS)}
