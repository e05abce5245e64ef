"""Tables of any layout, library and order give the same Events. Static variables are found, or named by the caller."""

import gzip
import lzma
from pathlib import Path
from time import process_time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phased.estimator import Events
from phased.estimator.settings import Settings
from phased.fields import decode, encode
from tables import NAMES, arrays, assert_same, long, measurements, wide

ROWS = [(7, 0.0, "HR", 73.0), (7, 0.0, "GCS", 15.0), (7, 0.5, "HR", 77.5), (3, 0.25, "Temp", 36.6), (3, 1.0, "HR", 80.0)]


def read(table, **options):
    return Events.read(table, **{"unit": "h", "static": [], **options})


@given(measurements())
def test_a_long_table_a_wide_table_and_arrays_are_the_same(rows):
    expected = arrays(rows)
    made = read(wide(rows))
    assert_same(made, expected)
    names = sorted({row[2] for row in rows})
    assert_same(read(long(rows)), arrays(rows) if len(names) == len(NAMES) else read(wide(rows), variable=names))


@given(measurements(), st.randoms(use_true_random=False), st.sampled_from([None, "mean", "sum", "min", "max"]))
def test_the_order_of_rows_does_not_matter_also_not_to_what_is_merged(rows, random, how):
    several = [*rows, *((number, time, name, value / 3) for number, time, name, value in rows), *rows[::2]] if how else rows
    expected = read(long(several), merge=how)
    shuffled = random.sample(several, len(several))
    made = read(long(shuffled), merge=how)
    assert made.ids.tolist() == list(dict.fromkeys(row[0] for row in shuffled))  # as they first appear
    assert_same(made[np.argsort(made.ids)], expected)
    assert expected.counts.get("merged", 0) == len(several) - len(rows)


def test_rows_whose_keys_are_too_large_for_one_integer_are_sorted_too(monkeypatch: pytest.MonkeyPatch):
    expected = read(long(ROWS))
    monkeypatch.setattr("phased.estimator.tables.drafts.math", SimpleNamespace(prod=lambda sizes: 2**63))
    assert_same(read(long(ROWS)), expected)


def test_every_kind_of_frame_gives_the_same(tmp_path: Path):
    table = long(ROWS)
    expected, frame = read(table), pl.DataFrame(table)
    assert (expected.ids.tolist(), expected.variables) == ([7, 3], ("GCS", "HR", "Temp"))
    categories = frame.with_columns(pl.col("variable").cast(pl.Categorical))
    renamed = {"id": "who", "time": "when", "variable": "what", "value": "how much"}
    objects = pd.DataFrame(table).astype(object)
    for each in (frame, frame.lazy(), categories, pd.DataFrame(table), objects, pa.table(table)):
        assert_same(read(each), expected)
    assert_same(read({renamed[name]: column for name, column in table.items()}, **renamed), expected)
    frame.write_csv(tmp_path / "a.csv")
    frame.write_csv(tmp_path / "a.tsv", separator="\t")
    frame.write_csv(tmp_path / "b.csv", separator=";")
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_csv(tmp_path / "a [1]*.csv")  # no pattern, a name
    frame.write_parquet(tmp_path / "a [1]*.parquet")
    pyarrow.parquet.write_table(pa.table(table), tmp_path / "b.parquet")
    for file in tmp_path.iterdir():
        assert_same(read(file), expected)
        assert_same(read(str(file)), expected)
    frame.rename(renamed).write_csv(tmp_path / "renamed.csv")
    assert_same(read(tmp_path / "renamed.csv", **renamed), expected)


def test_numbers_may_be_integers_booleans_or_text_also_far_down_in_a_file(tmp_path: Path):
    table = {"id": ["a", "a"], "time": ["0", "1.5"], "on": [True, False], "level": [3, 4], "dose": ["0.5", "NA"]}
    events = read(table | {"flag": ["true", "False"]})
    assert events.variables == ("on", "level", "dose", "flag")
    np.testing.assert_array_equal(events.dense(), [[1, 3, 0.5, 1], [0, 4, np.nan, 0]])
    assert events.time.tolist() == [0, 1.5]
    rows = "".join(f"1,{row},a,{row}\n" for row in range(3000))
    (tmp_path / "long.csv").write_text(f"id,time,variable,value\n{rows}2,0.5,a,1.5\n2,0.75,a,NA\n", encoding="utf-8")
    events = read(tmp_path / "long.csv")
    assert events.ids.tolist() == [1, 2]
    assert events[1].value.tolist() == [1.5]


