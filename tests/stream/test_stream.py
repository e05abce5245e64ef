"""Stream: event by event, the numbers of the layer in eval."""

from concurrent.futures import ThreadPoolExecutor

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


@each_layer
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_a_stream_is_the_layer_in_eval(make, dtype):
    """Even when made from a layer in training: its leak plays no part."""
    rnn = build(make, dtype)
    x, t = events(dtype=dtype)
    output = Stream(rnn).run(x, t)
    want, _ = rnn.eval()(x, t)
    assert output.dtype == dtype
    torch.testing.assert_close(output, want)


@given(seeds, some_layer, st.integers(0, 12), st.floats(-1e9, 1e9))
def test_a_stream_is_the_layer_wherever_time_is(seed, make, count, start):
    torch.manual_seed(seed)
    rnn = build(make).eval()
    x, t = events(count, start=start)
    stream = Stream(rnn)
    want, final = rnn(x, t)
    torch.testing.assert_close(stream.run(x, t), want)
    for got, state in zip(states(stream.state), states(final), strict=True):
        torch.testing.assert_close(got, state)


@each_layer
def test_pushing_one_by_one_is_running_them_all_to_the_bit(make):
    rnn = build(make, torch.float32)
    x, t = events(dtype=torch.float32)
    one, many = Stream(rnn), Stream(rnn)
    assert torch.equal(push_all(one, x, t.tolist()), many.run(x, t))
    assert all(torch.equal(a, b) for a, b in zip(states(one.state), states(many.state), strict=True))
    assert one.time == many.time == t[-1].item()


@each_layer
def test_running_in_parts_is_running_at_once_to_the_bit(make):
    rnn = build(make, torch.float32)
    x, t = events(dtype=torch.float32)
    parts, whole = Stream(rnn), Stream(rnn)
    rows = torch.cat([parts.run(x[:13], t[:13]), parts.run(x[13:13], t[13:13]), parts.run(x[13:], t[13:])])
    assert torch.equal(rows, whole.run(x, t))


@each_layer
def test_the_layer_goes_on_where_a_stream_stopped_and_the_other_way_round(make):
    rnn = build(make).eval()
    x, t = events()
    want, final = rnn(x, t)
    stream = Stream(rnn)
    stream.run(x[:17], t[:17])
    rest, rest_final = rnn(x[17:], t[17:], stream.state)
    torch.testing.assert_close(rest, want[17:])

    other = Stream(rnn)
    other.state = rnn(x[:17], t[:17])[1]
    torch.testing.assert_close(other.run(x[17:], t[17:]), want[17:])
    for got, end in zip(states(other.state), states(final), strict=True):
        torch.testing.assert_close(got.detach(), end)
    for got, end in zip(states(rest_final), states(final), strict=True):
        torch.testing.assert_close(got, end)


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


def test_unix_seconds_in_a_python_list_keep_every_digit():
    rnn = build(LAYERS["lstm"], period=1.0)
    x, t = events(start=1.7e9)
    want = Stream(rnn).run(x, t)
    assert torch.equal(Stream(rnn).run(x, t.tolist()), want)
    assert torch.equal(push_all(Stream(rnn), x, t.tolist()), want)
    assert torch.equal(push_all(Stream(rnn), x, t), want)
    np.testing.assert_array_equal(Stream(rnn).run(x.numpy(), t.numpy()), want.numpy())


def test_integer_microseconds_keep_every_digit():
    rnn = build(LAYERS["lstm"], period=1e6)
    x, t = events()
    micros = 1_700_000_000_000_000 + (1e6 * t).long()
    want = rnn.eval()(x, micros)[0]
    torch.testing.assert_close(Stream(rnn).run(x, micros), want)
    torch.testing.assert_close(Stream(rnn).run(x, micros.tolist()), want)
    stream = Stream(rnn)
    torch.testing.assert_close(push_all(stream, x, micros.tolist()), want)
    assert stream.time == micros[-1].item()


def test_two_events_may_come_at_the_same_time():
    stream = Stream(build(LAYERS["lstm"]))
    stream.push([0.0, 1.0, 2.0], 5.0)
    stream.push([0.0, 1.0, 2.0], 5.0)
    stream.run(np.zeros((3, 3)), [5.0, 5.0, 5.0])
    assert stream.time == 5.0


def test_any_time_may_come_first_a_negative_one_too():
    stream = Stream(build(LAYERS["lstm"]))
    assert stream.time is None
    stream.push([0.0, 1.0, 2.0], -1e6)
    assert stream.time == -1e6


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


def test_numpy_and_torch_see_the_same_numbers():
    rnn = build(LAYERS["lstm"])
    x, t = events()
    np.testing.assert_array_equal(Stream(rnn).run(x.numpy(), t.numpy()), Stream(rnn).run(x, t).numpy())


def test_no_events_give_no_outputs():
    stream = Stream(build(LAYERS["lstm"]))
    before = snapshot(stream)
    assert stream.run(torch.zeros(0, 3), torch.zeros(0)).shape == (0, 7)
    assert stream.run(np.zeros((0, 3)), np.zeros(0)).shape == (0, 7)
    assert_unchanged(stream, before)


