"""The arguments that Python passes to the kernels, and how it uses their results, without a GPU."""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from contract import Case, assert_contract, assert_same
from emulator import Emulator
from phased import PhasedLSTM
from phased.init import LogUniform
from phased.ops.cuda import counting, launch, layout, passes
from strategies import clocks, poisoned, seeds

pytestmark = pytest.mark.usefixtures("an_emulated_gpu")


@pytest.fixture(params=[None, 1, 10**9], ids=["no guess", "too low", "too high"])
def guess(request, monkeypatch):
    """What is guessed of the number of events."""
    monkeypatch.setattr(counting.Count, "expected", request.param)


KINDS = [
    ("lstm", 0.0, "triangle", {}),
    ("lstm", 0.0, "square", {"peephole": True}),
    ("lstm", 0.01, "triangle", {"bias": False}),
    ("lstm", 0.01, "square", {"bias": False, "peephole": True}),
    ("gru", 0.0, "square", {"bias": False}),
    ("gru", 0.01, "triangle", {}),
]


@pytest.mark.parametrize("cell, leak, shape, extras", KINDS)
def test_kernels_are_given_what_they_need(cell, leak, shape, extras):
    case = Case(cell, leak=leak, shape=shape, dtype=torch.float32, lengths=[11, 0, 4], **extras)
    assert_contract(case.poison_padding(), "cuda")


@pytest.mark.parametrize("cell, hidden, inputs", [("lstm", 1, 1), ("gru", 7, 5), ("lstm", 20, 3)])
def test_whatever_is_guessed_the_reference_is_met(guess, cell, hidden, inputs):
    lengths = [30, 0, 17]
    case = Case(cell, steps=30, hidden=hidden, inputs=inputs, lengths=lengths, ratio=(0.05, 0.3), dtype=torch.float32)
    assert_contract(case.poison_padding(), "cuda")


@pytest.mark.parametrize("leak", [0.0, 0.01])
@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("batch", [0, 1, 4])
def test_empty_and_tiny_batches(leak, steps, batch, guess):
    assert_contract(Case(steps=steps, batch=batch, leak=leak, dtype=torch.float32), "cuda")


# What is guessed of a batch that is not small: the number of its events, the most of a step, and how many decide on the kernels.
LIKELY = {
    "nothing": (None, None),
    "enough": (10**9, (10**9, 9)),
    "too few in all": (1, (10**9, 9)),
    "too few in a step": (10**9, (1, 9)),
    "that other kernels are needed": (10**9, (10**9, 10**9)),
    "that it is not clear which kernels are needed": (10**9, (10**9, layout.CROWDED * 27)),
}


@pytest.mark.parametrize("many", [0, 4096], ids=["one block adds up", "all blocks do"])
@pytest.mark.parametrize("small", [True, False])
def test_every_batch_reports_how_many_events_it_has(monkeypatch, many, small):
    monkeypatch.setattr(counting, "fits_all_open", lambda call: small)
    monkeypatch.setattr(launch, "MANY", many)
    reported, wait = [], counting.Ring.wait

    def note(self, *arguments):
        reported.append(wait(self, *arguments))
        return reported[-1]

    monkeypatch.setattr(counting.Ring, "wait", note)
    case = Case(steps=9, batch=3, hidden=20, ratio=(0.01, 0.05), dtype=torch.float32)
    for _ in range(3):  # the first waits for the number, the others guess it
        case.gradients("cuda")
    assert len(reported) == 3
    assert None not in reported  # otherwise it is read from the GPU's memory after a while


@pytest.mark.parametrize("hidden, inputs, many", [(20, 1, 0), (20, counting.WIDE, 4096), (200, 1, 4096), (200, counting.WIDE, 0)])
@pytest.mark.parametrize("guess", LIKELY)
def test_batches_that_are_not_small_wait_after_all_launches_or_launch_again(monkeypatch, hidden, inputs, many, guess):
    monkeypatch.setattr(counting, "fits_all_open", lambda call: False)
    monkeypatch.setattr(launch, "MANY", many)
    case = Case(steps=9, batch=3, inputs=inputs, hidden=hidden, ratio=(0.01, 0.05), dtype=torch.float32)
    expected = case.gradients("cuda")  # the first batch of a layer waits for the number of its events
    monkeypatch.setattr(counting.Count, "expected", LIKELY[guess][0])
    monkeypatch.setattr(counting.Count, "likely", LIKELY[guess][1])
    made, run_forward = [], passes.CudaCall.run_forward

    def run(self, capacity, *ticket):
        made.append(capacity)
        return run_forward(self, capacity, *ticket)

    monkeypatch.setattr(passes.CudaCall, "run_forward", run)
    with poisoned():
        found = case.gradients("cuda")
    for kind, same in zip(found, expected, strict=True):
        assert all(torch.equal(kind[name], same[name]) for name in same)
    again = guess in ("too few in all", "too few in a step")
    if guess == "that other kernels are needed":  # which only small layers and wide inputs have
        again = hidden <= layout.GROUPED or inputs >= counting.WIDE
    assert len(made) == (2 if again else 1)


