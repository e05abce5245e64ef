"""Tables that are larger than memory: the same Events as in memory, from a memory-mapped file."""

import weakref
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phased.data import ragged
from phased.estimator import Events
from phased.estimator.tables import parts, survey
from phased.estimator.tables.store import Arrays
from tables import assert_same, long, measurements


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch):
    """Parts, batches and files of a few rows."""
    monkeypatch.setattr(parts, "CELLS", 150)
    monkeypatch.setattr(survey, "CELLS", 150)
    monkeypatch.setattr(survey, "BATCH", 40)
    monkeypatch.setattr(survey, "BUCKETS", 3)


def whole(monkeypatch: pytest.MonkeyPatch, source, **options) -> Events:
    """The table, read as one part."""
    with monkeypatch.context() as patched:
        patched.setattr(parts, "CELLS", 2**30)
        return Events.read(source, **options)


def rows(number: int = 500):
    """A long table in no order, with statics, texts, marks, gaps, and dates."""
    random = np.random.default_rng(0)
    id = random.integers(0, 24, number)
    names = np.array(["HR", "GCS", "state", "Age", "sex"])[random.integers(0, 5, number)]
    time = random.integers(0, 12, number)
    texts = np.array(["up", "down", "odd"])[random.integers(0, 3, number)]
    value = np.where(
        random.random(number) < 0.1, "NA", np.where(names == "state", texts, random.integers(-1, 9, number).astype(str))
    )
    for name, cell in (("Age", (50 + id).astype(str)), ("sex", np.array(["f", "m"])[id % 2])):
        value, time = np.where(names == name, cell, value), np.where(names == name, 0, time)
    dates = [f"2024-03-{1 + stamp:02} 10:{each:02}" for stamp, each in zip(time, id, strict=True)]
    return pl.DataFrame({"id": id + 7, "time": dates, "variable": names, "value": value})


def wide(number: int = 300):
    """A wide table in no order."""
    random = np.random.default_rng(1)
    id, cells = random.integers(0, 20, number), random.integers(-1, 5, (number, 3)).astype(float)
    cells[random.random(cells.shape) < 0.3] = np.nan
    table = {"id": [f"p{each}" for each in id], "time": random.integers(0, 9, number) / 4, "a": cells[:, 0], "b": cells[:, 1]}
    return pl.DataFrame(table | {"age": 30.0 + id, "text": np.array(["x", "y", "z "])[random.integers(0, 3, number)]})


def written(folder: Path, table: pl.DataFrame, form: str):
    """A table as a frame, a file, a folder of parts, or a folder with a file per sequence."""
    folder.mkdir()
    if form == "frame":
        return table
    if form == "sequences":
        for number, each in table.group_by("id", maintain_order=True):
            each.drop("id").write_csv(folder / f"{number[0]}.csv")
        empty = table[:0].drop("id")
        empty.write_csv(folder / "none.csv")
        return folder
    for part in range(3 if form == "parts" else 1):
        some = table[part::3] if form == "parts" else table
        (some.write_csv if form == "csv" else some.write_parquet)(folder / f"{part}.{'csv' if form == 'csv' else 'parquet'}")
    return folder if form == "parts" else next(folder.iterdir())


@pytest.mark.parametrize(
    "make, form, options",
    [
        (rows, "frame", {}),
        (rows, "csv", {"merge": "mean", "missing": -1}),
        (rows, "parts", {"static": ["sex", "Age"], "drop": ["GCS"]}),
        (rows, "sequences", {}),
        (wide, "parquet", {}),
        (wide, "parts", {"merge": "last", "missing": {"a": -1}}),
        (wide, "csv", {"static": [], "variable": ["a", "text"]}),
        (wide, "sequences", {"missing": -1}),
    ],
    ids=lambda part: getattr(part, "__name__", str(part)),
)
def test_a_stored_table_is_that_of_memory_and_is_read_alike_again(make, form, options, tmp_path, monkeypatch):
    source = written(tmp_path / "table", make(), form)
    expected = whole(monkeypatch, source, unit="d", **options)
    for events in (
        Events.read(source, unit="d", **options),
        Events.read(source, unit="d", store=tmp_path / "a.safetensors", **options),
        Events.read(source, like=expected, store=tmp_path / "b.safetensors"),
        Events.read(source, like=expected),
    ):
        assert_same(events, expected)
        np.testing.assert_array_equal(events.origin, expected.origin)
        assert events.settings == expected.settings
    assert Events.read(source, unit="d", store=tmp_path / "a.safetensors", **options).counts == expected.counts
    assert {each.name for each in tmp_path.iterdir()} == {"table", "a.safetensors", "b.safetensors"}


