"""How many events there are is guessed, and reported later: whatever the guess, the results are the same."""

import copy
import itertools

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from contract import Case, assert_contract
from on_gpu import batch, gradients, layer
from phased.ops.cuda import counting, launch, passes, replay
from phased.ops.cuda.launch_list import launch_list_of

pytestmark = pytest.mark.gpu


# Shifts and times of steps, in units of a period, at which a unit is open for a twentieth of it.
SITUATIONS = {
    "no unit is open": (0.9, lambda steps: torch.full((steps,), -0.03)),
    "one after another": (0.9, lambda steps: torch.linspace(0, 10, steps)),
    "all at once": (0.0, lambda steps: torch.linspace(0, 10, steps)),
    "all the time": (0.0, lambda steps: torch.full((steps,), 0.02)),
}


@pytest.mark.parametrize("units", [20, 110, 200])
@pytest.mark.parametrize("before, now", [*itertools.permutations(SITUATIONS, 2)])
def test_a_batch_may_have_far_more_events_than_the_last_one(monkeypatch, units, before, now):
    rnn, (x, _) = layer(units, period=100.0, ratio_on=0.05), batch(400, 8)
    taken, run_forward, repeat = [], passes.CudaCall.run_forward, replay.ListedCall.run_forward

    def run_now(self, capacity, *slot):
        if launch_list_of(self.input) is None:
            taken.append(capacity)
        return run_forward(self, capacity, *slot)

    def run_listed(self, capacity, slot):
        taken.append(capacity)
        return repeat(self, capacity, slot)

    monkeypatch.setattr(passes.CudaCall, "run_forward", run_now)
    monkeypatch.setattr(replay.ListedCall, "run_forward", run_listed)

    def run(rnn, situation):
        shifts, times = SITUATIONS[situation]
        with torch.no_grad():
            rnn.shift_l0.copy_(torch.linspace(0, 100 * shifts, units))
        taken.clear()
        return gradients(rnn, x, 100 * times(400).double()[:, None].expand(400, 8).cuda())

    fresh = copy.deepcopy(rnn)
    counting.EXPECTED.clear()
    expected = run(fresh, now)
    assert len(taken) == 1
    exact, most = taken[0].tape, taken[0].most
    assert taken[0].arrivals == exact  # a first batch waits for its number
    run(rnn, before)
    for a, b in zip(run(rnn, now), expected, strict=True):
        assert torch.equal(a, b)
    assert len(taken) == (1 if taken[0].tape >= exact and taken[0].most >= most else 2)
    assert len(taken) == 2 or units > 110 or before != "no unit is open"
    for a, b in zip(run(rnn, now), expected, strict=True):
        assert torch.equal(a, b)
    assert len(taken) == 1