@pytest.mark.parametrize("ratio, crowded", [((0.9, 1.0), True), ((0.01, 0.1), False)])
def test_crowded_steps_have_kernels_of_their_own_whether_their_number_is_guessed_or_known(guess, capturing, ratio, crowded):
    assert_contract(Case("lstm", steps=6, hidden=30, dtype=torch.float32, ratio=ratio), "cuda")
    for direction in ("forward", "backward"):
        used = {name for name in Emulator.ran if name.endswith(direction)}
        assert {name.startswith("grouped") for name in used} == {crowded}


@pytest.mark.parametrize("units", [115, 119])
def test_a_forward_pass_has_the_same_kernel_whether_its_events_are_counted_guessed_or_recorded(monkeypatch, units):
    monkeypatch.setattr(launch, "plan", layout.plan.__wrapped__)
    case = Case("lstm", steps=4, batch=2, hidden=units, dtype=torch.float32, ratio=(0.01, 0.03))
    for guess, capturing in ((None, False), (10**6, False), (None, True)):
        monkeypatch.setattr(counting.Count, "expected", guess)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda capturing=capturing: capturing)
        assert_contract(case, "cuda")
    used = [name for name in Emulator.ran if name.endswith("_forward")]
    assert len(used) >= 3
    assert len(set(used)) == 1


@pytest.mark.parametrize("ratio, kernel", [((0.3, 1.0), "event_sums"), ((0.005, 0.02), "sorted_sums")])
def test_events_of_few_open_units_are_sorted_also_while_a_graph_is_recorded(capturing, ratio, kernel):
    assert_contract(Case("lstm", steps=60, hidden=30, ratio=ratio, dtype=torch.float32), "cuda")
    assert {re.sub("^wide_", "", name) for name in Emulator.ran if name.endswith(("event_sums", "sorted_sums"))} == {kernel}


WIDE = [(0.0, 130, (0.3, 0.9), True), (0.0, 130, (0.01, 0.05), False), (0.0, 20, (0.3, 0.9), False), (0.01, 70, (0.3, 0.9), True)]


@pytest.mark.parametrize("leak, hidden, ratio, at_once", WIDE)
def test_wide_input_is_multiplied_at_once_where_many_units_are_open(monkeypatch, leak, hidden, ratio, at_once):
    monkeypatch.setattr(launch, "MANY_UNITS", 256)
    made, products = [], passes.CudaCall.input_products
    monkeypatch.setattr(passes.CudaCall, "input_products", lambda self: made.append(self) or products(self))
    sizes = {"steps": 9, "inputs": counting.WIDE, "hidden": hidden, "lengths": [9, 0, 4], "dtype": torch.float32}
    case = Case("lstm", leak=leak, ratio=ratio, **sizes)
    assert_contract(case.poison_padding(), "cuda")
    assert bool(made) == at_once


@settings(max_examples=25)
@given(
    seed=seeds,
    steps=st.integers(1, 90),
    batch=st.integers(1, 4),
    hidden=st.integers(1, 32),
    guess=st.sampled_from([None, 1, 10**9]),
)
def test_whatever_is_drawn(seed, steps, batch, hidden, guess):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting.Count, "expected", guess)
        assert_contract(Case("lstm", steps, batch, hidden=hidden, seed=seed, ratio=(0.02, 0.5), dtype=torch.float32), "cuda")


@pytest.mark.parametrize("many", [0, 4096], ids=["one block adds up", "all blocks do"])
def test_events_may_be_counted_by_one_block_or_by_all(monkeypatch, many, capturing):
    monkeypatch.setattr(launch, "MANY", many)
    case = Case(steps=100, ratio=(0.02, 0.1), dtype=torch.float32)
    assert_contract(case, "cuda")
    with poisoned(), torch.no_grad():
        again = dict(zip(("output", "h_n", "c_n"), case.run("cuda"), strict=True))
    assert_same(again, case.gradients("reference")[0], case.dtype, "in inference,")


def layer_and_batch():
    torch.manual_seed(0)
    rnn = PhasedLSTM(3, 20, period=LogUniform(2, 30), ratio_on=0.2, leak=0.0, learn_ratio_on=True, backend="cuda")
    return rnn, torch.randn(80, 4, 3), clocks(80, 4)


def gradients(rnn, x, time, **options):
    output, (h, c) = rnn(x, time, **options)
    return torch.autograd.grad(output.square().sum() + h.sum() + c.sum(), list(rnn.parameters()))


def test_a_second_batch_does_not_wait(monkeypatch):
    rnn, x, time = layer_and_batch()
    counting.EXPECTED.clear()
    waits, wait = [], counting.Count.wait
    monkeypatch.setattr(counting.Count, "wait", lambda self, schedule: waits.append(len(waits)) or wait(self, schedule))
    rnn(x, time)
    assert len(waits) == 1
    output, _ = rnn(x, time)
    assert len(waits) == 1
    output.sum().backward()
    assert len(waits) == 2


