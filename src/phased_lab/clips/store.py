"""Prepared clips: a file for each, `<speaker>/<sentence>.safetensors`, and their list; many in flat arrays; a random split."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phased import files
from phased.data import ragged
from phased.data.ragged import Ragged
from phased.lazy import module
from phased_lab.clips.cepstrum import RESOLUTIONS, Mfcc
from phased_lab.clips.clip import Clip
from phased_lab.clips.decoding import BadClip
from phased_lab.clips.face import SIDE
from phased_lab.clips.words import Sentence

LIST = "clips.json"
COLUMNS = 10  # of frames in the image of a clip
QUALITY = 50  # of WebP: 22 KB a clip of 75 frames, and on average 4 of 255 gray levels of error, mostly the camera's noise
AGAIN = "Delete it, and prepare them again."


class Listed(NamedTuple):
    """The clips in a folder."""

    key: str  # digest of their sources
    jump: dict[str, float]  # `Clip.jump` of each clip, by its name, in the order of names


def write(folder: Path, name: str, clip: Clip, key: str = "") -> None:
    """Store a clip with its words: its face as WebP, and MFCCs in float16. `key` names the files that it was made from."""
    assert clip.sentence is not None
    arrays: dict[str, Any] = {"image": packed(clip.frames), "time": clip.time}
    arrays |= {f"mfcc{rate}": rows.values.astype(np.float16) for rate, rows in clip.mfcc.items()}
    arrays |= {"words": clip.sentence.words, "spans": clip.sentence.spans}
    about = {"jump": clip.jump} | {f"mfcc{rate}": rows.first for rate, rows in clip.mfcc.items()}
    path = file_of(folder, name)
    path.parent.mkdir(exist_ok=True)
    ragged.save(path, {part: torch.from_numpy(array) for part, array in arrays.items()}, about, key)


def read(folder: Path, name: str) -> Clip:
    """A stored clip.

    Raises:
        BadClip: its file is missing or damaged.
    """
    path = file_of(folder, name)
    stored = ragged.load(path)
    if stored is None:
        what = "missing" if not path.exists() else "damaged, or something else"
        raise BadClip(path, f"it must be a file of a prepared clip, and is {what}. {AGAIN}")
    arrays = {part: array.numpy() for part, array in stored.arrays.items()}
    rows = {rate: Mfcc(arrays[f"mfcc{rate}"].astype(np.float32), stored.about[f"mfcc{rate}"]) for rate in RESOLUTIONS}
    sentence = Sentence(arrays["words"], arrays["spans"])
    return Clip(unpacked(arrays["image"], len(arrays["time"])), arrays["time"], rows, sentence, stored.about["jump"])


def write_list(folder: Path, jump: Mapping[str, float], key: str = "") -> None:
    """Write down which clips a folder has, in the order of their names."""
    files.write_whole(folder / LIST, json.dumps({"key": key, "jump": jump}, indent=0).encode())


def read_list(folder: Path) -> Listed:
    """The clips in a folder.

    Raises:
        BadClip: the list is damaged.
        FileNotFoundError: there is none.
    """
    path = folder / LIST
    try:
        return Listed(**json.loads(path.read_bytes()))
    except (ValueError, TypeError) as error:
        raise BadClip(path, f"it must be a list of prepared clips, and is not: {error}. {AGAIN}") from error


def file_of(folder: Path, name: str) -> Path:
    """The file of a clip."""
    return folder / f"{name}.safetensors"


def packed(frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The bytes of one image with all frames, ten in a row.

    Args:
        frames: (F, 48, 48) uint8, at least one.

    Returns:
        A file in WebP, as uint8.
    """
    cv2 = module("cv2", "packing frames", "video")
    rows = -(-len(frames) // COLUMNS)
    tiles = np.pad(frames, ((0, rows * COLUMNS - len(frames)), (0, 0), (0, 0)), mode="edge")
    mosaic = tiles.reshape(rows, COLUMNS, SIDE, SIDE).swapaxes(1, 2).reshape(rows * SIDE, COLUMNS * SIDE)
    done, image = cv2.imencode(".webp", mosaic, [cv2.IMWRITE_WEBP_QUALITY, QUALITY])
    if not done:
        raise RuntimeError("OpenCV cannot write WebP. Install it with: pip install 'phased[video]'")
    return np.asarray(image, np.uint8).reshape(-1)


def unpacked(image: NDArray[np.uint8], count: int) -> NDArray[np.uint8]:
    """The first `count` frames of an image that `packed` has made, (count, 48, 48) uint8."""
    cv2 = module("cv2", "loading frames", "video")
    mosaic = np.asarray(cv2.imdecode(image, cv2.IMREAD_GRAYSCALE))
    rows = mosaic.shape[0] // SIDE
    return mosaic.reshape(rows, SIDE, COLUMNS, SIDE).swapaxes(1, 2).reshape(-1, SIDE, SIDE)[:count]


@dataclass(frozen=True, eq=False)
class Clips:
    """R clips in flat arrays, in memory or on a GPU. Times are in ms since a clip's first frame."""

    names: tuple[str, ...]  # `<speaker>/<sentence>` of each clip
    video: Ragged  # `x`, the faces, (N, 48, 48) uint8, and `time`, (N,) float32
    sound: Ragged  # `x`, 13 MFCCs, their first and second differences, (M, 39), and `time`, the end of each window, (M,), float32
    words: Tensor  # ids of the six words of each clip, (R, 6) int64: places in `WORDS`
    spans: Tensor  # when each word begins and ends, (R, 6, 2) float32
    jump: Tensor  # the largest change between two frames, (R,) float32 (above 10 gray levels, pictures are damaged)

    def __len__(self) -> int:
        return len(self.names)

    def to(self, device: torch.device | str) -> Clips:
        """A copy on another device."""
        tensors = {field.name: getattr(self, field.name).to(device) for field in fields(self) if field.name != "names"}
        return replace(self, **tensors)


def load_clips(folder: Path | str, names: Iterable[str] | None = None, rate: int = 100) -> Clips:
    """Load prepared clips.

    Args:
        folder: `Prepared.folder`.
        names: the clips to load; by default all, sorted.
        rate: rows of MFCCs a second: 100, the paper's high resolution, or 25, its low resolution.

    Returns:
        The clips, in the order of their names.

    Raises:
        BadClip: a file is missing or damaged.
        FileNotFoundError: no clips are prepared there.
        ValueError: another rate, or no names.
    """
    if rate not in RESOLUTIONS:
        raise ValueError(f"rate must be {' or '.join(map(str, RESOLUTIONS))} rows a second, got {rate}.")
    ordered = tuple(read_list(Path(folder)).jump if names is None else names)
    if not ordered:
        raise ValueError("names must be at least one clip, got none.")
    tensor, clips = torch.from_numpy, [read(Path(folder), name) for name in ordered]
    video = [Ragged.one(x=tensor(clip.frames), time=tensor(clip.time)) for clip in clips]
    sound = [Ragged.one(x=tensor(rows), time=tensor(ends)) for rows, ends in (clip.sound(rate) for clip in clips)]
    sentences = [clip.sentence for clip in clips if clip.sentence is not None]  # all stored clips have one
    words, spans = (tensor(np.stack(part)) for part in zip(*sentences, strict=True))
    jump = torch.tensor([clip.jump for clip in clips], dtype=torch.float32)
    return Clips(ordered, Ragged.joined(video), Ragged.joined(sound), words, spans, jump)


class Split(NamedTuple):
    """The names of the clips for training and for testing."""

    train: tuple[str, ...]
    test: tuple[str, ...]


def split(names: Iterable[str], seed: int, test: float = 0.1) -> Split:
    """Choose clips for testing at random; the others are for training.

    Args:
        names: the clips, in any order.
        seed: the same seed and clips give the same split.
        test: the share of clips for testing, between 0 and 1; at least one clip is in each part.

    Returns:
        The names of both parts, sorted.

    Raises:
        ValueError: fewer than two clips, a name twice, or a share that is not between 0 and 1.

    Example:
        >>> split(["s1/a", "s1/b", "s1/c", "s1/d"], seed=0, test=0.25)
        Split(train=('s1/a', 's1/b', 's1/d'), test=('s1/c',))
    """
    ordered = sorted(names)
    if len(ordered) < 2 or len(set(ordered)) != len(ordered):
        raise ValueError(f"names must be at least 2 different ones, got {len(ordered)}, {len(set(ordered))} of them different.")
    if not 0 < test < 1:
        raise ValueError(f"test must be between 0 and 1, got {test}.")
    count = min(max(round(test * len(ordered)), 1), len(ordered) - 1)
    chosen = set(np.random.default_rng(seed).permutation(len(ordered))[:count].tolist())
    train = tuple(name for row, name in enumerate(ordered) if row not in chosen)
    return Split(train, tuple(ordered[row] for row in sorted(chosen)))
