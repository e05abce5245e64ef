"""The checkpoint and the log of a training. Both are written atomically; a digest detects a damaged checkpoint."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from phased import files

if TYPE_CHECKING:
    from phased.learn.device import Devices

CHECKPOINT, LOG = "checkpoint.pt", "epochs.ndjson"
CURE = "Choose another folder, or delete it to start anew."


class Epoch(NamedTuple):
    """One point of a learning curve."""

    epoch: int
    loss: float  # mean over the training labels, without penalties
    test: float  # accuracy, or the mean squared error of a regression
    seconds: float  # training and test
    updates: float | None  # per unit and step on the test set; None without time gates
    test_loss: float | None = None  # mean over the labels of the test set; None in records of older versions


class Score(NamedTuple):
    """The result of a test."""

    test: float  # accuracy, or the mean squared error of a regression
    sequences: int
    steps: float  # per sequence, over all streams
    updates: float | None  # per unit and step; None without time gates
    loss: float | None = None  # mean over the labels; None in records of older versions
    whole: float | None = None  # share of sequences with all segments right; None without segments


class Store:
    """The checkpoint and the log of a training in a folder. The first process reads and writes, and broadcasts what it read.

    Args:
        folder: the folder; created if it does not exist.
        identity: the settings by which a checkpoint is recognised as one of this training.
        parts: everything that changes in training, by name: objects with `state_dict` and `load_state_dict`, as in torch.
        fabric: the device or devices.
    """

    def __init__(self, folder: Path, identity: dict[str, Any], parts: Mapping[str, Any], fabric: Devices) -> None:
        self.folder, self.identity, self.parts, self.fabric = folder, identity, parts, fabric

    def resume(self, epochs: int) -> list[Epoch]:
        """Load every part from the checkpoint, if there is one, and return its curve. Without a checkpoint return []."""
        state = None
        if self.fabric.is_global_zero:
            files.writable(self.folder)
            files.remove_parts(self.folder)
            state = load_checkpoint(self.folder / CHECKPOINT)
        state = self.fabric.broadcast(state)
        if state is None:
            return []
        self._compare(state)
        curve = [Epoch(*point) for point in state["curve"]]
        if len(curve) > epochs:
            raise ValueError(f"'{self.folder / CHECKPOINT}' has {len(curve)} epochs, more than epochs={epochs}. {CURE}")
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        self._write_log(curve)  # a process killed between checkpoint and log leaves the log one epoch short
        return curve

    def _compare(self, state: dict[str, Any]) -> None:
        """Raise a ValueError if a checkpoint is of another training, or lacks a part."""
        path, there = self.folder / CHECKPOINT, state.get("identity", {})
        for name, here in self.identity.items():
            if there.get(name) != here:
                one, other = first_difference(there.get(name), here)
                raise ValueError(f"'{path}' is of another training: {name} is {one!r} there, {other!r} here. {CURE}")
        if missing := {*self.parts, "curve"} - state.keys():
            without = ", ".join(sorted(map(repr, missing)))
            raise ValueError(f"'{path}' must be the checkpoint of this training, got one without {without}. {CURE}")

    def keep(self, curve: Sequence[Epoch]) -> None:
        """Write checkpoint and log; both are on the disk when this returns."""
        if self.fabric.is_global_zero:
            state = {name: part.state_dict() for name, part in self.parts.items()}
            points = [tuple(epoch) for epoch in curve]
            save_checkpoint(self.folder / CHECKPOINT, {**state, "curve": points, "identity": self.identity})
            self._write_log(curve)
        self.fabric.barrier()

    def _write_log(self, curve: Sequence[Epoch]) -> None:
        if self.fabric.is_global_zero:
            lines = "".join(json.dumps(epoch._asdict()) + "\n" for epoch in curve)
            files.write_whole(self.folder / LOG, lines.encode())


def check_log(folder: Path) -> None:
    """Raise a FileExistsError if the log in a folder was not written by a training whose checkpoint is beside it."""
    log, keys = folder / LOG, set(Epoch._fields)
    if not os.path.lexists(log) or (log.is_file() and not log.stat().st_size):
        return
    try:
        lines = log.read_bytes().splitlines() if log.is_file() and (folder / CHECKPOINT).is_file() else [b""]
        if all({"epoch", "loss", "test"} <= json.loads(line).keys() <= keys for line in lines):
            return
    except (OSError, ValueError, AttributeError, RecursionError):
        pass
    raise FileExistsError(
        f"'{log}' must be the log of a training with its '{CHECKPOINT}' beside it, got another file, which would be replaced. "
        f"Move it away, or choose another folder."
    )


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Write a dict of tensors, numbers, strings, lists and dicts, followed by its digest. `torch.load` can read the file too."""
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    files.write_whole(path, files.seal(buffer.getvalue()))


def load_checkpoint(path: Path) -> dict[str, Any] | None:
    """What `save_checkpoint` wrote, on the CPU; None if there is no such file. No code from the file is executed."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OSError(f"cannot read '{path}': {files.reason(error)}. Move it away to start anew.") from error
    try:
        body = files.unseal(data)
    except files.Damaged as error:
        raise ValueError(f"'{path}' is damaged, or not a checkpoint: {error}. Delete it to start anew.") from error
    state: dict[str, Any] = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
    return state


def first_difference(one: Any, other: Any) -> tuple[Any, Any]:
    """Of two texts of several lines, such as those that torch writes of a network, the first lines that differ; else both."""
    if not (isinstance(one, str) and isinstance(other, str)):
        return one, other
    pairs = zip_longest(one.splitlines(), other.splitlines(), fillvalue="")
    return next(((a.strip(), b.strip()) for a, b in pairs if a.strip() != b.strip()), (one, other))
