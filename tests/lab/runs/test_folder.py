"""Folders of records: lines that are not records are named and not changed, and gathering loses no record."""

import json
from pathlib import Path

import pytest

from phased_lab.report.seeds import groups
from phased_lab.runs.folder import gather, read
from phased_lab.runs.record import parse
from records import put, result


@pytest.mark.parametrize("line", ["{", "[1, 2]", "3", '{"hello": "world"}', b"\xff\xfe\x00garbage", '{"schema": 9}'])
def test_a_line_that_is_no_record_is_skipped_with_one_warning_that_names_file_and_line(line, tmp_path):
    put(tmp_path / "b" / "c", result(seed=0))
    file = tmp_path / "cut.jsonl"
    file.write_bytes(json.dumps(result(seed=1)).encode() + b"\n" + (line if isinstance(line, bytes) else line.encode()))
    before = file.read_bytes()
    with pytest.warns(UserWarning, match=r"cut\.jsonl', line 2: skipped, it is not the record of a run \(.*\)") as caught:
        reading = read(tmp_path)
    assert len(caught) == 1
    assert [found.seed for found in reading.records] == [0, 1], "of any depth, in the order of their paths"
    assert reading.skipped == [str(caught[0].message)]
    assert file.read_bytes() == before


@pytest.mark.parametrize("use", [read, gather])
def test_a_folder_that_is_not_there_is_an_error_with_the_cure(use, tmp_path):
    with pytest.raises(NotADirectoryError, match=r"there is no folder '.*none'. Name the one that `phased run`"):
        use(tmp_path / "none")
    assert not (tmp_path / "none").exists()


# Gathering


def files_in(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, by its path."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def lines_in(folder: Path) -> list[str]:
    """Every record of a folder as it would be written, in one order."""
    return sorted(record.line() for record in read(folder).records)


STUDIES = {"adding.jsonl", "frequency.jsonl", "sparsity.jsonl"}


@pytest.fixture
def some(tmp_path):
    """Records of two studies of one experiment, and of another; one of them at two scales."""
    lines = [result(seed=seed, epochs=2, leak=leak) for seed in (10, 2, 1) for leak in (0.001, 0.0)]
    lines += [result(seed=seed, epochs=2, leak=0.0, openness_cost=0.1) for seed in (1, 0)]
    lines += [result(experiment="adding", condition="exp(2,4)", epochs=2), result(epochs=1, scale="quick")]
    return put(tmp_path / "results", *lines)


def test_gathering_moves_records_of_single_runs_into_one_sorted_file_a_study_and_again_changes_nothing(some):
    before = lines_in(some)
    numbers = {(group.section, group.study, group.label): group.test for group in groups(read(some).records)}
    written = gather(some)
    assert written == {some / "adding.jsonl": 1, some / "frequency.jsonl": 7, some / "sparsity.jsonl": 2}
    assert files_in(some).keys() == STUDIES
    assert lines_in(some) == before, "no record is lost, and none is changed"
    for file, count in written.items():
        found = [parse(line) for line in file.read_text().splitlines()]
        assert len(found) == count
        assert {record.study for record in found} == {file.stem}
        assert [record.name for record in found] == sorted(record.name for record in found)
    assert {(group.section, group.study, group.label): group.test for group in groups(read(some).records)} == numbers
    there = files_in(some)
    assert gather(some) == written
    assert files_in(some) == there
    new = json.dumps(result(seed=7, epochs=2) | {"notes": "of a newer version"})
    (some / "frequency" / "new.jsonl").write_text(new)
    assert gather(some)[some / "frequency.jsonl"] == 8
    assert lines_in(some) == sorted([*before, parse(new).line()])
    assert new in (some / "frequency.jsonl").read_text().splitlines(), "lines are moved as they are"


@pytest.mark.parametrize("days, counts", [((1, 2), 1), ((2, 1), 0), ((1, 1), 1)])
def test_of_two_records_of_one_run_gathering_keeps_the_later(tmp_path, days, counts):
    both = [result(end=end) | {"date": f"2026-01-0{day}"} for end, day in zip((0.7, 0.9), days, strict=True)]
    for line in both:
        put(tmp_path, line)
        assert gather(tmp_path) == {tmp_path / "frequency.jsonl": 1}
    (kept,) = read(tmp_path).records
    assert kept.line() == parse(json.dumps(both[counts])).line()


@pytest.mark.parametrize("other", [{"scale": "quick"}, {"epochs": 3}])
def test_records_of_one_name_at_two_scales_or_with_two_settings_are_both_kept(tmp_path, other):
    one, two = result(epochs=2), result(**({"epochs": 2} | other))
    for line in (one, two | {"name": one["name"]}):
        put(tmp_path, line)
        gather(tmp_path)
    assert len(read(tmp_path).records) == 2


def test_records_that_belong_elsewhere_stay_where_they_are(some):
    line = json.dumps(result(seed=77, epochs=2)) + "\n"
    kept = {"notes.txt": "of mine", "mine.jsonl": line, "backup/frequency.jsonl": line}
    for name, text in kept.items():
        (some / name).parent.mkdir(exist_ok=True)
        (some / name).write_text(text)
    gather(some)
    found = files_in(some)
    assert found.keys() == STUDIES | kept.keys()
    assert {name: found[name].decode() for name in kept} == kept


@pytest.mark.parametrize("name", ["frequency.jsonl", "frequency/cut.jsonl"])
def test_a_file_that_is_not_all_records_is_an_error_and_nothing_moves(some, name):
    (some / name).write_text('{"experiment": "freq')
    before = files_in(some)
    with (
        pytest.warns(UserWarning, match=rf"{name}', line 1: skipped"),
        pytest.raises(ValueError, match=rf"{name}' must be a file with a record in every line\. Repair it"),
    ):
        gather(some)
    assert files_in(some) == before


def test_a_disk_that_is_full_loses_no_record(some, monkeypatch):
    before = lines_in(some)

    def full(path, data):
        raise OSError(f"cannot write '{path}': No space left on device")

    monkeypatch.setattr("phased_lab.runs.folder.files.write_whole", full)
    with pytest.raises(OSError, match="No space left"):
        gather(some)
    assert lines_in(some) == before
