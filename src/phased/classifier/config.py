"""The configuration of a classifier, `config.json`: its sizes, its classes, and how it was trained and tested."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, TypeVar

from phased import files
from phased.cell import CELLS
from phased.classifier.network import Sizes
from phased.data.recordings import Sensor
from phased.gate import SHAPES

KIND = "phased event classifier"
VERSION = 1
TIME_UNIT = "ms"
MOST = 65_536
"""The most pixels in a row, units, layers or classes: a file with more asks for memory that no classifier needs."""

T = TypeVar("T")


class Malformed(ValueError):
    """A configuration is not one; the message says why."""


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

    def text(self, parameters: bytes) -> str:
        """The JSON of `config.json`, with the SHA-256 of itself and the parameters."""
        sizes = self.sizes._asdict() | {"sensor": list(self.sizes.sensor)}
        del sizes["outputs"]
        scores = [score._asdict() for score in self.about.scores]
        about = asdict(self.about) | {"scores": scores, "versions": dict(self.about.versions)}
        head = {"format": KIND, "version": VERSION, **sizes, "classes": list(self.classes), "time_unit": TIME_UNIT}
        content = {**head, **about}
        return json.dumps({**content, "sha256": digest(content, parameters)}, indent=1, allow_nan=False) + "\n"


def digest(content: Mapping[str, Any], parameters: bytes) -> str:
    """The SHA-256 of a configuration, in any order and layout, and of the parameters, whose shapes do not fix all of it."""
    fields = {name: value for name, value in content.items() if name != "sha256"}
    return files.digest(json.dumps(fields, sort_keys=True).encode() + b"\n" + parameters).decode()


def parse(text: bytes) -> tuple[Config, dict[str, Any]]:
    """The configuration in the content of a `config.json`, and all its fields; `Malformed` if it is none of this version."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed("it must be JSON, and is cut off or damaged") from error
    if not isinstance(found, dict) or found.get("format") != KIND:
        raise Malformed(f"its 'format' must be '{KIND}', and it is of another kind")
    version = _get(found, "version", int)
    if version != VERSION:
        cure = "Upgrade phased" if version > VERSION else "Pack the model again"
        raise Malformed(f"its 'version' must be {VERSION}, got {version}. {cure}")
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
    )
    _get(found, "sha256", str)
    return Config(sizes, classes, _about(found)), found


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
