"""Folders: a file per sequence, and parts of one table."""

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from phased.estimator import Events
from tables import assert_same

STAYS = {
    132539: "00:00,RecordID,132539\n00:00,Age,54\n00:00,Height,-1\n00:07,HR,73\n00:07,GCS,15\n25:37,HR,77\n",
    132540: "00:00,RecordID,132540\n00:00,Age,76\n00:00,Height,175.3\n00:42,HR,88\n01:11,HR,\n01:42,Temp,35.1\n01:42,HR,86\n",
    132541: "00:00,RecordID,132541\n00:00,Age,44\n00:00,Height,-1\n",
}


@pytest.fixture
def stays(tmp_path: Path) -> Path:
    """Three stays in the layout of PhysioNet 2012: a file each; the last one has descriptors alone."""
    folder = tmp_path / "set-a"
    folder.mkdir()
    for number, lines in STAYS.items():
        (folder / f"{number}.txt").write_text("Time,Parameter,Value\n" + lines, encoding="utf-8")
    return folder


def test_a_file_is_a_sequence_and_its_name_is_the_id(stays: Path):
    events = Events.read(stays, missing={"Height": -1}, drop=["RecordID"])
    assert events.ids.tolist() == [132539, 132540, 132541]
    assert (events.variables, events.statics, events.unit) == (("GCS", "HR", "Temp"), ("Age", "Height"), "h")
    np.testing.assert_array_equal(events.static, [[54, np.nan], [76, 175.3], [44, np.nan]])
    np.testing.assert_allclose(events.time, [7 / 60, 25 + 37 / 60, 42 / 60, 102 / 60, 0])
    assert events.value.tolist() == [15, 73, 77, 88, 86, 35.1]
    (stays / "132539.txt").rename(stays / "007.txt")
    assert Events.read(stays).ids.tolist() == ["007", "132540", "132541"]


def change(file: Path, edit: Callable[[str], str]) -> None:
    file.write_text(edit(file.read_text(encoding="utf-8")), encoding="utf-8")


def test_files_may_lack_the_last_line_break_have_one_within_quotes_another_separator_or_be_gzipped(stays: Path):
    expected = Events.read(stays)
    change(stays / "132539.txt", str.rstrip)
    assert_same(Events.read(stays), expected)
    change(stays / "132539.txt", lambda text: text + '\n30:00,"odd\nname",3\n')
    assert_same(Events.read(stays, drop=["odd\nname"]), expected)
    change(stays / "132540.txt", lambda text: text.replace(",", ";"))
    assert_same(Events.read(stays, drop=["odd\nname"]), expected)
    for file in list(stays.iterdir()):
        (stays / f"{file.stem}.csv.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert_same(Events.read(stays, drop=["odd\nname"]), expected)


def test_a_file_that_cannot_be_read_is_named(stays: Path):
    odd = stays / "odd.txt"
    for make in (os.mkfifo, Path.mkdir, lambda path: path.symlink_to("nowhere")):
        make(odd)
        with pytest.raises(ValueError, match=r"odd.txt' must be a regular file"):
            Events.read(stays)
        odd.rmdir() if odd.is_dir() else odd.unlink()
    (stays / os.fsdecode(b"caf\xe9.txt")).write_text("Time,Parameter,Value\n")
    with pytest.raises(ValueError, match=r"the name of a table must be UTF-8, got '.*caf\\udce9.txt'"):
        Events.read(stays)


@pytest.mark.parametrize("number", [132538, 132540, 132549])
def test_a_file_without_rows_is_a_sequence_with_an_empty_step(stays: Path, number: int):
    (stays / f"{number}.txt").write_text("Time,Parameter,Value\n", encoding="utf-8")
    events = Events.read(stays)
    assert events.ids.tolist() == sorted({132539, 132540, 132541, number})
    one = events[events.ids == number]
    assert (one.time.tolist(), len(one.value), np.isnan(one.static).all()) == ([0], 0, True)
    change(stays / "132541.txt", lambda text: text + "02:00,HR,inf\n")
    with pytest.raises(ValueError, match=r"got inf at id 132541, time 02:00, variable 'HR' \(line 5 of '132541.txt'\)"):
        Events.read(stays)


def test_a_wide_file_without_rows_is_a_sequence_too(tmp_path: Path):
    frame = pl.DataFrame({"time": ["2024-03-01", "2024-03-02"], "a": [1.0, 2.0]})
    for suffix, write in ((".csv", pl.DataFrame.write_csv), (".parquet", pl.DataFrame.write_parquet)):
        folder = tmp_path / suffix[1:]
        folder.mkdir()
        write(frame[:0], folder / f"a{suffix}")
        write(frame, folder / f"b{suffix}")
        events = Events.read(folder, unit="d", static=[])
        assert (events.ids.tolist(), events.time.tolist(), events.value.tolist()) == (["a", "b"], [0, 0, 1], [1, 2])
        (folder / f"b{suffix}").unlink()
        with pytest.raises(ValueError, match="must have at least one row, and has none"):
            Events.read(folder)


def test_columns_of_parquet_files_may_differ_in_the_kind_of_their_numbers(tmp_path: Path):
    table = pl.DataFrame({"id": [1, 1], "time": [0, 1], "variable": ["a", "a"], "value": [1, 2]})
    table.write_parquet(tmp_path / "0.parquet")
    table.with_columns(pl.col("id") + 1, pl.col("value") + 0.5).write_parquet(tmp_path / "1.parquet")
    assert Events.read(tmp_path).value.tolist() == [1, 2, 1.5, 2.5]
    table.with_columns(value=pl.Series([[1], [2]])).write_parquet(tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"'value' must be of one kind.*Int64 in '0.parquet' and List\(Int64\) in '2.parquet'"):
        Events.read(tmp_path)


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("132540.txt", b"Time,Parameter,Value\n\xff,HR,3\n", "'132540.txt' must be a table of comma-separated values in UTF-8"),
        ("132539.csv", b"Time,Parameter,Value\n00:00,HR,80\n", "must end alike, got '132539.csv' and '132539.txt'. Convert"),
        ("outcomes.txt", b"RecordID,died\n1,0\n", "the columns 'Time', 'Parameter', 'Value' of '132539.txt'; 'outcomes.txt' has"),
    ],
)
def test_a_file_that_does_not_fit_to_the_others_is_named(stays: Path, tmp_path: Path, name: str, content: bytes, message: str):
    (stays / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        Events.read(stays)
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match="must have files that end in"):
        Events.read(tmp_path / "none")


