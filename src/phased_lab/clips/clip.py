"""One clip, from its files to what a network sees and has to answer."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phased_lab.clips.cepstrum import RESOLUTIONS, Mfcc, differences, mfcc
from phased_lab.clips.decoding import BadClip, Decoded, Sense, decode, resampled
from phased_lab.clips.face import SIDE, cropped, find_face
from phased_lab.clips.words import Sentence, read_alignment

DAMAGED = 10.0  # gray levels between two frames


class Clip(NamedTuple):
    """A prepared clip. Times are in ms since the first frame."""

    frames: NDArray[np.uint8]  # the face, (F, 48, 48)
    time: NDArray[np.float32]  # of each frame, (F,)
    mfcc: dict[int, Mfcc]  # coefficients by rate: 100 and 25 rows per second
    sentence: Sentence | None  # words and their times, or None without an alignment
    # The largest change between two frames in a row, the mean over all pixels, in gray levels of 255. It is below 5 in a clip of
    # a person who speaks, and above `DAMAGED` where the recording lost parts of its pictures.
    jump: float

    def sound(self, rate: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """MFCCs and their differences, (M, 39), and the time of each row, the end of its window, (M,)."""
        resolution, (values, first) = RESOLUTIONS[rate], self.mfcc[rate]
        time = np.float32(resolution.hop) * np.arange(first, first + len(values), dtype=np.float32)
        return differences(values, resolution.width), time


def prepare_clip(path: Path | str, alignment: Path | str | None = None, sense: Sense = "both") -> Clip:
    """Decode a clip, crop the face, compute MFCCs, and read its words.

    Args:
        path: the video file.
        alignment: the file with the words' times, if there is one.
        sense: what is used: "video", "audio" or "both". The other is zero where the file does not have it, at the times at which
            it would be.

    Returns:
        The prepared clip.

    Raises:
        BadClip: a file cannot be read or, in what is used, no frame has a face, or the clip ends before the last word.
        ModuleNotFoundError: av or opencv is not installed.
    """
    sentence = None if alignment is None else read_alignment(alignment)
    clip = decode(path, sense)
    if sentence is not None:
        _check_end(path, clip, float(sentence.spans[-1, 1]), sense)
    box = find_face(clip.frames)
    if box is None and sense != "audio":
        raise BadClip(path, "a clip must show a face from the front, got none in any frame. Leave it out.")
    audio = resampled(clip.audio, clip.rate)
    rows = {rate: mfcc(audio, clip.start, resolution) for rate, resolution in RESOLUTIONS.items()}
    if sense == "video" and not audio.any():
        rows = {rate: each._replace(values=np.zeros_like(each.values)) for rate, each in rows.items()}
    faces = np.zeros((len(clip.frames), SIDE, SIDE), np.uint8) if box is None else cropped(clip.frames, box)
    few = clip.frames[:, ::4, ::4].astype(np.int16)  # every fourth pixel is enough
    jump = float(np.abs(np.diff(few, axis=0)).mean((1, 2)).max())
    return Clip(faces, clip.time.astype(np.float32), rows, sentence, jump)


def _check_end(path: Path | str, clip: Decoded, end: float, sense: Sense) -> None:
    """A truncated file may decode without an error; it then ends before its last word."""
    step = float(clip.time[-1] - clip.time[-2])
    heard = clip.start + 1000 * len(clip.audio) / clip.rate
    for used, kind, last in (("video", "frames", float(clip.time[-1]) + step), ("audio", "sound", heard)):
        if last < end and sense in (used, "both"):
            raise BadClip(path, f"{kind} must last until the last word ends, at {end:.0f} ms, got {last:.0f} ms. Copy it again.")
