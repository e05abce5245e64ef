"""How many events there are is guessed, and told later: whatever the guess, the numbers are the same."""

import copy
import itertools

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from on_gpu import batch, gradients, layer
from phased.ops import cuda, landing

pytestmark = pytest.mark.gpu


# Shifts and times of steps, in units of a period, at which a unit is open for a twentieth of it.
SITUATIONS = {
    "nobody is open": (0.9, lambda steps: torch.full((steps,), -0.03)),
    "one after another": (0.9, lambda steps: torch.linspace(0, 10, steps)),
    "all at once": (0.0, lambda steps: torch.linspace(0, 10, steps)),
    "all the time": (0.0, lambda steps: torch.full((steps,), 0.02)),
}


@pytest.mark.parametrize("units", [20, 110, 200])
@pytest.mark.parametrize("before, now", [*itertools.permutations(SITUATIONS, 2)])
def test_a_batch_may_have_far_more_events_than_the_last_one(monkeypatch, units, before, now):
    rnn, (x, _) = layer(units, period=100.0, ratio_on=0.05), batch(400, 8)
    taken = []
    take = cuda.Call.take
    monkeypatch.setattr(cuda.Call, "take", lambda self, room, *place: taken.append(room) or take(self, room, *place))

    def run(rnn, situation):
        shifts, times = SITUATIONS[situation]
        with torch.no_grad():
            rnn.shift_l0.copy_(torch.linspace(0, 100 * shifts, units))
        taken.clear()
        return gradients(rnn, x, 100 * times(400).double()[:, None].expand(400, 8).cuda())

    fresh = copy.deepcopy(rnn)
    cuda.EXPECTED.clear()
    expected = run(fresh, now)
    assert len(taken) == 1
    exact = taken[0].tape
    assert taken[0].arrivals == exact  # a first batch waits for its number
    run(rnn, before)
    for a, b in zip(run(rnn, now), expected, strict=True):
        assert torch.equal(a, b)
    assert len(taken) == (1 if taken[0].tape >= exact else 2)
    assert len(taken) == 2 or units > 110 or before != "nobody is open"
    for a, b in zip(run(rnn, now), expected, strict=True):
        assert torch.equal(a, b)
    assert len(taken) == 1


def test_a_number_that_is_not_told_is_read_where_it_was_counted(monkeypatch):
    rnn, (x, time) = layer(110), batch(200, 8)
    expected = gradients(rnn, x, time)
    monkeypatch.setattr(landing.Landing, "wait", lambda self, ticket: None)
    for a, b in zip(gradients(rnn, x, time), expected, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpointed_layer_computes_the_same_batch_after_batch(reentrant):
    rnn, (x, time) = layer(110), batch(200, 8)
    for scale in (1, 3, 0.1):  # more and fewer events than the last time
        plain = gradients(rnn, x, scale * time)
        x_again = x.clone().requires_grad_()
        rnn.zero_grad()
        output = checkpoint(lambda x, time: rnn(x, time)[0], x_again, scale * time, use_reentrant=reentrant)
        output.square().sum().backward()
        for a, b in zip([output.detach(), x_again.grad, *(p.grad for p in rnn.parameters())], plain, strict=True):
            assert torch.equal(a, b)


def test_more_forward_passes_than_places_may_wait_for_their_backward_passes():
    rnn, (x, time) = layer(8), batch(5, 2)
    outputs = [rnn(x, time)[0] for _ in range(landing.PLACES + 50)]
    torch.stack(outputs).sum().backward()
    many = rnn.weight_hh_l0.grad.clone()
    rnn.zero_grad()
    rnn(x, time)[0].sum().backward()
    assert torch.allclose(many, len(outputs) * rnn.weight_hh_l0.grad, rtol=1e-4)


@pytest.mark.parametrize("units", [33, 110, 256])
@pytest.mark.parametrize("size", [9, 300])
def test_inference_that_does_not_ask_for_the_number_of_events_gives_what_training_gives(monkeypatch, units, size):
    rnn, (x, time) = layer(units), batch(50, size)
    trained = rnn(x, time)[0].detach()
    with torch.no_grad():
        assert torch.equal(rnn(x, time)[0], trained)
        monkeypatch.setattr(cuda, "SMALL", 0)  # now it asks
        assert torch.equal(rnn(x, time)[0], trained)
