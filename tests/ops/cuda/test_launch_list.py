"""Launches that are listed once and repeated with other addresses: by the core, and by Python where there is no core."""

import gc
import struct
import weakref

import pytest
import torch

from contract import Case, assert_contract
from phased import tracing
from phased.ops.cuda import counting, kernels, launch, launch_list, replay
from phased.ops.cuda.kernels import Kernels, argument_form
from phased.ops.cuda.launch_list import LaunchList, Placeholder, launch_list_of
from phased.ops.native import MISSING, core
from recorded_driver import START, GraphRecorder, Recorder

pytestmark = pytest.mark.usefixtures("an_emulated_gpu")
needs_core = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
CPU = torch.device("cpu")
NUMBER = 7 << 40


class Named(Kernels):
    """Kernels that were never compiled, with handles by their names."""

    def __init__(self, recorder=None):
        self.recorder = recorder

    def handle(self, name, device, shared):
        return {"first": 11, "second": 12}[name] + 100 * shared

    def launch(self, name, device, grid, block, arguments, shared=0, together=False):
        packed = struct.pack(argument_form(arguments), *arguments)
        self.recorder.made.append((self.handle(name, device, shared > 0), grid, block, shared, 5, packed))


@pytest.fixture(params=[Recorder, GraphRecorder], ids=["launches", "a graph"])
def listed(monkeypatch, request):
    """Two launches, of a tensor and a number that calls give and a tensor that they allocate; and what notes them."""
    recorder = request.param()
    monkeypatch.setattr(tracing, "current_raw_stream", lambda index: 5)
    monkeypatch.setattr(kernels, "functions", lambda: recorder.driver)
    made = LaunchList(CPU)
    given, number = made.tensor((2, 3), torch.float32), made.number()
    own = given.new_empty((4,), dtype=torch.float64)
    named = Named(recorder)
    made.add(named, "first", 6, 128, (given.data_ptr(), 0.5, 9, own.data_ptr() + 8), 0)
    made.add(named, "second", (1, 2, 3), 32, (number, launch.EVERY, given.data_ptr() + 20, -1), 64)
    return made, recorder


def expected(x, own):
    first = struct.pack("qdqq", x.data_ptr(), 0.5, 9, own.data_ptr() + 8)
    second = struct.pack("qqqq", NUMBER, launch.EVERY, x.data_ptr() + 20, -1)
    return [(11, (6, 1, 1), 128, 0, 5, first), (112, (1, 2, 3), 32, 64, 5, second)]


@pytest.mark.parametrize("by", [pytest.param("core", marks=needs_core), "Python"])
def test_every_call_has_its_own_addresses_and_memory(listed, monkeypatch, by):
    made, recorder = listed
    if by == "Python":
        monkeypatch.setattr(launch_list, "core", None)
    for _ in range(3):
        x = torch.empty(2, 3)
        (own,) = made.replay([x.data_ptr(), NUMBER])
        assert own.shape == (4,)
        assert own.dtype == torch.float64
        assert recorder.made == expected(x, own)
        recorder.made.clear()


@needs_core
@pytest.mark.parametrize("before", range(5))
def test_a_thread_without_a_context_gets_one_and_goes_on_where_it_was(listed, monkeypatch, before):
    made, recorder = listed
    recorder.statuses = [0] * before + [kernels.NO_CONTEXT]
    attached = []
    monkeypatch.setattr(kernels, "attach", attached.append)
    for _ in range(5):
        x = torch.empty(2, 3)
        (own,) = made.replay([x.data_ptr(), NUMBER])
        assert recorder.made == expected(x, own)
        recorder.made.clear()
    assert attached == [None]  # the index of a CPU


@needs_core
def test_a_launch_that_the_driver_refuses_is_named(listed):
    made, recorder = listed
    x = torch.empty(2, 3)
    made.replay([x.data_ptr(), NUMBER])
    recorder.made.clear()
    recorder.statuses = [*([1] if isinstance(recorder, GraphRecorder) else []), 0, 1]  # a graph's, then those of single launches
    with pytest.raises(RuntimeError, match=r'did not launch "second": error 1\b'):
        made.replay([x.data_ptr(), NUMBER])
    (own,) = made.replay([x.data_ptr(), NUMBER])
    assert recorder.made[-2:] == expected(x, own)


