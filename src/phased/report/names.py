"""What models, conditions and settings are called where people read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from phased.models.network import Network

MODELS = {"phased": "Phased LSTM", "bn-lstm": "BN-LSTM", "lstm": "LSTM"}
CONDITIONS = {
    "standard": "standard, every 1 ms",
    "high": "high resolution, every 0.1 ms",
    "asynchronous": "asynchronous",
    "superimposed": "two waves, asynchronous",
}
SHORT_CONDITIONS = {"high": "high resolution", "superimposed": "two waves"}
SETTINGS = {"ratio_on": "r_on", "peephole": "peepholes"}
NORMALISES = {"input": "normalises its input", "term": "normalises the input-to-hidden term"}
INITIAL = {"torch": "initial weights as torch's", "normal": "initial weights N(0, 0.1)"}
WAVES = {"paper": "waves as in the paper's text", "authors": "waves as in the authors' code"}
USUAL = {"period": Network().numbers()["period"], "peephole": False, "normalise": "input", "weights": "torch"}
LONGEST_SLUG = 80  # characters: a file's name has room for 255, with what is added to it


def model(name: str) -> str:
    """A model's name as the paper writes it."""
    return MODELS.get(name, name)


def condition(name: str, short: bool = False) -> str:
    """A condition in words; the adding task's are laws of the period."""
    law = re.fullmatch(r"exp\(([\d.]+),\s*([\d.]+)\)", name)
    if law:
        return f"period exp U({law[1]}, {law[2]})"
    return (SHORT_CONDITIONS if short else CONDITIONS).get(name, name)


def variant(settings: Mapping[str, Any]) -> str:
    """A few settings in words: what tells one group of runs from another of the same model."""
    left = dict(settings)
    words = []
    if "learn_ratio_on" in left:
        start = f" {number(left.pop('ratio_on'))}" if "ratio_on" in left else ""
        learned = left.pop("learn_ratio_on")
        words.append(f"r_on learned{' from' + start if start else ''}" if learned else f"r_on{start} fixed")
    words += [setting(key, value) for key, value in sorted(left.items()) if not _nothing(key, value)]
    return ", ".join(words)


def _nothing(key: str, value: Any) -> bool:
    """A setting that was not made, a cost of nothing, or what is as usual: not worth a word."""
    return value is None or ("cost" in key and value == 0) or (key in USUAL and value == USUAL[key])


def task(settings: Mapping[str, Any]) -> str:
    """Which version of the data, in words; the law of the waves' periods says it all."""
    law = settings.get("task.periods")
    if law is not None:
        return WAVES.get(str(law), f"waves: {law}")
    return variant({key.removeprefix("task."): value for key, value in settings.items()})


def setting(key: str, value: Any) -> str:
    """One setting in words."""
    if key == "normalise":
        return NORMALISES.get(str(value), f"normalises {value}")
    if key == "weights":
        return INITIAL.get(str(value), f"initial weights {value}")
    name = SETTINGS.get(key, key.replace("_", " ").replace(".", " "))
    if isinstance(value, bool):
        learned = re.fullmatch(r"learn (.*)", name)
        if learned:
            return f"{learned[1]} {'learned' if value else 'fixed'}"
        return name if value else f"no {name}"
    return f"{name} {number(value)}"


def number(value: Any) -> str:
    """A setting's value, short."""
    if isinstance(value, list | tuple):
        return "(" + ", ".join(number(item) for item in value) + ")"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def rounded(value: float) -> str:
    """Three digits, and never an exponent for what can be said without."""
    return f"{value:.0f}" if 100 <= value < 1e6 else f"{value:.3g}"


def seconds(value: float) -> str:
    """A time as a person would say it."""
    if value != value:
        return "unknown"
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min")):
        if value < limit:
            return f"{value / size:.3g} {unit}"
    return f"{value / 3600:.3g} h"


def counted(count: int, word: str) -> str:
    """'1 seed', '5 seeds'."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def slug(name: str) -> str:
    """A name made fit for a file or an address: letters, digits, points and dashes, and not too many."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[:LONGEST_SLUG].rstrip("-.") or "unnamed"
