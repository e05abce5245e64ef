"""Numbers, dates, durations and clock times; the unit."""

from datetime import UTC, date, datetime, time, timedelta, timezone

import numpy as np
import pandas as pd
import polars as pl
import pytest

from phased.estimator import Events

START = datetime(2024, 3, 1, 14, 30)


def times_of(column, **options) -> Events:
    return Events.read({"id": [1] * len(column), "time": column, "x": range(len(column))}, static=[], **options)


@pytest.mark.parametrize(
    "column",
    [
        [START, START + timedelta(minutes=90)],
        ["2024-03-01 14:30", "2024-03-01 16:00"],
        ["2024-03-01T14:30:00", "2024-03-01T16:00:00.000"],
        ["2024-03-01T14:30:00Z", "2024-03-01T18:00:00+02:00"],
        ["2024/03/01 14:30", "2024/03/01 16:00"],
        pd.Series([START, START + timedelta(minutes=90)]),
        pl.Series([START, START + timedelta(minutes=90)], dtype=pl.Datetime("ns")),
        [START.replace(tzinfo=UTC), (START + timedelta(minutes=90)).replace(tzinfo=UTC)],
        pd.Series([START, START + timedelta(minutes=90)]).dt.tz_localize("Europe/Zurich"),
        [each.replace(tzinfo=timezone(timedelta(hours=1))) for each in (START, START + timedelta(minutes=90))],
    ],
)
def test_dates_count_from_the_first_event_of_their_sequence(column):
    events = times_of(column)
    assert (events.unit, events.time.tolist()) == ("h", [0, 1.5])
    assert times_of(column, unit="minutes").time.tolist() == [0, 90]
    ahead = "Zurich" in str(getattr(column, "dtype", "")) or "3600" in repr(column[0])
    assert events.origin[0] == np.datetime64("2024-03-01T13:30" if ahead else "2024-03-01T14:30")


SECOND = {"ns": 10**9, "us": 10**6, "ms": 1000}


@pytest.mark.parametrize(
    "column, unit, expected",
    [
        ([date(2024, 3, 1), date(2024, 3, 3)], "d", [0, 2]),  # a date is its first moment
        (["2024-03-01", "2024-03-01 12:00"], "d", [0, 0.5]),
        ([START, START + timedelta(microseconds=1), START + timedelta(days=20000)], "us", [0, 1, 20000 * 86400e6]),
        (["00:07", "47:30"], "h", [7 / 60, 47.5]),
        (["00:07:30", "47:30:00"], "min", [7.5, 2850]),
        ([timedelta(hours=1), timedelta(days=1)], "h", [1, 24]),
        ([time(1, 30), time(2)], "h", [1.5, 2]),
        *(
            (pl.Series([0, 1, 1500, 6000 * each]).cast(pl.Duration(name)), "s", [0, 1 / each, 1500 / each, 6000])
            for name, each in SECOND.items()
        ),
        (pl.Series([1, 1001]).cast(pl.Time), "ns", [1, 1001]),
        (pl.Series([0, 2**62]).cast(pl.Duration("ms")), "d", [0, 2**62 / 86_400_000]),
        *((each, "d", [3, 5]) for each in ([3, 5], [3.0, 5.0], np.array([3, 5], np.int32), ["3", "5.0"])),
        ([3, 5], "heartbeats", [3, 5]),
    ],
)
def test_dates_clock_times_durations_and_numbers_are_times_in_their_unit(column, unit, expected):
    events = times_of(column) if unit == "h" else times_of(column, unit=unit)  # hours are the default
    assert (events.unit, events.time.tolist()) == (unit, expected)
    assert (events.origin is None) == ("2024" not in str(column[0]))


