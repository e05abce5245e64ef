"""Arrays in one memory-mapped file, and sequences of different lengths one after another in flat arrays."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from phased import files

DAMAGED = (SafetensorError, OSError, KeyError, TypeError, ValueError)  # what reading a damaged file raises
Progress = Callable[[int, int], None]  # how much of long work is done, and how much there is
_CHECKED: set[tuple[Path, tuple[int, int] | None]] = set()  # versions of files that this process has checked


class Ragged(NamedTuple):
    """Sequences one after another: sequence r has the rows offset[r] to offset[r + 1] of each array.

    Attributes:
        arrays: (N, ...) each.
        offset: (R + 1,) int64, from 0 to N.

    Example:
        >>> two = Ragged.joined([Ragged.one(x=torch.tensor([1, 2])), Ragged.one(x=torch.tensor([3]))])
        >>> two.rows(torch.tensor([1, 0])).arrays["x"], two.padded("x", torch.tensor([0, 1]), 2)
        (tensor([3, 1, 2]), tensor([[1, 3],
                [2, 0]]))
    """

    arrays: dict[str, Tensor]
    offset: Tensor

    @classmethod
    def one(cls, **arrays: Tensor) -> Ragged:
        """One sequence."""
        return cls(arrays, torch.tensor([0, len(next(iter(arrays.values())))]))

    @classmethod
    def joined(cls, parts: Sequence[Ragged]) -> Ragged:
        """The sequences of all parts, at least one, in their order."""
        lengths = torch.cat([part.offset.diff() for part in parts])
        arrays = {name: torch.cat([part.arrays[name] for part in parts]) for name in parts[0].arrays}
        return cls(arrays, torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]))

    def to(self, device: torch.device | str) -> Ragged:
        """A copy on another device."""
        return Ragged({name: array.to(device) for name, array in self.arrays.items()}, self.offset.to(device))

    def places(self, which: Tensor, total: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Where the rows of some sequences are. With `total`, their number, nothing is read from the device.

        Args:
            which: the sequences, (B,) int64.
            total: the number of their rows.

        Returns:
            The place of each row and the position of its sequence in `which`, (total,) each; the rows before each sequence, (B,).
        """
        begin = self.offset[which]
        length = self.offset[which + 1] - begin
        before = length.cumsum(0) - length
        owner = torch.repeat_interleave(length, output_size=total)
        return torch.arange(len(owner), device=owner.device) + (begin - before)[owner], owner, before

    def rows(self, which: Tensor) -> Ragged:
        """These sequences in this order, copied."""
        place, _, before = self.places(which)
        arrays = {name: array[place] for name, array in self.arrays.items()}
        return Ragged(arrays, torch.cat([before, before.new_full((1,), len(place))]))

    def padded(self, name: str, which: Tensor, steps: int) -> Tensor:
        """One array of some sequences, padded with zeros: (steps, B, ...)."""
        begin = self.offset[which]
        step = torch.arange(steps, device=begin.device).unsqueeze(1)
        valid = step < self.offset[which + 1] - begin
        values = self.arrays[name][torch.where(valid, begin + step, 0)]
        return values.masked_fill_(~valid.view(*valid.shape, *[1] * (values.dim() - 2)), 0)


class Stored(NamedTuple):
    """The content of a file: tensors, which may be written to without changing the file, and what else is known, as JSON."""

    arrays: dict[str, Any]
    about: Any


def save(path: Path, arrays: Mapping[str, Tensor], about: Any = None, key: str = "") -> None:
    """Write arrays to a safetensors file, whole or not at all. `key` names what they were made from."""
    whole = {name: array.contiguous() for name, array in arrays.items()}
    text = json.dumps(about)
    with files.replacing(path) as file:
        try:
            save_file(whole, file.name, {"key": key, "about": text, "digest": _digest(whole, key, text)})
        except SafetensorError as error:
            raise OSError(f"cannot write '{path}': {error}. Make room, or choose another folder.") from error


def load(path: Path, key: str | None = None) -> Stored | None:
    """Map the arrays of a file. The first time in a process all bytes are read and compared with the digest of the file.

    Returns:
        The content; None if there is no such file, a bit of it has changed, or it was made with another key.
    """
    now = path, version(path)
    try:
        with safe_open(path, framework="pt") as file:
            found = file.metadata()
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is no dict
        if key is not None and found["key"] != key:
            return None
        if now not in _CHECKED and found["digest"] != _digest(arrays, found["key"], found["about"]):
            return None
        _CHECKED.add(now)
        return Stored(arrays, json.loads(found["about"]))
    except DAMAGED:
        return None


def is_one(path: Path) -> bool:
    """Whether a file was written by `save`, and has its header still."""
    try:
        with safe_open(path, framework="pt") as file:
            return {"key", "about", "digest"} <= (file.metadata() or {}).keys()
    except DAMAGED:
        return False


def version(path: Path) -> tuple[int, int] | None:
    """Return the size and the time of change of a file, which tell its versions apart; None if it cannot be opened."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def cached(
    folder: Path | str | None,
    name: str,
    key: str,
    make: Callable[[], Stored],
    enough: Callable[[Stored], bool] = lambda stored: True,
) -> Stored:
    """Return the content of a file in the folder, by default the cache.

    The file is made first if it does not exist, is damaged, has another key or is not enough. Of two processes at once, one waits
    for the other.
    """
    path = (files.cache_folder() if folder is None else Path(folder)) / f"{name}.safetensors"
    stored = load(path, key)
    if stored is not None and enough(stored):
        return stored
    try:
        files.writable(path.parent)
        with FileLock(path.with_suffix(".lock")):
            stored = load(path, key)  # another process may have made it
            if stored is None or not enough(stored):
                save(path, *make(), key)
                stored = load(path, key)
    except OSError as error:
        raise OSError(f"{error} It is made once for the cache; PHASED_CACHE sets its folder.") from error
    if stored is None:
        raise OSError(f"cannot read '{path}', which was just written. PHASED_CACHE sets the folder of the cache.")
    return stored


def _digest(arrays: Mapping[str, Tensor], key: str, about: str) -> str:
    """CRC-32 of everything in a file: it notices changed bits at the speed of the memory."""
    digest = zlib.crc32(f"{key}\n{about}".encode())
    for name, array in sorted(arrays.items()):
        digest = zlib.crc32(f"{name} {array.dtype} {tuple(array.shape)}".encode(), digest)
        digest = zlib.crc32(array.numpy().reshape(-1).view("u1").data, digest)
    return f"{digest:08x}"