def test_columns_may_be_arrays_series_or_lists():
    expected = read({"id": [1, 1], "time": [0, 1], "x": [2.0, None]})
    for kind in (np.array, pd.Series, pl.Series, tuple):
        assert_same(read({"id": kind([1, 1]), "time": kind([0, 1]), "x": kind([2.0, float("nan")])}), expected)
    frame = pl.DataFrame({"id": [1, 1], "time": [0, 1], "x": pl.Series([2, None], dtype=pl.Object)})
    assert_same(read(frame), expected)
    assert_same(read({"id": np.array([1, 1], object), "time": range(2), "x": [2, pd.NA]}), expected)
    assert_same(read({"id": [1, 1], "time": range(2), "x": np.ma.masked_array([2, 7], mask=[False, True])}), expected)
    minutes = np.array(["2024-03-01T10:00", "2024-03-01T11:00"], "datetime64[m]")
    assert_same(read({"id": [1, 1], "time": minutes, "x": [2.0, None]}), expected)


BIG = [12345678901234567890, 12345678901234567891]
TEXT = [str(number) for number in BIG]
MANY = [str(5000 + row) for row in range(1000)]


@pytest.mark.parametrize(
    "given, ids",
    [([7, 3], None), (["b", "a"], None), ([2**60 + 1, 2**60], None), ([-5, 10**15], None), ([1.0, 2.0], [1, 2]), (BIG, TEXT)],
)
def test_ids_stay_what_they_are(given, ids):
    events = read(pl.DataFrame({"id": given, "time": [0, 0], "x": [1, 2]}))
    assert events.ids.tolist() == (ids or given)
    assert events.labels({"id": given[::-1], "y": [1, 0]}).tolist() == [0, 1]


@pytest.mark.parametrize(
    "cells, ids",
    [
        (["1.1", "1.10"], None),
        (["1e3", "1000"], None),
        (["7.0", "7"], None),
        (["+7", "7"], None),
        (["a.0", "b.0"], None),
        (["inf", "nan"], None),
        (["7.0", "8.0"], [7, 8]),
        (["1", "1 ", " 1"], ["1"]),
        (["007", "007", "12"], ["007", "12"]),
        ([*MANY, "0012", "12"], None),
        ([*MANY, " 0012", "12 "], [*MANY, "0012", "12"]),
        ([*MANY, "0", "-12"], [*map(int, MANY), 0, -12]),
        (TEXT, None),
    ],
)
@pytest.mark.parametrize("columns, values", [("x", "1"), ("variable,value", "a,1")])
def test_ids_in_a_file_are_integers_or_the_text_as_it_stands_without_blanks(tmp_path: Path, cells, ids, columns, values):
    ids = ids or cells
    rows = "".join(f"{cell},0{row},{values}\n" for row, cell in enumerate(cells))  # a time is a number all the same
    (tmp_path / "a.csv").write_text(f"id,time,{columns}\n{rows}", encoding="utf-8")
    events = read(tmp_path / "a.csv")
    assert events.ids.tolist() == ids
    assert events.time.max() == len(cells) - 1
    pl.DataFrame({"id": ids[::-1], "y": range(len(ids))}).write_csv(tmp_path / "labels.csv")
    assert events.labels(tmp_path / "labels.csv").tolist() == list(range(len(ids)))[::-1]


@pytest.mark.parametrize("ids", [[1.5, 2.0], [float("inf"), 1.0], [1e300, 1.0], [2.0**53, 1.0], np.float32([2**24, 1])])
def test_fractions_and_rounded_numbers_are_no_ids(ids, tmp_path: Path):
    table = pl.DataFrame({"id": ids, "time": [0, 0], "x": [1, 2]})
    with pytest.raises(ValueError, match=r"ids must be integers or text, got .* in the column 'id' at row 0 of the table"):
        read(table)


