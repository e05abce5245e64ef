"""The checkpoint and the log of a training, in a folder: whole, and with a digest that finds every bit that has changed."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from phased import files

if TYPE_CHECKING:
    from lightning.fabric import Fabric

CHECKPOINT, LOG = "checkpoint.pt", "epochs.ndjson"
CURE = "Choose another folder, or delete it to start anew."

# The last record of the zip archive that torch writes, 22 bytes, begins so. Checkpoints without a digest end with it.
END_OF_ZIP = b"PK\x05\x06"
END_SIZE = 22


class Epoch(NamedTuple):
    """One point of a learning curve."""

    epoch: int
    loss: float  # mean over the training sequences, penalties not included
    test: float  # accuracy, or the mean squared error of a regression
    seconds: float  # training and test
    updates: float | None  # open updates per unit and step on the test set; None where there are no gates


class Store:
    """The checkpoint and the log of a training in a folder; the first process writes, all get what it reads."""

    def __init__(self, folder: Path, identity: dict[str, Any], fabric: Fabric) -> None:
        self.folder, self.identity, self.fabric = folder, identity, fabric

    def resume(self, model: nn.Module, optimizer: Any, epochs: int) -> list[Epoch]:
        """Put model and optimiser where the checkpoint has them; its curve, empty if there is none."""
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
            raise ValueError(f"'{self.folder / CHECKPOINT}' has {len(curve)} epochs, more than the {epochs} asked for. {CURE}")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        self._write_log(curve)  # a kill after the checkpoint and before the log leaves it an epoch short
        return curve

    def _compare(self, state: dict[str, Any]) -> None:
        path = self.folder / CHECKPOINT
        if missing := {"model", "optimizer", "curve", "identity"} - state.keys():
            without = ", ".join(sorted(map(repr, missing)))
            raise ValueError(f"'{path}' must be the checkpoint of a training, got one without {without}. {CURE}")
        there = state["identity"]
        for name, here in self.identity.items():
            if there.get(name) != here:
                raise ValueError(f"'{path}' is of another training: {name} is {there.get(name)!r} there, {here!r} here. {CURE}")

    def make_room(self, model: nn.Module) -> None:
        """Find out whether there is room for two checkpoints, the old one and the new: weights and Adam's two averages each."""
        if self.fabric.is_global_zero:
            size = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
            files.writable(self.folder, room=2 * 3 * size)

    def keep(self, model: nn.Module, optimizer: Any, curve: Sequence[Epoch]) -> None:
        """Write checkpoint and log; when this returns, a kill loses nothing."""
        if self.fabric.is_global_zero:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            points = [tuple(epoch) for epoch in curve]
            save_checkpoint(self.folder / CHECKPOINT, {**state, "curve": points, "identity": self.identity})
            self._write_log(curve)
        self.fabric.barrier()

    def _write_log(self, curve: Sequence[Epoch]) -> None:
        if self.fabric.is_global_zero:
            lines = "".join(json.dumps(epoch._asdict()) + "\n" for epoch in curve)
            files.write_whole(self.folder / LOG, lines.encode())


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Write tensors, numbers, texts, lists and dicts of them, and the digest. `torch.load` reads the file too."""
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    files.write_whole(path, files.seal(buffer.getvalue()))


def load_checkpoint(path: Path) -> dict[str, Any] | None:
    """What `save_checkpoint` wrote, on the CPU; None if there is no such file. Nothing in it is executed."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OSError(f"cannot read '{path}': {files.reason(error)}. Move it away to start anew.") from error
    try:
        body = data if data[-END_SIZE:].startswith(END_OF_ZIP) else files.unseal(data)
    except files.Damaged as error:
        raise ValueError(f"'{path}' is damaged, or not a checkpoint: {error}. Delete it to start anew.") from error
    try:
        state = torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
    except Exception as error:  # torch names no exception of its own for a file it cannot read
        raise ValueError(f"'{path}' is not a checkpoint that torch can read. Delete it to start anew.") from error
    if not isinstance(state, dict):
        raise ValueError(f"'{path}' must hold the dict of a checkpoint, got {type(state).__name__}. Delete it to start anew.")
    return state
