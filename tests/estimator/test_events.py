"""Events: sequences from arrays, their selection, and what is refused."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phased.estimator import Events
from tables import assert_same

NAN = float("nan")
SECONDS = (1.7e9 + 200 * np.arange(5)).astype(np.float32)  # numbers of float32 lie 128 apart there


def made(n: int = 5, seed: int = 0, variables: int = 3, statics: int = 2) -> Events:
    random = np.random.default_rng(seed)
    times = [np.cumsum(random.uniform(0.1, 2, random.integers(1, 6))) for _ in range(n)]
    values = [random.normal(size=(len(time), variables)) for time in times]
    values = [np.where(random.random(each.shape) < 0.4, NAN, each) for each in values]
    return Events.of(times, values, ids=[f"p{i}" for i in range(n)], static=random.normal(size=(n, statics)), unit="h")


@given(st.data(), st.integers(0, 6))
def test_arrays_come_back_as_they_were(data, n):
    lengths = data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    number = st.one_of(st.just(NAN), st.floats(-1e6, 1e6))
    values = [np.array([[data.draw(number) for _ in range(2)] for _ in range(length)]).reshape(length, 2) for length in lengths]
    times = [np.arange(length) * 0.5 for length in lengths]
    events = Events.of(times, values, variables=["a", "b"])
    assert events.shape == (n,)
    assert events.lengths.tolist() == lengths
    np.testing.assert_array_equal(events.dense(), np.concatenate([np.empty((0, 2)), *values]))
    np.testing.assert_array_equal(events.time, np.concatenate([[], *times]))


@given(st.lists(st.integers(-5, 4), max_size=8))
def test_selected_sequences_are_those_of_their_numbers(rows):
    events = made()
    chosen = events[rows]
    assert chosen.ids.tolist() == [events.ids[row] for row in rows]
    for place, row in enumerate(rows):
        one = events[row]
        assert len(one) == 1
        assert one.ids[0] == events.ids[row]
        np.testing.assert_array_equal(chosen[place].dense(), one.dense())
        np.testing.assert_array_equal(chosen[place].time, one.time)
        np.testing.assert_array_equal(chosen.static[place], events.static[row])


def test_a_mask_a_slice_and_numbers_select_alike():
    events = made()
    for index in (slice(1, 4), np.array([False, True, True, True, False]), [False, True, True, True, False], np.array([1, 2, 3])):
        assert events[index].ids.tolist() == ["p1", "p2", "p3"]
        assert events[index, ...].ids.tolist() == ["p1", "p2", "p3"]
    assert [one.ids[0] for one in events] == events.ids.tolist()
    with pytest.raises(IndexError, match="from -5 to 4, got 5"):
        events[5]


def test_the_arrays_cannot_be_written_to():
    events = made()
    for name in ("ids", "offset", "time", "entry", "variable", "value", "static"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(events, name)[0] = getattr(events, name)[0]


def test_copies_for_other_processes_are_the_same():
    events = made()
    copy = pickle.loads(pickle.dumps(events))  # as joblib sends them
    assert_same(copy, events)
    assert copy.settings == events.settings


def test_dates_count_from_the_first_of_their_sequence():
    times = [np.array(["2020-01-01T10:00", "2020-01-01T10:30"], "datetime64[m]"), [], np.array(["1999-05-05"], "datetime64[D]")]
    events = Events.of(times, [[1, 2], [], [3]])
    assert events.unit == "h"
    assert (events.time.tolist(), events.lengths.tolist()) == ([0, 0.5, 0], [2, 0, 1])
    assert events.origin.astype(str).tolist() == ["2020-01-01T10:00:00.000000", "NaT", "1999-05-05T00:00:00.000000"]
    assert events[2].origin.astype(str).tolist() == ["1999-05-05T00:00:00.000000"]
    assert Events.of(times, [[1, 2], [], [3]], unit="minutes").time.tolist() == [0, 30, 0]


@pytest.mark.parametrize(
    "arguments, options, message",
    [
        (([[0, 1]], [[[1], [np.inf]]]), {"ids": ["p7"]}, "got inf in sequence 'p7' at time 1.0, variable 'x0'. Use NaN"),
        (([[0], [1, 0.5]], [[1], [1, 2]]), {}, r"got 0.5 after 1.0 in sequence 1. Sort the events"),
        (([[0, NAN]], [[1, 2]]), {}, "time must be finite, got nan in sequence 0"),
        (([["a"]], [[1]]), {}, "times of sequence 0 must be numbers or datetime64"),
        (([[0, 1]], [[1]]), {}, r"values of sequence 0 must have the shape \(2, 1\), got \(1, 1\)"),
        (([[0]], []), {}, "one array per sequence, got 1 and 0"),
        (([[0]], [[1]]), {"ids": [1, 2]}, r"ids must have the shape \(1,\)"),
        (([[0], [1]], [[1], [1]]), {"ids": [1, 1]}, "each id must occur once, got 1 twice"),
        (([[0]], [[1]]), {"variables": ["a"], "static": [[1.0]], "statics": ["a"]}, "must differ, got 'a' twice"),
        (([[0]], [[1]]), {"static": [[np.inf]]}, "infinite 's0' in sequence 0"),
        (([[2**53, 2**53 + 1]], [[1, 2]]), {}, r"at most 2\*\*53 to be exact, got 9007199254740993 in sequence 0. Subtract the"),
        (([np.array(["300000-01-01"], "M8[s]")], [[1]]), {}, "whole microseconds in the years 1 to 9999, got 300000-01-01"),
        (([np.array([1, 2], "M8[ns]")], [[1, 2]]), {}, "dates must be whole microseconds .* in sequence 0. Round them"),
        (([[0, 1e300]], [[1, 2]]), {}, r"at most 2\*\*53 to be exact, got 1e.300 in sequence 0"),
        (([np.array([2**63], np.uint64)], [[1]]), {}, r"at most 2\*\*53 to be exact, got 9223372036854775808 in sequence 0"),
        (([np.array(["2024", "NaT"], "datetime64[D]")], [[1, 2]]), {"ids": ["a"]}, "got NaT in sequence 'a' at step 1. Leave"),
        (([np.ma.masked_array(["2024"], mask=[True], dtype="datetime64[D]")], [[1]]), {}, "got NaT in sequence 0 at step 0"),
        (([np.ma.masked_array([0, 1], mask=[False, True])], [[1, 2]]), {}, "time must be finite, got nan in sequence 0"),
        (([["2024", "NaT"]], [[1, 2]]), {}, r"numbers or datetime64 .*Pass text as dates: np.array\(times, 'datetime64\[us\]'\)"),
        (([np.array(["2024"], "M8[D]"), [1]], [[1], [2]]), {}, "sequence 0 must be numbers .*Other sequences have numbers"),
        (([SECONDS], [[1, 2, 3, 4, 5]]), {}, r"got 1\d+ and then 1\d+ in sequence 0, two neighbouring numbers of float32. Pass"),
        (
            ([[0.0, 1.0]], [[["1", "2"], ["a", "b"]]]),
            {"ids": ["p7"], "variables": ["HR", "T"]},
            "a value must be a number, got 'a' in sequence 'p7' at time 1.0, variable 'HR'. Use NaN",
        ),
        (([[0.0, 1.0]], [["a", "b"]]), {}, "a value must be a number, got 'a' in sequence 0 at time 0.0, variable 'x0'"),
        (([[0.0, 1.0]], [[[1, 2], [3]]]), {}, r"values of sequence 0 must be numbers of the shape \(2, 1\)"),
        (([[0]], [[1]]), {"static": [["x"]]}, "static must be numbers, a row per sequence and a column per name, got: .*'x'"),
        (([[0]], [[1]]), {"static": [1.0]}, r"static must have the shape \(1, 0\), got \(1,\)"),
    ],
)
def test_arrays_that_are_no_sequences_are_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        Events.of(*arguments, **options)


def test_what_is_masked_is_not_measured():
    values = np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    events = Events.of([[0, 1]], [values], static=np.ma.masked_array([[5.0, 6.0]], mask=[[True, False]]))
    np.testing.assert_array_equal(events.dense(), [[1, NAN], [3, 4]])
    np.testing.assert_array_equal(events.static, [[NAN, 6]])


def test_single_precision_is_enough_for_coarse_gaps():
    days = (1.7e9 + 86400 * np.arange(5)).astype(np.float32)
    for times in (days, np.arange(5, dtype=np.float32) / 8, np.arange(5, dtype=np.float16)):
        assert Events.of([times], [range(5)]).time.tolist() == times.tolist()
