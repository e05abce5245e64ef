"""The configuration of a classifier, `config.json`: its sizes, its classes, and how it was trained and tested."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, TypeVar

from phased.cell import CELLS
from phased.classifier.network import Sizes
from phased.data.recordings import Sensor
from phased.gate import SHAPES
from phased.model_folder import MOST, Format, Malformed

FORMAT = Format(
    "phased event classifier",
    version=1,
    again="Pack the model again",
    cure="Name the folder of another model, or make it again with `phased pack`.",
)
TIME_UNIT = "ms"

T = TypeVar("T")


class Score(NamedTuple):
    """The share of recordings that are classified correctly."""

    accuracy: float
    recordings: int
    about: str  # which recordings: "recorded by a camera, test set"
    simulated: bool  # made by the event camera in software, not recorded


@dataclass(frozen=True)
class About:
    """How a classifier was trained and tested; nothing here changes its answers.

    Args:
        command: the command that trained it.
        data: the recordings it was trained on.
        scores: its accuracy on recordings that were not used in training.
        longest: the duration of the longest recordings that it was tested on, in ms; None if that is not known.
        versions: of the packages that trained it.
        date: when it was trained.
    """

    command: str = ""
    data: str = ""
    scores: tuple[Score, ...] = ()
    longest: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    date: str = ""


@dataclass(frozen=True)
class Config:
    """What `config.json` holds, except for the digest."""

    sizes: Sizes
    classes: tuple[str, ...]
    about: About = About()

    def fields(self) -> dict[str, Any]:
        """What `config.json` holds, except for format, version and digest."""
        sizes = self.sizes._asdict() | {"sensor": list(self.sizes.sensor)}
        del sizes["outputs"]
        scores = [score._asdict() for score in self.about.scores]
        about = asdict(self.about) | {"scores": scores, "versions": dict(self.about.versions)}
        return {**sizes, "classes": list(self.classes), "time_unit": TIME_UNIT, **about}


def parse(found: Mapping[str, Any]) -> Config:
    """The configuration with these fields; `Malformed` if one of them is missing or wrong."""
    if found.get("time_unit") != TIME_UNIT:
        raise Malformed(f"its 'time_unit' must be '{TIME_UNIT}', got {found.get('time_unit')!r}")
    classes = tuple(_texts(found, "classes"))
    if len(classes) < 2 or len(set(classes)) < len(classes):
        raise Malformed(f"its 'classes' must be at least two different names, got {list(classes)}")
    sensor = _get(found, "sensor", list)
    if len(sensor) != 2:
        raise Malformed(f"its 'sensor' must be width and height, got {sensor!r}")
    width, height = (_size({"sensor": side}, "sensor") for side in sensor)
    sizes = Sizes(
        Sensor(width, height),
        _size(found, "embedding"),
        _choice(found, "cell", tuple(CELLS)),
        _size(found, "units"),
        _size(found, "layers"),
        len(classes),
        _choice(found, "gate", SHAPES),
        _get(found, "bias", bool),
        _get(found, "peephole", bool),
        # Models from before there was a choice have neither.
        _get({"mean": False, **found}, "mean", bool),
        _get({"hidden": 0, **found}, "hidden", int) and _size(found, "hidden"),
    )
    return Config(sizes, classes, _about(found))


def _about(found: Mapping[str, Any]) -> About:
    scores = tuple(_score(score) for score in _get(found, "scores", list))
    longest = None if found.get("longest") is None else _number(found, "longest", math.inf)
    versions = {str(name): str(version) for name, version in _get(found, "versions", dict).items()}
    text = {name: _get(found, name, str) for name in ("command", "data", "date")}
    return About(**text, scores=scores, longest=longest, versions=versions)


def _score(found: Any) -> Score:
    if not isinstance(found, dict):
        raise Malformed(f"its 'scores' must be objects, got {found!r}")
    recordings = _get(found, "recordings", int)
    return Score(_number(found, "accuracy", 1.0), recordings, _get(found, "about", str), _get(found, "simulated", bool))


def _get(found: Mapping[str, Any], key: str, kind: type[T]) -> T:
    """A field of this type."""
    if key not in found:
        raise Malformed(f"it must have a '{key}', and has none")
    value = found[key]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):  # in Python a bool is an int
        raise Malformed(f"its '{key}' must be of type {kind.__name__}, got {type(value).__name__}")
    return value


def _texts(found: Mapping[str, Any], key: str) -> list[str]:
    return [_get({key: value}, key, str) for value in _get(found, key, list)]


def _choice(found: Mapping[str, Any], key: str, choices: tuple[str, ...]) -> str:
    value = _get(found, key, str)
    if value not in choices:
        raise Malformed(f"its '{key}' must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def _size(found: Mapping[str, Any], key: str) -> int:
    value = _get(found, key, int)
    if not 1 <= value <= MOST:
        raise Malformed(f"its '{key}' must be from 1 to {MOST}, got {value}")
    return value


def _number(found: Mapping[str, Any], key: str, high: float) -> float:
    value = found.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= high or not math.isfinite(value):
        raise Malformed(f"its '{key}' must be a number from 0 to {high:g}, got {value!r}")
    return float(value)
