"""What cannot be read is refused, with id, time, variable and row."""

import sys
import uuid
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from phased.estimator import Events
from tables import assert_same

LONG = {"id": [1, 1, 2], "time": [0, 0.5, 0], "variable": ["a", "a", "b"], "value": [1.0, 2.0, 3.0]}
WIDE = {"id": [1, 1, 2], "time": [0, 0.5, 0], "a": [1.0, 2.0, 3.0]}


@pytest.mark.parametrize(
    "change, message",
    [
        ({"id": [1, None, 2]}, "each row must have an id, and row 1 of the table has none in the column 'id'"),
        ({"id": [1, float("nan"), 2]}, "each row must have an id, and row 1"),
        ({"value": [1.0, float("inf"), 3.0]}, r"got inf at id 1, time 0.5, variable 'a' \(row 1 of the table\). Leave a missing"),
        ({"value": ["1", "high", "3"]}, "got 'high' at id 1, time 0.5, variable 'a'.*0 and 1 per category.*drop=\\['a'\\]"),
        ({"time": [0, None, 0]}, "finite time, got None at id 1, time None, variable 'a'"),
    ],
)
@pytest.mark.parametrize("table", [LONG, WIDE], ids=["long", "wide"])
def test_a_bad_row_is_named(table, change, message):
    if table is WIDE and "value" in change:
        change = {"a": change["value"]}
    with pytest.raises(ValueError, match=message):
        Events.read({**table, **change})


