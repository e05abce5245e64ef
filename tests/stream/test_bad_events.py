"""What a stream refuses: the message says why, and nothing has changed."""

import math

import numpy as np
import pytest
import torch

from phased import PhasedLSTM, Stream
from streams import LAYERS, assert_unchanged, build, chosen, events, snapshot


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 0.5], ids=["nan", "inf", "-inf", "backwards"])
@pytest.mark.parametrize("where", [0, 7, 19])
def test_a_bad_time_anywhere_changes_nothing(bad, where):
    rnn = build(LAYERS["lstm, two layers"])
    x, t = events(30, start=1.0)
    stream = Stream(rnn)
    stream.run(x[:10], t[:10])
    before = snapshot(stream)
    broken = t[10:].clone()
    broken[where] = bad
    with pytest.raises(ValueError, match=r"time must .*, got .*\. \w+"):
        stream.run(x[10:], broken)
    assert_unchanged(stream, before)
    with pytest.raises(ValueError, match=r"time must .*, got .*\. \w+"):
        stream.push(x[10], bad)
    assert_unchanged(stream, before)
    torch.testing.assert_close(stream.run(x[10:], t[10:]), rnn.eval()(x, t)[0][10:])


@pytest.mark.parametrize("x", [[1.0, 2.0], np.zeros(4), np.zeros((1, 3)), torch.zeros(1, 3), 1.0, torch.zeros(0)], ids=str)
def test_an_event_of_the_wrong_shape_changes_nothing(x):
    stream = Stream(build(LAYERS["lstm"]))
    stream.push([1.0, 2.0, 3.0], 1.0)
    before = snapshot(stream)
    with pytest.raises(ValueError, match=r"x must have shape \(3,\).*, got \("):
        stream.push(x, 2.0)
    assert_unchanged(stream, before)


@pytest.mark.parametrize(
    "x, t, message",
    [
        (np.zeros((4, 2)), np.arange(4.0), r"x must have shape \(events, 3\), got \(4, 2\)"),
        (np.zeros(3), np.arange(1.0), r"x must have shape \(events, 3\), got \(3,\)"),
        (np.zeros((4, 3)), np.arange(5.0), r"time must have .*\(4,?\), got \(5,\)"),
        (np.zeros((4, 3)), np.zeros((4, 1)), r"time must have .*\(4,?\), got \(4, 1\)"),
        (np.zeros((4, 3)), 1.0, r"time must have .*\(4,?\), got \(\)"),
    ],
)
def test_events_of_the_wrong_shape_change_nothing(x, t, message):
    stream = Stream(build(LAYERS["lstm"]))
    stream.push([1.0, 2.0, 3.0], -1.0)
    before = snapshot(stream)
    with pytest.raises(ValueError, match=message):
        stream.run(x, t)
    assert_unchanged(stream, before)


@pytest.mark.parametrize("x", [["a", "b", "c"], None, [None, 1.0, 2.0], {"a": 1}, np.array([1j, 2, 3])], ids=str)
def test_events_that_are_no_numbers_are_a_type_error_about_x(x):
    stream = Stream(build(LAYERS["lstm"]))
    before = snapshot(stream)
    with pytest.raises(TypeError, match=r"x must .*, got "):
        stream.push(x, 1.0)
    assert_unchanged(stream, before)


@pytest.mark.parametrize("t", ["noon", None, 1j, [1.0, 2.0], True, np.True_, np.complex64(1), np.complex128(1j)], ids=repr)
@pytest.mark.parametrize("x", [[1.0, 2.0, 3.0], np.ones(3), np.ones(3, np.float32)], ids=["list", "float64", "float32"])
def test_a_time_that_is_no_number_is_an_error_about_time(x, t):
    stream = Stream(build(LAYERS["lstm"], torch.float32))
    before = snapshot(stream)
    with pytest.raises((TypeError, ValueError), match=r"time must .*, got "):
        stream.push(x, t)
    assert_unchanged(stream, before)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_feature_that_is_nan_or_infinite_changes_nothing(bad, dtype):
    """It would stay in the state of every unit that opens afterwards."""
    stream = Stream(build(LAYERS["lstm, two layers"], torch.float32))
    rows, times = np.ones((9, 3), dtype), np.arange(9.0)
    stream.run(rows, times)
    before = snapshot(stream)
    rows[7, 1] = bad
    with pytest.raises(ValueError, match=rf"x must be finite, got {bad} for feature 1 of event 7\..*Leave such events out"):
        stream.run(rows, times + 10)
    for given in (rows[7], rows[7].tolist(), torch.from_numpy(rows[7])):
        with pytest.raises(ValueError, match=rf"x must be finite, got {bad} for feature 1\."):
            stream.push(given, 20.0)
    assert_unchanged(stream, before)


