"""Targets in the order of the sequences, or of their steps."""

from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phased.estimator import Events

EVENTS = Events.of([[0.0, 0.5], [0.2], [0.1, 1.0]], [[1, 2], [3], [4, 5]], ids=[7, 3, 5], variables=["HR"], unit="h")
PER_EVENT = {"id": [3, 5, 7, 5, 7], "time": [0.2, 1.0, 0.5, 0.1, 0.0], "y": [30, 51, 71, 50, 70]}
AT = {"time": "time"}


@given(st.permutations([(7, 0), (3, 1), (5, 2)]))
def test_targets_have_the_order_of_the_sequences(rows):
    table = {"id": [row[0] for row in rows], "target": [row[1] for row in rows]}
    assert EVENTS.labels(table).tolist() == [0, 1, 2]
    assert EVENTS[[2, 0]].labelled(table)[1].tolist() == [2, 0]


@pytest.mark.parametrize("values", [[0, 1, 0], [0.5, 1.5, 2.5], [1e20, 1.5, 2.0], ["a", "b", "a"], [True, False, True]])
def test_targets_keep_their_type(values, tmp_path: Path):
    table = {"id": [7, 3, 5], "target": values, "note": ["", "x", "y"]}
    assert EVENTS.labels(table).tolist() == values
    pl.DataFrame(table).write_csv(tmp_path / "labels.csv")
    assert EVENTS.labels(tmp_path / "labels.csv").tolist() == values


NUMBERED = Events.of([[0.0], [0.2]], [[1], [2]], ids=[1.0, 2.0])
BLANKS = {"id": ["7 ", " 3", "5"], "died": ["yes ", "no", " yes"]}


@pytest.mark.parametrize(
    "events, table, expected",
    [
        (EVENTS, {"id": ["7", "3", "5"], "died": [1, 0, 1]}, [1, 0, 1]),  # text in one table and numbers in the other
        (NUMBERED, {"id": [2, 1], "died": [1, 0]}, [0, 1]),  # fractions and integers
        (EVENTS, BLANKS, ["yes", "no", "yes"]),
        (EVENTS, pl.DataFrame(BLANKS, schema_overrides={"died": pl.Categorical}), ["yes", "no", "yes"]),
        (EVENTS, {"id": [7, 7, 3, 5], "died": [1, 1, 0, 1]}, [1, 0, 1]),  # repeated in every row
    ],
)
def test_ids_and_targets_of_other_kinds_and_with_blanks_are_the_same(events, table, expected):
    assert events.labels(table).tolist() == expected


@pytest.mark.parametrize(
    "table, options, message",
    [
        ({"id": [7, 3], "y": [1, 0]}, {}, "each sequence must have a target in the table, got none for 5. `labelled` keeps"),
        ({"id": [7, 3, 5, 9], "y": [1, 0, 1, 1]}, {}, "must have a sequence with its id, got 9 without events. `labelled`"),
        ({"id": [7, 3, 5], "y": [1, None, 0]}, {}, r"each target must be known, got none at id 3 \(row 1 of the table\)"),
        ({"id": [7, 3, 5], "y": [1.0, float("nan"), 0]}, {}, "each target must be known, got none at id 3"),
        ({"id": [7, 3, 5], "y": ["a", "", "b"]}, {}, "each target must be known, got none at id 3"),
        ({"id": [7, 3, 5], "y": [1.0, float("inf"), 0]}, {}, r"must be finite, got inf at id 3 \(row 1 of the table\)"),
        ({"id": [7, 3, 5, 7], "y": [1, 0, 1, 0]}, {}, "one 'y', got 1 and 0 at id 7 .*name the column of their times"),
        ({"id": [7, 3, 5], "HR": [1, 0, 1]}, {}, r"must not be among the inputs, got 'HR'.*\(drop: 'HR'\)"),
        ({"id": [7, 3, 5], "a": [1, 0, 1], "b": [1, 0, 1]}, {}, "target must name the column of targets .*, one of 'a', 'b'"),
        ({"id": [7, 3, 5], "a": [1, 0, 1]}, {"target": "b"}, r"must have the column 'b' \(target\), got 'id', 'a'"),
        ({"id": [7, 3, 5], "a": [1, 0, 1]}, {"target": "id"}, "id and target must be two columns, got 'id' for both"),
        ({"id": [7, None, 5], "a": [1, 0, 1]}, {}, "each row must have an id, and row 1"),
        ({"who": [7, 3, 5], "a": [1, 0, 1]}, {}, r"column 'id' or 'subject_id' .*, got 'who', 'a'. Name another one \(id: its"),
        ({**PER_EVENT, "time": [0.3, *PER_EVENT["time"][1:]]}, AT, "must be at the time of an event, got one at id 3, time 0.3"),
        ({**PER_EVENT, "y": [None] * 5}, AT, "at least one event must have a target in the table, got none"),
        ({**PER_EVENT, "time": [None, *PER_EVENT["time"][1:]]}, AT, "each target must have a finite time"),
        ({"id": [3, 3], "time": [0.2] * 2, "y": [1, 2]}, AT, "each event must have one 'y', got 1 and 2 at id 3, time 0.2"),
    ],
)
def test_targets_that_do_not_fit_are_refused_by_name(table, options, message):
    with pytest.raises(ValueError, match=message):
        EVENTS.labels(table, **options)