def test_two_files_of_one_name_are_not_one_sequence(tmp_path: Path):
    for name in ("a.csv.gz", "a.tsv.gz"):
        (tmp_path / name).write_bytes(gzip.compress(b"time,x\n0,1\n"))
    with pytest.raises(ValueError, match=r"must have its own name, which is its id, got 'a' twice"):
        Events.read(tmp_path)


@pytest.mark.parametrize(
    "suffix, write",
    [
        (".csv", pl.DataFrame.write_csv),
        (".parquet", pl.DataFrame.write_parquet),
        (".csv.gz", lambda frame, path: path.write_bytes(gzip.compress(frame.write_csv().encode()))),
    ],
)
@pytest.mark.parametrize("name", ["id", "who"])
def test_files_with_ids_are_parts_of_one_table(tmp_path: Path, suffix: str, write: Callable[..., None], name: str):
    table = pl.DataFrame({name: [1, 1, 2], "time": [0, 1, 0], "variable": ["a", "b", "a"], "value": [1.0, 2.0, 3.0]})
    write(table[:1], tmp_path / f"0{suffix}")
    write(table[1:], tmp_path / f"1{suffix}")
    (tmp_path / ".hidden.csv").write_text("nothing", encoding="utf-8")
    events = Events.read(tmp_path, id=name)
    assert_same(events, Events.read(table, id=name))
    assert events.ids.tolist() == [1, 2]
    assert_same(Events.read(tmp_path, like=events), events)


def test_physionet_is_read_as_it_is(physionet: Path):
    events = Events.read(physionet / "set-a", merge="mean", missing={"Height": -1, "Weight": -1}, drop=["RecordID"])
    assert (len(events), len(events.variables), events.unit) == (4000, 37, "h")
    assert events.statics == ("Age", "Gender", "Height", "ICUType")
    assert events.counts == {"merged": 3744, "sentinels": 2220}
    assert len(events.value) == 1733910
    assert (events.lengths > 0).all()
    assert (np.diff(events.entry[events.offset]) == 0).sum() >= 3  # stays with descriptors alone
    assert [warning.split()[0] for warning in events.describe().warnings if "is -1" in warning] == ["'Gender'"]
    y = events.labels(physionet / "Outcomes-a.txt", target="In-hospital_death")
    assert y.sum() == 554
    few = physionet / "few"
    few.mkdir()
    for number in events.ids[100:103]:
        shutil.copy(physionet / "set-a" / f"{number}.txt", few)
    assert_same(Events.read(few, like=events), events[100:103])
