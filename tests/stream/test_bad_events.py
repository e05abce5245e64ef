"""What a stream refuses: the message says why, and nothing has changed."""

import math

import numpy as np
import pytest
import torch

from phased import PhasedLSTM, Stream
from streams import LAYERS, assert_unchanged, build, chosen, events, snapshot

NOW = 1.7e9
ROW, SINGLE = np.ones(3), np.ones(3, np.float32)
ROUNDED = [np.float32, lambda t: torch.tensor(t, dtype=torch.float32)]  # seconds since 1970, which then lie 128 apart


@pytest.fixture(autouse=True, scope="module", params=["auto", "reference"])
def _every_way_to_run_a_stream(request):
    """Under every instruction set of the core the same is refused."""
    chosen["backend"] = request.param


def made(kind):
    """A stream that has taken an event at time 1, unless it is new."""
    table = {"of indices": torch.randn(20, 3), "new, of indices": torch.randn(20, 3)}.get(kind)
    stream = Stream(build(LAYERS["lstm, two layers"], torch.float64 if kind == "of float64" else torch.float32), table)
    if not kind.startswith("new"):
        stream.push(SINGLE if table is None else 7, 1.0)
    return stream


def push(x, t=2.0):
    return lambda stream: stream.push(x, t)


def run(x, *t):
    return lambda stream: stream.run(x, *t)


def with_nan(bad, dtype):
    rows = np.ones((9, 3), dtype)
    rows[7, 1] = bad
    return rows


def put(*sizes, dtype=torch.float32):
    state = tuple(torch.zeros(size, dtype=dtype) if size else None for size in sizes)
    return lambda stream: setattr(stream, "state", state)


TIME, NUMBERS = r"time must .*, got .*\. \w+", r"x must .*, got "
MASKED, LONG = np.ma.masked_equal(np.ones((2, 3)), 1), np.ones((2, 3), np.longdouble)
UNTIL_20 = r"x must be in \[0, 20\), .* got "
REFUSED = [  # the stream, the call, the error, the message
    *(("of float64", push(ROW, t), ValueError, TIME) for t in (math.nan, math.inf, -math.inf, 0.5)),
    *(
        ("of float64", push(x), ValueError, r"x must have shape \(3,\).*, got \(")
        for x in ([1.0, 2.0], np.zeros(4), np.zeros((1, 3)), torch.zeros(1, 3), 1.0, torch.zeros(0))
    ),
    *(
        ("of float64", run(np.zeros(size), np.arange(4.0)), ValueError, rf"x must have shape \(events, 3\), got {got}")
        for size, got in (((4, 2), r"\(4, 2\)"), ((3,), r"\(3,\)"))
    ),
    *(
        ("of float64", run(np.zeros((4, 3)), t), ValueError, rf"time must have .*\(4,?\), got {got}")
        for t, got in ((np.arange(5.0), r"\(5,\)"), (np.zeros((4, 1)), r"\(4, 1\)"), (1.0, r"\(\)"))
    ),
    *(
        ("of float64", push(x), TypeError, NUMBERS)
        for x in (["a", "b", "c"], None, [None, 1.0, 2.0], {"a": 1}, np.array([1j, 2, 3]), MASKED[0], LONG[0])
    ),
    *(("of float64", run(x, [1.0, 2.0]), TypeError, r"x must be .*, got .*\. \w+") for x in (MASKED, LONG)),
    *(("of float64", run(np.ones((2, 3)), x[:, 0]), TypeError, r"time must be .*, got .*\. \w+") for x in (MASKED, LONG)),
    *(
        ("of float32", push(x, t), (TypeError, ValueError), "time must .*, got ")
        for t in ("noon", None, 1j, [1.0, 2.0], True, np.True_, np.complex64(1), np.complex128(1j))
        for x in ([1.0, 2.0, 3.0], ROW, SINGLE)
    ),
    *(
        ("of float32", call, ValueError, f"x must be finite, got {bad} for feature 1{place}")
        for bad in (np.nan, np.inf, -np.inf)
        for rows in (with_nan(bad, np.float32), with_nan(bad, np.float64))
        for call, place in (
            (run(rows, np.arange(9.0) + 10), r" of event 7\..*Leave such events out"),
            *((push(row), r"\.") for row in (rows[7], rows[7].tolist(), torch.from_numpy(rows[7]))),
        )
    ),
    *(
        ("of float32", call, (TypeError, ValueError), "must .*got ")
        for call in (
            lambda stream: setattr(stream, "state", torch.zeros(2, 7)),
            *(put((2, 7)), put((2, 7), (2, 6)), put((2, 7), None), put((2, 1, 7), (2, 1, 7))),
            put((2, 7), (2, 7), dtype=torch.float64),
        )
    ),
    *(
        ("new, of indices", run(index, torch.zeros(1)), error, message)
        for index, error, message in (
            *((torch.tensor([n]), ValueError, f"{UNTIL_20}{n}") for n in (20, -1)),
            (torch.tensor([0.0]), TypeError, "x must be int64, .* got torch.float32"),
            (torch.tensor([[0]]), ValueError, r"x must have shape \(1,\), .* got \(1, 1\)"),
        )
    ),
    *(("of indices", push(n), ValueError, f"{UNTIL_20}{n}") for n in (20, -1)),
    ("of indices", push(True), TypeError, "x must be real numbers"),
    ("of indices", push(3, 0.5), ValueError, "time must not go backwards"),
    *(("of indices", push(3, t), ValueError, "time must be finite") for t in (math.nan, math.inf)),
    ("new, of indices", push(3, -math.inf), ValueError, r"time must be .*, got .*\. \w+"),
    ("new, of indices", push(3, 10**400), TypeError, r"time must be .*, got .*\. \w+"),
]