def test_compressed_files_are_read_and_a_cut_one_is_named(tmp_path: Path):
    frame = pl.DataFrame(long(ROWS))
    frame.write_csv(tmp_path / "a.csv")
    content = (tmp_path / "a.csv").read_bytes()
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(content))
    (tmp_path / "a.csv.xz").write_bytes(lzma.compress(content))
    frame.write_csv(tmp_path / "a.csv.zst", compression="zstd")
    numbers = np.random.default_rng(0).integers(0, 10**9, 40_000)  # several blocks, of which polars reads the first
    pl.DataFrame({"id": numbers, "time": numbers, "x": numbers}).write_csv(tmp_path / "b.csv.zst", compression="zstd")
    for suffix in ("gz", "xz", "zst"):
        file = tmp_path / f"a.csv.{suffix}"
        assert_same(read(file), read(tmp_path / "a.csv"))
        file.write_bytes(((tmp_path / "b.csv.zst") if suffix == "zst" else file).read_bytes()[:-6])
        with pytest.raises(ValueError, match=f"'a.csv.{suffix}' must be a table of comma-separated values in UTF-8, got: "):
            read(file)


NAN, CLOSE, START = float("nan"), np.nextafter(1.0, 2), np.datetime64("2024-03-01T10:00")
LONG = {
    "id": [1, 1, 1, 1, 2, 2, 2, 2],
    "time": [0, 0, 1, 2, 5, 5, 6, 7],
    "variable": ["Age", "HR", "HR", "Lab", "Age", "HR", "HR", "HR"],
    "value": [54, 70, 71, 3, 60, 80, 81, 82],
}
WIDE = {
    "id": [1, 1, 2, 2],
    "time": [0, 1, 0, 1],
    "Age": [54, 54, 60, 60],
    "Height": [170, NAN, NAN, NAN],
    "HR": [70, 71, 80, 80],
    "Lab": [NAN, 3, NAN, 4],
    "On": [1, NAN, NAN, 1],
}
MARKED = {"id": [1, 1, 1, 2], "time": [0, 1, 2, 5], "a": [-1, 2, NAN, -9], "b": [-1, None, -1, 4]}
MARKED_LONG = {"id": [1, 1, 1], "time": [0, 0, 1], "variable": ["a", "b", "a"], "value": [-1, -1, 2]}
MEDS = {
    "subject_id": [5, 5, 5, 5, 5],
    "time": [None, START.item(), START.item(), (START + np.timedelta64(90, "m")).item(), None],
    "code": ["SEX", "ADMISSION", "HR", "HR", "EYES"],
    "numeric_value": [1.0, None, 80.0, 90.0, 2.0],
    "text_value": ["x"] * 5,
}
LOOKS_LONG = {"id": [1, 1, 2], "time": [0, 1, 0], "variable": [1, 2, 3], "value": [4, 5, 7]}
SPARSE = {"id": [1, 1, 1, 2], "time": [0, 3, 4, 5], "Age": [50, None, None, 60], "HR": [None, 80, 81, None]}


def frame(variable, value, id, time):
    """A long table, column by column."""
    return {"id": id, "time": time, "variable": variable, "value": value}


