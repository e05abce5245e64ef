"""Timeline: the times of all sensors in one order, and the latest sample of each."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from phased import Timeline
from phased.fusion import hold
from strategies import seeds


def clocks(seed, sensors, size, spread):
    """Ragged times of several sensors, many of them equal."""
    random = torch.Generator().manual_seed(seed)
    made = {}
    for name in "abcd"[:sensors]:
        steps = int(torch.randint(0, 8, (), generator=random))
        lengths = torch.randint(0, steps + 1, (size,), generator=random)
        time = torch.randint(-spread, spread + 1, (steps, size), generator=random).sort(0).values
        made[name] = time, lengths
    return made


def by_hand(made, sequence, extra=()):
    """Times of one sequence, and the latest sample of each sensor, by counting."""
    own = {name: time[: lengths[sequence], sequence].tolist() for name, (time, lengths) in made.items()}
    times = sorted({time for sensor in own.values() for time in sensor} | set(extra))
    return times, {name: [sum(t <= now for t in sensor) - 1 for now in times] for name, sensor in own.items()}


@given(seeds, st.integers(1, 4), st.integers(1, 4), st.sampled_from([torch.int64, torch.float64, torch.float32]), st.booleans())
def test_a_timeline_is_what_counting_by_hand_gives(seed, sensors, size, dtype, with_extra):
    made = clocks(seed, sensors, size, spread=6)
    given = {}
    for name, (time, lengths) in made.items():
        padding = torch.arange(len(time)).unsqueeze(1) >= lengths
        given[name] = time.to(dtype).masked_fill(padding, torch.nan if dtype.is_floating_point else -(2**60)), lengths
    extra = torch.tensor([[-9], [0], [3]]).to(dtype).expand(3, size) if with_extra else None
    timeline = Timeline.of(given, extra)
    assert timeline.time.dtype == dtype
    longest = 0
    for sequence in range(size):
        times, latest = by_hand(made, sequence, (-9, 0, 3) if with_extra else ())
        steps = len(times)
        longest = max(longest, steps)
        assert timeline.lengths[sequence] == steps
        assert timeline.time[:steps, sequence].tolist() == times
        assert not timeline.time[steps:, sequence].any()
        for name, indices in latest.items():
            assert timeline.latest[name][:steps, sequence].tolist() == indices
            assert (timeline.latest[name][steps:, sequence] == -1).all()
    assert len(timeline.time) == longest
    assert torch.equal(timeline.valid.sum(0), timeline.lengths)


def test_microseconds_since_1970_and_times_at_the_ends_of_int64_are_exact():
    far = 2**63 - 1
    a, b = torch.tensor([[-far], [1_700_000_000_000_001], [far]]), torch.tensor([[1_700_000_000_000_000], [0]])
    timeline = Timeline.of({"a": a, "b": (b, [1])})
    assert timeline.time.flatten().tolist() == [-far, 1_700_000_000_000_000, 1_700_000_000_000_001, far]
    assert timeline.latest["a"].flatten().tolist() == [0, 0, 1, 2]
    assert timeline.latest["b"].flatten().tolist() == [-1, 0, 0, 0]


@pytest.mark.parametrize(
    "a, b, want",
    [
        (torch.int32, torch.int64, torch.int64),
        (torch.uint8, torch.int16, torch.int64),
        (torch.float32, torch.float64, torch.float64),
        (torch.float32, torch.int64, torch.float64),
        (torch.bfloat16, torch.bfloat16, torch.bfloat16),
    ],
)
def test_times_of_different_dtypes_meet_in_one_that_holds_both(a, b, want):
    timeline = Timeline.of({"a": torch.tensor([[1], [3]]).to(a), "b": torch.tensor([[2], [3]]).to(b)})
    assert timeline.time.dtype == want
    assert timeline.time.flatten().tolist() == [1, 2, 3]


def test_a_fixed_number_of_steps_is_padding_and_nothing_else():
    time = torch.tensor([[0.0, 1.0], [2.0, 1.0]])
    short = Timeline.of({"a": time})
    long = Timeline.of({"a": time}, steps=7)
    assert len(long.time) == 7
    assert torch.equal(long.lengths, short.lengths)
    assert torch.equal(long.time[:2], short.time)
    assert torch.equal(long.latest["a"][:2], short.latest["a"])
    assert not long.time[2:].any()
    with pytest.raises(ValueError, match="steps must be at least 2, those of the longest sequence, got 1"):
        Timeline.of({"a": time}, steps=1)


@pytest.mark.parametrize(
    "sensors, error, message",
    [
        ({}, ValueError, "a timeline must have times"),
        ({"a": None}, ValueError, "a timeline must have times"),
        ({"a": [1.0, 2.0, 3.0]}, TypeError, "sensor 'a': time must be a torch.Tensor"),
        (
            {"a": torch.ones(3)},
            ValueError,
            r"sensor 'a': time must have shape \(steps, sequences\), got \(3,\)\. Call time\.unsq",
        ),
        ({"a": torch.ones(3, 2).bool()}, TypeError, "sensor 'a': time must be integer or floating point"),
        ({"a": (torch.ones(3, 2), [1, 4])}, ValueError, r"sensor 'a': lengths must be in \[0, 3\]"),
        ({"a": torch.tensor([[1.0], [0.0]])}, ValueError, "sensor 'a': time must not go backwards, got 0.0 after 1.0 at step 1"),
        ({"a": torch.tensor([[torch.nan]])}, ValueError, "sensor 'a': time must be finite, got nan"),
        ({"a": torch.ones(3, 2), "b": torch.ones(3, 1)}, ValueError, "the same sequences, got 2 of 'a' and 1 of 'b'"),
        ({"a": torch.ones(3, 2), "b": torch.ones(3, 2, device="meta")}, ValueError, "on one device, got cpu of 'a' and meta of"),
    ],
)
def test_wrong_times_are_named(sensors, error, message):
    with pytest.raises(error, match=message):
        Timeline.of(sensors)


def test_the_gradient_of_holding_is_exact():
    timeline = Timeline.of(
        {"a": (torch.tensor([[0.0, 3.0], [2.0, 4.0], [2.0, 0.0]]), [3, 2])}, torch.arange(6.0).view(6, 1).expand(6, 2)
    )
    output = torch.randn(3, 2, 4, dtype=torch.float64, requires_grad=True)
    initial = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda o, i: hold(o, timeline.latest["a"], i), (output, initial))
    assert torch.autograd.gradgradcheck(lambda o, i: hold(o, timeline.latest["a"], i).square(), (output, initial))
