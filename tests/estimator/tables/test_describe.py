"""What Events contain is described, and what may be wrong."""

import numpy as np
import pytest

from phased.estimator import Events
from phased.estimator.describe import suspicious


def test_the_numbers_are_those_of_the_sequences():
    nan = float("nan")
    events = Events.of([[0, 1, 3], [0, 4]], [[[1, nan], [2, 5], [3, nan]], [[4, nan], [nan, nan]]], static=[[1], [nan]], unit="h")
    made = events.describe()
    assert (made.sequences, made.steps, made.measurements, made.unit) == (2, 5, 5, "h")
    assert made.lengths == (2, 2.25, 2.5, 2.75, 3)
    assert made.gaps == (1, 1.5, 2, 3, 4)
    assert made.spans == (3, 3.25, 3.5, 3.75, 4)
    assert [column.observed for column in made.variables] == [0.8, 0.2]
    assert [column.observed for column in made.statics] == [0.5]
    assert made.variables[0].quartiles == (1, 1.75, 2.5, 3.25, 4)
    assert made.warnings == ()
    assert str(Events.of([], []).describe()).startswith("0 sequences, 0 steps, 0 measurements")
    empty = Events.of([[0.0], [0.0]], [[1.0], [nan]], unit="h").describe()
    assert empty.warnings == ("1 of 2 sequences have no measurement over time.",)


def test_the_text_has_what_happened_to_rows_and_the_dates():
    table = {"id": [1, 1, 1], "time": ["2024-03-01 10:00", "2024-03-01 10:00", "2024-03-02 12:00"], "a": [1, 2, -1]}
    text = str(Events.read(table, merge="mean", missing=-1, static=[]).describe())
    assert "from 2024-03-01 10:00 to 2024-03-02 12:00; times count from each sequence's first event" in text
    assert "1 value merged into others" in text
    assert "1 value read as missing" in text


@pytest.mark.parametrize(
    "values, found",
    [
        ([170, 182, -1, 165, -1], [-1]),
        ([0, 1, 1, 0, 0, -1, -1], [-1]),
        ([36.5, 37, 9999, 38, 9999], [9999]),
        ([36.5, 37, -999, 38, -999, 9999, 9999], [-999, 9999]),
        ([0.3, -0.2, 1.1, -999, -999], [-999]),
        ([-1, 1, -1, 1, 1, 1], []),
        ([-1, 1, -1, 0, -1, 0, -1], []),
        ([-2, -1, 0, 1, -1], []),
        ([90, 95, 99, 99, 100], []),
        ([80, 95, 98, 99, 99], []),
        ([170, 182, -1], []),
        ([-1, -1, -1], []),
    ],
)
def test_a_number_outside_of_the_rest_is_suspicious(values, found):
    assert [each[0] for each in suspicious(np.array(values, np.float64))] == found


def test_warnings_name_the_variable_and_the_cure():
    table = {"id": [1] * 6, "time": np.arange(6) + 1.7e9, "Height": [170, -1, 180, -1, 171, 172], "never": [None] * 6}
    events = Events.read(table)
    warnings = "\n".join(events.describe().warnings)
    assert "'Height' is -1 in 2 of 6 values, outside the rest (170 to 180)" in warnings
    assert "pass missing={'Height': -1}" in warnings
    assert "'never' is never measured. Leave it out: drop=['never']." in warnings
    assert "the unit of the times is not known" in warnings
    assert "subtract the start of each sequence" in warnings
    assert str(events.describe()).count("warning: ") == 4
