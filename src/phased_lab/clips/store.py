"""Prepared clips in files: `<speaker>/<sentence>.safetensors` for each clip, and `clips.json`, which lists them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from phased import files
from phased.data import ragged
from phased.needs import module
from phased_lab.clips.alignment import Sentence
from phased_lab.clips.cepstrum import RESOLUTIONS, Mfcc
from phased_lab.clips.clip import Clip
from phased_lab.clips.errors import BadClip
from phased_lab.clips.face import SIDE

LIST = "clips.json"
COLUMNS = 10  # of frames in the image of a clip
QUALITY = 50  # of WebP: 22 KB a clip of 75 frames, and on average 4 of 255 gray levels of error, mostly the camera's noise
AGAIN = "Delete it, and prepare them again."


class Listed(NamedTuple):
    """The clips in a folder.

    Attributes:
        key: what they were made from.
        jump: `Clip.jump` of each clip, by its name, in the order of names.
    """

    key: str
    jump: dict[str, float]


def write(folder: Path, name: str, clip: Clip, key: str = "") -> None:
    """Store a clip: its face as WebP, and MFCCs in float16. `key` names the files that it was made from."""
    if clip.sentence is None:
        raise ValueError(f"clip '{name}' must have an alignment to be stored, and has none.")
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


def write_list(folder: Path, jump: Mapping[str, float], key: str = "") -> Listed:
    """Write down which clips a folder has."""
    listed = Listed(key, dict(sorted(jump.items())))
    files.write_whole(folder / LIST, json.dumps(listed._asdict(), indent=0).encode())
    return listed


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
