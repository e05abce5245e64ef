"""Frames and sound of a video file, with the times that its container has for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from phased import check
from phased.data.errors import BadFile, size_of
from phased.lazy import module
from phased_lab.clips.cepstrum import RATE

Sense = Literal["video", "audio", "both"]
SENSES: tuple[Sense, ...] = get_args(Sense)
LONGEST = 60.0  # seconds: clips have 3, and a film would not fit into memory
GAP = 0.02  # seconds between sounds that are filled with silence; containers round times to ms
STEP = 40.0  # ms between frames where there are none
BLANK = (48, 48)  # pixels of such a frame
WITHOUT = {  # the cure where one of the senses is missing
    "video": 'Copy or record it again, or use the sound alone (--audio-only; in Python sense="audio").',
    "audio": 'Copy or record it again, or use the pictures alone (--video-only; in Python sense="video").',
}


class BadClip(BadFile):
    """A clip or an alignment that cannot be used: which file, what was expected, what came, and the cure.

    Example:
        >>> str(BadClip("s1/bbaf2n.mpg", "a clip must have sound, got none. Copy it again."))
        "'s1/bbaf2n.mpg': a clip must have sound, got none. Copy it again."
    """


class Decoded(NamedTuple):
    """A clip as it was recorded. Times are in ms since the first frame."""

    frames: NDArray[np.uint8]  # gray, (F, height, width)
    time: NDArray[np.float64]  # of each frame, (F,), increasing from 0
    audio: NDArray[np.float32]  # the mean of all channels, (S,) from -1 to 1
    rate: int  # samples per second
    start: float  # the time of the first sample (negative if the sound begins before the first frame)


def decode(path: Path | str, sense: Sense = "both") -> Decoded:
    """Decode the first video and the first audio stream of a file.

    Times are those of frames and samples in the container; the durations that it reports are not used. An alignment counts from
    the first frame, so this is time 0.

    Only what is used must be there. A file without sound gets silence, as long as its frames; one without frames gets black ones,
    every 40 ms from its first sample on.

    Args:
        path: an `.mpg`, `.mkv` or other file that FFmpeg reads, of at most 60 s.
        sense: what is used: "video", "audio" or "both".

    Returns:
        Frames and sound.

    Raises:
        BadClip: the file cannot be decoded or, in what is used, has no video or no sound, fewer than two frames, or times that
            do not increase.
        ModuleNotFoundError: av is not installed.
    """
    check.choice("sense", sense, SENSES)
    av = module("av", f"decoding '{path}'", "video")
    size_of(path, BadClip)  # FFmpeg would wait for a pipe forever
    frames: list[NDArray[np.uint8]] = []
    times: list[float] = []
    try:
        with av.open(str(path)) as container:
            for used, kind, streams in (("video", "video", container.streams.video), ("audio", "sound", container.streams.audio)):
                if not streams and sense in (used, "both"):
                    raise BadClip(path, f"a clip must have {kind}, got a file without it. {WITHOUT[used]}")
            decoded = [*container.streams.video[:1], *container.streams.audio[:1]]
            for stream in decoded:
                stream.thread_type = "NONE"  # clips are decoded in parallel instead
            sound = _Sound(path, av.AudioResampler(format="fltp"))
            for packet in container.demux(decoded):
                for frame in packet.decode():
                    if isinstance(frame, av.AudioFrame):
                        sound.add(frame)
                        continue
                    step = 1 / float(packet.stream.average_rate or 25)
                    times.append(frame.time if frame.time is not None else times[-1] + step if times else 0.0)
                    if times[-1] - times[0] > LONGEST:
                        raise BadClip(path, f"a clip must have at most {LONGEST:.0f} s, got more. Cut it into sentences.")
                    frames.append(frame.to_ndarray(format="gray"))
            sound.add(None)
    except (av.FFmpegError, OSError, UnicodeDecodeError) as error:  # the last one of names in the container
        why = getattr(error, "strerror", None) or str(error)
        raise BadClip(
            path, f"a clip must be a video file, which FFmpeg decodes to its end, got: {why}. Copy it again."
        ) from error
    return _checked(path, frames, np.array(times), sound, sense)


def resampled(audio: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
    """Return sound at 16,000 samples a second, without frequencies that this rate cannot have, from the same time on.

    Args:
        audio: (S,) float32.
        rate: its samples a second.
    """
    if rate == RATE:
        return audio
    av = module("av", "resampling sound", "video")
    frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(audio[None]), format="fltp", layout="mono")
    frame.sample_rate = rate
    resampler = av.AudioResampler(format="fltp", layout="mono", rate=RATE)
    parts = [part.to_ndarray()[0] for given in (frame, None) for part in resampler.resample(given)]
    return np.concatenate(parts).astype(np.float32, copy=False)


@dataclass(eq=False)
class _Sound:
    """The samples so far, each at the time that the container has for it."""

    path: Path | str
    resampler: Any
    parts: list[NDArray[np.float32]] = field(default_factory=list)
    samples: int = 0
    rate: int = 0
    start: float = 0.0

    def add(self, frame: Any | None) -> None:
        """Append a frame of sound, or what is left of the last one; silence where the container has none."""
        for part in self.resampler.resample(frame):
            mono = part.to_ndarray().mean(0, dtype=np.float32)
            if not self.rate:
                self.rate, self.start = part.sample_rate, part.time or 0.0
            gap = 0.0 if part.time is None else part.time - (self.start + self.samples / self.rate)
            if (self.samples + len(mono)) / self.rate + max(gap, 0.0) > LONGEST:
                raise BadClip(self.path, f"a clip must have at most {LONGEST:.0f} s of sound, got more. Cut it into sentences.")
            self.parts.append(np.pad(mono, (round(gap * self.rate) if gap > GAP else 0, 0)))
            self.samples += len(self.parts[-1])


def _checked(
    path: Path | str, frames: list[NDArray[np.uint8]], times: NDArray[np.float64], sound: _Sound, sense: Sense
) -> Decoded:
    """Frames and sound if those that are used can be; what is not used is blank if it cannot."""
    wrong = _wrong(frames, times)
    if wrong is not None and sense != "audio":
        raise BadClip(path, wrong)
    if not sound.samples and sense != "video":
        raise BadClip(path, f"a clip must have sound, got a stream without samples. {WITHOUT['audio']}")
    if wrong is not None:
        count = max(2, int(np.ceil(1000 * sound.samples / sound.rate / STEP)))
        ms = STEP * np.arange(count, dtype=np.float64)
        return Decoded(np.zeros((len(ms), *BLANK), np.uint8), ms, np.concatenate(sound.parts), sound.rate, 0.0)
    ms = np.round(1000 * (times - times[0]), 6)
    if not sound.samples:
        lasting = 2 * ms[-1] - ms[-2]
        return Decoded(np.stack(frames), ms, np.zeros(round(lasting * RATE / 1000), np.float32), RATE, 0.0)
    return Decoded(np.stack(frames), ms, np.concatenate(sound.parts), sound.rate, 1000 * (sound.start - times[0]))


def _wrong(frames: list[NDArray[np.uint8]], times: NDArray[np.float64]) -> str | None:
    """Why frames cannot be used, and the cure."""
    if len(frames) < 2:
        return f"a clip must have at least 2 frames, got {len(frames)}. Copy or record it again."
    if (np.diff(times) <= 0).any():
        late = int(np.argmax(np.diff(times) <= 0)) + 1
        return f"times of frames must increase, got {times[late]:.3f} s after {times[late - 1]:.3f} s. Copy it again."
    if len({frame.shape for frame in frames}) != 1:
        return "all frames of a clip must have one size, got several. Cut it where the size changes."
    return None