def test_features_whose_sum_overflows_are_finite_all_the_same():
    stream = Stream(build(LAYERS["lstm"], torch.float32))
    stream.run(np.full((2, 3), 3e38, np.float32), [0.0, 1.0])
    assert stream.time == 1.0


@pytest.mark.parametrize("name", ["weight_hh_l0", "bias_ih_l0", "period_l0", "shift_l0", "ratio_on_l0"])
def test_a_layer_that_has_diverged_cannot_be_streamed(name):
    rnn = build(LAYERS["lstm"])
    with torch.no_grad():
        rnn.get_parameter(name).view(-1)[2] = float("nan")
    with pytest.raises(ValueError, match="rnn must be finite, got NaN or infinity"):
        Stream(rnn)


def test_a_layer_without_values_cannot_be_streamed():
    with pytest.raises(ValueError, match="rnn must have values, got tensors on the meta device"):
        Stream(PhasedLSTM(3, 7, device="meta"))


def test_a_state_of_the_wrong_shape_changes_nothing():
    stream = Stream(build(LAYERS["lstm"]))
    stream.push([1.0, 2.0, 3.0], 1.0)
    before = snapshot(stream)
    good = torch.zeros(1, 7, dtype=torch.float64)
    for bad in (good, (good,), (good, good[:, :6]), (good, good.float()), (good, None), (good.unsqueeze(1), good.unsqueeze(1))):
        with pytest.raises((TypeError, ValueError), match=r"must .*got "):
            stream.state = bad
        assert_unchanged(stream, before)


def test_a_bidirectional_layer_cannot_be_streamed_and_the_message_says_why():
    with pytest.raises(ValueError, match=r"rnn must not be bidirectional.*future.*bidirectional=False"):
        Stream(PhasedLSTM(3, 7, bidirectional=True))


def test_only_our_layers_can_be_streamed():
    with pytest.raises(TypeError, match=r"rnn must be a PhasedLSTM or PhasedGRU, got LSTM"):
        Stream(torch.nn.LSTM(3, 7))


@pytest.mark.parametrize(
    "index, error, message",
    [
        (torch.tensor([20]), ValueError, r"x must be in \[0, 20\), .* got 20"),
        (torch.tensor([-1]), ValueError, r"x must be in \[0, 20\), .* got -1"),
        (torch.tensor([0.0]), TypeError, "x must be int64, .* got torch.float32"),
        (torch.tensor([[0]]), ValueError, r"x must have shape \(1,\), .* got \(1, 1\)"),
    ],
    ids=["too large", "negative", "not whole", "not one each"],
)
def test_a_wrong_index_is_refused_and_changes_nothing(index, error, message):
    stream = Stream(PhasedLSTM(5, 9, **chosen).eval(), table=torch.randn(20, 5))
    with pytest.raises(error, match=message):
        stream.run(index, torch.zeros(1))
    assert stream.time is None
    assert all(not s.any() for s in stream.state)


@pytest.mark.parametrize(
    "index, time, error, message",
    [
        (20, 2.0, ValueError, r"x must be in \[0, 20\), .* got 20"),
        (-1, 2.0, ValueError, r"x must be in \[0, 20\), .* got -1"),
        (True, 2.0, TypeError, "x must be real numbers"),
        (3, 0.5, ValueError, "time must not go backwards"),
        (3, math.nan, ValueError, "time must be finite"),
        (3, math.inf, ValueError, "time must be finite"),
    ],
)
def test_a_wrong_number_as_an_index_is_refused_and_changes_nothing(index, time, error, message):
    stream = Stream(PhasedLSTM(5, 9, **chosen).eval(), table=torch.randn(20, 5))
    stream.push(7, 1.0)
    before = stream.state
    with pytest.raises(error, match=message):
        stream.push(index, time)
    assert stream.time == 1.0
    assert all(torch.equal(one, other) for one, other in zip(stream.state, before, strict=True))


