"""Tiny clips and alignments in files, for tests."""

from fractions import Fraction
from pathlib import Path

import numpy as np

FRAMES, STEP, HEIGHT, WIDTH = 24, 40, 64, 96
SAMPLES = 640  # of a part of the sound: 40 ms


def write_video(
    path: Path, frames: int = FRAMES, sound: float | None = FRAMES * STEP / 1000, starts: tuple[int, int] = (0, 0)
) -> Path:
    """A clip of noise that changes slowly; `sound` in seconds, `starts` of video and sound in ms."""
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(len(path.stem))
    picture = random.integers(60, 200, (HEIGHT // 8, WIDTH // 8)).astype(np.uint8).repeat(8, 0).repeat(8, 1)
    with av.open(str(path), "w") as container:
        video = container.add_stream("mpeg4", rate=25, width=WIDTH, height=HEIGHT, pix_fmt="yuv420p")
        video.codec_context.time_base = Fraction(1, 1000)
        audio = container.add_stream("pcm_s16le", rate=16000, layout="mono") if sound is not None else None
        samples = (3000 * random.standard_normal(round(16000 * (sound or 0)))).astype(np.int16)
        for number in range(max(frames, -(-len(samples) // SAMPLES))):
            if number < frames:
                frame = av.VideoFrame.from_ndarray(picture + np.uint8(number % 3), format="gray").reformat(format="yuv420p")
                frame.pts, frame.time_base = starts[0] + number * STEP, Fraction(1, 1000)
                container.mux(video.encode(frame))
            if audio is not None and number * SAMPLES < len(samples):
                heard = samples[None, number * SAMPLES : (number + 1) * SAMPLES]
                part = av.AudioFrame.from_ndarray(heard, format="s16", layout="mono")
                part.sample_rate, part.time_base = 16000, Fraction(1, 16000)
                part.pts = starts[1] * 16 + number * SAMPLES
                container.mux(audio.encode(part))
        container.mux(video.encode())
        if audio is not None:
            container.mux(audio.encode())
    return path


def write_alignment(path: Path, words: str = "bin blue at f two now", begin: int = 100, step: int = 100) -> Path:
    """Six words, each of `step` ms, between two pauses."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ends = [begin + step * number for number in range(7)]
    lines = [f"0 {25 * begin} sil"]
    lines += [f"{25 * first} {25 * last} {word}" for first, last, word in zip(ends, ends[1:], words.split(), strict=False)]
    path.write_text("\n".join([*lines, f"{25 * ends[-1]} {25 * (ends[-1] + 50)} sil", ""]))
    return path
