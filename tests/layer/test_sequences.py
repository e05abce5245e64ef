"""Each sequence for itself: its own clock, its own end, and the same numbers batched, padded or split."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from layers import EXACT, as_hx, assert_close, assert_equal, each_direction, each_layer, flat, some_state, states
from phased import PhasedGRU, PhasedLSTM
from phased.init import LogUniform
from phased.layer import reverse
from strategies import BACKENDS, clocks, poisoned, ragged, seeds


@given(seeds, ragged, st.booleans(), st.booleans(), st.sampled_from([PhasedLSTM, PhasedGRU]), st.sampled_from([0.0, 0.05]))
def test_padding_changes_nothing(seed, lengths, bidirectional, batch_first, make, leak):
    """A ragged batch, NaN in its padding, equals its sequences one by one: outputs, states and gradients, both directions."""
    torch.manual_seed(seed)
    rnn = make(
        2, 4, 2, bidirectional=bidirectional, batch_first=batch_first, period=8.0, ratio_on=0.5, leak=leak, dtype=torch.float64
    )
    for parameter in rnn.parameters():
        parameter.requires_grad_()
    batch, length = len(lengths), torch.tensor(lengths)
    x, time = torch.randn(9, batch, 2, dtype=torch.float64), clocks(9, batch)
    padding = torch.arange(9).unsqueeze(-1) >= length
    x_pad, time_pad = x.masked_fill(padding.unsqueeze(-1), float("nan")), time.masked_fill(padding, float("nan"))
    hx = some_state(make, 4 if bidirectional else 2, batch, 4)

    alone = [rnn(x[:n, b], time[:n, b], as_hx(tuple(s[:, b] for s in states(hx)))) for b, n in enumerate(lengths)]
    loss = sum(value.sin().sum() for each in alone for value in flat(each))
    learned = list(rnn.parameters())
    want_grads = torch.autograd.grad(loss, learned, allow_unused=True)

    if batch_first:
        x_pad, time_pad = x_pad.transpose(0, 1), time_pad.T
    with poisoned():
        output, *final = flat(rnn(x_pad, time_pad, hx, lengths=length))
        loss = sum(value.sin().sum() for value in (output, *final))
        got_grads = torch.autograd.grad(loss, learned, allow_unused=True)
    output = output.transpose(0, 1) if batch_first else output
    for b, want in enumerate(alone):
        assert_close((output[: lengths[b], b], [s[:, b] for s in final]), want, **EXACT)
        assert (output[lengths[b] :, b] == 0).all()
    for got, want in zip(got_grads, want_grads, strict=True):
        if got is not None:
            torch.testing.assert_close(got, torch.zeros_like(got) if want is None else want, rtol=1e-8, atol=1e-8)


@each_layer
@each_direction
@pytest.mark.parametrize("shape", [(0, 3), (6, 0), (0, 0), (0,)])
def test_no_steps_and_no_sequences_are_fine(make, bidirectional, shape):
    rnn = make(3, 5, 2, bidirectional=bidirectional)
    rows = 4 if bidirectional else 2
    hx = some_state(make, rows, *shape[1:], 5, dtype=torch.float32)
    for lengths in (None, [], torch.tensor([], dtype=torch.int64)) if shape[1:] == (0,) else (None,):
        found = rnn(torch.randn(*shape, 3), torch.zeros(shape), hx, lengths)
        assert_equal(found, (torch.zeros(*shape, 10 if bidirectional else 5), hx))
        sum(value.sum() for value in flat(found)).backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in rnn.parameters())


@given(seeds, st.integers(0, 12), st.sampled_from([PhasedLSTM, PhasedGRU]), st.booleans())
def test_splitting_a_sequence_in_two_and_carrying_the_state_changes_nothing(seed, cut, make, training):
    torch.manual_seed(seed)
    rnn = make(2, 4, 2, period=8.0, ratio_on=0.5, leak=0.05, dtype=torch.float64).train(training)
    x, time, hx = torch.randn(12, 3, 2, dtype=torch.float64), clocks(12, 3), some_state(make, 2, 3, 4)
    whole = rnn(x, time, hx)
    first, between = rnn(x[:cut], time[:cut], hx)
    second, final = rnn(x[cut:], time[cut:], between)
    assert_close((torch.cat([first, second]), final), whole, **EXACT)
    of_parts, of_whole = (torch.autograd.grad(states(end)[0].sum(), rnn.weight_hh_l0) for end in (final, whole[1]))
    torch.testing.assert_close(of_parts, of_whole, **EXACT)


@each_layer
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("leak", [0.0, 0.01])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.filterwarnings("ignore:input must be finite")
def test_an_input_that_is_not_finite_passes_on_to_the_units_that_open_and_to_no_earlier_step(make, backend, leak, value):
    rnn = make(3, 20, period=LogUniform(2, 40), ratio_on=0.3, leak=leak, backend=backend)
    x, time = torch.randn(30, 4, 3), clocks(30, 4)
    want, _ = rnn(x, time)
    x[10, 1] = value
    output, _ = rnn(x, time)
    others = [0, 2, 3]
    torch.testing.assert_close(output[:, others], want[:, others])
    torch.testing.assert_close(output[:10, 1], want[:10, 1])
    if value != value:
        is_open = rnn.gates()[0](time[:, 1]) > 0
        assert is_open[10].any()
        assert output[-1, 1, is_open[10:].any(0)].isnan().all()
    output[:, others].sum().backward()
    assert rnn.shift_l0.grad.shape == (20,)


@pytest.mark.parametrize("lengths", [[3, 5, 9, 0], [5, 5, 6, 2**62]])
def test_turning_sequences_round_reads_nothing_beyond_their_steps(lengths):
    """Lengths on a GPU or in a compiled graph are not checked."""
    sequences, lengths = torch.randn(5, 4, 2), torch.tensor(lengths)
    turned = reverse(sequences, lengths)
    assert torch.equal(turned, reverse(sequences, lengths.clamp(max=5)))
    assert torch.equal(turned[:, 1], sequences[:, 1].flip(0))
    assert torch.equal(reverse(turned, lengths), sequences)
