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
    ],
)
def test_dates_count_from_the_first_event_of_their_sequence(column):
    events = times_of(column)
    assert (events.unit, events.time.tolist()) == ("h", [0, 1.5])
    assert times_of(column, unit="minutes").time.tolist() == [0, 90]
    assert events.origin[0] == np.datetime64(
        "2024-03-01T13:30" if "Zurich" in str(getattr(column, "dtype", "")) else "2024-03-01T14:30"
    )


def test_a_date_without_a_time_of_day_is_its_first_moment():
    assert times_of([date(2024, 3, 1), date(2024, 3, 3)], unit="d").time.tolist() == [0, 2]
    assert times_of(["2024-03-01", "2024-03-01 12:00"], unit="d").time.tolist() == [0, 0.5]


def test_dates_of_a_sequence_do_not_depend_on_other_sequences():
    table = {"id": [1, 2, 1], "time": ["2024-03-01", "1999-01-01", "2024-03-02"], "x": [1, 2, 3]}
    events = Events.read(table, unit="d", static=[])
    assert events.time.tolist() == [0, 1, 0]


def test_microseconds_of_dates_are_exact():
    column = [START, START + timedelta(microseconds=1), START + timedelta(days=20000)]
    assert times_of(column, unit="us").time.tolist() == [0, 1, 20000 * 86400e6]


def test_clock_times_and_durations_are_numbers():
    assert times_of(["00:07", "47:30"]).time.tolist() == [7 / 60, 47.5]
    assert times_of(["00:07:30", "47:30:00"], unit="min").time.tolist() == [7.5, 2850]
    assert times_of([timedelta(hours=1), timedelta(days=1)]).time.tolist() == [1, 24]
    assert times_of([time(1, 30), time(2)]).time.tolist() == [1.5, 2]
    assert times_of(["00:07", "47:30"]).origin is None
    for resolution, second in (("ns", 10**9), ("us", 10**6), ("ms", 1000)):
        durations = pl.Series([0, 1, 1500, 6000 * second]).cast(pl.Duration(resolution))
        assert times_of(durations, unit="s").time.tolist() == [0, 1 / second, 1500 / second, 6000]
    assert times_of(pl.Series([1, 1001]).cast(pl.Time), unit="ns").time.tolist() == [1, 1001]
    assert times_of(pl.Series([0, 2**62]).cast(pl.Duration("ms")), unit="d").time[1] == 2**62 / 86_400_000


def test_numbers_stay_as_they_are_and_keep_their_unit():
    for column in ([3, 5], [3.0, 5.0], np.array([3, 5], np.int32), ["3", "5.0"]):
        events = times_of(column, unit="days")
        assert (events.unit, events.time.tolist()) == ("d", [3, 5])
    assert times_of([3, 5], unit="heartbeats").unit == "heartbeats"


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


def test_a_frame_with_dates_and_numbers_in_one_column_is_refused():
    frame = pd.DataFrame({"id": [1, 1], "time": pd.Series([START, 3.5], dtype=object), "x": [1, 2]})
    with pytest.raises(ValueError, match=r"all dates, got '3.5' after"):
        Events.read(frame)


def test_dates_need_a_unit_of_time():
    with pytest.raises(ValueError, match="unit must be one of ns, us, ms, s, min, h, d, w where times are dates"):
        times_of([START], unit="heartbeats")


def test_offsets_from_utc_are_respected():
    zone = timezone(timedelta(hours=2))
    events = times_of([START.replace(tzinfo=zone)])
    assert events.origin[0] == np.datetime64("2024-03-01T12:30")


def test_times_whose_rounding_is_as_large_as_their_gaps_are_refused():
    seconds = (1.7e9 + 200 * np.arange(4)).astype(np.float32)
    with pytest.raises(
        ValueError, match=r"exact enough for their gaps, .*of float32, at id 1, time 1\d+ .*Pass times as float64"
    ):
        times_of(seconds)
    table = {"id": [1, 2, 3, 4], "time": seconds, "x": range(4)}
    assert Events.read(table, static=[]).time.tolist() == seconds.tolist()  # one time a sequence, no gap
