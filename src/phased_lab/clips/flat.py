"""Many prepared clips in flat arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from phased.data.ragged import Ragged
from phased_lab.clips import store
from phased_lab.clips.cepstrum import RESOLUTIONS


@dataclass(frozen=True, eq=False)
class Clips:
    """R clips in flat arrays, in memory or on a GPU. Times are in ms since a clip's first frame.

    Args:
        names: `<speaker>/<sentence>` of each clip.
        video: `x`, the faces, (N, 48, 48) uint8, and `time`, (N,) float32.
        sound: `x`, 13 MFCCs, their first and their second differences, (M, 39) float32, and `time`, the end of each window, (M,)
            float32.
        words: ids of the six words of each clip, (R, 6) int64; `WORDS` has the words.
        spans: when each word begins and ends, (R, 6, 2) float32.
        jump: the largest change between two frames, (R,) float32; above 10 gray levels the pictures are damaged.
    """

    names: tuple[str, ...]
    video: Ragged
    sound: Ragged
    words: Tensor
    spans: Tensor
    jump: Tensor

    def __len__(self) -> int:
        return len(self.names)

    def to(self, device: torch.device | str) -> Clips:
        """A copy on another device."""
        tensors = {field.name: getattr(self, field.name).to(device) for field in fields(self) if field.name != "names"}
        return replace(self, **tensors)

    def rows(self, names: Iterable[str]) -> Tensor:
        """Where clips with these names are, in the order given, for a split.

        Args:
            names: of clips.

        Returns:
            (n,) int64.

        Raises:
            KeyError: a clip is not there.
        """
        place = {name: row for row, name in enumerate(self.names)}
        wanted = list(names)
        missing = [name for name in wanted if name not in place]
        if missing:
            raise KeyError(
                f"clip '{missing[0]}' must be among the {len(self)} loaded ones, and is not, nor {len(missing) - 1} others."
            )
        return torch.tensor([place[name] for name in wanted], dtype=torch.int64)


def load_clips(folder: Path | str, names: Iterable[str] | None = None, rate: int = 100) -> Clips:
    """Load prepared clips.

    Args:
        folder: `Prepared.folder`.
        names: the clips to load; by default all.
        rate: rows of MFCCs a second: 100, the paper's high resolution, or 25, its low resolution.

    Returns:
        The clips, sorted by name.

    Raises:
        BadClip: a file is missing or damaged.
        FileNotFoundError: no clips are prepared there.
        ValueError: another rate, or no names.

    Example:
        >>> load_clips("clips", rate=50)
        Traceback (most recent call last):
        ValueError: rate must be 100 or 25 rows a second, got 50.
    """
    if rate not in RESOLUTIONS:
        raise ValueError(f"rate must be {' or '.join(map(str, RESOLUTIONS))} rows a second, got {rate}.")
    ordered = sorted(set(store.read_list(Path(folder)).jump if names is None else names))
    if not ordered:
        raise ValueError("names must be at least one clip, got none.")
    tensor = torch.from_numpy
    video, sound, sentences, jumps = [], [], [], []
    for name in ordered:
        clip = store.read(Path(folder), name)
        assert clip.sentence is not None
        video.append(Ragged.one(x=tensor(clip.frames), time=tensor(clip.time)))
        rows, ends = clip.sound(rate)
        sound.append(Ragged.one(x=tensor(rows), time=tensor(ends)))
        sentences.append(clip.sentence)
        jumps.append(clip.jump)
    words, spans = (tensor(np.stack(part)) for part in zip(*sentences, strict=True))
    jump = torch.tensor(jumps, dtype=torch.float32)
    return Clips(tuple(ordered), Ragged.joined(video), Ragged.joined(sound), words, spans, jump)
