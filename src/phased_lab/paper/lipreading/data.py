"""The clips of the experiment: GRID, prepared once, without the damaged ones, and split at random."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch

from phased.files import digest
from phased_lab.clips import Clips, Split, find_grid, load_clips, prepare, prepared, split, store
from phased_lab.clips.clip import DAMAGED
from phased_lab.lipreader.network import Scaling
from phased_lab.runs.progress import progress


@dataclass(frozen=True, eq=False)
class Loaded:
    """Clips in memory, training clips first, with the names of both parts and the scaling of their sound."""

    clips: Clips
    parts: Split
    scaling: Scaling


def prepared_folder(folder: str = "") -> Path:
    """Return the folder with prepared clips. `folder` has these or GRID, which is prepared first; "" is PHASED_DATA."""
    found = prepared(folder or None)
    return found or prepare(find_grid(folder or None), progress=progress("preparing clips")).folder


@lru_cache(maxsize=1)
def load(folder: Path, rate: int = 100, seed: int = 0, most: int = 0) -> Loaded:
    """The clips of a prepared folder, with `rate` rows of MFCCs a second; they are read once per process."""
    parts = divided(folder, seed, most)
    clips = load_clips(folder, (*parts.train, *parts.test), rate=rate)
    return Loaded(clips, parts, Scaling.of(clips, torch.arange(len(parts.train))))


def divided(folder: Path, seed: int = 0, most: int = 0) -> Split:
    """The clips for training and for testing, divided by the seed; damaged ones are in neither part.

    They are at most `most`, the first ones of every speaker by name, or all if it is 0.
    """
    whole = [name for name, jump in store.read_list(folder).jump.items() if jump < DAMAGED]
    speakers = sorted({name.partition("/")[0] for name in whole})
    names: list[str] = []
    for number, speaker in enumerate(speakers):
        own = [name for name in whole if name.startswith(f"{speaker}/")]
        names += own[: most // len(speakers) + (number < most % len(speakers))] if most else own
    return split(names, seed)


def there(folder: str = "", seed: int = 0, most: int = 0) -> Split | None:
    """Return the names of the clips for training and testing, or None if no clips are prepared yet.

    Raises:
        FileNotFoundError: a folder was named that has neither prepared clips nor GRID.
    """
    try:
        found = prepared(folder or None)
    except FileNotFoundError:
        if folder:
            raise
        return None
    return divided(found, seed, most) if found else None


def identity(parts: Split) -> str:
    """A digest of the names of clips, and of which of them are for testing."""
    return digest(repr((sorted(parts.train), sorted(parts.test))).encode()).decode()[:12]