@pytest.mark.parametrize("kind, call, error, message", REFUSED)
def test_what_is_wrong_raises_and_changes_nothing(kind, call, error, message):
    stream = made(kind)
    before = snapshot(stream)
    with pytest.raises(error, match=message):
        call(stream)
    assert_unchanged(stream, before)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0.5])
@pytest.mark.parametrize("where", [0, 7, 19])
def test_a_bad_time_anywhere_in_a_run_changes_nothing(bad, where):
    rnn = build(LAYERS["lstm, two layers"])
    x, t = events(30, start=1.0)
    stream = Stream(rnn)
    stream.run(x[:10], t[:10])
    before, broken = snapshot(stream), t[10:].clone()
    broken[where] = bad
    with pytest.raises(ValueError, match=TIME):
        stream.run(x[10:], broken)
    assert_unchanged(stream, before)
    torch.testing.assert_close(stream.run(x[10:], t[10:]), rnn.eval()(x, t)[0][10:])


@pytest.mark.parametrize("kind, x", [("new", SINGLE), ("new, of indices", 4)])
@pytest.mark.parametrize("make", ROUNDED, ids=["numpy", "torch"])
def test_a_pushed_time_that_float32_rounds_to_the_last_one_changes_nothing(make, kind, x):
    stream = made(kind)
    stream.push(x, make(NOW))
    before = snapshot(stream)
    with pytest.raises(ValueError, match=r"time must tell its steps apart, .* torch.float32 near 1.7e\+09 lie 128 apart"):
        stream.push(x, make(NOW + 1.0))
    assert_unchanged(stream, before)
    stream.push(x, make(NOW + 200.0))
    stream.push(x, NOW + 300.0)


# What cannot be streamed


def diverged(name):
    rnn = build(LAYERS["lstm"])
    with torch.no_grad():
        rnn.get_parameter(name).view(-1)[2] = math.nan
    return rnn


UNSUITED = [  # the layer, the table, the error, the message
    *(
        (diverged(name), None, ValueError, "rnn must be finite, got NaN or infinity")
        for name in ("weight_hh_l0", "bias_ih_l0", "period_l0", "shift_l0", "ratio_on_l0")
    ),
    (PhasedLSTM(3, 7, device="meta"), None, ValueError, "rnn must have values, got tensors on the meta device"),
    (PhasedLSTM(3, 7, bidirectional=True), None, ValueError, "rnn must not be bidirectional.*future.*bidirectional=False"),
    (torch.nn.LSTM(3, 7), None, TypeError, "rnn must be a PhasedLSTM or PhasedGRU, got LSTM"),
    (PhasedLSTM(3, 7), torch.zeros(0, 3), ValueError, r"table must have at least one row, got none\. Pass"),
    (PhasedLSTM(3, 7), torch.zeros(20, 4), ValueError, r"table must have shape \(entries, 3\), got \(20, 4\)"),
]


@pytest.mark.parametrize("rnn, table, error, message", UNSUITED)
def test_a_layer_or_a_table_that_cannot_be_streamed_is_refused(rnn, table, error, message):
    with pytest.raises(error, match=message):
        Stream(rnn, table)


# What is taken all the same


def test_features_whose_sum_overflows_are_finite_all_the_same():
    stream = Stream(build(LAYERS["lstm"], torch.float32))
    stream.run(np.full((2, 3), 3e38, np.float32), [0.0, 1.0])
    assert stream.time == 1.0


@pytest.mark.parametrize("t", [np.float32(1e6), np.float64(NOW), NOW, 17_000_000_000], ids=repr)
def test_events_may_share_a_time_that_was_not_rounded(t):
    stream = made("new")
    for _ in range(2):
        stream.push(SINGLE, t)
    stream.run(np.ones((3, 3)), [float(t)] * 3)
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
        "read-only": tuple(np.frombuffer(values.tobytes()).reshape(values.shape) for values in (x, t)),
    }
    for name, (rows, times) in layouts.items():
        assert np.array_equal(Stream(rnn).run(rows, times), wanted), name
        stream = Stream(rnn)
        for row, time in zip(rows, times, strict=True):
            last = stream.push(row, time)
        np.testing.assert_allclose(last, wanted[-1], rtol=1e-5, err_msg=name)
