"""The configuration of a lip reader, `config.json`: sizes, scaling of the sound, times of words, and how it was trained."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from phased.data.clips.cepstrum import RESOLUTIONS
from phased.lipreader.grammar import PLACES, Normal, Timing
from phased.lipreader.inputs import Scaling
from phased.lipreader.network import SOUND

KIND = "phased lip reader"
VERSION = 1
MOST = 65_536  # units or layers; more would ask for memory that no network needs


class Malformed(ValueError):
    """A configuration is not one; the message says why."""


@dataclass(frozen=True)
class About:
    """How a lip reader was trained and tested; nothing here changes its answers.

    Args:
        command: the command that trained it.
        data: the clips it was trained on.
        scores: its accuracies on other clips, by what was tested.
        versions: of the packages that trained it.
        date: when it was trained.
    """

    command: str = ""
    data: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    date: str = ""


@dataclass(frozen=True, eq=False)
class Config:
    """What `config.json` holds, except for the digest.

    Args:
        units: of the video layer, the audio layer and each merged layer.
        layers: merged layers.
        normalised: whether the convolutions have batch normalisation.
        rate: rows of MFCCs a second.
        scaling: of the MFCCs.
        timing: when words are spoken.
        about: how it was trained.
    """

    units: tuple[int, int, int]
    layers: int
    normalised: bool
    rate: int
    scaling: Scaling
    timing: Timing
    about: About = About()

    def content(self) -> dict[str, Any]:
        """The entries of the file."""
        timing = self.timing
        return {
            "format": KIND,
            "version": VERSION,
            "units": list(self.units),
            "layers": self.layers,
            "normalised": self.normalised,
            "rate": self.rate,
            "time_unit": "ms",
            "mean": self.scaling.mean.tolist(),
            "deviation": self.scaling.deviation.tolist(),
            "begin": list(timing.begin),
            "durations": [list(normal) for normal in timing.durations],
            "silence": timing.silence,
            "weight": timing.weight,
            **asdict(self.about),
        }

    def text(self, parameters: bytes) -> str:
        """The JSON of `config.json`, with the SHA-256 of itself and the parameters."""
        content = self.content()
        return json.dumps({**content, "sha256": digest(content, parameters)}, indent=1, allow_nan=False) + "\n"


def digest(content: Mapping[str, Any], parameters: bytes) -> str:
    """The SHA-256 of a configuration, in any order and layout, and of the parameters."""
    kept = {key: value for key, value in content.items() if key != "sha256"}
    text = json.dumps(kept, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode() + b"\n" + parameters).hexdigest()


def parse(data: bytes) -> tuple[Config, dict[str, Any]]:
    """The configuration in a file, and its entries; `Malformed` if it is not one."""
    try:
        found = json.loads(data)
    except ValueError as error:
        raise Malformed(f"it is not JSON: {error}") from error
    if not isinstance(found, dict) or found.get("format") != KIND:
        raise Malformed(f"'format' must be '{KIND}'")
    if found.get("version") != VERSION:
        raise Malformed(f"'version' must be {VERSION}, got {found.get('version')!r}: another version of phased wrote it")
    try:
        return _config(found), found
    except (KeyError, TypeError) as error:
        raise Malformed(f"an entry is missing or of the wrong kind: {error}") from error


def _config(found: dict[str, Any]) -> Config:
    units = tuple(_whole(value) for value in found["units"])
    if len(units) != 3:
        raise Malformed(f"'units' must be three numbers, got {len(units)}")
    if found["rate"] not in RESOLUTIONS:
        raise Malformed(f"'rate' must be {' or '.join(map(str, RESOLUTIONS))}, got {found['rate']!r}")
    if not isinstance(found["normalised"], bool):
        raise Malformed("'normalised' must be true or false")
    mean, deviation = (torch.tensor([_number(value) for value in found[key]]) for key in ("mean", "deviation"))
    if mean.shape != (SOUND,) or deviation.shape != (SOUND,) or not bool((deviation > 0).all()):
        raise Malformed(f"'mean' and 'deviation' must be {SOUND} numbers, and deviations positive")
    durations = tuple(_normal(value) for value in found["durations"])
    if len(durations) != len(PLACES):
        raise Malformed(f"'durations' must be of {len(PLACES)} words, got {len(durations)}")
    timing = Timing(_normal(found["begin"]), durations, _number(found["silence"]), _number(found["weight"]))
    scores = {str(key): _number(value) for key, value in found["scores"].items()}
    versions = {str(key): str(value) for key, value in found["versions"].items()}
    about = About(str(found["command"]), str(found["data"]), scores, versions, str(found["date"]))
    first, second, third = units
    layers = _whole(found["layers"])
    return Config((first, second, third), layers, found["normalised"], found["rate"], Scaling(mean, deviation), timing, about)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
        raise Malformed(f"sizes must be whole numbers from 1 to {MOST}, got {value!r}")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Malformed(f"numbers must be finite, got {value!r}")
    return float(value)


def _normal(value: Any) -> Normal:
    mean, deviation = (_number(part) for part in value)
    if deviation <= 0:
        raise Malformed(f"a standard deviation must be positive, got {deviation}")
    return Normal(mean, deviation)
