"""What cannot be read is refused, with id, time, variable and row; and a second table is read as the first one was."""

import sys
import uuid
from functools import partial
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from phased.estimator import Events
from phased.estimator.settings import Settings
from phased.fields import Malformed, decode, encode

LONG = {"id": [1, 1, 2], "time": [0, 0.5, 0], "variable": ["a", "a", "b"], "value": [1.0, 2.0, 3.0]}
WIDE = {"id": [1, 1, 2], "time": [0, 0.5, 0], "a": [1.0, 2.0, 3.0]}
FIRST = Events.read({**LONG, "variable": ["a", "a", "Height"]}, unit="h", missing={"Height": -1}, static=["Height"])
LIKE = {"like": FIRST}
ONE = {"id": [1], "time": [0], "a": [1]}
DROPPED = Events.read({**WIDE, "T": [36.0, 37.0, 38.0]}, variable=["a", "T"], static=["T"], merge="first")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"id": [1, None, 2]}, "each row must have an id, and row 1 of the table has none in the column 'id'"),
        ({"id": [1, float("nan"), 2]}, "each row must have an id, and row 1"),
        ({"id": ["a", " ", "b"]}, "each row must have an id, and row 1 of the table has none in the column 'id'"),
        *(
            ({"id": ids}, r"ids must be integers or text in UTF-8, got .* in the column 'id' of type .*Convert")
            for ids in ([[1], [1], [2]], [b"\xff"] * 3, [uuid.UUID(int=1)] * 3, [{"a": 1}] * 3)
        ),
        ({"value": [1.0, float("inf"), 3.0]}, r"got inf at id 1, time 0.5, variable 'a' \(row 1 of the table\). Leave a missing"),
        ({"value": ["1", "high", "3"]}, "got 'high' at id 1, time 0.5, variable 'a'.*0 and 1 per category.*\\(drop: 'a'\\)"),
        ({"time": [0, None, 0]}, "finite time, got None at id 1, time None, variable 'a'"),
    ],
)
@pytest.mark.parametrize("table", [LONG, WIDE], ids=["long", "wide"])
def test_a_bad_row_is_named(table, change, message):
    if table is WIDE and "value" in change:
        change = {"a": change["value"]}
    with pytest.raises(ValueError, match=message):
        Events.read({**table, **change})


@pytest.mark.parametrize(
    "source, options, message",
    [
        ({"time": [0], "a": [1]}, {}, r"a column 'id' or 'subject_id' or 'RecordID', got 'time', 'a'. Name .* \(id: its"),
        ({"id": [0], "a": [1]}, {}, r"a column 'time' or 'Time', got 'id', 'a'. Name .*time: its name\). If it is the index"),
        (LONG, {"id": "patient"}, r"must have the column 'patient' \(id\), got 'id', 'time', 'variable', 'value'"),
        (LONG, {"variable": ["a"], "layout": "long"}, "variable must be one column in a long table"),
        (WIDE, {"variable": ["b"]}, r"must have the column 'b' \(variable\)"),
        (WIDE, {"value": "a", "layout": "wide"}, "a wide table has a column per variable"),
        (WIDE, {"value": "a"}, "must have a column 'variable' or 'code' or 'Parameter'"),
        ({"id": [0], "time": [1]}, {}, "must have a column besides id and time"),
        (WIDE, {"variable": ["a"], "drop": ["a"]}, "must have a column besides id and time"),
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
        ({**LONG, "variable": ["a", None, "b"]}, {}, "must name its variable, and row 1 of the table does not"),
        ({**LONG, "variable": ["a", " ", "b"]}, {}, "must name its variable, and row 1 of the table does not"),
        (pd.DataFrame([[1, 0, 1, 2]], columns=["id", "time", "a", "a"]), {}, "must have its own name, got 'a' twice"),
        # As the first table was read
        ({**LONG, "variable": ["a", "c", "b"]}, LIKE, r"'b', 'c', first at id 2, time 0, variable 'b' \(row 2.*drop: 'b', 'c'"),
        ({**ONE, "b": [2]}, LIKE, "got 'b', first at id 1, time 0, variable 'b'"),
        (ONE, LIKE | {"unit": "minutes"}, "unit must be 'h', as in the table read before, got 'min'"),
        ({**ONE, "time": ["2024-01-01"]}, LIKE, "times must be numbers, as in the table read before, got dates at id 1"),
        ({**ONE, "time": ["00:30"]}, {"like": Events.read(WIDE)}, "times must be in the unit '', as in the .* before, got 'h'"),
        (LONG, LIKE | {"static": ["a"]}, "static must be 'Height', as in the table read before, got 'a'"),
        ({"id": [1], "time": [0], "n": ["x"]}, {"like": DROPPED}, "a column of the variables 'a', 'T', got 'id', 'time', 'n'"),
    ],
)
def test_a_table_of_other_columns_is_refused_with_the_cure(source, options, message):
    with pytest.raises(ValueError, match=message):
        Events.read(source, **options)