@pytest.mark.parametrize(
    "table, options, expected",
    [
        # What is measured once but later is not known at the start. Sequences of one time do not show that a variable is static.
        (LONG, {}, {"variables": ("HR", "Lab"), "statics": ("Age",), "static": [[54], [60]], "time": [0, 1, 2, 5, 6, 7]}),
        (LONG, {"static": ["Lab", "Age"]}, {"variables": ("HR",), "statics": ("Lab", "Age"), "static": [[3, 54], [NAN, 60]]}),
        (LONG, {"static": []}, {"variables": ("Age", "HR", "Lab"), "statics": (), "static": [[], []]}),
        (frame(["Age"] * 2, [54, 60], [1, 2], [0, 0]), {}, {"variables": ("Age",), "statics": ()}),
        (WIDE, {}, {"variables": ("HR", "Lab", "On"), "statics": ("Age", "Height"), "static": [[54, 170], [60, NAN]]}),
        # A static that is named needs no time.
        ({**LONG, "time": [None, *LONG["time"][1:]]}, {"static": ["Age"]}, {"static": [[54], [60]]}),
        # Every row of a wide table is a step, also with statics alone.
        (SPARSE, {}, {"statics": ("Age",), "time": [0, 3, 4, 5], "lengths": [3, 1]}),
        ({**SPARSE, "Age": [None] * 3 + [60]}, {"static": ["Age"]}, {"time": [0, 3, 4, 5]}),
        ({"id": [1, 1, 2], "time": [0, 1, 0], "a": [None, 2.0, None]}, {"static": []}, {"time": [0, 1, 0], "value": [2]}),
        # A long table has no row for a time without a measurement, and a sequence without measurements has one step.
        (frame(["Age", "HR", "HR", "Age"], [50, 80, 81, 60], [1, 1, 1, 2], [0, 3, 4, 5]), {}, {"time": [3, 4, 5]}),
        (frame(["a"] * 4, [1, None, None, 2], [1, 2, 2, 1], [0, 3, 2, 1]), {"static": []}, {"time": [0, 1, 2], "value": [1, 2]}),
        # Times that differ in the last bits keep their order.
        (
            frame(list("baaa"), [1, 2, 3, 4], [0] * 4, [1.0, CLOSE, 0.0, 1e12]),
            {"static": []},
            {"time": [0.0, 1.0, CLOSE, 1e12], "value": [3, 1, 2, 4]},
        ),
        # Missing values and sentinels are not measured.
        (MARKED, {"missing": {"a": [-1, -9]}, "static": []}, {"value": [-1, 2, -1, 4]}),
        (MARKED, {"missing": -1, "static": []}, {"value": [2, -9, 4]}),
        (MARKED_LONG, {"missing": {"a": -1}, "static": []}, {"value": [-1, 2], "counts": {"sentinels": 1}}),
        (frame(["x"] * 2, np.array([-999.9, 2], np.float32), [1, 1], [0, 1]), {"missing": -999.9, "static": []}, {"value": [2]}),
        # MEDS is found by its names, and its variables without a time are static.
        (
            MEDS,
            {},
            {"variables": ("HR",), "statics": ("EYES", "SEX"), "unit": "h", "time": [0, 1.5], "static": [[2, 1]]},
        ),
        (MEDS, {"static": ["SEX", "EYES"]}, {"static": [[1, 2]]}),
        # A layout that was asked for and columns that were selected.
        (WIDE, {"variable": ["HR", "Age"], "static": ["Age"]}, {"variables": ("HR",), "statics": ("Age",)}),
        (LOOKS_LONG, {"layout": "wide"}, {"variables": ("variable", "value")}),
        (LOOKS_LONG, {"variable": ["variable", "value"]}, {"variables": ("variable", "value")}),
        ({"id": [1, 1], "time": [0, 1], "what": ["a", "a"], "value": [4, 5]}, {"variable": "what"}, {"variables": ("a",)}),
    ],
)
def test_a_small_table_is_read_as_expected_and_again_as_its_settings_say(table, options, expected):
    events = Events.read(table, **options)
    for name, value in expected.items():
        np.testing.assert_equal(getattr(events, name), value)
    again = Events.read(table, like=decode(Settings, encode(events.settings)))
    assert_same(again, events)
    assert again.settings == events.settings


def test_other_marks_of_a_second_table_replace_those_of_the_first():
    events = read(MARKED_LONG, missing={"a": -1})
    assert read(MARKED_LONG, missing={}, like=events).value.tolist() == [-1, -1, 2]


def test_a_measurement_without_a_time_is_refused_unless_it_is_a_static_that_is_named():
    for table, options, message in [
        ({**LONG, "time": [None, *LONG["time"][1:]]}, {}, "finite time, got None at id 1, time None, variable 'Age'"),
        (MEDS, {"static": ["SEX"]}, r"got None at id 5, time None, variable 'EYES' \(row 4 .*variable as static"),
    ]:
        with pytest.raises(ValueError, match=message):
            Events.read(table, **options)


def test_blanks_around_names_of_variables_do_not_belong_to_them(tmp_path: Path):
    table = frame(["HR", "HR ", " HR"], [1.0, 2.0, 3.0], [1, 1, 1], [0, 1, 2])
    pl.DataFrame(table).write_csv(tmp_path / "a.csv", quote_style="never")
    for source in (table, tmp_path / "a.csv"):
        events = read(source)
        assert (events.variables, events.value.tolist()) == (("HR",), [1, 2, 3])


@pytest.mark.parametrize("how, expected", [("mean", 4), ("sum", 12), ("first", 6), ("last", 4), ("min", 2), ("max", 6)])
def test_several_values_at_one_time_are_merged_as_told(how, expected):
    table, values = {"id": [1] * 4, "time": [0.5, 0.5, 0, 0.5]}, [6, 2, 1, 4]
    for layout in ({"variable": ["a"] * 4, "value": values}, {"a": values}):
        events = read(table | layout, merge=how)
        assert events.value.tolist() == [1, expected]
        assert events.counts == {"merged": 2}
    halves = {"id": [1, 1], "time": [0, 0], "a": [1, None], "b": [None, 2]}
    assert read(halves, merge=how).dense().tolist() == [[1, 2]]
    np.testing.assert_array_equal(read(halves).dense(), [[1, np.nan], [np.nan, 2]])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from("ab"), st.integers(0, 99)), min_size=1))
