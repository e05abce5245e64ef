"""The parts of a table as one Events: in memory, or memory-mapped from a file that is written part by part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from phased import files
from phased.data import ragged
from phased.estimator.events import Events
from phased.estimator.settings import Settings
from phased.fields import decode, encode

SUFFIX = ".safetensors"
LARGE = ("time", "entry", "variable", "value")  # arrays with an item per step or measurement


class Arrays:
    """Arrays that grow part by part, in memory or in files of a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.parts: dict[str, list[NDArray[Any]]] = {}

    def add(self, name: str, part: NDArray[Any]) -> None:
        """Append a part to an array."""
        on_disk = self._file(name)
        self.parts.setdefault(name, []).append(part if on_disk is None else np.empty(0, part.dtype))
        if on_disk is not None:
            with on_disk.open("ab") as file:  # temporary, beside the store
                part.tofile(file)

    def take(self, name: str) -> NDArray[Any]:
        """Return the whole array and end it."""
        whole = np.concatenate(self.parts.pop(name))
        file = self._file(name)
        return whole if file is None or not file.stat().st_size else np.memmap(file, whole.dtype, "r+")

    def _file(self, name: str) -> Path | None:
        """The file of an array that is not kept in memory."""
        return self.folder / name if self.folder is not None and name in LARGE else None


def joined(parts: Iterable[Events], arrays: Arrays) -> dict[str, Any]:
    """Return the fields of Events that have the sequences of all parts."""
    counts, steps, measurements = Counter[str](), 0, 0
    for name in ("offset", "entry"):
        arrays.add(name, np.zeros(1, np.int64))
    for part in parts:
        arrays.add("offset", part.offset[1:] + steps)
        arrays.add("entry", part.entry[1:] + measurements)
        for name in ("ids", "time", "variable", "value", "static", *(["origin"] if part.origin is not None else [])):
            arrays.add(name, getattr(part, name))
        counts.update(part.counts)
        steps, measurements, last = steps + len(part.time), measurements + len(part.value), part[:0]
    whole = {name: arrays.take(name) for name in [*arrays.parts]}
    named = {name: getattr(last, name) for name in ("variables", "statics", "unit", "settings")}
    return named | whole | {"counts": dict(counts)}


def check(path: Path, inputs: Iterable[Path]) -> None:
    """Raise an error if a file cannot be written, or is no file of Events."""
    if path.suffix != SUFFIX:
        raise ValueError(f"store must be the name of a file that ends in {SUFFIX}, got '{path}'. Add the ending.")
    files.check_output(path, inputs)
    if path.is_file() and path.stat().st_size and not ragged.is_one(path):
        raise FileExistsError(
            f"store must be a new file or an earlier store, got '{path}', which is another file or a damaged store. "
            f"Choose another name, or delete it."
        )


def write(path: Path, made: dict[str, Any], key: str) -> None:
    """Write the fields of Events to a file. `key` names their source."""
    arrays = {name: array for name, array in made.items() if isinstance(array, np.ndarray)}
    about = {name: value for name, value in made.items() if name not in arrays}
    kinds = {name: array.dtype.str for name, array in arrays.items()}
    tensors = {name: torch.from_numpy(_plain(array)) for name, array in arrays.items()}
    ragged.save(path, tensors, about | {"settings": encode(made["settings"]), "kinds": kinds}, key)


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """The bytes of dates and text as integers."""
    if array.dtype.kind == "M":
        return array.view(np.int64)
    return array.view(np.int32).reshape(len(array), -1) if array.dtype.kind == "U" else array


def read(path: Path, key: str) -> Events | None:
    """Map the Events of a file. Return None if there is no such file, it was made from something else, or it is damaged."""
    stored = ragged.load(path, key)
    if stored is None:
        return None
    made: dict[str, Any] = {name: each for name, each in stored.about.items() if name != "kinds"}
    made |= {name: array.numpy().view(stored.about["kinds"][name]) for name, array in stored.arrays.items()}
    made |= {name: tuple(made[name]) for name in ("variables", "statics")}
    return Events(**made | {"ids": made["ids"].reshape(-1), "settings": decode(Settings, made["settings"])})


def key_of(paths: Iterable[Path], asked: Settings, like: Settings | None) -> str:
    """Return text that names the versions of files and the settings of reading."""
    versions = [(str(path.resolve()), ragged.version(path)) for path in paths]
    return repr((versions, encode(asked), None if like is None else encode(like)))