def test_labelled_keeps_the_sequences_that_have_a_target():
    events, y = EVENTS.labelled({"id": [5, 9, 7, 3], "died": [1, 1, 0, None]})
    assert (events.ids.tolist(), y.tolist()) == ([7, 5], [0, 1])
    with pytest.raises(ValueError, match="at least one sequence must have a target"):
        EVENTS.labelled({"id": [99], "died": [1]})


@pytest.mark.parametrize("values, none", [([30, 51, 71], "nan"), (["a", "b", "c"], "None"), ([True, False, True], "None")])
def test_an_empty_target_and_a_missing_row_are_steps_without_a_target(values, none):
    rows = {"id": [3, 5, 7], "time": [0.2, 1.0, 0.5], "y": values}
    empty = {"id": [*rows["id"], 5, 7], "time": [*rows["time"], 0.1, 0.0], "y": [*values, None, None]}
    for table in (rows, empty):
        y = EVENTS.labels(table, time="time").tolist()
        assert [str(each) for each in (y[0], y[3])] == [none, none]
        assert [y[1], y[2], y[4]] == [values[2], values[0], values[1]]


def test_targets_at_one_time_belong_to_the_steps_at_it_in_their_order():
    events = Events.of([[0, 1, 1, 1, 2]], [range(5)], ids=["a"])
    table = {"id": ["a"] * 5, "time": [0, 1, 1, 1, 2], "y": list("abcde")}
    assert events.labels(table, time="time").tolist() == list("abcde")
    one = {"id": ["a"] * 2, "time": [0, 1], "y": ["a", "b"]}
    assert events.labels(one, time="time").tolist() == ["a", None, None, "b", None]  # what is known after all of them
    middle = {**table, "y": ["a", "b", "", "d", "e"]}
    assert events.labels(middle, time="time").tolist() == ["a", "b", None, "d", "e"]
    between = {"id": ["a"] * 4, "time": [0, 0.5, 1, 1], "y": ["a", "", "b", "c"]}  # an empty target at the time of no event
    assert events.labels(between, time="time").tolist() == ["a", None, "b", "c", None]
    with pytest.raises(ValueError, match="each event must have one 'y', got 'a' and 'b' at id 'a', time 1"):
        events.labels({"id": ["a"] * 4, "time": [1] * 4, "y": list("abcd")}, time="time")


def test_a_target_per_event_is_found_by_its_date_and_dates_do_not_depend_on_other_sequences():
    start = datetime(2024, 3, 1, 14, 30, 0, 7)
    dates = [start, start + timedelta(minutes=1), start + timedelta(days=3)]
    events = Events.read({"id": [1, 2, 1], "time": dates, "x": [1, 2, 3]}, unit="d", static=[])
    assert events.time.tolist() == [0, 3, 0]  # each sequence has its own start
    y = events.labels({"id": [1, 1, 2], "time": dates[::-1][:1] + dates[:2], "y": [13, 11, 12]}, time="time")
    assert y.tolist() == [11, 13, 12]


@given(st.data())
def test_a_target_is_that_of_its_own_event(data):
    stamps = data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, unique=True))
    columns = list(zip(*stamps, strict=True))
    table = {"id": columns[0], "time": columns[1], "x": range(len(stamps))}
    events = Events.read(table, static=[])
    order = data.draw(st.permutations(range(len(stamps))))
    shuffled = {"id": [columns[0][i] for i in order], "time": [columns[1][i] for i in order], "y": order}
    assert events.labels(shuffled, time="time").tolist() == events.value.tolist()
