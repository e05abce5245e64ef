"""With any other files in the folder of results, page and pictures show the valid results; other files are named."""

import json
import os
import re
import signal
import socket
import warnings
from pathlib import Path

import pytest

from phased.experiments import reader
from phased.experiments.folder import MOST_BAD_LINES, read
from phased.experiments.record import MOST_UNITS, Gates
from phased.report import markdown
from phased.report.drawing.pictures import save_pictures
from records import page_of

# Longer than any of these tests takes: a test that blocks or reads an endless file fails.
SECONDS = 120


@pytest.fixture(autouse=True)
def _no_test_waits_forever():
    def too_long(number, frame):
        raise TimeoutError(f"still at work after {SECONDS} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def folder(result, put, tmp_path):
    """A folder with one good result."""
    return put(tmp_path / "in", result(seed=7, epochs=2))


def skipped(folder) -> list[str]:
    """The warnings about a folder; the page shows the same messages, and the valid result."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reading = read(folder)
    assert [found.seed for found in reading.records] == [7]
    assert [str(warning.message) for warning in caught] == reading.skipped
    return reading.skipped


def fifo(path):
    os.mkfifo(path)


def unix_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def endless(path):
    path.symlink_to("/dev/zero")


def link_loop(path):
    path.symlink_to(path.with_suffix(".other"))
    path.with_suffix(".other").symlink_to(path)


def long_line(path):
    # A gigabyte without a line break, of which the disk stores nothing.
    with path.open("wb") as file:
        file.truncate(10**9)


STRANGE_FILES = {
    "a FIFO": (fifo, "expected a regular file, got a FIFO"),
    "a socket": (unix_socket, "expected a regular file, got a socket"),
    "a link to an endless device": (endless, "expected a regular file, got a device"),
    "a folder": (lambda path: path.mkdir(), "expected a regular file, got a folder"),
    "a dangling link": (lambda path: path.symlink_to("nowhere"), "No such file"),
    "a loop of links": (link_loop, "levels of symbolic links"),
    "a line of a gigabyte": (long_line, "more than 256 MiB"),
    "an empty file": (lambda path: path.touch(), "it is empty"),
    "binary data": (lambda path: path.write_bytes(bytes(range(128, 256))), "not JSON"),
}


@pytest.mark.parametrize("make, reason", STRANGE_FILES.values(), ids=STRANGE_FILES.keys())
def test_a_file_that_is_no_file_of_results_is_skipped_by_name(make, reason, folder, monkeypatch):
    monkeypatch.chdir(folder)  # the address of a socket has to be short
    make(folder / "strange.jsonl")
    (sentence,) = skipped(folder)
    assert "strange.jsonl'" in sentence
    assert reason in sentence


def test_a_file_without_permission_is_skipped_by_name(folder, monkeypatch):
    (folder / "locked.jsonl").touch()
    really = os.open

    # The tests may run as root, to which permissions do not apply.
    def refuse(path, *args, **more):
        if str(path).endswith("locked.jsonl"):
            raise PermissionError(13, "Permission denied")
        return really(path, *args, **more)

    monkeypatch.setattr(reader.os, "open", refuse)
    (sentence,) = skipped(folder)
    assert "locked.jsonl': skipped, it cannot be read: Permission denied" in sentence


def test_a_folder_that_cannot_be_listed_is_skipped_by_name(folder, monkeypatch):
    (folder / "locked").mkdir()
    really = os.scandir

    def refuse(path):
        if path.name == "locked":
            raise PermissionError(13, "Permission denied")
        return really(path)

    monkeypatch.setattr(reader.os, "scandir", refuse)
    (sentence,) = skipped(folder)
    assert "locked': skipped, it cannot be listed: Permission denied" in sentence


def test_a_file_that_vanishes_before_it_is_read_is_skipped_by_name(folder, monkeypatch):
    really = reader.find

    def with_one_more(*args):
        found, unlisted = really(*args)
        return [*found, folder / "gone.jsonl"], unlisted

    monkeypatch.setattr(reader, "find", with_one_more)
    (sentence,) = skipped(folder)
    assert "gone.jsonl': skipped, it cannot be read: No such file" in sentence


def test_a_file_that_becomes_a_fifo_before_it_is_opened_is_not_waited_for(folder, monkeypatch):
    file = folder / "late.jsonl"
    file.touch()
    regular = file.stat()
    file.unlink()
    os.mkfifo(file)
    really = type(file).stat
    monkeypatch.setattr(type(file), "stat", lambda path, **more: regular if path == file else really(path, **more))
    (sentence,) = skipped(folder)
    assert "late.jsonl': skipped, it is empty" in sentence


def test_a_link_to_a_folder_above_is_not_followed(folder):
    (folder / "again").symlink_to(folder)
    assert skipped(folder) == []


def test_folders_are_searched_however_deep_they_lie(folder, monkeypatch):
    # Deeper than Python calls itself, so that neither pathlib nor shutil could make or remove them.
    monkeypatch.chdir(folder)
    for _ in range(1200):
        Path("d").mkdir()
        os.chdir("d")
    found, unlisted = reader.find(folder, ".jsonl")
    os.removedirs(folder.joinpath(*["d"] * 1200))
    assert len(found) == 1
    assert unlisted == {}


def test_a_name_that_is_no_text_is_shown_escaped(folder, tmp_path):
    (folder / os.fsdecode(b"caf\xe9\n\x1b[31m.jsonl")).write_text("{}\n")
    (sentence,) = skipped(folder)
    assert r"caf\udce9\n\x1b[31m.jsonl', line 1" in sentence
    with pytest.warns(UserWarning, match="caf"):
        assert page_of(folder, tmp_path / "out").stat().st_size > 0


def test_a_folder_whose_name_is_no_text_gets_its_page(folder, tmp_path):
    odd = tmp_path / os.fsdecode(b"caf\xe9")
    folder.rename(odd)
    assert "caf\\udce9" in page_of(odd, tmp_path / "out").read_text()


def test_a_line_too_long_is_skipped_and_those_around_it_are_read(result, folder, monkeypatch):
    monkeypatch.setattr(reader, "LONGEST_LINE", 50_000)
    good = json.dumps(result(seed=7, epochs=3))
    (folder / "long.jsonl").write_text(f'{good}\n{{"{200_000 * "x"}": 0}}\n{good}\n')
    with pytest.warns(UserWarning, match=r"long\.jsonl', line 2: skipped, it is longer than") as caught:
        assert len(read(folder).records) == 3
    assert len(caught) == 1


def test_of_a_file_that_grows_no_more_is_read_than_the_limit(folder, monkeypatch):
    monkeypatch.setattr(reader, "LARGEST_FILE", 1000)
    file = folder / "grows.jsonl"
    file.write_text("x\n")
    lines = reader.lines(file)
    next(lines)
    with file.open("a") as more:
        more.write("y\n" * 5000)
    assert sum(len(line) for _, line in lines) <= 1000


def test_a_file_of_garbage_is_given_up_after_a_hundred_lines(folder):
    (folder / "garbage.jsonl").write_text("garbage\n" * 100_000)
    sentences = skipped(folder)
    assert len(sentences) == MOST_BAD_LINES + 1
    assert "garbage.jsonl': skipped, from line 101 on" in sentences[-1]


STRANGE_RESULTS = {
    "a lone surrogate": ({"name": "\ud800"}, "'name' must be Unicode text"),
    "a lone surrogate in a setting": ({"settings": {"x": ["\udfff"]}}, "'settings' must be Unicode text"),
    "a lone surrogate as a setting's name": ({"settings": {"\udfff": 1}}, "'settings' must be Unicode text"),
    "a wall of 1e308": ({"wall": 1e308}, "'wall' must be at most"),
    "a seed of 10^400": ({"seed": 10**400}, "'seed' must be from"),
    "a setting of 10^400": ({"settings": {"units": 10**400}}, "'settings' must hold numbers of at most"),
    "updates above one": ({"updates": 1e3}, "'updates' must be from 0 to 1"),
    "updates that are text": ({"updates": "many"}, "'updates' must be a number"),
    "updates that are true": ({"updates": True}, "'updates' must be a number"),
    "no curve": ({"curve": None}, "'curve' must be of type list"),
    "a curve of nulls": ({"curve": [None]}, "'curve' must be a list"),
    "settings nested deeply": ({"settings": json.loads('{"a":' * 500 + "{}" + "}" * 500)}, "must be nested at most"),
    "settings without end": ({"settings": {str(n): n for n in range(20_000)}}, "'settings' must have at most"),
    "a name without end": ({"name": "x" * 20_000}, "'name' must have at most"),
    "versions that are text": ({"versions": "new"}, "'versions' must be of type dict"),
    "gates that are text": ({"gates": {name: {"before": "12", "after": "12"} for name in Gates._fields}}, "'gates'"),
    "gates that are true": ({"gates": {name: {"before": [True], "after": [1]} for name in Gates._fields}}, "'gates'"),
    "gates of very many units": (
        {"gates": {name: {"before": [1] * 20_000, "after": [1] * 20_000} for name in Gates._fields}},
        "at most 10000 units",
    ),
}


@pytest.mark.parametrize("parts, reason", STRANGE_RESULTS.values(), ids=STRANGE_RESULTS.keys())
def test_a_result_with_a_part_beyond_all_bounds_is_skipped_by_name(parts, reason, result, folder):
    (folder / "strange.jsonl").write_text(json.dumps(result() | parts))
    (sentence,) = skipped(folder)
    assert "strange.jsonl', line 1: skipped" in sentence
    assert reason in sentence


STRANGE_EPOCHS = {
    "a test of 1e308": ({"test": 1e308}, "'test' must be at most"),
    "a test of 10^400": ({"test": 10**400}, "'test' must be at most"),
    "a loss that is true": ({"loss": True}, "'loss' must be a number"),
    "an epoch below one": ({"epoch": -3}, "'epoch' must be from 1 to"),
    "an epoch of 10^400": ({"epoch": 10**400}, "'epoch' must be from 1 to"),
    "an epoch again": ({"epoch": 1}, "'epoch' must increase"),
    "no seconds": ({"seconds": ...}, "it has no 'seconds'"),
}


@pytest.mark.parametrize("parts, reason", STRANGE_EPOCHS.values(), ids=STRANGE_EPOCHS.keys())
def test_a_result_with_an_epoch_beyond_all_bounds_is_skipped_by_name(parts, reason, result, folder):
    line = result(epochs=2)
    line["curve"][-1] = {key: value for key, value in (line["curve"][-1] | parts).items() if value is not ...}
    (folder / "strange.jsonl").write_text(json.dumps(line))
    (sentence,) = skipped(folder)
    assert "strange.jsonl', line 1: skipped" in sentence
    assert reason in sentence


def test_an_integer_of_thousands_of_digits_is_skipped_by_name(folder):
    (folder / "digits.jsonl").write_text(f'{{"seed": {"9" * 10_000}}}')
    (sentence,) = skipped(folder)
    assert "digits.jsonl', line 1: skipped, it holds an integer too long" in sentence


def made_of(folder, out, *lines) -> str:
    """The page of results; warnings are errors in these tests, so nothing was skipped, and the pictures and tables are made."""
    (folder / "more.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = page_of(folder, out).read_text(encoding="utf-8")
    assert len(save_pictures(read(folder).records, out)) > 0
    assert "leak" in markdown.tables(folder)
    return page


def of_every_figure(result, **more):
    places = ({}, {"experiment": "superimposed", "condition": "superimposed"}, {"experiment": "adding", "condition": "exp(2,4)"})
    # Pictures of gates take a while, and have tests of their own.
    return [result(epochs=2, **place, **more) | {"gates": None} for place in places]


@pytest.mark.parametrize("value", [None, 3.4e38, -3.4e38], ids=["null", "the largest float32", "the least"])
def test_curves_of_one_absurd_number_are_drawn(value, result, folder, tmp_path):
    lines = of_every_figure(result, seed=1) + of_every_figure(result, seed=2, leak=0.0)
    for line in lines:
        line["curve"] = [{"epoch": 1, "loss": value, "test": value, "seconds": value}]
    made_of(folder, tmp_path / "out", *lines)


def test_infinities_of_both_signs_are_one_diverged_run(result, folder, tmp_path):
    line = result(epochs=2, model="lstm")
    line["curve"][0]["test"], line["curve"][1]["test"] = float("inf"), float("-inf")
    assert "1 of 1 of LSTM diverged" in made_of(folder, tmp_path / "out", line)


def test_seeds_without_a_common_epoch_are_drawn(result, folder, tmp_path):
    late = of_every_figure(result, seed=2)
    for line in late:
        line["curve"][0]["epoch"], line["curve"][1]["epoch"] = 100, 200
    made_of(folder, tmp_path / "out", *of_every_figure(result, seed=1), *late)


@pytest.mark.parametrize(
    "text",
    [r"$\frac$", "_hidden", "", "a\nb\0\x1b[31m", "x" * 9000, "²", "</script><b>|*`[x](y)"],
    ids=lambda text: ascii(text[:8]),
)
def test_text_of_any_kind_is_drawn(text, result, folder, tmp_path):
    lines = [*of_every_figure(result, seed=1), result(seed=1, epochs=2, leak=0.0, **{text: text, "normalise": [text]})]
    for line in lines:
        line["machine"]["processor"] = line["versions"]["phased"] = text
    lines += [result(epochs=2, model="lstm") | parts for parts in ({"model": text, "condition": text}, {"experiment": text})]
    lines += [result(epochs=2, model="lstm", weights=weights, task={"periods": text}) for weights in ([text], {"a": text})]
    page = made_of(folder, tmp_path / "out", *lines)
    assert "<b>" not in page
    assert "\x1b" not in page


def test_a_layer_of_thousands_of_units_that_are_always_open_makes_a_page_of_bounded_size(result, folder, tmp_path):
    (*_, good) = folder.rglob("*.jsonl")
    good.unlink()
    line = result(epochs=2)
    line["gates"] = {
        name: {when: [value] * MOST_UNITS for when in ("before", "after")}
        for name, value in (("period", 3.0), ("shift", 0.0), ("ratio_on", 1.0))
    }
    page = made_of(folder, tmp_path / "out", line)
    assert len(page) < 8_000_000
    assert "100.0% before training" in page


def test_a_run_of_very_many_epochs_makes_a_page_of_bounded_size(result, folder, tmp_path):
    line = result(leak=0.0, epochs=2)
    line["curve"] = [line["curve"][-1] | {"epoch": epoch} for epoch in range(1, 100_001)]
    page = made_of(folder, tmp_path / "out", line)
    assert len(page) < 4_000_000
    assert '"epoch":100000,' in page


def test_experiments_whose_names_differ_in_signs_only_have_pictures_of_their_own(result, folder, tmp_path):
    names = ["a b", "a/b", "A-B", "a-b-2", "leak", "runs"]
    page = made_of(folder, tmp_path / "out", *(result(epochs=2, model="lstm") | {"experiment": name} for name in names))
    written = {file.stem for file in (tmp_path / "out").glob("*-learning.png")}
    assert written == {
        "frequency-learning",
        *(f"{key}-learning" for key in ("A-B", "a-b-2", "a-b-2-2", "a-b-3", "leak-2", "runs-2")),
    }
    ids = [part.split('"')[0] for part in page.split(' id="')[1:]]
    assert len(ids) == len(set(ids))


def test_tables_show_names_letter_by_letter(result, folder):
    for letters in ("a|b", "<b>", "*a*", "`a`", "[a](b)", "_a_"):
        (folder / "more.jsonl").write_text(json.dumps(result(epochs=2) | {"condition": letters}))
        head, *_, row = markdown.tables(folder)["frequency"].splitlines()
        assert len(re.findall(r"(?<!\\)\|", row)) == head.count("|")
        assert letters not in row
        assert letters in row.replace("\\", "")


def test_of_a_folder_of_everything_at_once_page_and_pictures_are_made(result, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    for number, (make, _) in enumerate(STRANGE_FILES.values()):
        make(folder / f"{number}.jsonl")
    lines = [json.dumps(result() | parts) for parts, _ in STRANGE_RESULTS.values()]
    (folder / "many.jsonl").write_text("\n".join(lines))
    with pytest.warns(UserWarning, match="skipped") as caught:
        page = page_of(folder, tmp_path / "out").read_text()
    assert len(caught) == len(STRANGE_FILES) + len(lines)
    assert page.count("<li>&#39;") == len(caught)
    with pytest.warns(UserWarning, match="skipped"):
        assert save_pictures(read(folder).records, tmp_path / "out")