@needs_core
@pytest.mark.parametrize("listed", [GraphRecorder], indirect=True)
def test_a_graph_is_made_once_and_freed_with_its_list(listed):
    made, recorder = listed
    x = torch.empty(2, 3)
    for _ in range(3):
        made.replay([x.data_ptr(), NUMBER])
    assert recorder.calls == ["create", "add", "add", "instantiate", "start", *["replace", "replace", "start"] * 2]
    recorder.calls.clear()
    made._compiled = None
    assert recorder.calls == ["destroy_executable", "destroy"]


@needs_core
@pytest.mark.parametrize("listed", [GraphRecorder], indirect=True)
@pytest.mark.parametrize("refused", range(8))
def test_where_the_driver_runs_no_graph_kernels_are_launched_one_by_one(listed, refused):
    made, recorder = listed
    calls = ["create", "add", "add", "instantiate", "start", "replace", "replace", "start"]
    recorder.statuses = [0] * refused + [801]
    for _ in range(4):
        x = torch.empty(2, 3)
        (own,) = made.replay([x.data_ptr(), NUMBER])
        assert recorder.made == expected(x, own)
        recorder.made.clear()
    assert [call for call in recorder.calls if "destroy" not in call] == calls[: refused + 1]  # and it is not tried again
    assert recorder.calls.count("destroy") == (refused > 0)
    assert recorder.calls.count("destroy_executable") == (refused > 3)
    assert recorder.mode == recorder.GLOBAL


@needs_core
def test_a_driver_without_graphs_launches_one_by_one(monkeypatch):
    class Old:
        cuLaunchKernel = START(Recorder().start)

    monkeypatch.setattr(kernels, "driver", Old)
    assert isinstance(kernels.functions.__wrapped__(), core.Driver)


def test_tensors_that_calls_give_come_before_those_that_they_allocate(listed):
    made, _ = listed
    with pytest.raises(AssertionError, match="before"):
        made.tensor((1,), torch.float32)


def test_a_tensor_is_no_placeholder():
    assert launch_list_of(torch.zeros(1)) is None
    made = LaunchList(CPU)
    assert launch_list_of(Placeholder(made, 0, (1,), torch.float32)) is made


KINDS = {
    "lstm": {},
    "gru": {"cell": "gru"},
    "without biases": {"bias": False},
    "peepholes": {"peephole": True},
    "ragged": {"lengths": [12, 0, 5]},
    "square": {"shape": "square"},
    "streamed weights": {"hidden": 130, "ratio": (0.01, 0.02), "dtype": torch.float32},
    "a leak": {"leak": 0.01, "dtype": torch.float32},
    "a leak, peepholes, ragged": {"leak": 0.01, "peephole": True, "lengths": [12, 0, 5], "dtype": torch.float32},
    "a leak, gru": {"cell": "gru", "leak": 0.01, "lengths": [3, 12, 5], "dtype": torch.float32},
}


def signature_of(problem):
    return replay.signature_of(problem, replay.as_read(replay.tensors_of(problem)))


@pytest.fixture(autouse=True)
def _guessed(monkeypatch):
    """Every batch has a guess of its events."""
    monkeypatch.setattr(counting.Count, "expected", 10**4)


@pytest.fixture(params=["small", "not small"])
def size(request, monkeypatch):
    """Whether batches are small."""
    monkeypatch.setattr(counting.Count, "likely", (10**4, 9))
    if request.param == "not small":
        monkeypatch.setattr(counting, "SMALL", 0)


def case_of(kind, **more):
    return Case(**{"steps": 12, "hidden": 9, "ratio": (0.05, 0.1), **KINDS[kind], **more})


@pytest.mark.parametrize("kind", KINDS)
def test_batches_of_the_same_sizes_share_lists_whatever_their_values(monkeypatch, kind, size):
    replay_pass, replayed = replay.ListedPass.replay, []
    monkeypatch.setattr(replay.ListedPass, "replay", lambda self, *given: replayed.append(self) or replay_pass(self, *given))
    cases = [case_of(kind, seed=seed) for seed in range(3)]
    for case in cases:
        assert_contract(case, "cuda")
    signatures = {signature_of(case.problem("cuda", case.on("cuda"))) for case in cases}
    (lists,) = [replay.passes_of(signature) for signature in signatures]
    (forward,) = lists._forwards.values()
    backwards = list(lists._backwards.values())
    assert [each is forward for each in replayed] == [True, False] * 3
    assert all(each in backwards for each in replayed[1::2])


