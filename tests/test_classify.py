"""`phased classify` and `phased pack`: what they print, what they write, and how they fail."""

import io
import json
import os
import re
import subprocess
import sys
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from phased.classifier import Classifier
from phased.cli import classify as command
from phased.cli.answers import files_in, save_picture
from phased.data import Sensor, encode, read
from phased.data.read import READERS
from phased.learn.store import Score, save_checkpoint
from phased_lab.runs.record import parse
from recordings import network, recording
from records import result


@pytest.fixture
def folder(tmp_path):
    """Six recordings in N-MNIST's layout."""
    for digit in (3, 7):
        (tmp_path / "Test" / str(digit)).mkdir(parents=True)
        for number in (1, 2, 10):
            content = encode(recording(200, seed=100 * digit + number))
            (tmp_path / "Test" / str(digit) / f"{number:05}.bin").write_bytes(content)
    return tmp_path / "Test"


def test_a_line_of_json_per_recording_and_nothing_else(call, folder):
    result = call("classify", folder, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [Path(line["file"]).relative_to(folder).as_posix() for line in lines] == [
        f"{digit}/{number:05}.bin" for digit in (3, 7) for number in (1, 2, 10)
    ]
    classifier = Classifier.load()
    for line in lines:
        answer = classifier.classify(read(line["file"]))
        assert list(line) == ["file", "class", "confidence", "events", "updates", "seconds"]
        assert line["class"] == int(answer.label)
        assert line["confidence"] == answer.confidence
        assert (line["events"], line["updates"]) == (200, answer.updates)
        assert line["seconds"] > 0


def test_a_line_per_recording_and_a_summary_with_the_accuracy(call, folder):
    result = call("classify", folder / "3" / "00001.bin", folder / "7")
    assert result.exit_code == 0, result.output
    *lines, summary = result.stdout.splitlines()
    assert len(lines) == 4
    assert all(re.search(r"\.bin  \d  \d+\.\d%  200 events  .* events/s  [\d,]+ updates \(\d\.\d%\)$", line) for line in lines)
    assert summary.startswith("4 recordings: 800 events in ")
    assert re.search(r"[0-4] of 4 in the folder of their class", summary)


def test_a_model_of_ones_own_is_used_with_its_class_names_also_for_a_single_event(call, tmp_path):
    Classifier.of(network(outputs=2), classes=["left", "right"]).save(tmp_path / "model")
    (tmp_path / "one.bin").write_bytes(encode(recording(1)))
    words = "classify", tmp_path / "one.bin", "--model", tmp_path / "model"
    assert json.loads(call(*words, "--json").stdout)["class"] in ("left", "right")
    line, summary = call(*words).stdout.splitlines()
    assert "  1 event  " in line
    assert summary.startswith("1 recording: 1 event in")
    assert "in the folder of their class" not in summary


@pytest.mark.parametrize("skip, code, answers", [((), 1, 3), (("--skip-bad",), 0, 5)])
def test_a_bad_file_stops_the_command_or_is_named_and_counted(call, folder, skip, code, answers):
    bad = folder / "7" / "00001.bin"
    bad.write_bytes(bad.read_bytes()[:-2])
    result = call("classify", folder, "--json", *skip)
    assert result.exit_code == code
    assert [json.loads(line)["class"] in range(10) for line in result.stdout.splitlines()] == [True] * answers
    assert f"'{bad}', byte 995" in result.stderr
    assert ("1 skipped." in result.stderr) == bool(skip)
    if skip:
        assert call("classify", folder, *skip).stdout.splitlines()[-1].endswith(". 1 skipped.")
        bad.rename(folder / "bad.bin")
        assert call("classify", folder / "bad.bin", *skip).exit_code == 1, "nothing but bad files is a failure"


def test_with_skip_bad_a_folder_without_event_files_is_named_and_counted(call, folder, tmp_path):
    (tmp_path / "empty").mkdir()
    result = call("classify", tmp_path / "empty", folder, "--skip-bad", "--json")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 6)
    assert f"skipped: there are no event files in '{tmp_path / 'empty'}'" in result.stderr
    assert "1 skipped." in result.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("nowhere.bin",), "'nowhere.bin'"),
        (("a" * 300 + ".bin",), "cannot read it: File name too long. Check its path"),
        ((".",), "there are no event files in '.'. They end with .bin"),
        (("x.bin", "--model", "nowhere"), "there is no folder 'nowhere' with a model"),
        (("x.bin", "--crop", "3"), "it must be two whole numbers, such as 10,20, got '3'"),
        (("x.bin", "--sensor", "a,b"), "it must be two whole numbers"),
        (("x.bin", "--picture", "x.gif"), "a picture's name must end in .png, .svg, .pdf, got 'x.gif'"),
        (("x.bin", "y.bin", "--picture", "x.png"), "--picture takes one recording"),
        ((".", "--picture", "x.png"), "--picture takes one recording"),
    ],
)
def test_what_cannot_be_done_is_said_with_the_cure(refused, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    refused(message, "classify", *arguments, code=2 if message.startswith("it must") else 1)


def test_a_missing_reader_is_said_even_where_bad_files_are_skipped(refused, folder, monkeypatch):
    def missing(*_):
        raise ModuleNotFoundError("this needs faery. Install it.")

    monkeypatch.setattr(command, "read", missing)
    refused("this needs faery. Install it.", "classify", folder, "--skip-bad")


@pytest.mark.parametrize("arguments", ["classify {0} {0} --json", "classify --help"])
def test_a_reader_that_has_enough_ends_the_command_quietly(folder, arguments):
    one = f"set -o pipefail; {sys.executable} -m phased {arguments.format(folder)} | head -1"
    done = subprocess.run(["bash", "-c", one], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_names_are_printed_on_one_line_in_the_encoding_of_the_output(folder):
    for name in ("ü", "two\nlines", "\x1b[31m"):
        (folder / "3" / f"{name}.bin").write_bytes(encode(recording(20)))
        (folder / "7" / f"{name}.bin").write_bytes(b"")
    output, errors = (
        Console(file=io.TextIOWrapper(io.BytesIO(), encoding, "backslashreplace")) for encoding in ("ascii", "utf-8")
    )
    command.Recordings(Classifier.load(), skip_bad=True, console=output, errors=errors).all([folder])
    for console, count, umlaut in ((output, 6 + 3, r"\xfc.bin"), (errors, 3, "ü.bin")):
        console.file.seek(0)
        lines = console.file.read().splitlines()
        assert len(lines) == count
        for name in (umlaut, r"two\nlines.bin", r"\x1b[31m.bin"):
            assert any(name in line for line in lines)


def test_folders_are_searched_through_links_and_each_once(call, folder, tmp_path):
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "3").symlink_to(folder / "3")
    (tmp_path / "linked" / "above").symlink_to(tmp_path / "linked")
    (folder / "3" / "._00001.bin").touch()  # hidden
    found = files_in(tmp_path / "linked", READERS, "event files")
    assert [file.relative_to(tmp_path).as_posix() for file in found] == [f"linked/3/{number:05}.bin" for number in (1, 2, 10)]


def test_a_link_to_a_missing_file_is_not_left_out_in_silence(refused, folder):
    (folder / "7" / "00011.bin").symlink_to("nowhere")
    assert len(refused("00011.bin': cannot read it: No such file", "classify", folder, "--json").stdout.splitlines()) == 6


def test_a_gap_of_hours_takes_no_longer_to_show(tmp_path):
    pytest.importorskip("matplotlib")
    events = recording(3).to_array()
    events["t"] = 0, 10, 2**62
    np.save(tmp_path / "gap.npy", events)
    with pytest.warns(UserWarning, match="go beyond"):
        assert 500 < shown_on_a_terminal(tmp_path / "gap.npy").count("gap.npy") < 1500
    with pytest.warns(UserWarning, match="go beyond"):
        save_picture(command.Recordings(Classifier.load()), tmp_path / "gap.npy", tmp_path / "gap.png")
    assert (tmp_path / "gap.png").stat().st_size > 1000


def test_another_sensor_is_refused_and_a_window_of_it_accepted(call, refused, tmp_path):
    file = tmp_path / "large.npy"
    large = recording(3000, sensor=Sensor(60, 50), duration=200_000)
    np.save(file, large.to_array())
    refused(f"'{file}': the recording must be of 34 x 34 pixels", "classify", file, "--sensor", "60,50")
    result = call("classify", file, "--sensor", "60,50", "--crop", "20,10", "--json")
    assert result.exit_code == 0, result.output
    inside = (large.x >= 20) & (large.x < 54) & (large.y >= 10) & (large.y < 44)
    assert json.loads(result.stdout)["events"] == inside.sum()


@pytest.mark.parametrize("start", [0, 10**12])
def test_a_recording_gives_the_same_answer_in_any_kind_of_file_also_if_its_clock_starts_anywhere(call, tmp_path, start):
    events = recording(300).from_start() if start else recording(300)
    (tmp_path / "same.bin").write_bytes(encode(events))
    later = events.to_array()
    later["t"] += start
    np.save(tmp_path / "same.npy", later)
    result = call("classify", tmp_path / "same.bin", tmp_path / "same.npy", "--json")
    native, array = map(json.loads, result.stdout.splitlines())
    assert [native[key] == array[key] for key in ("class", "confidence", "events", "updates")] == [True] * 4
    assert "go beyond" not in result.stderr


def test_a_long_recording_is_classified_with_a_warning(call, tmp_path):
    (tmp_path / "long.bin").write_bytes(encode(recording(300, duration=5_000_000)))
    result = call("classify", tmp_path / "long.bin", tmp_path / "long.bin", "--json")
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr.count("go beyond 340 ms") == 1


@pytest.mark.parametrize("suffix, begin", [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_picture_is_drawn_in_the_format_of_its_name(call, folder, tmp_path, suffix, begin):
    pytest.importorskip("matplotlib")
    out = tmp_path / "pictures" / f"three.{suffix}"
    given = tmp_path / os.fsdecode(b"$3$\xff.bin")
    given.write_bytes((folder / "3" / "00001.bin").read_bytes())
    result = call("classify", given, "--picture", out)
    assert result.exit_code == 0, result.output
    assert out.read_bytes().startswith(begin)


def shown_on_a_terminal(file, **options):
    """What the command shows there, of one file."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    command.Recordings(Classifier.load(), console=console, errors=console, **options).all([file])
    return screen.getvalue()


def test_on_a_terminal_a_line_follows_the_events_and_a_replay_takes_as_long_as_the_recording(folder, monkeypatch):
    shown = shown_on_a_terminal(folder / "3" / "00001.bin")
    assert len(re.findall(r"00001\.bin +\d+ ms", shown)) >= 25  # every 10 of 300 ms
    assert shown.rstrip().endswith(")")
    assert "200 events" in shown
    slept = []
    monkeypatch.setattr(command.time, "sleep", slept.append)
    shown_on_a_terminal(folder / "3" / "00001.bin", replay=True)
    assert max(slept) == pytest.approx(0.3, abs=0.1)  # the clock stands almost still when nothing sleeps


def test_starting_the_command_and_the_training_loop_imports_nothing_that_they_do_not_need(folder):
    code = (
        "import sys; from typer.testing import CliRunner; from phased.cli.app import app; import phased.learn.loop\n"
        f"assert CliRunner().invoke(app, ['classify', {str(folder)!r}, '--json']).exit_code == 0\n"
        "print([name for name in ('matplotlib', 'lightning', 'pandas', 'torch._dynamo') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ))
    assert done.stdout.strip() == "[]"


# Packing


@pytest.fixture
def trained(tmp_path):
    """A record and a checkpoint, where a finished run leaves them; and the network."""
    model = network(gate="square")
    made_up = parse(json.dumps(result()))
    record = replace(
        made_up,
        experiment="nmnist",
        name="nmnist-both-phased-seed0",
        study="nmnist-real",
        condition="both",
        settings={"task": {"images": [60_000, 10_000]}},
        evaluations={"rho 0.4": Score(0.96, 10_000, 1500.0, 0.05), "real, rho 1": Score(0.97, 100, 4100.0, 0.05)},
    )
    place = tmp_path / "results" / "nmnist" / record.name
    place.mkdir(parents=True)
    place.with_suffix(".jsonl").write_bytes(record.line().encode())
    save_checkpoint(place / "checkpoint.pt", {"model": model.state_dict()})
    return model, record


def test_a_finished_run_is_packed_with_its_command_and_its_scores(call, tmp_path, trained, folder):
    model, record = trained
    arguments = ("--results", tmp_path / "results", "--out", tmp_path / "packed", "--test", folder)
    result = call("pack", record.name, *arguments)
    assert result.exit_code == 0, result.output
    packed = Classifier.load(tmp_path / "packed")
    events = recording()
    assert np.array_equal(packed.classify(events).probabilities, Classifier.of(model).classify(events).probabilities)
    about = packed.config.about
    assert about.command == record.command
    assert record.command in (tmp_path / "packed" / "README.md").read_text()
    assert about.data.startswith("Recordings simulated from 60,000 of MNIST's training images")
    assert "real training recordings of N-MNIST" in about.data
    scores = [astuple(score) for score in about.scores]
    assert set(scores[:2]) == {
        (0.96, 10_000, "MNIST's test images, each event kept with probability 0.4", True),
        (0.97, 100, "test recordings of N-MNIST, all events", False),
    }
    assert scores[2][1:] == (6, "recordings in Test", False)


@pytest.mark.parametrize("broken", ["run", "checkpoint", "network"])
def test_what_cannot_be_packed_is_answered_with_what_can(refused, tmp_path, trained, broken):
    record = trained[1]
    path = tmp_path / "results" / "nmnist" / record.name / "checkpoint.pt"
    says = {
        "run": "Those of nmnist and lipreading: nmnist-both-phased-seed0.",
        "checkpoint": f"Make it with: {record.command}",
        "network": "must be a Readout with an EventEmbedding",
    }
    if broken == "checkpoint":
        path.unlink()
    if broken == "network":
        save_checkpoint(path, {"model": torch.nn.Linear(2, 3).state_dict()})
    name = "nmnist-other" if broken == "run" else record.name
    refused(says[broken], "pack", name, "--results", tmp_path / "results", "--out", tmp_path / "packed")