@pytest.mark.parametrize(
    "column, message",
    [
        (["2024-03-01", "3.5"], "all dates, got '3.5' after '2024-03-01'. At id 1, time 3.5"),
        ([START, 3.5], "all dates, got '3.5' after '2024-03-01 14:30:00'. At id 1, time 3.5"),
        (pd.Series([START, 3.5], dtype=object), "all dates, got '3.5' after"),
        (["1.5", "00:30"], "all hh:mm or all dates, got '00:30' after '1.5'"),
        (["0", "soon"], r"hh:mm or a date such as 2024-03-01 14:30, got 'soon'. At id 1, time soon \(row 1 of the table\)"),
        ([0, None], r"finite time, got None at id 1, time None, variable 'x' \(row 1 of the table\)"),
        ([0, float("nan")], "finite time, got nan at id 1, time nan, variable 'x'"),
        ([0, float("inf")], "finite time, got inf at id 1, time inf, variable 'x'"),
        ([START, None], "finite time, got None at id 1, time None, variable 'x'"),
        ([True, False], "numbers or dates, got a column of type Boolean"),
        (["03/04/2024", "04/04/2024"], "a date such as 2024-03-01 14:30, got '03/04/2024'"),
        (["03/04/24", "04/04/24"], "a date such as 2024-03-01 14:30, got '03/04/24'"),
        (["03-04-24"], "a date such as 2024-03-01 14:30, got '03-04-24'"),
        (["3/4/24 10:30"], "a date such as 2024-03-01 14:30, got '3/4/24 10:30'"),
        (["2024-03-27 03:00", "27/03/24 03:00"], "a date such as 2024-03-01 14:30, got '27/03/24 03:00'"),
        (
            [None, "2024-03-01 14:30", "2024-03-01 15:30+02:00"],
            r"all have an offset from UTC.*or none, got '2024-03-01 15:30\+02:00' after '2024-03-01 14:30'. .*At id 1.*row 2",
        ),
        (["2024-03-01T14:30Z", "2024-03-02"], "or none, got '2024-03-02' after '2024-03-01T14:30Z'"),
        ([0, 2**53 + 2], "at most 2.*53 to be exact, got 9007199254740994. Subtract a start"),
        ([0, 1e17], "at most 2.*53 to be exact, got 1e.17. Subtract a start"),
        (["00:30", "25:61"], "all hh:mm or all dates, got '25:61' after '00:30'|hh:mm or a date .*, got '25:61'"),
        (["99999999999999:30"], "hh:mm or a date such as 2024-03-01 14:30, got '99999999999999:30'"),
        ([START, START.replace(tzinfo=UTC)], r"or none, got '2024-03-01 14:30:00\+00:00' after '2024-03-01 14:30:00'"),
        (pd.Series([START.replace(tzinfo=UTC), START], dtype=object), r"or none, got '2024-03-01 14:30:00' after"),
        (pl.Series([2**62, 0]).cast(pl.Datetime("ms")), "in the years 1 to 9999, got 4611686018427387904 ms since 1970"),
        (pl.Series([2**58, 0]).cast(pl.Datetime("us")), "in the years 1 to 9999, got 288230376151711744 us since 1970"),
        (pl.Series([1, 2]).cast(pl.Datetime("ns")), "dates must be whole microseconds .*, got 1 ns since 1970. Round them"),
        (["2024-03-01 14:30:00.0000001"], "dates must be whole microseconds .*, got '2024-03-01 14:30:00.0000001'"),
    ],
)
def test_times_that_cannot_be_compared_are_refused(column, message):
    with pytest.raises(ValueError, match=message):
        times_of(column)
    with pytest.raises(ValueError, match="unit must be one of ns, us, ms, s, min, h, d, w where times are dates"):
        times_of([START], unit="heartbeats")


def test_times_whose_rounding_is_as_large_as_their_gaps_are_refused():
    seconds = (1.7e9 + 200 * np.arange(4)).astype(np.float32)
    with pytest.raises(
        ValueError, match=r"exact enough for their gaps, .*at id 1, time 1\d+ .*of float32. Pass times as float64"
    ):
        times_of(seconds)
    table = {"id": [1, 2, 3, 4], "time": seconds, "x": range(4)}
    assert Events.read(table, static=[]).time.tolist() == seconds.tolist()  # one time a sequence, no gap