def test_the_kth_value_of_a_variable_at_a_time_belongs_to_the_kth_step(rows):
    columns = [list(column) for column in zip(*rows, strict=True)]
    events = read(dict(zip(("id", "time", "variable", "value"), columns, strict=True)))
    expected = {}
    for number, time, name, value in rows:
        expected.setdefault((number, time), {}).setdefault(name, []).append(value)
    found = {}
    for one in events:
        for time, row in zip(one.time, one.dense(), strict=True):
            for name, value in zip(one.variables, row, strict=True):
                if not np.isnan(value):
                    found.setdefault((one.ids[0], time), {}).setdefault(name, []).append(value)
    assert found == expected
    assert len(events.time) == sum(max(map(len, values.values())) for values in expected.values())
    wide_rows = read({"id": columns[0], "time": columns[1], "x": columns[3]})
    for number in set(columns[0]):
        own = sorted((row for row in rows if row[0] == number), key=lambda row: row[1])  # stable: rows stay in their order
        assert wide_rows[wide_rows.ids == number].value.tolist() == [row[3] for row in own]


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "__index_level_0__"])
def test_numbers_of_rows_are_no_variable_unless_they_are_named(name, tmp_path: Path):
    table = pl.DataFrame({name: [0, 1, 2], "id": [1, 1, 2], "time": [0, 1, 0], "x": [3, 4, 5]})
    table.write_csv(tmp_path / "a.csv")
    table.write_parquet(tmp_path / "a.parquet")
    for source in (table, tmp_path / "a.csv", tmp_path / "a.parquet"):
        with pytest.warns(UserWarning, match=f"'{name}' of .* numbers the rows, and is left out"):
            events = Events.read(source)
        assert events.variables == ("x",)
        named = Events.read(source, variable=[name, "x"], static=[])
        assert named.variables == Events.read(source, like=named).variables == (name, "x")
        assert Events.read(source, id=name, variable=["x"]).ids.tolist() == [0, 1, 2]


def test_the_time_to_read_a_table_is_in_proportion_to_its_columns():
    def seconds(number):
        names = [f"v{each}" for each in range(number)]
        table = pl.DataFrame({"id": [1, 2], "time": [0, 0]} | {name: [each, 1] for each, name in enumerate(names)})
        start = process_time()
        Events.read(table, like=Events.read(table, merge="first", variable=names[: number // 2], static=names[: number // 4]))
        return process_time() - start

    assert seconds(15_000) < 30 * max(seconds(1_500), 0.05)


def test_a_million_rows_are_read():
    random, number, row = np.random.default_rng(0), 1_000_000, 123_456
    table = {
        "id": random.integers(0, 1000, number),
        "time": random.integers(0, 10**9, number),
        "variable": pl.Series(["a", "b", "c"]).gather(random.integers(0, 3, number).tolist()),
        "value": random.normal(size=number),
    }
    events = read(pl.DataFrame(table), merge="first")
    assert len(events.value) + events.counts.get("merged", 0) == number
    one = events[int(np.flatnonzero(events.ids == table["id"][row])[0])]
    assert one.dense()[one.time == table["time"][row]][0, "abc".index(table["variable"][row])] == table["value"][row]


@given(measurements())
def test_long_and_wide_tables_with_statics_are_the_same(rows):
    first = Events.read(wide(rows), static=["GCS", "Temp"], merge="first", unit="h")
    again = Events.read(long(rows), like=first)
    np.testing.assert_array_equal(again.static, first.static)
    np.testing.assert_array_equal(again.value, first.value)
    assert set(again.time[np.diff(again.entry) > 0]) == set(first.time[np.diff(first.entry) > 0])


@pytest.mark.parametrize("layout", ["long", "wide"])
def test_a_static_with_two_values_is_refused_unless_merged(layout):
    table = {"id": [1, 1, 1], "time": [0, 1, 2]}
    table |= {"variable": ["W"] * 3, "value": [80, 81, 80]} if layout == "long" else {"W": [80, 81, 80], "HR": [1, 2, 3]}
    with pytest.raises(ValueError, match="got 80, 81 at id 1, time 0, variable 'W'"):
        Events.read(table, static=["W"])
    for how, expected in {"max": 81, "last": 80, "first": 80, "sum": 241}.items():
        assert Events.read(table, static=["W"], merge=how).static.tolist() == [[expected]]
