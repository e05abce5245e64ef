"""Folders of records: files that are not records are named and not changed, and gathering loses no record."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from phased_lab.report.groups import groups
from phased_lab.runs.folder import gather, read
from phased_lab.runs.record import parse
from phased_lab.runs.sweep import sweep
from records import older
from training import execute, tiny_run


def test_results_are_found_in_folders_of_any_depth_and_in_the_order_of_their_paths(result, put, tmp_path):
    put(tmp_path / "b" / "c", result(seed=0))
    put(tmp_path / "a", result(seed=1))
    assert [found.seed for found in read(tmp_path).records] == [1, 0]


def test_a_line_that_is_cut_off_is_skipped_with_one_warning_that_names_file_and_line(result, put, tmp_path):
    put(tmp_path, result(seed=0))
    whole = json.dumps(result(seed=1))
    file = tmp_path / "cut.jsonl"
    file.write_text(f"{whole}\n{whole[: len(whole) // 2]}\n")
    before = file.read_bytes()
    with pytest.warns(UserWarning, match=r"cut\.jsonl', line 2: skipped, it is cut off or not JSON") as caught:
        reading = read(tmp_path)
    assert len(caught) == 1
    assert sorted(found.seed for found in reading.records) == [0, 1]
    assert reading.skipped == [str(caught[0].message)]
    assert file.read_bytes() == before


FOREIGN = {
    "a list": "[1, 2]",
    "a number": "3",
    "another object": '{"hello": "world"}',
    "bytes": b"\xff\xfe\x00garbage",
}


@pytest.mark.parametrize("line", FOREIGN.values(), ids=FOREIGN.keys())
def test_foreign_lines_are_skipped_each_with_a_warning(line, result, put, tmp_path):
    put(tmp_path, result())
    (tmp_path / "foreign.jsonl").write_bytes(b"\n" + (line if isinstance(line, bytes) else line.encode()) + b"\n\n")
    with pytest.warns(UserWarning, match=r"foreign\.jsonl', line 2: skipped") as caught:
        assert len(read(tmp_path).records) == 1
    assert len(caught) == 1


def test_a_folder_that_is_not_there_is_an_error_with_the_cure(tmp_path):
    with pytest.raises(NotADirectoryError, match=r"there is no folder '.*none'. Name the one that `phased run`"):
        read(tmp_path / "none")


def test_a_file_that_cannot_be_read_is_skipped_with_a_warning(result, put, tmp_path):
    put(tmp_path, result())
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.warns(UserWarning, match=r"folder\.jsonl': skipped, it cannot be read"):
        assert len(read(tmp_path).records) == 1


# Gathering


def files_in(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, by its path."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def lines_in(folder: Path) -> list[str]:
    """Every record of a folder as it would be written, in one order."""
    return sorted(record.line() for record in read(folder).records)


@pytest.fixture
def some(result, put, tmp_path):
    """Records of two studies of one experiment, and of another; one of them at two scales."""
    lines = [result(seed=seed, epochs=2, leak=leak) for seed in (10, 2, 1) for leak in (0.001, 0.0)]
    lines += [result(seed=seed, epochs=2, leak=0.0, openness_cost=0.1) for seed in (1, 0)]
    lines += [result(experiment="adding", condition="exp(2,4)", epochs=2), result(epochs=1, scale="quick")]
    return put(tmp_path / "results", *lines)


def test_gathering_moves_records_of_single_runs_into_one_sorted_file_a_study(some):
    before = lines_in(some)
    written = gather(some)
    assert written == {some / "adding.jsonl": 1, some / "frequency.jsonl": 7, some / "sparsity.jsonl": 2}
    assert set(files_in(some)) == {"adding.jsonl", "frequency.jsonl", "sparsity.jsonl"}
    assert lines_in(some) == before, "no record is lost, and none is changed"
    for file, count in written.items():
        found = [parse(line) for line in file.read_text().splitlines()]
        assert len(found) == count
        assert {record.study for record in found} == {file.stem}
        assert [record.name for record in found] == sorted(record.name for record in found)


def test_gathering_again_changes_nothing(some):
    first = gather(some)
    before = files_in(some)
    assert gather(some) == first
    assert files_in(some) == before


def test_new_runs_are_gathered_into_what_there_is(some, result, put):
    gather(some)
    before = lines_in(some)
    new = result(seed=7, epochs=2)
    put(some, new)
    assert gather(some)[some / "frequency.jsonl"] == 8
    assert lines_in(some) == sorted([*before, parse(json.dumps(new)).line()])
    assert set(files_in(some)) == {"adding.jsonl", "frequency.jsonl", "sparsity.jsonl"}


def test_the_report_has_the_same_numbers_of_gathered_records(some):
    before = {(group.section, group.study, group.label): group.test for group in groups(read(some).records)}
    gather(some)
    assert {(group.section, group.study, group.label): group.test for group in groups(read(some).records)} == before


@pytest.mark.parametrize("late_first", [False, True])
def test_of_two_records_of_one_run_gathering_keeps_the_later(result, put, tmp_path, late_first):
    early, late = (result(end=end) | {"date": date} for end, date in ((0.7, "2026-01-01"), (0.9, "2026-01-02")))
    for line in (late, early) if late_first else (early, late):
        put(tmp_path, line)
        assert gather(tmp_path) == {tmp_path / "frequency.jsonl": 1}
    (kept,) = read(tmp_path).records
    assert kept.line() == parse(json.dumps(late)).line()


def test_runs_of_one_name_at_two_scales_are_both_kept(result, put, tmp_path):
    paper, quick = result(epochs=2), result(epochs=1) | {"scale": "quick"}
    assert paper["name"] == quick["name"]
    for line in (paper, quick):
        put(tmp_path, line)
        gather(tmp_path)
    assert {record.scale for record in read(tmp_path).records} == {"paper", "quick"}


@pytest.mark.parametrize("rest", ["{}\n", '{"experiment": "freq', "garbage\n" * 200])
def test_files_that_are_not_all_records_are_left_as_they_are_with_a_warning(some, result, rest):
    mixed = some / "mixed.jsonl"
    mixed.write_text(json.dumps(result(seed=77, epochs=2)) + "\n" + rest)
    (some / "notes.txt").write_text("of mine")
    before = mixed.read_bytes()
    with pytest.warns(UserWarning, match=r"mixed\.jsonl.*: skipped, .*was not changed"):
        written = gather(some)
    assert mixed not in written
    assert mixed.read_bytes() == before
    assert (some / "notes.txt").read_text() == "of mine"
    assert set(files_in(some)) == {"adding.jsonl", "frequency.jsonl", "sparsity.jsonl", "mixed.jsonl", "notes.txt"}


def test_a_study_file_that_is_not_all_records_stays_and_runs_that_would_go_there_stay_where_they_are(some, result, put):
    gather(some)
    file = some / "frequency.jsonl"
    file.write_text(file.read_text() + '{"experiment": "freq')
    before = files_in(some)
    with pytest.warns(UserWarning, match=r"frequency\.jsonl', line 8: skipped"):
        gather(some)
    assert files_in(some) == before
    put(some, *(result(seed=50 + seed, epochs=2) for seed in range(2)))
    before = files_in(some)
    with (
        pytest.warns(UserWarning, match=r"frequency\.jsonl', line 8: skipped"),
        pytest.raises(ValueError, match=r"frequency\.jsonl' must be a file with a record in every line\. Repair it"),
    ):
        gather(some)
    assert files_in(some) == before


def test_records_of_one_name_with_different_settings_are_both_kept(result, put, tmp_path):
    for epochs in (2, 3):
        put(tmp_path, result(epochs=epochs))
        gather(tmp_path)
    assert [record.settings["epochs"] for record in read(tmp_path).records] == [2, 3]


def test_files_elsewhere_stay_where_they_are(some, result):
    elsewhere = [
        some / place for place in ("backup/2020/frequency.jsonl", "backup/frequency.jsonl", ".old/adding.jsonl", "mine.jsonl")
    ]
    for file in elsewhere:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(result(seed=77, epochs=2)) + "\n")
    gather(some)
    assert all(file.exists() for file in elsewhere)


def test_lines_are_moved_unchanged_with_what_this_version_does_not_know(result, put, tmp_path):
    line = result(epochs=2) | {"notes": "mine"}
    put(tmp_path, line)
    gather(tmp_path)
    assert json.loads((tmp_path / "frequency.jsonl").read_text()) == line


def test_gathering_twice_at_once_loses_nothing(some, result, put):
    before = lines_in(some)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(gather, [some] * 8))
    assert lines_in(some) == before


def test_gathering_a_folder_that_is_not_there_is_an_error_with_the_cure(tmp_path):
    with pytest.raises(NotADirectoryError, match=r"there is no folder '.*none'"):
        gather(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_disk_that_is_full_loses_no_record(some, monkeypatch):
    before = lines_in(some)

    def full(path, data):
        raise OSError(f"cannot write '{path}': No space left on device")

    monkeypatch.setattr("phased_lab.runs.folder.files.write_whole", full)
    with pytest.raises(OSError, match="No space left"):
        gather(some)
    assert lines_in(some) == before


def test_older_records_are_gathered_as_they_are(result, put, tmp_path):
    put(tmp_path, older(result(epochs=2)))
    assert gather(tmp_path) == {tmp_path / "frequency.jsonl": 1}
    (record,) = read(tmp_path).records
    assert (record.schema, record.study) == (1, "frequency")


# Sweeps over what was gathered


def test_a_sweep_skips_runs_that_lie_in_their_studys_file(tmp_path):
    runs = [tiny_run(seed=seed, epochs=1) for seed in range(2)]
    for run in runs:
        execute(run, tmp_path)
    gather(tmp_path)
    assert not any(run.file(tmp_path).exists() for run in runs)
    third = tiny_run(seed=2, epochs=1)
    summary = sweep([*runs, third], tmp_path, device="cpu")
    assert (summary.skipped, summary.done, summary.failed) == (runs, [third], {})
    assert summary.records.keys() == {run.name for run in (*runs, third)}
    assert set(files_in(tmp_path)) >= {"tiny.jsonl", f"tiny/{third.name}.jsonl"}
    assert gather(tmp_path) == {tmp_path / "tiny.jsonl": 3}


def test_a_gathered_run_without_its_checkpoint_is_not_run_again(tmp_path):
    run = tiny_run(epochs=1)
    execute(run, tmp_path)
    gather(tmp_path)
    shutil.rmtree(tmp_path / "tiny")
    assert sweep([run], tmp_path, device="cpu").skipped == [run]


def test_a_sweep_looks_into_the_file_of_the_runs_own_study(tmp_path):
    run = replace(tiny_run(epochs=1), study="small")
    execute(run, tmp_path)
    assert gather(tmp_path) == {tmp_path / "small.jsonl": 1}
    assert sweep([run], tmp_path, device="cpu").skipped == [run]


def test_nothing_starts_beside_a_gathered_record_of_other_settings(tmp_path):
    run = tiny_run(epochs=1)
    execute(run, tmp_path)
    gather(tmp_path)
    wanted = r"'.*tiny\.jsonl' has the result of 'tiny-.*' with other settings: epochs is 1 there, 2 here\. Choose another folder"
    with pytest.raises(ValueError, match=wanted):
        sweep([tiny_run(seed=7), tiny_run(epochs=2)], tmp_path, progress=lambda event: pytest.fail("something started"))


def test_of_two_gathered_records_of_one_name_the_one_with_the_runs_settings_counts(tmp_path):
    for epochs in (1, 2):
        execute(tiny_run(epochs=epochs), tmp_path / str(epochs))
        gather(tmp_path / str(epochs))
    both = [(tmp_path / epochs / "tiny.jsonl").read_text() for epochs in "12"]
    (tmp_path / "tiny.jsonl").write_text("".join(both))
    assert len(sweep([tiny_run(epochs=1)], tmp_path, device="cpu").skipped) == 1
    assert len(sweep([tiny_run(epochs=2)], tmp_path, device="cpu").skipped) == 1


def test_a_damaged_line_in_a_studys_file_stops_no_sweep_and_stays(tmp_path):
    run, other = tiny_run(epochs=1), tiny_run(epochs=1, seed=1)
    execute(run, tmp_path)
    gather(tmp_path)
    file = tmp_path / "tiny.jsonl"
    file.write_text(file.read_text() + "cut o")
    before = file.read_bytes()
    with pytest.warns(UserWarning, match=r"tiny\.jsonl', line 2: skipped, it is cut off"):
        summary = sweep([run, other], tmp_path, device="cpu")
    assert (summary.skipped, summary.done) == ([run], [other])
    assert file.read_bytes() == before
