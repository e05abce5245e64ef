"""Lip reader from a finished run: its network, its timing of words, and its scores on the test clips."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from torch import Tensor

from phased_lab.clips import Clip, store
from phased_lab.clips.decoding import Sense
from phased_lab.lipreader import About, Config, LipReader, Timing
from phased_lab.lipreader.grammar import at_found_times
from phased_lab.paper.lipreading import data
from phased_lab.paper.lipreading.network import LipNetwork
from phased_lab.paper.lipreading.task import RATES, Sentences
from phased_lab.runs.record import Record

CALIBRATED = 150  # training clips on which the score of silence and the weight of outputs are chosen
SENSED: dict[Sense, str] = {"video": "video alone", "audio": "sound alone", "both": "video and sound"}
SILENCES, WEIGHTS = (-0.25, -0.5, -1.0, -1.5, -2.5), (0.05, 0.1, 0.2, 0.4)


def reader_of(record: Record, state: Mapping[str, Tensor], folder: str = "") -> LipReader:
    """The lip reader of a run with Phased LSTM layers. The clips of the run must be in the folder; "" for PHASED_DATA."""
    settings = record.settings
    if settings["model"] != "phased":
        raise ValueError(f"a lip reader must have Phased LSTM layers, got a run of '{settings['model']}'. Name another run.")
    of_task: dict[str, Any] = {
        name: tuple(x) if isinstance(x, list) else x for name, x in settings["task"].items() if name != "name"
    }
    task = Sentences(**of_task | {"folder": folder})
    loaded = task.load()
    count = len(loaded.parts.train)
    spans = loaded.clips.spans[:count].double().numpy()
    video, audio, merged, _ = settings["units"]
    about = About(
        record.command,
        f"{count:,} clips of GRID (Cooke et al. 2006): those of its speakers that were at hand, without a tenth for testing.",
        versions={str(name): str(version) for name, version in record.versions.items()},
        date=record.date,
        tested=tuple(loaded.parts.test),
    )
    config = Config(
        (video, audio, merged), 2, settings["normalised"], RATES[task.resolution], loaded.scaling, Timing.of(spans), about
    )
    reader = LipReader.of(config, parameters(settings, task, state))
    timing = calibrated(reader, clips_named(task, loaded.parts.train[:CALIBRATED]))
    reader = LipReader(replace(config, timing=timing), reader.network)
    about = replace(about, scores=scores(reader, clips_named(task, loaded.parts.test)))
    return LipReader(replace(reader.config, about=about), reader.network)


def parameters(settings: Mapping[str, Any], task: Sentences, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the parameters of a lip reader. Normalised inputs of layers are folded into the weights."""
    if not settings.get("layers_normalised"):
        return dict(state)
    known = {field.name: settings[field.name] for field in fields(LipNetwork) if field.name in settings}
    network: Any = LipNetwork(**known).build(task, 0)
    network.load_state_dict(state)
    folded: dict[str, Tensor] = network.folded().state_dict()
    return folded


def clips_named(task: Sentences, names: Iterable[str]) -> list[Clip]:
    """Prepared clips, by name."""
    folder = data.prepared_folder(task.folder)
    return [store.read(folder, name) for name in sorted(names)]


def calibrated(reader: LipReader, clips: Sequence[Clip]) -> Timing:
    """The score of silence and the weight of outputs with which most words are right, with video alone, when times are found."""
    followed = [reader.follow(clip, "video") for clip in clips]
    best, chosen = -1, reader.config.timing
    for silence in SILENCES:
        for weight in WEIGHTS:
            timing = reader.config.timing._replace(silence=silence, weight=weight)
            found = [at_found_times(outputs, time, timing).words for outputs, time in followed]
            right = sum(right_words(words, clip) for words, clip in zip(found, clips, strict=True))
            if right > best:
                best, chosen = right, timing
    return chosen


def scores(reader: LipReader, clips: Sequence[Clip]) -> dict[str, float]:
    """The share of words that are right, by what is sensed and whether the times of words are known."""
    found = {}
    for sense, sensed in SENSED.items():
        for known, about in ((True, "times of words known"), (False, "times of words found")):
            given = [clip if known else clip._replace(sentence=None) for clip in clips]
            right = [right_words(reader.read(clip, sense).words, truth) for clip, truth in zip(given, clips, strict=True)]
            found[f"words, {sensed}, {about}"] = float(np.sum(right)) / (6 * len(clips))
    return found


def right_words(words: Sequence[int], clip: Clip) -> int:
    """Return the number of words that agree with the clip's alignment."""
    assert clip.sentence is not None
    return int((np.array(words) == clip.sentence.words).sum())