def test_a_bounded_number_of_passes_is_listed(monkeypatch):
    monkeypatch.setattr(replay, "KEPT", 2)
    case = Case(steps=12, hidden=9)
    for guess in (1000, 2000, 3000):
        monkeypatch.setattr(counting.Count, "expected", guess)
        assert_contract(case, "cuda")
    lists = replay.passes_of(signature_of(case.problem("cuda", case.on("cuda"))))
    assert len(lists._forwards) == len(lists._backwards) == 1


def test_lists_are_freed_as_soon_as_they_are_forgotten():
    case = Case(steps=12, hidden=9)
    assert_contract(case, "cuda")
    gone = weakref.ref(replay.passes_of(signature_of(case.problem("cuda", case.on("cuda")))))
    gc.disable()  # which might free them while a graph is recorded
    try:
        replay.passes_of.cache_clear()
        replay.CALLS.clear()
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", KINDS)
def test_a_backward_pass_is_prepared_in_its_forward_pass(monkeypatch, kind, size):
    monkeypatch.delattr(replay.ListedCall, "run_backward")  # what runs if it is not prepared
    case = case_of(kind)
    assert_contract(case if case.lengths is None else case.poison_padding(), "cuda")


@pytest.mark.parametrize("kind", ["lstm", "a leak, gru"])
def test_a_backward_pass_over_times_that_were_copied_is_not_prepared(monkeypatch, kind):
    monkeypatch.delattr(replay.ListedBackward, "__call__")
    assert_contract(case_of(kind, integer_time=True), "cuda")


@pytest.mark.parametrize("kind", ["lstm", "a leak"])
def test_a_second_backward_pass_over_the_same_graph_gives_the_same(kind):
    case = case_of(kind)
    leaves = case.on("cuda")
    output, _, _ = case.run("cuda", leaves)
    first = torch.autograd.grad(output.square().sum(), list(leaves.values()), retain_graph=True)
    second = torch.autograd.grad(output.square().sum(), list(leaves.values()))
    assert all(torch.equal(a, b) and a.data_ptr() != b.data_ptr() for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("leaf", ["input", "weight_hh", "peephole", "period", "h_0"])
@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_memory_that_was_replaced_after_the_forward_pass_is_not_read(leaf, leak):
    case = case_of("peepholes", leak=leak, dtype=torch.float32)
    _, expected = case.gradients("cuda")
    leaves = case.on("cuda")
    output, *final = case.run("cuda", leaves)
    old = leaves[leaf].data
    leaves[leaf].data = old.clone()
    old.fill_(torch.nan)
    draw = torch.Generator().manual_seed(case.seed + 1)
    loss = sum((r * torch.randn(r.shape, generator=draw, dtype=torch.float64).to(r)).double().sum() for r in (output, *final))
    found = torch.autograd.grad(loss, list(leaves.values()))
    assert all(torch.equal(a, b) for a, b in zip(found, expected.values(), strict=True))


@pytest.mark.parametrize("leaf", ["input", "weight_hh", "bias_ih", "period", "h_0"])
def test_a_tensor_of_another_layout_is_read_as_it_is(leaf):
    case = Case(steps=12, hidden=9)
    assert_contract(case, "cuda")
    wide = torch.stack([case.leaves[leaf], torch.full_like(case.leaves[leaf], torch.nan)], -1)
    case.leaves[leaf] = wide[..., 0]
    assert not case.leaves[leaf].is_contiguous()
    assert_contract(case, "cuda")


def test_a_form_is_listed_when_it_has_been_used_before_and_few_are_counted(monkeypatch):
    monkeypatch.setattr(replay, "LISTED_AFTER", 2)
    monkeypatch.setattr(replay, "SIGNATURES", 3)
    cases = [Case(steps=steps, hidden=9) for steps in (12, 13, 14, 15)]
    problems = [case.problem("cuda", case.on("cuda")) for case in cases]
    assert [replay.find_or_list(problems[0]) is None for _ in range(4)] == [True, True, False, False]
    for problem in problems[1:]:
        assert replay.find_or_list(problem) is None
    assert len(replay.FORWARD_PASSES) == 1  # the fourth signature made room for itself
    assert_contract(cases[0], "cuda")