@given(measurements(), st.sampled_from([None, "max"]))
@settings(max_examples=10)
def test_any_table_in_parts_is_the_same(tmp_path_factory, rows, merge):
    file = tmp_path_factory.mktemp("store") / "a.safetensors"
    table = long([*rows, *rows[::2]])
    with pytest.MonkeyPatch.context() as monkeypatch:
        expected = whole(monkeypatch, table, merge=merge)
    assert_same(Events.read(table, merge=merge, store=file), expected)


def test_the_file_is_used_again_until_the_table_or_the_call_changes(tmp_path, monkeypatch):
    table, file = tmp_path / "t.parquet", tmp_path / "a.safetensors"
    wide().write_parquet(table)
    first = Events.read(table, store=file)
    before = ragged.version(file)
    assert_same(Events.read(table, store=file), first)
    assert ragged.version(file) == before
    assert Events.read(table, store=file, drop=["a"]).variables == ("b", *(name for name in first.variables if "=" in name))
    wide()[:200].write_parquet(table)
    assert len(Events.read(table, store=file).time) == 200


@pytest.mark.parametrize(
    "change, message",
    [
        ({"id": [7] * 40 + [None] + [8] * 9}, "each row must have an id, and row 40 of .* has none in the column 'id'"),
        ({"time": [*map(str, range(49)), "soon"]}, "a time must be a number, hh:mm .* got 'soon'. At id 9, time soon.*49 of"),
        ({"variable": ["a"] * 30 + [None] * 20}, "must name its variable, and row 30 of"),
        ({"value": ["1"] * 33 + ["high"] + ["2"] * 16}, "must be a finite number, got 'high' at id 8, time 33.*row 33 of"),
        ({"value": [1.0] * 33 + [float("inf")] + [2.0] * 16}, "must be a finite number, got inf at id 8, time 33.*row 33 of"),
        ({"time": [*range(49), None]}, "finite time, got None at id 9, time None, variable 'a' .row 49 of"),
    ],
)
@pytest.mark.parametrize("form", ["frame", "parquet", "csv"])
def test_a_bad_row_is_named_as_in_memory(change, message, form, tmp_path, monkeypatch):
    columns = {"id": [7] * 20 + [8] * 20 + [9] * 10, "time": range(50), "variable": ["a"] * 50, "value": [1.0] * 50}
    source = written(tmp_path / "table", pl.DataFrame({**columns, **change}, strict=False), form)
    with pytest.raises(ValueError) as expected:
        whole(monkeypatch, source)
    if form != "csv":
        assert expected.match(message)
    for options in ({}, {"store": tmp_path / "a.safetensors"}):
        with pytest.raises(ValueError) as found:
            Events.read(source, **options)
        assert str(found.value) == str(expected.value)
    assert not (tmp_path / "a.safetensors").exists()


def test_a_part_that_is_written_leaves_memory(tmp_path):
    arrays, parts = Arrays(tmp_path), [np.arange(5.0), np.arange(3.0)]
    alive = [weakref.ref(part) for part in parts]
    while parts:
        arrays.add("time", parts.pop(0))
    assert [each() for each in alive] == [None, None]
    assert arrays.take("time").tolist() == [0, 1, 2, 3, 4, 0, 1, 2]


def test_a_file_that_would_be_lost_is_no_store(tmp_path):
    wide().write_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"store must be the name of a file that ends in .safetensors, got '.*t.parquet'"):
        Events.read(tmp_path / "t.parquet", store=tmp_path / "t.parquet")
    with pytest.raises(OSError, match=r"cannot write .*a.safetensors.: Not a directory. Choose another file."):
        Events.read(tmp_path / "t.parquet", store=tmp_path / "t.parquet" / "a.safetensors")
    for other in (b"weights", safetensors.torch.save({"weight": torch.ones(2)})):
        (tmp_path / "b.safetensors").write_bytes(other)
        with pytest.raises(
            FileExistsError, match=r"store must be a new file or an earlier store, got '.*b.safetensors', which is another"
        ):
            Events.read(tmp_path / "t.parquet", store=tmp_path / "b.safetensors")
        assert (tmp_path / "b.safetensors").read_bytes() == other


def test_a_store_with_a_changed_bit_is_made_again(tmp_path):
    wide().write_parquet(tmp_path / "t.parquet")
    file = tmp_path / "a.safetensors"
    Events.read(tmp_path / "t.parquet", store=file)
    content = bytearray(file.read_bytes())
    content[-20] ^= 4
    file.write_bytes(content)
    assert_same(Events.read(tmp_path / "t.parquet", store=file), Events.read(tmp_path / "t.parquet"))
    assert file.read_bytes() != content