def test_the_line_of_a_file_is_named(tmp_path: Path):
    file = tmp_path / "set.csv"
    file.write_text("id,time,variable,value\n1,0,a,1\n1,1,a,high\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"got 'high' at id 1, time 1, variable 'a' \(line 3 of 'set.csv'\)"):
        Events.read(file)


def test_a_value_of_no_variable_is_refused():
    with pytest.raises(ValueError, match="must name its variable, and row 1 of the table does not"):
        Events.read({**LONG, "variable": ["a", None, "b"]})

    with pytest.raises(ValueError, match="must name its variable, and row 1 of the table does not"):
        Events.read({**LONG, "variable": ["a", " ", "b"]})


@pytest.mark.parametrize("ids", [[[1], [1], [2]], [b"\xff"] * 3, [uuid.UUID(int=1)] * 3, [{"a": 1}] * 3])
def test_ids_of_another_kind_are_refused(ids):
    with pytest.raises(ValueError, match=r"ids must be integers or text in UTF-8, got .* in the column 'id' of type .*Convert"):
        Events.read({**LONG, "id": ids})


def test_an_id_of_blanks_is_none():
    with pytest.raises(ValueError, match="each row must have an id, and row 1 of the table has none in the column 'id'"):
        Events.read({**LONG, "id": ["a", " ", "b"]})


def test_a_column_that_occurs_twice_is_refused(tmp_path: Path):
    for header in ("id,time,HR,HR", "id,time,HR,HR "):
        (tmp_path / "a.csv").write_text(f"{header}\n1,0,2,3\n", encoding="utf-8")
        with pytest.raises(ValueError, match=r"each column of 'a.csv' must have its own name, got 'HR' twice"):
            Events.read(tmp_path / "a.csv")


def test_a_text_variable_can_be_left_out():
    assert Events.read({**LONG, "value": ["1", "2", "high"]}, drop=["b"]).variables == ("a",)
    assert Events.read({**WIDE, "note": ["x", "y", "z"]}, drop=["note"]).variables == ("a",)


@pytest.mark.parametrize(
    "source, options, message",
    [
        ({"time": [0], "a": [1]}, {}, "must have a column 'id' or 'subject_id' or 'RecordID', got 'time', 'a'. Name it: id=..."),
        ({"id": [0], "a": [1]}, {}, "must have a column 'time' or 'Time', got 'id', 'a'. Name it: time=... If it is the index"),
        (LONG, {"id": "patient"}, r"must have the column 'patient' \(id=\), got 'id', 'time', 'variable', 'value'"),
        (LONG, {"variable": ["a"], "layout": "long"}, "variable must be one column in a long table"),
        (WIDE, {"variable": ["b"]}, r"must have the column 'b' \(variable=\)"),
        (WIDE, {"value": "a", "layout": "wide"}, "a wide table has a column per variable"),
        (WIDE, {"value": "a"}, "must have a column 'variable' or 'code' or 'Parameter'"),
        ({"id": [0], "time": [1]}, {}, "must have a column besides id and time"),
        (WIDE, {"layout": "tall"}, "layout must be one of auto, long, wide, got 'tall'"),
        (LONG, {"merge": "median"}, "merge must be None or one of mean, sum, last, first, max, min, got 'median'"),
        (LONG, {"static": ["Age"]}, "static must name variables of the table, got 'Age'. It has 'a', 'b'"),
        (LONG, {"missing": {"Height": -1}}, "missing must name variables of the table, got 'Height'"),
        (LONG, {"drop": ["c"]}, "drop must name variables of the table, got 'c'"),
        (WIDE, {"drop": ["c"]}, "drop must name variables of the table, got 'c'"),
        (WIDE, {"static": ["a"], "drop": ["a"]}, "a variable must be either in static or in drop, got 'a' in both"),
        (WIDE, {"id": "time"}, "id and time must be two columns, got 'time' for both"),
        (WIDE, {"variable": ["time", "a"]}, "time and variable must be two columns, got 'time' for both"),
        (LONG, {"value": "id"}, "id and value must be two columns, got 'id' for both"),
        (LONG, {"variable": "time"}, "time and variable must be two columns, got 'time' for both"),
        (LONG, {"missing": {"a": float("nan")}}, "missing must be finite, got nan for 'a'"),
        ({"id": [], "time": [], "a": []}, {}, "at least one row"),
        ({"id": [1], "time": [1, 2], "a": [1]}, {}, "columns must have one length"),
    ],
)
def test_a_table_of_other_columns_is_refused_with_the_cure(source, options, message):
    with pytest.raises(ValueError, match=message):
        Events.read(source, **options)


def test_other_types_are_refused_with_the_cure():
    with pytest.raises(
        TypeError, match=r"a frame of pandas, polars or arrow.*got list. For a list of \(times, values\) use Events.of"
    ):
        Events.read([([0], [1])])
    with pytest.raises(TypeError, match=r"static must be a list of names, got 'Age'. Write static=\['Age'\]"):
        Events.read(LONG, static="Age")
    with pytest.raises(TypeError, match="unit must be text such as 'h', got 5 of type int"):
        Events.read(LONG, unit=5)
    with pytest.raises(TypeError, match="missing must be a number, a list of numbers or a dict of them by variable, got 'x'"):
        Events.read(LONG, missing="x")
    with pytest.raises(TypeError, match="like must be Events"):
        Events.read(LONG, like=LONG)
    with pytest.raises(ValueError, match="unique column names, got:\n- 'a' 2 times"):
        Events.read(pd.DataFrame([[1, 0, 1, 2]], columns=["id", "time", "a", "a"]))


def test_files_that_are_no_tables_are_refused(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        Events.read(tmp_path / "none.csv")
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"must end in .csv, .tsv, .txt, .gz, .xz, .zst, .parquet, .pq, got 'a.xlsx'"):
        Events.read(tmp_path / "a.xlsx")
    (tmp_path / "empty.csv").write_bytes(b"")
    with pytest.raises(ValueError, match=r"'empty.csv' must have a line with the names of its columns"):
        Events.read(tmp_path / "empty.csv")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ValueError, match=r"'bad.parquet' must be a Parquet file"):
        Events.read(tmp_path / "bad.parquet")
    zone = pa.table({"id": [1], "time": pa.array([0], pa.timestamp("us", "Mars/Olympus")), "x": [1.0]})
    pyarrow.parquet.write_table(zone, tmp_path / "zone.parquet")
    with pytest.raises(ValueError, match=r"'zone.parquet' must be a Parquet file, got: .*Mars/Olympus"):
        Events.read(tmp_path / "zone.parquet")
    (tmp_path / "ragged.csv").write_text("id,time,a\n1,0,2\n1,0,2,3,4\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"'ragged.csv' must be a table of comma-separated values"):
        Events.read(tmp_path / "ragged.csv")


def test_a_missing_package_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.startswith("phased.estimator.tables")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "polars", None)
    assert len(Events.of([[0.0]], [[1.0]])) == 1  # arrays need no further package
    with pytest.raises(ModuleNotFoundError, match=r"needs polars, which is not installed. .*pip install 'phased\[estimator\]'"):
        Events.read(LONG)


