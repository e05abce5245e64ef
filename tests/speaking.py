"""Made-up clips for tests: each word has a picture and a sound of its own."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from phased_lab.clips import SLOTS, WORDS, store
from phased_lab.clips.cepstrum import RESOLUTIONS, Mfcc
from phased_lab.clips.clip import Clip
from phased_lab.clips.words import Sentence
from phased_lab.lipreader import About, Config, LipReader, Scaling, Timing
from phased_lab.lipreader.network import phased_network

FRAMES, STEP = 25, 40
CLIPS = 12  # of each of two speakers


def made_up(seed: int, damaged: bool = False) -> Clip:
    """A clip of a second, with six words of 120 ms between 200 and 920 ms."""
    random = np.random.default_rng(seed)
    choices = [random.integers(2) for _ in SLOTS]  # of the first two words of each slot
    words = np.array([WORDS.index(slot[choice]) for slot, choice in zip(SLOTS, choices, strict=True)])
    spans = np.array([[200.0 + 120 * n, 320.0 + 120 * n] for n in range(6)], np.float32)
    time = np.arange(FRAMES, dtype=np.float32) * STEP
    frames = np.full((FRAMES, 48, 48), 110, np.uint8)
    for word, (begin, end) in zip(words, spans, strict=True):
        inside = (time > begin) & (time <= end)
        frames[inside, 4 * (word % 12) : 4 * (word % 12) + 8, 4 * (word // 12) : 4 * (word // 12) + 24] = 220
    rows = {}
    for rate, resolution in RESOLUTIONS.items():
        first = 2
        ends = (first + np.arange(int(1000 / resolution.hop) - first)) * resolution.hop
        values = 0.1 * random.standard_normal((len(ends), 13)).astype(np.float32)
        for word, (begin, end) in zip(words, spans, strict=True):
            values[(ends > begin) & (ends <= end), word % 13] += 3 + word // 13
        rows[rate] = Mfcc(values, first)
    return Clip(frames, time, rows, Sentence(words, spans), 50.0 if damaged else 2.0)


def shortened(clip: Clip, frames: int) -> Clip:
    """The first frames of a clip and the sound with them, without an alignment."""
    rows = {
        rate: Mfcc(rows.values[: frames * STEP * rate // 1000 + 1 - rows.first], rows.first) for rate, rows in clip.mfcc.items()
    }
    return clip._replace(frames=clip.frames[:frames], time=clip.time[:frames], mfcc=rows, sentence=None)


def write_clips(folder: Path) -> Path:
    """Prepared clips of two speakers: 23 whole ones and a damaged one."""
    pytest.importorskip("cv2", reason="OpenCV is not installed: pip install 'phased[video]'")
    jump = {}
    for speaker in (1, 2):
        for number in range(CLIPS):
            name, clip = f"s{speaker}/clip{number:02}", made_up(100 * speaker + number, damaged=(speaker, number) == (2, 3))
            store.write(folder, name, clip)
            jump[name] = clip.jump
    store.write_list(folder, jump)
    return folder


@cache
def untrained(rate: int = 100) -> LipReader:
    """A lip reader with a small network, with parameters as they are stored."""
    spans = np.stack([made_up(seed).sentence.spans for seed in range(3)])
    scores, tested = {"words, video alone": 0.5}, ("s1/bbaf2n", "s3/lgbx9s")
    about = About("phased run lipreading", "Made-up clips.", scores, {"phased": "0.1.0"}, "2026-11-16", tested)
    config = Config((6, 7, 8), 2, True, rate, Scaling(torch.zeros(39), torch.ones(39)), Timing.of(spans), about)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = phased_network(config.units, config.layers, len(WORDS), normalised=True)
    return LipReader.of(config, network.state_dict())