def test_a_number_that_is_not_reported_is_read_where_it_was_counted(monkeypatch):
    rnn, (x, time) = layer(110), batch(200, 8)
    expected = gradients(rnn, x, time)
    monkeypatch.setattr(counting.Ring, "wait", lambda self, ticket, patience: None)
    for a, b in zip(gradients(rnn, x, time), expected, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("guess", [1, 10**9], ids=["too low", "too high"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("hidden", [1, 7, 65])
def test_whatever_is_guessed_the_reference_is_met(monkeypatch, guess, cell, dtype, hidden):
    monkeypatch.setattr(counting.Count, "expected", guess)
    case = Case(
        cell,
        steps=30,
        batch=3,
        leak=0.0,
        hidden=hidden,
        dtype=dtype,
        lengths=[30, 0, 17],
        peephole=cell == "lstm",
        ratio=(0.05, 0.3),
    )
    assert_contract(case.poison_padding(), "cuda")


@pytest.mark.parametrize("guess", [1, 10**9], ids=["too low", "too high"])
def test_a_graph_can_be_walked_twice_whatever_was_guessed(monkeypatch, guess):
    rnn, (x, time) = layer(), batch()
    expected = gradients(rnn, x, time)[2:]
    monkeypatch.setattr(counting.Count, "expected", guess)
    loss = rnn(x, time)[0].square().sum()
    for _ in range(2):
        again = torch.autograd.grad(loss, list(rnn.parameters()), retain_graph=True)
        assert all(torch.equal(a, b) for a, b in zip(again, expected, strict=True))


def test_events_may_be_counted_by_one_block_or_by_all(monkeypatch):
    rnn, (x, time) = layer(8), batch(4000, 36)  # more blocks than add_up has threads
    first = gradients(rnn, x, time)  # waits, and one block adds up
    for a, b in zip(gradients(rnn, x, time), first, strict=True):  # does not: all blocks do
        assert torch.equal(a, b)
    monkeypatch.setattr(launch, "MANY", 1)
    for a, b in zip(gradients(rnn, x, time), first, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_layers_compute_the_same_however_much_batches_differ(reentrant):
    rnn, (x, _) = layer(110, period=100.0, shift=0.0, ratio_on=0.05), batch(400, 8)
    clocks = [100 * times(400).double()[:, None].expand(400, 8).cuda() for _, times in SITUATIONS.values()]
    expected = [gradients(rnn, x, time)[0] for time in clocks]
    plain = torch.autograd.grad(sum(rnn(x, time)[0].square().sum() for time in clocks), rnn.weight_hh_l0)
    x_again = x.clone().requires_grad_()  # without which a reentrant checkpoint has nothing to do
    outputs = [checkpoint(lambda x, t: rnn(x, t)[0], x_again, time, use_reentrant=reentrant) for time in clocks]
    assert all(torch.equal(a, b) for a, b in zip(outputs, expected, strict=True))
    rnn.zero_grad()
    sum(output.square().sum() for output in outputs).backward()
    assert (rnn.weight_hh_l0.grad - plain[0]).abs().max() <= 1e-5 * plain[0].abs().max()


def test_what_is_saved_may_be_kept_on_the_cpu():
    rnn, (x, time) = layer(), batch()
    expected = gradients(rnn, x, time)
    with torch.autograd.graph.save_on_cpu():
        output, _ = rnn(x, time)
    again = torch.autograd.grad(output.square().sum(), list(rnn.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(again, expected[2:], strict=True))


@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_a_default_device_changes_nothing(leak):
    rnn, (x, time) = layer(leak=leak), batch()
    expected = gradients(rnn, x, time)
    with torch.device("cuda"):
        for _ in range(2):
            for a, b in zip(gradients(rnn, x, time), expected, strict=True):
                assert torch.equal(a, b)


def test_more_forward_passes_than_places_may_wait_for_their_backward_passes():
    rnn, (x, time) = layer(8), batch(20, 2)
    inputs = [x.clone().requires_grad_() for _ in range(counting.SLOTS + 50)]
    apart = [0.2 * (1 + i % 9) for i in range(len(inputs))]  # more and fewer events
    outputs = [rnn(x, scale * time)[0] for x, scale in zip(inputs, apart, strict=True)]
    sum(output.square().sum() for output in outputs).backward()
    for i in (0, 1, 25, 49, 50, 51, len(inputs) - 1):
        assert torch.equal(inputs[i].grad, gradients(rnn, x, apart[i] * time)[1])


@pytest.mark.parametrize("units", [33, 110, 256])
@pytest.mark.parametrize("size", [9, 300])
def test_inference_that_does_not_ask_for_the_number_of_events_gives_what_training_gives(monkeypatch, units, size):
    rnn, (x, time) = layer(units), batch(50, size)
    trained = rnn(x, time)[0].detach()
    with torch.no_grad():
        assert torch.equal(rnn(x, time)[0], trained)
        monkeypatch.setattr(counting, "SMALL", 0)  # now it asks
        assert torch.equal(rnn(x, time)[0], trained)
