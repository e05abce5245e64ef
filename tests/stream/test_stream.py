"""Stream: event by event, the numbers of the layer in eval."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from phased import PhasedGRU, PhasedLSTM, Stream
from phased.init import LogUniform
from strategies import seeds
from streams import LAYERS, assert_unchanged, build, chosen, each_layer, events, push_all, snapshot, some_layer, states

# Equal to the layer


@given(seeds, some_layer, st.sampled_from([torch.float64, torch.float32]), st.integers(0, 40), st.floats(-1e9, 1e9))
def test_a_stream_is_the_layer_in_eval(seed, make, dtype, count, start):
    """Even when made from a layer in training: its leak plays no part."""
    torch.manual_seed(seed)
    rnn = build(make, dtype)
    x, t = events(count, dtype, start)
    stream = Stream(rnn)
    output, (want, final) = stream.run(x, t), rnn.eval()(x, t)
    assert output.dtype == dtype
    torch.testing.assert_close(output, want)
    torch.testing.assert_close(states(stream.state), states(final))


@each_layer
def test_events_one_by_one_or_in_parts_give_the_bits_of_one_run(make):
    rnn = build(make, torch.float32)
    x, t = events(dtype=torch.float32)
    one, parts, whole = Stream(rnn), Stream(rnn), Stream(rnn)
    want = whole.run(x, t)
    assert torch.equal(push_all(one, x, t.tolist()), want)
    assert torch.equal(torch.cat([parts.run(x[some], t[some]) for some in (slice(13), slice(13, 13), slice(13, None))]), want)
    for stream in (one, parts):
        assert_unchanged(stream, snapshot(whole))


@each_layer
def test_a_layer_or_a_stream_goes_on_from_the_state_of_the_other(make):
    rnn = build(make).eval()
    x, t = events()
    want, final = rnn(x, t)
    first, of_stream, of_layer = Stream(rnn), Stream(rnn), Stream(rnn)
    first.run(x[:17], t[:17])
    of_stream.state, of_layer.state = first.state, rnn(x[:17], t[:17])[1]
    rest, end = rnn(x[17:], t[17:], first.state)
    outputs = [stream.run(x[17:], t[17:]) for stream in (first, of_stream, of_layer)]
    assert torch.equal(outputs[0], outputs[1])
    for got in (rest, *outputs):
        torch.testing.assert_close(got, want[17:])
    for state in (end, *(stream.state for stream in (first, of_stream, of_layer))):
        torch.testing.assert_close(states(state), states(final))


@each_layer
def test_closed_units_are_not_touched_by_an_event(make):
    rnn = build(make, torch.float32, period=1000.0, shift=500.0)
    stream = Stream(rnn)
    stream.state = (
        tuple(torch.randn(rnn.num_layers, 7) for _ in states(stream.state))
        if rnn.cell.states > 1
        else torch.randn(rnn.num_layers, 7)
    )
    before = [s.clone() for s in states(stream.state)]
    h = torch.as_tensor(stream.push(1e30 * torch.randn(3), 10.0))
    assert torch.equal(h, before[0][-1])
    assert all(torch.equal(a, b) for a, b in zip(states(stream.state), before, strict=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_half_precision_layer_can_be_streamed(dtype):
    rnn = build(LAYERS["lstm"]).to(dtype).eval()
    x, t = events(dtype=torch.float32)
    output = Stream(rnn).run(x.to(dtype), t)
    torch.testing.assert_close(output.float(), rnn(x.to(dtype), t)[0].float(), rtol=0, atol=0.02)


# Time


@pytest.mark.parametrize("unit, whole", [(1, False), (10**6, True)], ids=["UNIX seconds", "integer microseconds"])
def test_every_digit_of_a_time_counts_however_it_is_passed(unit, whole):
    rnn, (x, t) = build(LAYERS["lstm"], period=float(unit)), events(start=1.7e9)
    t = (unit * t).long() if whole else t
    stream = Stream(rnn)
    want = stream.run(x, t)
    torch.testing.assert_close(want, rnn.eval()(x, t)[0])
    assert stream.time == t[-1].item()
    assert torch.equal(Stream(rnn).run(x, t.tolist()), want)
    assert torch.equal(push_all(Stream(rnn), x, t.tolist()), want)
    assert torch.equal(push_all(Stream(rnn), x, t), want)
    assert np.array_equal(Stream(rnn).run(x.numpy(), t.numpy()), want)


# What goes in and out


@pytest.mark.parametrize("x", [[1.0, 2.0, 3.0], (1, 2, 3), np.array([1.0, 2.0, 3.0]), np.array([1, 2, 3], dtype=np.float32)])
def test_numpy_and_lists_in_give_numpy_out(x):
    h = Stream(build(LAYERS["lstm"], torch.float32)).push(x, 1.0)
    assert isinstance(h, np.ndarray)
    assert h.shape == (7,)
    assert h.dtype == np.float32
    rows = Stream(build(LAYERS["lstm"], torch.float32)).run(np.array([x, x]), np.array([1.0, 2.0]))
    assert isinstance(rows, np.ndarray)
    assert rows.shape == (2, 7)


def test_tensors_in_give_tensors_out_without_a_graph():
    x, t = events()
    for rows in (x, x.clone().requires_grad_(), x.float()):
        rnn = build(LAYERS["lstm"])
        for result in (Stream(rnn).push(rows[0], t[0].item()), Stream(rnn).run(rows, t)):
            assert isinstance(result, Tensor)
            assert not result.requires_grad


def test_what_goes_in_and_out_shares_no_memory_with_the_stream():
    stream, x = Stream(build(LAYERS["lstm"], ratio_on=1.0)), np.array([1.0, 2.0, 3.0])
    first, state = stream.push(x, 1.0), stream.state
    kept = first.copy(), snapshot(stream)
    assert x.tolist() == [1.0, 2.0, 3.0]
    x[:] = 99.0
    assert_unchanged(stream, kept[1])
    stream.push([9.0, 9.0, 9.0], 2.0)
    assert np.array_equal(first, kept[0])
    assert all(torch.equal(a, b) for a, b in zip(state, kept[1][1:], strict=True))


def test_a_stream_has_its_own_weights():
    rnn = build(LAYERS["lstm"])
    stream, other = Stream(rnn), Stream(rnn)
    want = other.push([1.0, 2.0, 3.0], 1.0)
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.fill_(0.5)
    np.testing.assert_array_equal(stream.push([1.0, 2.0, 3.0], 1.0), want)


# The state


def test_writing_into_a_state_that_was_read_does_not_change_the_stream():
    stream = Stream(build(LAYERS["lstm"]))
    h, c = stream.state
    h.fill_(1.0)
    c.fill_(1.0)
    assert all((s == 0).all() for s in stream.state)
    stream.state = (h, c)
    h.fill_(2.0)
    assert (stream.state[0] == 1).all()


# State and clock move together


def test_pushes_move_the_state_and_the_clock_in_one_call():
    stream = Stream(build(LAYERS["lstm"], torch.float32))
    row, other = np.ones(3, np.float32), stream.copy()
    for t in (0, 1.5, np.float64(2.5), np.float32(3.0), np.int64(4)):
        stream.push(row, t)
        other.run(row[None], [float(t)])
        assert_unchanged(stream, snapshot(other))
        assert stream.time == float(t)
    stream.reset()
    assert stream.time is None
    stream.push(row, -5.0)
    assert stream.time == -5.0


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_an_interrupted_run_changes_nothing(share, monkeypatch):
    """Whether the signal comes before, amid or right after the events; the same run can then be repeated."""
    stream = Stream(build(LAYERS["lstm, two layers"]))
    x, t = events(40)
    stream.run(x[:5], t[:5])
    want = stream.copy().run(x[5:], t[5:])
    before, run = snapshot(stream), stream._model.run

    def interrupted(state, rows, times):
        some = int(share * len(rows))
        run(state, rows[:some], times[:some])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stream._model, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stream.run(x[5:], t[5:])
    assert_unchanged(stream, before)
    assert torch.equal(stream.run(x[5:], t[5:]), want)


@pytest.mark.parametrize("what", ["x", "time", "state", "index"])
def test_values_that_torch_negates_when_it_reads_them_are_read_so(what):
    table = torch.randn(20, 3, dtype=torch.float64) if what == "index" else None
    stream = Stream(build(LAYERS["lstm"]), table=table)
    x, t = events(12)
    x = torch.randint(20, (12,)) if what == "index" else x
    other = stream.copy()
    if what == "state":
        value = tuple(torch.randn_like(s) for s in stream.state)
        stream.state, other.state = value, tuple(torch._neg_view(-s) for s in value)
    want = stream.run(x, t)
    got = other.run(torch._neg_view(-x) if what in ("x", "index") else x, torch._neg_view(-t) if what == "time" else t)
    torch.testing.assert_close(got, want)
    assert other.time == stream.time


# Events that are indices into a table


@pytest.mark.parametrize("cls", [PhasedLSTM, PhasedGRU])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_looking_an_input_up_is_the_same_as_multiplying_it_one_by_one_or_all_at_once(cls, dtype):
    rnn = cls(5, 9, 2, period=LogUniform(2, 20), ratio_on=0.4, dtype=dtype, **chosen).eval()
    table = torch.randn(20, 5, dtype=dtype)
    index, t = torch.randint(20, (40,)), torch.rand(40, dtype=torch.float64).cumsum(0)
    stream = Stream(rnn, table=table)
    whole = stream.run(index, t)
    torch.testing.assert_close(whole, Stream(rnn).run(table[index], t))
    for kind in (int, np.int64, torch.tensor):
        stream.reset()
        got = [torch.as_tensor(stream.push(kind(int(i)), moment)) for i, moment in zip(index, t.tolist(), strict=True)]
        assert torch.equal(torch.stack(got), whole)  # each output has its own memory
