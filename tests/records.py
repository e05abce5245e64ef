"""Made-up records for tests: committed results with other seeds, fewer epochs and changed settings, in temporary folders."""

import html
import json
import re
import zlib
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phased_lab.report.seeds import Group, groups
from phased_lab.runs.folder import read
from phased_lab.runs.record import Record, flat, parse

COMMITTED = Path(__file__).parents[1] / "results"
MADE = {
    "versions": {"phased": "0.1.0", "torch": "2.13.0", "python": "3.11.7"},
    "machine": {"processor": "Made-up CPU, 2 cores", "device": "cpu"},
    "date": "2026-11-15",
}


@cache
def templates() -> dict[tuple[str, ...], dict[str, Any]]:
    """The committed record of the first seed of every line and bar, those of the paper's figures first."""
    if not COMMITTED.is_dir():
        pytest.skip("source packages have no results")
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for file in sorted(COMMITTED.glob("*.jsonl")):
        for line in map(json.loads, file.read_text().splitlines()):
            if line["scale"] == "paper":
                place = tuple(line[name] for name in ("experiment", "study", "data", "condition", "model", "variant"))
                found.setdefault(place, line)
    return dict(sorted(found.items(), key=lambda item: (item[0][1] != item[0][0], item[0][2] != "")))


def result(
    experiment: str = "frequency",
    model: str = "phased",
    condition: str = "asynchronous",
    seed: int = 0,
    scale: str = "paper",
    epochs: int = 12,
    end: float | None = None,
    study: str | None = None,
    variant: str | None = None,
    data: str | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """A record with these settings as a run would write it: the committed one with the most of them, changed where it differs."""
    wanted = flat(settings)
    if model == "phased" and experiment != "nmnist" and study is None:
        wanted = {"leak": 0.001} | wanted  # as in the paper

    def agreement(line: dict[str, Any]) -> tuple[bool, bool, int]:
        there = flat(line["settings"])
        return (
            line["study"] == study,
            line["data"] == (data or ""),
            sum(there.get(name) == value for name, value in wanted.items()),
        )

    same = {"experiment": experiment, "model": model, "condition": condition}
    line = max((each for each in templates().values() if same.items() <= each.items()), key=agreement)
    there = flat(line["settings"])
    changed = {name: value for name, value in wanted.items() if name in flat(settings) and there.get(name) != value}
    made = again(line, seed, epochs, end, sum(map(ord, json.dumps(changed, default=str))) if changed else 0)
    made["settings"] |= settings
    own = {"scale": scale, "study": study, "variant": variant, "data": data}
    return made | {name: value for name, value in own.items() if value is not None}


def again(line: dict[str, Any], seed: int, epochs: int = 12, end: float | None = None, other: int = 0) -> dict[str, Any]:
    """The record of another seed of a run, of fewer epochs; `other` is a number for changed settings."""
    made = deepcopy(line | MADE) | {"seed": seed, "name": line["name"].replace("-seed0", f"{other or ''}-seed{seed}")}
    random = np.random.default_rng([seed, zlib.crc32(made["name"].encode())])
    curve, last = made["curve"], made["curve"][-1]["test"]
    made["curve"] = [curve[place] for place in np.linspace(0, len(curve) - 1, epochs).round().astype(int)]
    for number, point in enumerate(made["curve"], 1):
        noise = 0.02 * point["test"] * random.normal()
        test = point["test"] + (0.0 if end is None else end - last) + noise
        point |= {
            "epoch": number,
            "test": float(np.clip(test, 1e-4, 1)),
            "seconds": 2.0 if line["settings"].get("leak") == 0 else 5.0,
        }
    for score in made.get("evaluations", {}).values():
        score["test"] -= 0.02 * random.random()
    made["wall"] = sum(point["seconds"] for point in made["curve"])
    made["settings"]["epochs"] = epochs
    return made


def put(folder: Path, *lines: dict[str, Any]) -> Path:
    """Each record into a file of its own, as runs do."""
    for line in lines:
        file = folder / line["experiment"] / f"{line['name']}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(line) + "\n")
    return folder


def records(*lines: dict[str, Any]) -> list[Record]:
    """These lines as they are read."""
    return [parse(json.dumps(line)) for line in lines]


def grouped(*lines: dict[str, Any]) -> list[Group]:
    """The groups of these lines."""
    return groups(records(*lines))


def reported(folder: Path, out: Path) -> list[Path]:
    """The page about a folder and its pictures."""
    from phased_lab.report.page import save_report  # slow to import, and not for all tests

    out.mkdir(parents=True, exist_ok=True)
    return save_report(*read(folder), folder, out)


def visible(page: str) -> str:
    """The text of a page for a reader, without charts and scripts."""
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)))


def everything(seeds: int = 5, epochs: int = 12) -> list[dict[str, Any]]:
    """Every line and bar of the committed results."""
    return [again(line, seed, epochs) for line in templates().values() for seed in range(seeds)]


def at_the_end(line: dict[str, Any]) -> float:
    """What a line's test came to: the mean of its last five epochs."""
    return sum(epoch["test"] for epoch in line["curve"][-5:]) / 5