@pytest.mark.parametrize(
    "source, options, message",
    [
        ([([0], [1])], {}, "a frame of pandas, polars or arrow.*got list. For a list of .* use Events.of"),
        (pa.chunked_array([[1, 2]]), {}, "a frame of pandas, polars or arrow.*got ChunkedArray"),
        (LONG, {"static": "Age"}, r"static must be a list of names, got 'Age'. Write static=\['Age'\]"),
        (LONG, {"unit": 5}, "unit must be text such as 'h', got 5 of type int"),
        (LONG, {"missing": "x"}, "missing must be a number, a list of numbers or a dict of them by variable, got 'x'"),
        (LONG, {"like": LONG}, "like must be Events"),
    ],
)
def test_other_types_are_refused_with_the_cure(source, options, message):
    with pytest.raises(TypeError, match=message):
        Events.read(source, **options)


def test_files_that_are_no_tables_are_refused(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        Events.read(tmp_path / "none.csv")
    zone = pa.table({"id": [1], "time": pa.array([0], pa.timestamp("us", "Mars/Olympus")), "x": [1.0]})
    pyarrow.parquet.write_table(zone, tmp_path / "zone.parquet")
    for name, content, message in [
        ("a.xlsx", b"PK", "must end in .csv, .tsv, .txt, .gz, .xz, .zst, .parquet, .pq, got 'a.xlsx'"),
        ("empty.csv", b"", "'empty.csv' must have a line with the names of its columns"),
        ("bad.parquet", b"PAR1 and nothing else", "'bad.parquet' must be a Parquet file"),
        ("zone.parquet", (tmp_path / "zone.parquet").read_bytes(), "'zone.parquet' must be a Parquet file, got: .*Mars/Olympus"),
        ("ragged.csv", b"id,time,a\n1,0,2\n1,0,2,3,4\n", "'ragged.csv' must be a table of comma-separated values"),
        ("a.csv", b"id,time,HR,HR\n1,0,2,3\n", "each column of 'a.csv' must have its own name, got 'HR' twice"),
        ("a.csv", b"id,time,HR,HR \n1,0,2,3\n", "each column of 'a.csv' must have its own name, got 'HR' twice"),
        ("q.csv", b'\n\nid,time,x\n1,"0\n",5\n\n1,1,high\n1,2,6\n', "each row must have an id, and line 6 of 'q.csv' has none"),
        ("q.csv", b'\n\nid,time,note,x\n1,0,"a\nb",5\n1,1,"c",high\n1,2,"d",6\n', r"got 'high' .* \(line 6 of 'q.csv'\)"),
        ("s.csv", b"id,time,variable,value\n1,0,a,1\n1,1,a,high\n", r"at id 1, time 1, variable 'a' \(line 3 of 's.csv'\)"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=message):
            Events.read(tmp_path / name)


@pytest.mark.parametrize("options", [{}, {"drop": ["note"]}, {"drop": ["a"]}, {"static": ["note"]}], ids=str)
def test_a_row_with_a_decimal_comma_is_refused_whichever_columns_are_used(options, tmp_path: Path):
    rows = "".join(f"{n},0,{n}.5,2,1\n" for n in range(60))
    (tmp_path / "a.csv").write_text(f"id,time,a,b,note\n{rows}60,0,36,6,2,1\n")
    with pytest.raises(ValueError, match="found more fields"):
        Events.read(tmp_path / "a.csv", **options)


def test_a_missing_package_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.startswith("phased.estimator.tables")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "polars", None)
    assert len(Events.of([[0.0]], [[1.0]])) == 1  # arrays need no further package
    with pytest.raises(ModuleNotFoundError, match=r"needs polars, which is not installed. .*pip install 'phased\[estimator\]'"):
        Events.read(LONG)


@pytest.mark.parametrize("like", [FIRST, FIRST.settings])
def test_a_second_table_gets_the_variables_units_and_statics_of_the_first_and_may_lack_some(like):
    table = {"id": [5, 5], "time": [0, 0], "variable": ["a", "Height"], "value": [3.0, -1.0]}
    for each in (table, ONE):
        events = Events.read(each, like=like, unit="hours")
        assert (events.variables, events.statics, events.unit) == (("a",), ("Height",), "h")
        assert events.static[0, 0] != events.static[0, 0]  # not known
        assert (events.settings == FIRST.settings) == (each is table)  # the other one is wide
    assert Events.read(LONG, like=like, drop=["b"]).variables == ("a",)


def test_settings_survive_json_and_those_of_an_older_model_are_read():
    fields, read = encode(FIRST.settings), partial(decode, Settings)
    assert read(fields) == FIRST.settings
    assert read({name: fields[name] for name in fields if name not in ("layout", "selected")}) == FIRST.settings
    for change in ({"merge": "median"}, {"clock": "sun"}, {"layout": "tall"}, {"selected": "x"}):
        with pytest.raises(Malformed, match=rf"its '{next(iter(change))}' must be "):
            read(fields | change)


def test_columns_that_were_not_selected_are_left_out_again():
    assert Events.read({**WIDE, "note": ["x", "y", "z"]}, like=DROPPED).variables == ("a",)  # T is not measured
    assert Events.read({**WIDE, "note": ["x", "y", "z"]}, drop=["note"]).variables == ("a",)
    assert Events.read({**LONG, "value": ["1", "2", "high"]}, drop=["b"]).variables == ("a",)
    assert Events.read(LONG, like=DROPPED, drop=["b"]).settings.selected