class TestLike:
    """A second table is read as the first one was."""

    FIRST = Events.read({**LONG, "variable": ["a", "a", "Height"]}, unit="h", missing={"Height": -1}, static=["Height"])

    def test_it_gets_the_variables_units_and_statics_of_the_first(self):
        events = Events.read({"id": [5, 5], "time": [0, 0], "variable": ["a", "Height"], "value": [3.0, -1.0]}, like=self.FIRST)
        assert (events.variables, events.statics, events.unit) == (("a",), ("Height",), "h")
        assert pl.Series(events.static[0]).is_nan().to_list() == [True]
        assert events.settings == self.FIRST.settings

    def test_it_may_lack_variables_and_be_wide(self):
        for like in (self.FIRST, self.FIRST.settings):
            events = Events.read({"id": [5], "time": [0], "a": [1]}, like=like)
            assert (events.variables, events.statics) == (("a",), ("Height",))

    def test_an_unknown_variable_is_refused_by_name(self):
        with pytest.raises(ValueError, match=r"got 'b', 'c', first at id 2, time 0, variable 'b' \(row 2.*drop=\['b', 'c'\]"):
            Events.read({**LONG, "variable": ["a", "c", "b"]}, like=self.FIRST)
        with pytest.raises(ValueError, match="got 'b', first at id 1, time 0, variable 'b'"):
            Events.read({"id": [1], "time": [0], "a": [1], "b": [2]}, like=self.FIRST)
        assert Events.read(LONG, like=self.FIRST, drop=["b"]).variables == ("a",)

    def test_another_unit_is_refused(self):
        table = {"id": [1], "time": [0], "a": [1]}
        with pytest.raises(ValueError, match="unit must be 'h', as in the table read before, got 'min'"):
            Events.read(table, like=self.FIRST, unit="minutes")
        assert Events.read(table, like=self.FIRST, unit="hours").unit == "h"
        with pytest.raises(ValueError, match="times must be numbers, as in the table read before, got dates at id 1"):
            Events.read({**table, "time": ["2024-01-01"]}, like=self.FIRST)
        with pytest.raises(ValueError, match="times must be in the unit '', as in the table read before, got 'h'"):
            Events.read({**table, "time": ["00:30"]}, like=Events.read(WIDE))

    def test_other_statics_are_refused(self):
        with pytest.raises(ValueError, match="static must be 'Height', as in the table read before, got 'a'"):
            Events.read(LONG, like=self.FIRST, static=["a"])

    def test_settings_survive_json(self):
        settings = type(self.FIRST.settings).from_json(self.FIRST.settings.to_json())
        assert settings == self.FIRST.settings
        with pytest.raises(ValueError, match="must have the keys"):
            type(settings).from_json({"unit": "h"})
        for change in ({"merge": "median"}, {"clock": "sun"}, {"layout": "tall"}, {"selected": "x"}):
            with pytest.raises(ValueError, match=rf"must be (known names|true or false), got '{next(iter(change.values()))}'"):
                type(settings).from_json(settings.to_json() | change)

    def test_settings_of_an_older_model_are_read(self):
        older = self.FIRST.settings.to_json()
        del older["layout"], older["selected"]
        assert type(self.FIRST.settings).from_json(older) == self.FIRST.settings

    def test_columns_that_were_not_selected_are_left_out_again(self):
        table = {**WIDE, "T": [36.0, 37.0, 38.0], "note": ["x", "y", "z"]}
        first = Events.read(table, variable=["a", "T"], static=["T"], merge="first")
        again = Events.read(table, like=type(first.settings).from_json(first.settings.to_json()))
        assert_same(again, first)
        assert again.settings == first.settings
        assert Events.read({**WIDE, "note": ["x", "y", "z"]}, like=first).variables == ("a",)  # T is not measured
        assert Events.read(LONG, like=first, drop=["b"]).settings.selected
        with pytest.raises(ValueError, match="must have a column of the variables 'a', 'T', got 'id', 'time', 'note'"):
            Events.read({"id": [1], "time": [0], "note": ["x"]}, like=first)

    @pytest.mark.parametrize("options", [{"layout": "wide"}, {"variable": ["variable", "value"]}])
    def test_a_wide_table_that_looks_long_is_read_as_wide_again(self, options):
        table = {"id": [1, 1, 2], "time": [0, 1, 0], "variable": [1, 2, 3], "value": [4, 5, 7]}
        first = Events.read(table, **options)
        assert first.variables == ("variable", "value")
        again = Events.read(table, like=first)
        assert_same(again, first)
        assert again.settings == first.settings

    def test_a_long_table_that_looks_wide_is_read_as_long_again(self):
        table = {"id": [1, 1], "time": [0, 1], "what": ["a", "a"], "value": [4, 5]}
        first = Events.read(table, variable="what")
        assert_same(Events.read(table, like=first), first)
