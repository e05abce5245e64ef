"""Many prepared clips in flat arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from phased_lab.clips import store
from phased_lab.clips.cepstrum import RESOLUTIONS, differences
from phased_lab.clips.errors import BadClip
from phased_lab.clips.face import SIDE
from phased_lab.clips.mosaic import unpacked


@dataclass(frozen=True, eq=False)
class Clips:
    """R clips in flat arrays, in memory or on a GPU. Times are in ms since a clip's first frame.

    The frames of clip r are `frames[frame_offset[r] : frame_offset[r + 1]]`, and so on.

    Args:
        names: `<speaker>/<sentence>` of each clip.
        frames: faces, (N, 48, 48) uint8.
        frame_time: (N,) float32.
        frame_offset: (R + 1,) int64, from 0 to N.
        audio: 13 MFCCs, their first and their second differences, (M, 39) float32.
        audio_time: the end of each window of sound, (M,) float32.
        audio_offset: (R + 1,) int64, from 0 to M.
        words: ids of the six words of each clip, (R, 6) int64; `WORDS` has the words.
        spans: when each word begins and ends, (R, 6, 2) float32.
        jump: the largest change between two frames, (R,) float32; above 10 gray levels the pictures are damaged.
    """

    names: tuple[str, ...]
    frames: Tensor
    frame_time: Tensor
    frame_offset: Tensor
    audio: Tensor
    audio_time: Tensor
    audio_offset: Tensor
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


def load_clips(paths: Iterable[Path | str], names: Iterable[str] | None = None, rate: int = 100) -> Clips:
    """Load prepared clips.

    Args:
        paths: files of `prepare`, one a speaker.
        names: the clips to load; by default all. Only their bytes are read.
        rate: rows of MFCCs a second: 100, the paper's high resolution, or 25, its low resolution.

    Returns:
        The clips, sorted by name.

    Raises:
        BadClip: a file is damaged.
        FileNotFoundError: there is no such file.
        KeyError: a clip is in none of the files.
        ValueError: another rate.

    Example:
        >>> load_clips(["s1.safetensors"], rate=50)
        Traceback (most recent call last):
        ValueError: rate must be 100 or 25 rows a second, got 50.
    """
    if rate not in RESOLUTIONS:
        raise ValueError(f"rate must be {' or '.join(map(str, RESOLUTIONS))} rows a second, got {rate}.")
    wanted = None if names is None else set(names)
    files = [Path(path) for path in paths]
    shelves = [store.read(path, wanted) for path in files]
    missing = sorted((wanted or set()).difference(*(shelf.names for shelf in shelves)))
    if missing or not any(map(len, shelves)):
        lacking = f"clip '{missing[0]}'" if missing else "a clip"
        raise KeyError(f"{lacking} must be in one of the files {', '.join(map(str, files)) or '(none)'}. Prepare it first.")
    return _unpacked(store.Shelf.joined([shelf for shelf in shelves if len(shelf)]), files, rate)


def _unpacked(shelf: store.Shelf, files: Sequence[Path], rate: int) -> Clips:
    arrays, resolution, name = shelf.arrays, RESOLUTIONS[rate], f"mfcc{rate}"
    frame, image, sound = (arrays[f"{part}_offset"] for part in ("time", "image", name))
    frames = np.empty((int(frame[-1]), SIDE, SIDE), np.uint8)
    audio, times = [], []
    for row, clip in enumerate(shelf.names):
        try:
            frames[frame[row] : frame[row + 1]] = unpacked(
                arrays["image"][image[row] : image[row + 1]], int(frame[row + 1] - frame[row])
            )
        except ValueError as error:
            where = ", ".join(map(str, files))
            raise BadClip(where, f"clip '{clip}': {error} Delete the file, and prepare it again.") from error
        values = arrays[name][sound[row] : sound[row + 1]].astype(np.float32)
        audio.append(differences(values, resolution.width))
        times.append((arrays[f"{name}_first"][row] + np.arange(len(values))) * np.float32(resolution.hop))
    tensor = torch.from_numpy
    return Clips(
        shelf.names,
        tensor(frames),
        tensor(arrays["time"].astype(np.float32)),
        tensor(frame),
        tensor(np.concatenate(audio)),
        tensor(np.concatenate(times).astype(np.float32)),
        tensor(sound),
        tensor(arrays["words"].astype(np.int64)),
        tensor(arrays["spans"].astype(np.float32)),
        tensor(arrays["jump"].astype(np.float32)),
    )