def test_what_a_stream_returned_does_not_change_later():
    stream = Stream(build(LAYERS["lstm"], ratio_on=1.0))
    first = stream.push([1.0, 2.0, 3.0], 1.0)
    kept, state = first.copy(), [s.clone() for s in stream.state]
    held = stream.state
    stream.push([9.0, 9.0, 9.0], 2.0)
    np.testing.assert_array_equal(first, kept)
    assert all(torch.equal(a, b) for a, b in zip(held, state, strict=True))


def test_what_was_pushed_is_not_changed_and_not_kept():
    stream = Stream(build(LAYERS["lstm"], ratio_on=1.0))
    x = np.array([1.0, 2.0, 3.0])
    stream.push(x, 1.0)
    assert x.tolist() == [1.0, 2.0, 3.0]
    state = stream.state
    x[:] = 99.0
    assert all(torch.equal(a, b) for a, b in zip(stream.state, state, strict=True))


def test_a_stream_has_its_own_weights():
    rnn = build(LAYERS["lstm"])
    stream, other = Stream(rnn), Stream(rnn)
    want = other.push([1.0, 2.0, 3.0], 1.0)
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.fill_(0.5)
    np.testing.assert_array_equal(stream.push([1.0, 2.0, 3.0], 1.0), want)


# The state


@each_layer
def test_a_state_that_was_read_can_be_set_again(make):
    rnn = build(make, torch.float32)
    x, t = events(dtype=torch.float32)
    stream = Stream(rnn)
    stream.run(x[:20], t[:20])
    saved = stream.state
    want = stream.run(x[20:], t[20:])
    again = Stream(rnn)
    again.state = saved
    assert torch.equal(again.run(x[20:], t[20:]), want)


def test_writing_into_a_state_that_was_read_does_not_change_the_stream():
    stream = Stream(build(LAYERS["lstm"]))
    h, c = stream.state
    h.fill_(1.0)
    c.fill_(1.0)
    assert all((s == 0).all() for s in stream.state)
    stream.state = (h, c)
    h.fill_(2.0)
    assert (stream.state[0] == 1).all()


def test_the_state_has_the_shape_the_layer_takes_for_one_sequence():
    h, c = Stream(build(LAYERS["lstm, two layers"])).state
    assert h.shape == c.shape == (2, 7)
    assert Stream(build(LAYERS["gru, two layers"])).state.shape == (2, 7)


# Many streams


def test_streams_in_several_threads_do_not_disturb_each_other():
    rnn = PhasedLSTM(3, 12, 2, period=LogUniform(2, 20), ratio_on=0.3, **chosen).eval()
    events = [(torch.randn(200, 3), torch.rand(200, dtype=torch.float64).cumsum(0)) for _ in range(6)]
    want = [Stream(rnn).run(x, t) for x, t in events]
    first = Stream(rnn)
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda pair: first.copy().run(*pair), events))
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


# Events that are indices into a table


@pytest.mark.parametrize("cls", [PhasedLSTM, PhasedGRU])
def test_looking_an_input_up_is_the_same_as_multiplying_it(cls):
    rnn = cls(5, 9, 2, period=LogUniform(2, 20), ratio_on=0.4, dtype=torch.float64, **chosen).eval()
    table = torch.randn(20, 5, dtype=torch.float64)
    index, t = torch.randint(20, (40,)), torch.rand(40, dtype=torch.float64).cumsum(0)
    want = Stream(rnn).run(table[index], t)
    stream = Stream(rnn, table=table)
    torch.testing.assert_close(stream.run(index, t), want)
    stream.reset()
    one_by_one = [stream.push(i, float(moment)) for i, moment in zip(index, t, strict=True)]
    torch.testing.assert_close(torch.stack(one_by_one), want)


@pytest.mark.parametrize("cls", [PhasedLSTM, PhasedGRU])
@pytest.mark.parametrize("kind", [int, np.int64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_single_numbers_as_indices_give_what_run_gives(cls, kind, dtype):
    rnn = cls(5, 9, 2, period=LogUniform(2, 20), ratio_on=0.4, dtype=dtype, **chosen).eval()
    stream = Stream(rnn, table=torch.randn(20, 5))
    index, t = torch.randint(20, (40,)).numpy(), torch.rand(40, dtype=torch.float64).cumsum(0).numpy()
    want = stream.run(index, t)
    stream.reset()
    got = [stream.push(kind(i), moment) for i, moment in zip(index, t, strict=True)]
    assert np.array_equal(np.stack(got), want)  # each output has its own memory


def test_arrays_that_cannot_be_written_are_taken_like_others():
    rnn = build(LAYERS["lstm"], torch.float32)
    x, t = (value.numpy().copy() for value in events(dtype=torch.float32))
    want = Stream(rnn).run(x, t)
    x.flags.writeable = t.flags.writeable = False
    assert np.array_equal(Stream(rnn).run(x, t), want)
    stream = Stream(rnn)
    assert np.array_equal([stream.push(row, time) for row, time in zip(x, t, strict=True)], want)
