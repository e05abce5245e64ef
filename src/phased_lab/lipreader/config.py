"""The configuration of a lip reader, `config.json`: sizes, scaling of the sound, times of words, and how it was trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from phased.model_folder import MOST, Format, Malformed
from phased_lab.clips.cepstrum import RESOLUTIONS
from phased_lab.lipreader.grammar import PLACES, Normal, Timing
from phased_lab.lipreader.inputs import Scaling
from phased_lab.lipreader.network import SOUND

FORMAT = Format(
    "phased lip reader",
    version=1,
    again="Pack the model again",
    cure="Name the folder of another model, or make it again with `phased pack`.",
)


@dataclass(frozen=True)
class About:
    """How a lip reader was trained and tested; nothing here changes its answers.

    Args:
        command: the command that trained it.
        data: the clips it was trained on.
        scores: its accuracies on other clips, by what was tested.
        versions: of the packages that trained it.
        date: when it was trained.
        tested: the clips that were not trained on and that the scores are of, such as "s1/bbaf2n".
    """

    command: str = ""
    data: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    date: str = ""
    tested: tuple[str, ...] = ()


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

    def fields(self) -> dict[str, Any]:
        """What `config.json` holds, except for format, version and digest."""
        timing = self.timing
        return {
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
            "tested": list(self.about.tested),
        }


def parse(found: Mapping[str, Any]) -> Config:
    """The configuration with these fields; `Malformed` if one of them is missing or wrong."""
    try:
        return _config(found)
    except Malformed:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Malformed(f"a field is missing or wrong ({error!r})") from error


def _config(found: Mapping[str, Any]) -> Config:
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
    tested = tuple(map(str, found.get("tested", ())))  # models from before there was a list have none
    about = About(str(found["command"]), str(found["data"]), scores, versions, str(found["date"]), tested)
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
