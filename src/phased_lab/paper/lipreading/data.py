"""The clips of the experiment: GRID, prepared once, without the damaged ones, and split at random."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from torch import Tensor

from phased.files import digest, expanded
from phased_lab.clips import Clips, Split, find_grid, load_clips, prepare, split, store
from phased_lab.clips.clip import DAMAGED
from phased_lab.lipreader.inputs import Scaling
from phased_lab.runs.progress import progress

PLACES = ("", "grid", "GRID")  # folders in which prepared files are searched
PREPARED: dict[Path, list[Path]] = {}  # files that this process has prepared, by the folder of the clips


@dataclass(frozen=True)
class Source:
    """Which clips, and at which rate.

    Args:
        folder: GRID, or the files that `prepare` made of it; "" for PHASED_DATA.
        rate: rows of MFCCs a second, 100 or 25.
        seed: of the split into train and test.
        most: the number of clips, the first ones of every speaker by name; 0 for all.
    """

    folder: str = ""
    rate: int = 100
    seed: int = 0
    most: int = 0


@dataclass(frozen=True, eq=False)
class Loaded:
    """Clips in memory, which of them are for training and for testing, and the scaling of their sound."""

    clips: Clips
    train: Tensor  # rows of clips, int64
    test: Tensor
    parts: Split
    scaling: Scaling


def prepared_files(folder: str = "") -> list[Path]:
    """Files with prepared clips; GRID's own clips are prepared first, if there are no such files."""
    found = found_files(folder)
    if not found:
        found = list(prepare(find_grid(folder or None), progress=progress("preparing clips")).files)
        PREPARED[base_of(folder)] = found
    return found


def base_of(folder: str) -> Path:
    """The folder in which clips are searched."""
    return expanded(folder or os.environ.get("PHASED_DATA", "."))


def found_files(folder: str = "") -> list[Path]:
    """Files with prepared clips, if there are any; nothing is prepared."""
    base = base_of(folder)
    for place in (base / name for name in PLACES):
        files = sorted(place.glob(f"*{store.SUFFIX}")) if place.is_dir() else []
        if files:
            return files
    return PREPARED.get(base, [])


def load(source: Source) -> Loaded:
    """The clips of a source; they are read once per process."""
    return _loaded(source, tuple(prepared_files(source.folder)))


@lru_cache(maxsize=1)
def _loaded(source: Source, files: tuple[Path, ...]) -> Loaded:
    parts = divided(source, files)
    clips = load_clips(files, (*parts.train, *parts.test), rate=source.rate)
    train, test = clips.rows(parts.train), clips.rows(parts.test)
    return Loaded(clips, train, test, parts, Scaling.of(clips, train))


def divided(source: Source, files: tuple[Path, ...]) -> Split:
    """The clips for training and for testing; damaged ones are in neither part."""
    names: list[str] = []
    for number, path in enumerate(files):
        whole = sorted(name for name, jump in store.jumps(path).items() if jump < DAMAGED)
        names += whole[: source.most // len(files) + (number < source.most % len(files))] if source.most else whole
    return split(names, source.seed)


def there(source: Source) -> Split | None:
    """The names of the clips for training and for testing; None where no clips are prepared.

    Raises:
        FileNotFoundError: a folder was named that has neither prepared clips nor GRID.
    """
    files = found_files(source.folder)
    if not files and source.folder:
        find_grid(source.folder)
    return divided(source, tuple(files)) if files else None


def identity(parts: Split) -> str:
    """A digest of the names of clips, and of which of them are for testing."""
    return digest(repr((sorted(parts.train), sorted(parts.test))).encode()).decode()[:12]
