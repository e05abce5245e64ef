"""Times of every dtype: unsigned integers count as signed ones, and float32 that rounds steps together is refused."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence

from layers import Layer, each_layer, lstm
from phased import Stream, clock, ops, updates
from phased.init import LogUniform
from phased.ops.native import MISSING
from strategies import clocks, f64, seeds

UNSIGNED = [torch.uint8, torch.uint16, torch.uint32, torch.uint64]
NOW = 1.7e9
X = torch.randn(200, 2, 3)


# Unsigned integers


@each_layer
@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_unsigned_times_and_lengths_are_the_numbers_they_are(make, dtype):
    rnn: Layer = make(3, 5, 2, bidirectional=True, period=LogUniform(2, 40), ratio_on=0.5).eval()
    time = torch.randint(0, 200, (200, 2)).sort(0).values
    given = time.to(dtype)
    assert torch.equal(rnn(X, given)[0], rnn(X, time)[0])
    assert torch.equal(rnn(X, given, lengths=torch.tensor([200, 20]).to(dtype))[0], rnn(X, time, lengths=[200, 20])[0])
    assert torch.equal(updates(rnn, given), updates(rnn, time))
    packed = [pack_padded_sequence(value, torch.tensor([200, 20])) for value in (X, given, time)]
    assert torch.equal(rnn(packed[0], packed[1])[0].data, rnn(packed[0], packed[2])[0].data)
    x, one = X[:, 0].numpy(), make(3, 5)
    assert np.array_equal(Stream(one).run(x, given[:, 0].numpy()), Stream(one).run(x, time[:, 0].numpy()))


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_unsigned_times_that_go_backwards_are_refused(dtype):
    time = torch.tensor([[5], [3]]).to(dtype)
    for call in (lambda: lstm()(X[:2, :1], time), lambda: updates(lstm(), time)):
        with pytest.raises(ValueError, match="time must not go backwards, got 3 after 5 at step 1"):
            call()


# Times that float32 cannot tell apart


def unix(rate: float, unit: float, steps: int = 200, start: float = NOW) -> Tensor:
    """UNIX times of a sensor that samples `rate` times a second, `unit` ticks a second, float64 (steps, 2)."""
    since = torch.arange(steps, dtype=torch.float64) / rate
    return ((start + since.unsqueeze(1) + f64([0.0, 1e4])) * unit).floor()


@pytest.mark.parametrize("unit", [1, 1e3, 1e6], ids=["s", "ms", "us"])
@pytest.mark.parametrize("rate", [1 / 60, 1 / 10, 1, 30, 1e3, 1e5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_unix_times_that_a_short_dtype_makes_equal_are_refused(unit, rate, dtype):
    """At ordinary rates neighbouring samples fall on one number: float32 lies 128 s apart there, bfloat16 97 days."""
    exact = unix(rate, unit)
    rounded = exact.to(dtype)
    assert (rounded[1:] == rounded[:-1]).any()
    message = rf"time must tell its steps apart, got \d+ of 398 equal .*{dtype}.* lie .* apart\. Pass time as torch\.float64"
    with pytest.raises(ValueError, match=message):
        clock.flat(rounded).check(lambda: unit)
    for cured in (exact, exact.long(), (exact - exact[0]).float()):
        clock.flat(cured).check(lambda: unit)


@pytest.mark.parametrize(
    "call",
    [
        lambda rnn, time: rnn(X, time),
        lambda rnn, time: rnn(X, time, lengths=[200, 200]),
        updates,
        lambda rnn, time: Stream(rnn).run(X[:, 0], time[:, 0]),
    ],
    ids=["layer", "lengths", "updates", "stream"],
)
def test_layers_streams_and_counts_refuse_them(call):
    with pytest.raises(ValueError, match="time must tell its steps apart"):
        call(lstm(), unix(1, 1).float())


ORDINARY = {
    "nothing but zeros": torch.zeros(200, 2),
    "a standstill": torch.full((200, 2), 1234.5),
    "a standstill at the last whole number": torch.full((200, 2), 2.0**24 - 1),
    "whole numbers": torch.arange(200.0).unsqueeze(1).expand(200, 2),
    "whole numbers up to 2**24, each twice": (2**24 - 100 + torch.arange(200) // 2).unsqueeze(1).expand(200, 2).float(),
    "seconds since the start, each ten times": 1e4 + 0.001 * (torch.arange(200) // 10).unsqueeze(1).expand(200, 2).float(),
    "midnights in UNIX seconds, each twice": 86400.0 * (19_000 + torch.arange(200) // 2).unsqueeze(1).expand(200, 2).float(),
    "UNIX seconds of samples far apart": unix(1 / 3600, 1).float(),
    "negative": -torch.arange(200.0).flip(0).unsqueeze(1).expand(200, 2),
    "bfloat16 counting to 200": torch.arange(200).unsqueeze(1).expand(200, 2).bfloat16(),
    "float16 counting to 2000": (10 * (torch.arange(200) // 3)).unsqueeze(1).expand(200, 2).half(),
}


@pytest.mark.parametrize("what", ORDINARY)
def test_ordinary_times_raise_no_alarm(what):
    clock.flat(ORDINARY[what]).check(lambda: 0.01 * 0.05)  # no dtype resolves such a gate


def test_slow_gates_take_rounded_times():
    """128 s are nothing to a unit that is open for an hour of each day."""
    clock.flat(unix(1, 1).float()).check(lambda: 86400 / 24)


def test_padding_raises_no_alarm():
    time = clocks(200, 2).float()
    time[100:] = NOW
    clock.flat(time, torch.tensor([100, 100])).check(lambda: 1.0)
    with pytest.raises(ValueError, match="time must tell its steps apart"):
        clock.flat(time).check(lambda: 1.0)


@given(seeds, st.floats(1e-3, 1e3), st.floats(0.0, 2.0**24), st.integers(1, 50))
def test_times_that_float32_counts_never_raise_an_alarm(seed, rate, start, copies):
    """Whole numbers below 2**24 and anything finer, at any rate, with any number of events at one time."""
    draw = torch.Generator().manual_seed(seed)
    since = torch.rand(200, 2, dtype=torch.float64, generator=draw).cumsum(0) / rate
    time = (start + since).clamp(max=2**24 - 1).float()[torch.arange(200) // copies * copies]
    clock.flat(time).check_rounding(lambda: 0.0)


@given(seeds, st.floats(0.05, 1e6), st.sampled_from([1, 10**3, 10**6, 10**9]))
def test_random_events_in_rounded_unix_time_always_raise_one(seed, rate, unit):
    draw = torch.Generator().manual_seed(seed)
    gaps = -torch.rand(200, 2, dtype=torch.float64, generator=draw).log() / rate
    time = ((NOW + gaps.cumsum(0)) * unit).float()
    with pytest.raises(ValueError, match="time must tell its steps apart"):
        clock.flat(time).check_rounding(lambda: float(unit))


needs_core = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@needs_core
@given(seeds, st.sampled_from([None, "nan", "inf", "-inf", "back", "equal"]), st.booleans(), st.booleans())
def test_the_core_finds_clocks_as_the_check_does(seed, fault, ragged, transposed):
    random = np.random.default_rng(seed)
    steps, batch = random.integers(1, 7, 2)
    lengths = torch.from_numpy(random.integers(0, steps + 1, batch)) if ragged else None
    time = torch.from_numpy(random.random((batch, steps)).cumsum(1)).t()
    if not transposed:
        time = time.contiguous()
    if fault is not None:
        step, sequence = random.integers(steps), random.integers(batch)
        before = time[step - 1, sequence] if step else time[0, sequence]
        time[step, sequence] = {"back": before - 1, "equal": before}[fault] if fault in ("back", "equal") else float(fault)
    try:
        clock.flat(time, lengths).check()
    except ValueError:
        assert not ops.is_clock(time, lengths)
    else:
        assert ops.is_clock(time, lengths)


def test_the_first_gap_of_a_sequence_counts():
    with pytest.raises(ValueError, match="got 3 of 3 equal"):
        clock.read([torch.full((2,), 2.0**25)] * 3)


@needs_core
def test_lengths_that_are_not_contiguous_are_read_as_they_are():
    time = torch.tensor([[0.0, 0.0], [1.0, 1.0], [0.0, 2.0]], dtype=torch.float64)
    lengths = torch.tensor([2, 3, 3, 3])[::2]  # 2 and 3
    assert ops.is_clock(time, lengths)
    assert not ops.is_clock(time, torch.tensor([3, 3]))


def test_the_core_looks_at_float64_alone():
    assert not ops.is_clock(torch.arange(3.0).unsqueeze(1), None)
    assert not ops.is_clock(torch.arange(3).unsqueeze(1), None)
