"""Prepared clips in one file (safetensors): faces as WebP, MFCCs in float16, words and times, and an index for random access."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from phased import files
from phased_lab.clips.alignment import Sentence
from phased_lab.clips.cepstrum import RESOLUTIONS, Mfcc
from phased_lab.clips.clip import Clip
from phased_lab.clips.errors import BadClip
from phased_lab.clips.mosaic import packed, unpacked

SUFFIX = ".safetensors"
ABOUT = "phased.clips"  # the entry of the metadata that has names and keys
AUDIO = tuple(f"mfcc{rate}" for rate in RESOLUTIONS)
RAGGED = ("image", "time", *AUDIO)  # clip r has the entries offset[r] to offset[r + 1]
EACH = ("words", "spans", "jump", *(f"{name}_first" for name in AUDIO))  # one entry a clip

Arrays = dict[str, NDArray[Any]]
UNREADABLE = (SafetensorError, OSError, KeyError, TypeError, ValueError, IndexError)  # what reading a damaged file raises


@dataclass(frozen=True, eq=False)
class Shelf:
    """Packed clips: their names, the keys of the files they were made from, and the arrays of a file."""

    names: tuple[str, ...]
    keys: tuple[str, ...]
    arrays: Arrays

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def of(cls, name: str, key: str, clip: Clip) -> Shelf:
        """One clip, packed."""
        if clip.sentence is None:
            raise ValueError(f"clip '{name}' must have an alignment to be stored, and has none.")
        arrays: Arrays = {"image": packed(clip.frames), "time": clip.time}
        for rate, rows in clip.mfcc.items():
            arrays[f"mfcc{rate}"] = rows.values.astype(np.float16)
            arrays[f"mfcc{rate}_first"] = np.array([rows.first], np.int64)
        arrays |= {f"{part}_offset": np.array([0, len(arrays[part])], np.int64) for part in RAGGED}
        arrays |= {
            "words": clip.sentence.words[None],
            "spans": clip.sentence.spans[None],
            "jump": np.array([clip.jump], np.float32),
        }
        return cls((name,), (key,), arrays)

    @classmethod
    def joined(cls, shelves: Sequence[Shelf]) -> Shelf:
        """The clips of several, at least one, in the order of their names."""
        arrays = {part: np.concatenate([shelf.arrays[part] for shelf in shelves]) for part in (*RAGGED, *EACH)}
        for part in RAGGED:
            lengths = np.concatenate([np.diff(shelf.arrays[f"{part}_offset"]) for shelf in shelves])
            arrays[f"{part}_offset"] = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        names = tuple(name for shelf in shelves for name in shelf.names)
        keys = tuple(key for shelf in shelves for key in shelf.keys)
        whole = cls(names, keys, arrays)
        return whole.subset(np.argsort(np.array(whole.names)).tolist())

    def subset(self, rows: Sequence[int]) -> Shelf:
        """These clips, in this order."""
        arrays = {part: self.arrays[part][list(rows)] for part in EACH}
        for part in RAGGED:
            offset = self.arrays[f"{part}_offset"]
            pieces = [self.arrays[part][offset[row] : offset[row + 1]] for row in rows]
            arrays[part] = np.concatenate(pieces) if pieces else self.arrays[part][:0]
            arrays[f"{part}_offset"] = np.cumsum([0, *map(len, pieces)])
        return Shelf(tuple(self.names[row] for row in rows), tuple(self.keys[row] for row in rows), arrays)

    def clip(self, row: int) -> Clip:
        """One clip, unpacked."""
        one = self.subset([row]).arrays
        rows = {
            rate: Mfcc(one[f"mfcc{rate}"].astype(np.float32), int(one[f"mfcc{rate}_first"][0])) for rate in RESOLUTIONS
        }  # fmt: skip
        sentence = Sentence(one["words"][0], one["spans"][0])
        return Clip(unpacked(one["image"], len(one["time"])), one["time"], rows, sentence, float(one["jump"][0]))

    def write(self, path: Path) -> None:
        """Store the clips in a file, whole or not at all."""
        about = json.dumps({"names": self.names, "keys": self.keys})
        contiguous = {name: np.ascontiguousarray(array) for name, array in self.arrays.items()}
        files.write_whole(path, save(contiguous, {ABOUT: about}))


def read(path: Path, names: Iterable[str] | None = None) -> Shelf:
    """The clips in a file; with `names`, only those of them that it has, and only their bytes are read."""
    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads(file.metadata()[ABOUT])
            every, keys = tuple(about["names"]), tuple(about["keys"])
            wanted = set(every if names is None else names)
            rows = [row for row, name in enumerate(every) if name in wanted]
            arrays: Arrays = {part: file.get_tensor(part)[rows] for part in EACH}
            for part in RAGGED:
                offset = file.get_tensor(f"{part}_offset").tolist()
                if len(rows) == len(every):
                    arrays[part] = file.get_tensor(part)
                else:
                    lazy = file.get_slice(part)
                    pieces = [lazy[offset[row] : offset[row + 1]] for row in rows]
                    arrays[part] = np.concatenate(pieces) if pieces else lazy[0:0]
                arrays[f"{part}_offset"] = np.cumsum([0, *(offset[row + 1] - offset[row] for row in rows)])
    except FileNotFoundError:
        raise
    except UNREADABLE as error:
        raise unreadable(path, error) from error
    return Shelf(tuple(every[row] for row in rows), tuple(keys[row] for row in rows), arrays)


def jumps(path: Path) -> dict[str, float]:
    """The largest change between two frames of each clip in a file, by name; nothing else is read."""
    try:
        with safe_open(path, framework="numpy") as file:
            names = json.loads(file.metadata()[ABOUT])["names"]
            return dict(zip(names, file.get_tensor("jump").tolist(), strict=True))
    except FileNotFoundError:
        raise
    except UNREADABLE as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> BadClip:
    """The error for a file that is damaged, or is not one of prepared clips."""
    return BadClip(path, f"it must be a file of prepared clips, and is not: {error}. Delete it, and prepare them again.")