def test_a_number_that_is_not_reported_is_read_where_it_was_counted(monkeypatch):
    rnn, x, time = layer_and_batch()
    expected = gradients(rnn, x, time)
    monkeypatch.setattr(counting.Ring, "wait", lambda self, ticket, patience: None)
    assert all(torch.equal(a, b) for a, b in zip(gradients(rnn, x, time), expected, strict=True))


@pytest.mark.parametrize("guess", [None, 1, 10**9])
def test_a_graph_can_be_walked_twice_whatever_was_guessed(monkeypatch, guess):
    rnn, x, time = layer_and_batch()
    expected = gradients(rnn, x, time)
    monkeypatch.setattr(counting.Count, "expected", guess)
    output, (h, c) = rnn(x, time)
    loss = output.square().sum() + h.sum() + c.sum()
    for _ in range(2):
        again = torch.autograd.grad(loss, list(rnn.parameters()), retain_graph=True)
        assert all(torch.equal(a, b) for a, b in zip(again, expected, strict=True))


def test_the_fullest_of_the_last_batches_is_expected(monkeypatch):
    rnn, x, time = layer_and_batch()
    layer = rnn.period_l0.data_ptr()
    counting.EXPECTED.clear()
    gradients(rnn, x, time)
    full = counting.EXPECTED[layer]
    assert 0 < full.last_mean == full.highest_mean <= full.highest
    for _ in range(3):
        gradients(rnn, x, time, lengths=[0] * 4)  # no unit is open
    less = counting.DECAY**3
    assert counting.EXPECTED[layer] == pytest.approx((full.highest_mean * less, full.highest * less, 0.0))
    gradients(rnn, x, time)
    assert counting.EXPECTED[layer] == full
    monkeypatch.setattr(counting, "LAYERS", 1)
    gradients(PhasedLSTM(3, 20, leak=0.0, learn_ratio_on=True, backend="cuda"), x, time)
    assert layer not in counting.EXPECTED


def test_what_is_saved_for_later_does_not_depend_on_guesses_where_it_is_hooked():
    rnn, x, time = layer_and_batch()
    counting.EXPECTED.clear()
    shapes = []

    def look(saved):
        shapes.append(tuple(saved.shape))
        return saved

    with torch.autograd.graph.saved_tensors_hooks(look, lambda saved: saved):
        for _ in range(2):
            rnn(x, time)[0].sum().backward()
    half = len(shapes) // 2
    assert shapes[:half] == shapes[half:]


OPERATORS = [("lstm", 0.0, torch.float32, torch.bfloat16), ("gru", 0.0, torch.float64, None), ("lstm", 0.01, torch.float32, None)]


@pytest.mark.parametrize("cell, leak, dtype, autocast", OPERATORS)
def test_torch_finds_nothing_wrong_with_the_operator(cell, leak, dtype, autocast):
    sizes = {"steps": 4, "batch": 2, "hidden": 3, "lengths": [4, 2]}
    case = Case(cell, **sizes, leak=leak, dtype=dtype, autocast=autocast, seed=1)
    torch.library.opcheck(torch.ops.phased.cuda, case.operator_arguments("cuda", keep=True))


@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_traced_it_computes_the_same(leak):
    torch.compiler.reset()
    case = Case(leak=leak, lengths=[11, 0, 4], dtype=torch.float32)
    want = case.gradients("cuda")
    case.run = torch.compile(case.run, fullgraph=True, backend="aot_eager")
    for a, b in zip(case.gradients("cuda"), want, strict=True):
        assert_same(a, b, case.dtype, "traced,")


ROUNDED = [("lstm", 0.0, torch.bfloat16), ("lstm", 0.0, torch.float16), ("gru", 0.01, torch.bfloat16)]


@pytest.mark.parametrize("cell, leak, low, guess", [(*each, None) for each in ROUNDED] + [(*ROUNDED[0], 1)])
def test_under_autocast_the_tape_is_half_as_large_and_rounded(monkeypatch, cell, leak, low, guess):
    monkeypatch.setattr(counting.Count, "expected", guess)
    case = Case(cell, leak=leak, dtype=torch.float32, autocast=low, lengths=[11, 0, 4])
    assert_contract(case.poison_padding(), "cuda")
    problem = case.problem("cuda", case.on("cuda"))
    full = passes.forward(problem._replace(autocast=None), keep=True)
    half = passes.forward(problem, keep=True)
    assert torch.equal(full.output, half.output)
    records, rounded = full.saved[1], half.saved[1]
    assert len(records) == len(rounded)
    assert records.shape[1] - rounded.shape[1] == 16  # bytes of an event; what it does not round are its unit and its row


def test_under_autocast_layers_in_float64_keep_what_they_compute():
    case = Case(dtype=torch.float64, autocast=torch.bfloat16)
    assert_same(*(case.gradients(backend)[1] for backend in ("cuda", "reference")), torch.float64, "gradient to")
