"""Targets from the table itself: the next value of a variable, or its value a fixed time later."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phased.estimator import Events
from phased.estimator.units import in_times
from tables import arrays, measurements

NAN = float("nan")


@given(measurements(), st.sampled_from([None, 0.25, 0.5, 2]))
def test_a_target_is_the_next_value_or_the_value_at_the_horizon(rows, horizon):
    events, name = arrays(rows), rows[0][2]
    value = {(number, time): value for number, time, variable, value in rows if variable == name}
    expected = []
    for number, time in zip(events.ids[events.sequence].tolist(), events.time.tolist(), strict=True):
        later = min((at for one, at in value if one == number and at > time), default=None)
        expected.append(value.get((number, later if horizon is None else time + horizon), NAN))
    if np.isnan(expected).all():
        with pytest.raises(ValueError, match=f"at least one step must have a value of '{name}' .* later"):
            events.future(name, horizon)
    else:
        np.testing.assert_array_equal(events.future(name, horizon), expected)


def test_steps_at_one_time_follow_each_other_and_a_value_may_be_repeated_at_the_horizon():
    events = Events.of([[0, 0, 1, 1], [1]], [[5, 6, 7, 7], [9]], ids=["a", "b"], variables=["x"])
    np.testing.assert_array_equal(events.future("x"), [6, 7, 7, NAN, NAN])
    np.testing.assert_array_equal(events.future("x", 1), [7, 7, NAN, NAN, NAN])
    some = Events.of([[0, 1, 1]], [[[5, 1], [6, NAN], [NAN, 2]]], variables=["x", "y"])
    np.testing.assert_array_equal(some.future("y", 1), [2, NAN, NAN])


@pytest.mark.parametrize("start", [0.0, 1.7e9])
def test_times_that_differ_by_rounding_alone_are_equal(start):
    events = Events.of([start + np.arange(1000) / 10], [np.arange(1000.0)], variables=["x"], unit="s")
    np.testing.assert_array_equal(events.future("x", "300ms"), np.append(np.arange(3.0, 1000), [NAN] * 3))


@pytest.mark.parametrize(
    "length, unit, expected", [("24h", "h", 24), ("1 day", "h", 24), (90, "min", 90), ("2y", "y", 2), (".5", "", 0.5)]
)
def test_a_horizon_is_a_number_in_the_unit_of_the_times_or_has_a_unit(length, unit, expected):
    assert in_times(length, unit) == expected


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("sex",), "the target must be measured over time, got 'sex', which is static. Choose one of 'x', 'state'."),
        (("wind",), "the target must be a variable of the table, got 'wind'. It has 'x', 'state'."),
        (("x", "7h"), "value of 'x' exactly 7 h later, got none. The gaps between steps are 0 to 2 h."),
        (("x", "2h"), "a target must be one value, got 2.0 and 3.0 of 'x' in sequence 0 at time 2. Merge the rows of one time"),
        (("state", "2h"), "got up and down of 'state' in sequence 0 at time 2."),
        (("x", "soon"), "horizon must be a length of time above 0, such as 24h, got 'soon'."),
        (("x", 0), "horizon must be a length of time above 0, such as 24h, got 0."),
        (("x", "1y"), "horizon must be in 'h', the unit of the times, got '1y'."),
    ],
)
def test_a_target_that_the_table_does_not_have_is_refused(arguments, message):
    rows = [
        (n, time, x, state, "fm"[n % 2]) for n in range(20) for time, x, state in ((0, 1, "up"), (2, 2, "up"), (2, 3, "down"))
    ]
    events = Events.read(dict(zip(("id", "time", "x", "state", "sex"), zip(*rows, strict=True), strict=True)), unit="h")
    assert events.future("state").tolist() == ["up", "down", None] * 20
    with pytest.raises(ValueError, match=re.escape(message)):
        events.future(*arguments)


def test_without_a_unit_of_the_times_a_horizon_is_a_number():
    with pytest.raises(ValueError, match="horizon must be a number, because the unit of the times is not known, got '24h'"):
        Events.of([[0, 1]], [[1, 2]]).future("x0", "24h")
