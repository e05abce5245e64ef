"""Whatever is at the place of an output, of any writer, is written as it should be or refused before any work."""

import fcntl
import os
import signal
import stat
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import pytest
from typer.main import get_command

from patients import write_tables
from phased import PhasedLSTM, files
from phased.classifier import Classifier
from phased.cli.app import app
from phased.estimator import PhasedClassifier
from phased.estimator.folder import finished
from phased.learn.store import Store
from recordings import network

FIT = ("fit", "t.csv", "--labels", "l.csv", "--unit", "h", "--device", "cpu", "--epochs", "3", "--out")
PIPE_SIZE = 1031  # F_SETPIPE_SZ


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The working folder, with a table and its labels."""
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)
    return tmp_path


# Of each writer: the output's name, an input, the model, the first work, and the call.
WRITERS = {
    "write_whole": ("x", None, None, "tempfile.mkdtemp", lambda path, *_: files.write_whole(path, b"new")),
    "layer": ("x", None, None, "phased.PhasedLSTM.state_dict", lambda path, *_: PhasedLSTM(2, 3).save(path)),
    "model": ("model.safetensors", None, None, "safetensors.torch.save", lambda path, *_: MODEL.save(path.parent)),
    "predict": (
        *("x.csv", "t.csv", "m", "phased.estimator.tables.read.read_table"),
        lambda path, at, call: call("predict", at / "m", at / "t.csv", "--out", path),
    ),
    "picture": (
        *("x.png", "rec.bin", "events", "phased.classifier.Classifier.classify"),
        lambda path, at, call: call("classify", at / "rec.bin", "--model", at / "events", "--picture", path),
    ),
}
MODEL = Classifier.of(network())
NODES = {"FIFO": (stat.S_IFIFO, 0), "socket": (stat.S_IFSOCK, 0), "device": (stat.S_IFCHR, os.makedev(1, 3))}
REFUSED = {"dangling link", "folder", "socket", "link to the input", "link into the model", "input"}


def state(folder):
    """Kind and content of everything in a folder."""
    found = ((path, os.lstat(path)) for path in folder.rglob("*"))
    return {path: (what.st_mode, what.st_rdev, path.read_bytes() if path.is_file() else b"") for path, what in found}


CASES = [
    (kind, writer)
    for kind in ("missing", "file", "link", *NODES, *sorted(REFUSED))
    for writer, (_, given, *_) in WRITERS.items()
    if given or not kind.endswith(("input", "model"))
]


@pytest.mark.parametrize("kind, writer", CASES)
def test_whatever_is_at_the_place_of_an_output_is_written_or_refused_and_never_lost(folder, call, tmp_path, kind, writer):
    name, given, model, work, run = WRITERS[writer]
    target, place, message = tmp_path / "target", tmp_path / "parts" / name, ""
    place.parent.mkdir()
    links = {"link": target, "dangling link": tmp_path / "nowhere", "link to the input": folder / str(given)}
    links["link into the model"] = folder / str(model) / "config.json"
    target.write_bytes(b"old")
    if kind in NODES:
        try:
            os.mknod(place, 0o600 | NODES[kind][0], NODES[kind][1])
        except PermissionError as error:
            pytest.skip(f"cannot make a {kind}: {error}")
    elif kind in links:
        place.symlink_to(links[kind])
    elif kind == "input":
        os.link(folder / given, place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "file":
        place.write_bytes(b"old")
    pipe = os.open(place, os.O_RDWR | os.O_NONBLOCK) if kind == "FIFO" else None
    if pipe:
        fcntl.fcntl(pipe, PIPE_SIZE, 2**20)
    before = state(folder) | state(tmp_path)
    with mock.patch(work, side_effect=AssertionError("work was done")) if kind in REFUSED else nullcontext():
        try:
            result = run(place, folder, call)
            message = result.stderr if result is not None and result.exit_code else ""
        except OSError as error:
            message = str(error)
    after, written = state(folder) | state(tmp_path), target if kind == "link" else place
    if message:
        assert kind in REFUSED or writer == "model"
        assert after == before
        assert str(place.parent if writer == "model" else place) in message
    else:
        assert kind not in REFUSED
        changed = [path for path, was in before.items() if after[path] != was]
        assert set(changed) <= {written, place}
        assert all(after[path][:2] == before[path][:2] for path in changed)
        assert kind == "device" or len(os.read(pipe, 2**20) if pipe else after[written][2]) > 2
        assert after[written][2] != b"old"
    if pipe:
        os.close(pipe)


def commands(command, words=()):
    """The words and the parameters of every command."""
    if not hasattr(command, "list_commands"):
        yield words, command.params
        return
    context = command.make_context("", [], resilient_parsing=True)
    for name in command.list_commands(context):
        yield from commands(command.resolve_command(context, [name])[1], (*words, name))


def test_an_empty_name_is_refused_by_every_command_for_every_path(call):
    tried = 0
    for words, parameters in commands(get_command(app)):
        arguments = 0
        for each in parameters:
            if "Path" in str(each.type_descriptor.annotation):
                option = [each.opts[0]] if each.param_type_name == "option" else ["x"] * arguments
                result = call(*words, *option, "")
                assert (result.exit_code, "must have a name" in result.output) == (2, True), (words, option, result.output)
                tried += 1
            arguments += each.param_type_name == "argument"
    assert tried >= 60


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("new/m", "--missing", "HR=nan"), "finite number, such as Height=-1, got 'HR=nan'"),
        (("new/m", "--missing", "Height=tall"), "--missing must be NAME=NUMBER or NUMBER"),
        (("new/m", "--seed", "-1"), "--seed"),
        (("new/m", "--checkpoint", "t.csv"), "cannot write to the folder 't.csv': it is no folder"),
        (("new/m", "--checkpoint", "foreign"), "'foreign/epochs.ndjson' must be the log of a training"),
        (("t.csv/m",), "cannot write to the folder 't.csv/m'"),
        ((f"new/{256 * 'm'}",), "File name too long. Choose another folder."),
        (("new/m", "--checkpoint", f"new/{256 * 'c'}"), "File name too long. Choose another folder."),
        (("new/m", "--checkpoint", "taken"), "'taken/all/checkpoint.pt' is damaged, or not a checkpoint"),
        (("taken",), "got one with 'model.safetensors'"),
        (("own",), "must be a new folder or that of a model, got one with 'README.md'"),
        (("new/m.csv",), "--out must be a folder for the model, got 'new/m.csv', the name of a table. Leave out '.csv'."),
        (("new/m", "--labels", "\udcff.csv"), "must be UTF-8"),
    ],
)
def test_a_fit_that_would_be_lost_is_refused_before_anything_is_read(here, call, arguments, message):
    for path in ("taken/model.safetensors", "taken/all", "foreign", "own"):
        Path(path).mkdir(parents=True)
    Path("own/README.md").write_text("mine")
    Path("taken/all/checkpoint.pt").write_text("mine")
    Path("foreign/epochs.ndjson").write_text('{"mine": 1}\n')
    before = state(here)
    with mock.patch("phased.estimator.tables.read.read_table", side_effect=AssertionError("the table was read")):
        result = call(*FIT, *arguments)
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert state(here) == before


@pytest.mark.parametrize("sent, code, checkpoint", [(signal.SIGINT, 130, ()), (signal.SIGTERM, 143, ("--checkpoint", "c"))])
@pytest.mark.usefixtures("here")
def test_a_fit_that_is_stopped_keeps_a_finished_model_and_continues(call, monkeypatch, sent, code, checkpoint):
    keep = Store.keep

    def stopping(store, curve):
        keep(store, curve)
        if len(curve) == stop:
            os.kill(os.getpid(), sent)

    monkeypatch.setattr(Store, "keep", stopping)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    stop = 0
    result = call(*FIT, "m", *checkpoint)
    assert result.exit_code == code
    assert "There is no model yet" in result.stderr
    assert not Path("m").exists()
    for stop in (1, 2):  # an unfinished model is replaced
        result = call(*FIT, "m", *checkpoint)
        assert (result.exit_code, "The unfinished model is in 'm'. The same command" in result.stderr) == (code, True)
        assert f"epochs           {stop}, the best is {stop}, interrupted" in result.stdout
        assert not finished(Path("m"))
    stop = 99
    assert call(*FIT, "m", *checkpoint).exit_code == 0
    assert finished(Path("m"))
    before, stop = state(Path("m")), 1
    result = call(*FIT, "m", "--seed", "1")
    assert (result.exit_code, "is in 'm.unfinished'. The finished model in 'm' is as it was." in result.stderr) == (code, True)
    assert state(Path("m")) == before
    assert len(PhasedClassifier.load("m.unfinished").report_.curve) == 1