@pytest.mark.parametrize("time, error", [(-math.inf, ValueError), (10**400, TypeError)], ids=["-inf", "no float"])
def test_a_first_event_at_a_time_that_is_no_finite_float_is_refused(time, error):
    stream = Stream(PhasedLSTM(5, 9, **chosen).eval(), table=torch.randn(20, 5))
    with pytest.raises(error, match=r"time must be .*, got .*\. \w+"):
        stream.push(3, time)
    assert stream.time is None
    assert all(not s.any() for s in stream.state)


def test_a_table_of_another_width_is_refused():
    with pytest.raises(ValueError, match=r"table must have shape \(entries, 5\), got \(20, 4\)"):
        Stream(PhasedLSTM(5, 9, **chosen).eval(), table=torch.randn(20, 4))


NOW = 1.7e9


@pytest.mark.parametrize("table", [None, torch.randn(5, 3)], ids=["features", "indices"])
@pytest.mark.parametrize("make", [np.float32, lambda t: torch.tensor(t, dtype=torch.float32)], ids=["numpy", "torch"])
def test_a_pushed_time_that_float32_rounds_to_the_last_one_changes_nothing(make, table):
    """float32 seconds since 1970 lie 128 apart."""
    stream = Stream(build(LAYERS["lstm"], torch.float32), table)
    x = np.ones(3, np.float32) if table is None else 4
    stream.push(x, make(NOW))
    before = snapshot(stream)
    with pytest.raises(ValueError, match=r"time must tell its steps apart, .* torch.float32 near 1.7e\+09 lie 128 apart"):
        stream.push(x, make(NOW + 1.0))
    assert_unchanged(stream, before)
    stream.push(x, make(NOW + 200.0))
    stream.push(x, NOW + 300.0)


@pytest.mark.parametrize("t", [np.float32(1e6), np.float64(NOW), NOW, 17_000_000_000], ids=repr)
def test_events_may_share_a_time_that_was_not_rounded(t):
    stream = Stream(build(LAYERS["lstm"], torch.float32))
    for _ in range(2):
        stream.push(np.ones(3, np.float32), t)
    assert stream.time == float(t)


def test_arrays_of_any_layout_are_the_same_numbers():
    rnn = build(LAYERS["lstm"])
    x, t = (values.numpy() for values in events(20))
    packed = np.zeros(20, [("flag", "u1"), ("t", "f8")])
    packed["t"] = t
    wanted = Stream(rnn).run(x, t)
    layouts = {
        "big-endian": (x.astype(">f8"), t.astype(">f8")),
        "reversed": (x[::-1].copy()[::-1], t[::-1].copy()[::-1]),
        "of a packed table": (x, packed["t"]),
    }
    for name, (rows, times) in layouts.items():
        assert np.array_equal(Stream(rnn).run(rows, times), wanted), name
        stream = Stream(rnn)
        for row, time in zip(rows, times, strict=True):
            last = stream.push(row, time)
        np.testing.assert_allclose(last, wanted[-1], rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("x", [np.ma.masked_equal(np.ones((2, 3)), 1), np.ones((2, 3), np.longdouble)], ids=["masked", "long"])
def test_arrays_that_torch_cannot_hold_change_nothing(x):
    stream = Stream(build(LAYERS["lstm"]))
    before = snapshot(stream)
    for call in (lambda: stream.run(x, [1.0, 2.0]), lambda: stream.push(x[0], 1.0)):
        with pytest.raises(TypeError, match=r"x must be .*, got .*\. \w+"):
            call()
    with pytest.raises(TypeError, match=r"time must be .*, got .*\. \w+"):
        stream.run(np.ones((2, 3)), x[:, 0])
    assert_unchanged(stream, before)


def test_a_table_without_rows_is_refused():
    with pytest.raises(ValueError, match=r"table must have at least one row, got none\. Pass"):
        Stream(build(LAYERS["lstm"]), table=torch.zeros(0, 3))
