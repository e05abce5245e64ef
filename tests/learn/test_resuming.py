"""A training that was interrupted at any moment continues with the numbers of one that was not."""

import errno
import multiprocessing
import os
import signal
from functools import partial

import pytest
import torch

from phased import files
from phased.learn.average import Best
from phased.learn.device import make_fabric
from phased.learn.store import CHECKPOINT, LOG, load_checkpoint, save_checkpoint
from phased_lab.paper.waves import Sines
from phased_lab.runs.network import NetworkConfig
from training import WrongShare, execute, killed_while_writing, same_numbers, tiny_run, weights


@pytest.fixture(scope="module")
def children():
    """Processes that start quickly, because their fork server has imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["phased_lab.runs.sweep", "torch._dynamo"])  # torch.optim imports it
    return context


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """An uninterrupted run of every model: its result and its weights."""
    results = {}
    for model in ("phased", "bn-lstm"):
        out = tmp_path_factory.mktemp(model)
        run = tiny_run(model=model, epochs=6)
        results[model] = same_numbers(execute(run, out)), weights(run, out)
    return results


# Only writes change what a killed training leaves behind. The calls of fsync are, in turn, for a checkpoint, its folder, a log,
# its folder. Calls 1 to 4 come before the first epoch.
@pytest.mark.parametrize("model, write", [*(("phased", write) for write in (1, 2, 5, 8, 15)), ("bn-lstm", 9)])
def test_killed_at_any_moment_it_resumes_with_the_unbroken_runs_bits(tmp_path, children, unbroken, model, write):
    run = tiny_run(model=model, epochs=6)
    child = children.Process(target=killed_while_writing, args=(run, tmp_path, write))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert not run.file(tmp_path).exists()
    assert (same_numbers(execute(run, tmp_path)), weights(run, tmp_path)) == unbroken[model]
    left = {file.name for file in run.folder(tmp_path).iterdir()}
    assert left == {CHECKPOINT, LOG}, "what a killed writer left is cleared away"


def test_more_epochs_are_more_of_the_same_training(tmp_path, unbroken):
    execute(tiny_run(epochs=4), tmp_path)
    line = execute(tiny_run(epochs=6), tmp_path)
    assert same_numbers(line)["curve"] == unbroken["phased"][0]["curve"]


@pytest.mark.parametrize(
    "first, other, message",
    [
        ({}, {"batch": 4}, "batch is 8 there, 4 here"),
        ({}, {"task": Sines()}, 'task is "Sines'),
        (
            {},
            {"network": NetworkConfig(units=5, leak=0.25)},
            r"model is '\(rnn\): .*leak=0.001\)' there, '\(rnn\): .*leak=0.25\)' here",
        ),
        ({}, {"epochs": 1}, "has 2 epochs, more than epochs=1"),
        ({"schedule": "one-cycle"}, {"schedule": "one-cycle", "epochs": 3}, "epochs is 2 there, 3 here"),
        ({}, {"best": Best(2)}, "must be the checkpoint of this training, got one without 'best'"),
        ({}, {"objective": WrongShare()}, "objective is None there"),
    ],
)
def test_the_checkpoint_of_another_training_is_not_taken_over(train, first, other, message):
    train(**first)
    with pytest.raises(ValueError, match=rf"(?s){message}.*Choose another folder, or delete it to start anew\."):
        train(**other)


def test_an_optimizer_that_no_checkpoint_would_recognise_is_refused(train):
    with pytest.raises(ValueError, match="optimizer must have a repr"):
        train(optimizer=lambda model: None)


def cut_off(path):
    save_checkpoint(path, {"weights": torch.arange(24.0)})
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda path: path.touch(), ValueError, r"is damaged, or not a checkpoint: .*SHA-256.* Delete it to start anew"),
        (cut_off, ValueError, r"is damaged, or not a checkpoint: .*SHA-256.* Delete it to start anew"),
        (partial(torch.save, [1, 2]), ValueError, "it must end with its SHA-256, and does not. Delete it"),
        (lambda path: path.mkdir(), OSError, "Is a directory. Move it away to start anew"),
    ],
    ids=["empty", "cut off", "something else", "a folder"],
)
def test_a_file_that_is_no_checkpoint_is_named(tmp_path, train, make, error, message):
    """`tests/test_files.py` changes every bit of a sealed file."""
    make(tmp_path / CHECKPOINT)
    with pytest.raises(error, match=rf"checkpoint\.pt'.*{message}"):
        train()


def test_fabrics_advice_to_round_products_is_not_repeated_at_every_start(caplog):
    """Lightning advises a lower precision on each start on a GPU with tensor cores, which would change the results."""
    from lightning.fabric.utilities.rank_zero import rank_zero_info, rank_zero_warn

    make_fabric("cpu", devices=2)
    rank_zero_info("You are using a CUDA device that has Tensor Cores")
    with pytest.warns(UserWarning, match="a real warning"):
        rank_zero_warn("a real warning")
    assert "Tensor Cores" not in caplog.text


# Disks


def full_disk(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def no_epoch(epoch):
    pytest.fail("an epoch was run")


def test_a_full_disk_is_found_out_before_training(tmp_path, train, monkeypatch):
    monkeypatch.setattr(files.os, "fsync", full_disk)
    with pytest.raises(OSError, match=r"cannot write '.*checkpoint\.pt': No space left on device; there was none before it"):
        train(progress=no_epoch)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_leaves_the_last_checkpoint_intact(tmp_path, unbroken, monkeypatch):
    run, synced, count = tiny_run(epochs=6), os.fsync, 0

    def fills_up(handle):
        nonlocal count
        count += 1
        full_disk() if count > 12 else synced(handle)

    monkeypatch.setattr(files.os, "fsync", fills_up)
    with pytest.raises(OSError, match=r"No space left on device; the one before it is intact. Make room"):
        execute(run, tmp_path)
    state = load_checkpoint(run.folder(tmp_path) / CHECKPOINT)
    assert len(state["curve"]) == 2
    monkeypatch.undo()
    assert same_numbers(execute(run, tmp_path)) == unbroken["phased"][0]


def test_a_folder_that_cannot_be_written_to_is_found_out_before_training(tmp_path, train):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match=r"cannot write to the folder '.*file/run'.*Choose another"):
        train("file/run")
