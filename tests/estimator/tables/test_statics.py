"""What is known once per sequence is found, or named."""

import numpy as np
import pytest
from hypothesis import given

from phased.estimator import Events
from tables import assert_same, long, measurements, wide

LONG = {
    "id": [1, 1, 1, 1, 2, 2, 2, 2],
    "time": [0, 0, 1, 2, 5, 5, 6, 7],
    "variable": ["Age", "HR", "HR", "Lab", "Age", "HR", "HR", "HR"],
    "value": [54, 70, 71, 3, 60, 80, 81, 82],
}


NAN = float("nan")
WIDE = {
    "id": [1, 1, 2, 2],
    "time": [0, 1, 0, 1],
    "Age": [54, 54, 60, 60],
    "Height": [170, NAN, NAN, NAN],
    "HR": [70, 71, 80, 80],
    "Lab": [NAN, 3, NAN, 4],
    "On": [1, NAN, NAN, 1],
}


@pytest.mark.parametrize(
    "table, options, variables, statics, static",
    [
        (LONG, {}, ("HR", "Lab"), ("Age",), [[54], [60]]),  # what is measured once but later is not known at the start
        (LONG, {"static": ["Lab", "Age"]}, ("HR",), ("Lab", "Age"), [[3, 54], [NAN, 60]]),
        (LONG, {"static": []}, ("Age", "HR", "Lab"), (), [[], []]),
        # Sequences of one time do not show that something is static.
        ({"id": [1, 2], "time": [0, 0], "variable": ["Age", "Age"], "value": [54, 60]}, {}, ("Age",), (), [[], []]),
        (WIDE, {}, ("HR", "Lab", "On"), ("Age", "Height"), [[54, 170], [60, NAN]]),
    ],
)
def test_what_is_known_at_the_first_time_and_never_changes_is_static(table, options, variables, statics, static):
    events = Events.read(table, **options)
    assert (events.variables, events.statics) == (variables, statics)
    np.testing.assert_array_equal(events.static, static)


def test_every_row_of_a_wide_table_is_a_step_also_with_statics_alone():
    rows = {"id": [1, 1, 1, 2], "time": [0, 3, 4, 5], "Age": [50, None, None, 60], "HR": [None, 80, 81, None]}
    measured = {"id": [1, 1, 1, 2], "time": [0, 3, 4, 5], "variable": ["Age", "HR", "HR", "Age"], "value": [50, 80, 81, 60]}
    events = Events.read(rows)
    assert (events.statics, events.time.tolist(), events.lengths.tolist()) == (("Age",), [0, 3, 4, 5], [3, 1])
    named = Events.read(rows, static=["Age"])
    for each in (named, Events.read(rows, like=named)):
        assert_same(each, events)
    assert_same(Events.read(measured, like=named), Events.read(measured))
    assert Events.read(measured).time.tolist() == [3, 4, 5]  # a long table has no row for a time without a measurement
    assert Events.read(LONG).time.tolist() == [0, 1, 2, 5, 6, 7]
    rows["Age"][0] = None
    assert Events.read(rows, static=["Age"]).time.tolist() == [0, 3, 4, 5]


@given(measurements())
def test_long_and_wide_tables_with_statics_are_the_same(rows):
    first = Events.read(wide(rows), static=["GCS", "Temp"], merge="first", unit="h")
    again = Events.read(long(rows), like=first)
    np.testing.assert_array_equal(again.static, first.static)
    np.testing.assert_array_equal(again.value, first.value)
    assert set(again.time[np.diff(again.entry) > 0]) == set(first.time[np.diff(first.entry) > 0])


def test_a_static_that_is_named_needs_no_time():
    table = {**LONG, "time": [None, *LONG["time"][1:]]}
    assert Events.read(table, static=["Age"]).static.tolist() == [[54], [60]]
    with pytest.raises(ValueError, match="finite time, got None at id 1, time None, variable 'Age'"):
        Events.read(table)


@pytest.mark.parametrize("layout", ["long", "wide"])
def test_a_static_with_two_values_is_refused_unless_merged(layout):
    table = {"id": [1, 1, 1], "time": [0, 1, 2]}
    table |= {"variable": ["W"] * 3, "value": [80, 81, 80]} if layout == "long" else {"W": [80, 81, 80], "HR": [1, 2, 3]}
    with pytest.raises(ValueError, match="got 80, 81 at id 1, time 0, variable 'W'"):
        Events.read(table, static=["W"])
    for how, expected in {"max": 81, "last": 80, "first": 80, "sum": 241}.items():
        assert Events.read(table, static=["W"], merge=how).static.tolist() == [[expected]]
