"""Made-up records for tests: shaped like those of real runs, written to temporary folders only."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from phased_lab.runs.folder import read
from phased_lab.runs.network import NetworkConfig
from phased_lab.runs.record import SCHEMA, WITHOUT_EVALUATIONS, Record, parse

UNITS = 110
PHASED = {
    "leak": 0.001,
    "ratio_on": 0.05,
    "learn_ratio_on": True,
    "openness_cost": 0.0,
    "period": NetworkConfig().settings()["period"],
}
# Where each model ends, and how fast it gets there.
ENDS = {
    ("frequency", "phased", "standard"): (0.991, 12),
    ("frequency", "phased", "high"): (0.995, 10),
    ("frequency", "phased", "asynchronous"): (0.985, 14),
    ("frequency", "bn-lstm", "standard"): (0.98, 20),
    ("frequency", "bn-lstm", "high"): (0.62, 30),
    ("frequency", "bn-lstm", "asynchronous"): (0.74, 30),
    ("frequency", "lstm", "standard"): (0.89, 25),
    ("frequency", "lstm", "high"): (0.52, 30),
    ("frequency", "lstm", "asynchronous"): (0.69, 30),
    ("superimposed", "phased", "superimposed"): (0.94, 20),
    ("superimposed", "bn-lstm", "superimposed"): (0.58, 40),
    ("superimposed", "lstm", "superimposed"): (0.53, 40),
    ("adding", "phased", "exp(0,2)"): (0.08, 60),
    ("adding", "phased", "exp(2,4)"): (0.06, 50),
    ("adding", "phased", "exp(4,6)"): (0.02, 30),
    ("adding", "phased", "exp(6,8)"): (0.003, 15),
    ("nmnist", "cnn", "simulated"): (0.975, 5),
    ("nmnist", "bn-lstm", "simulated"): (0.97, 25),
    ("nmnist", "phased", "simulated"): (0.985, 8),
    ("nmnist", "phased", "both"): (0.984, 8),
    ("lipreading", "lstm", "high"): (0.8, 30),
    ("lipreading", "bn-lstm", "high"): (0.82, 25),
    ("lipreading", "phased", "high"): (0.86, 20),
    ("lipreading", "lstm", "low"): (0.81, 25),
    ("lipreading", "bn-lstm", "low"): (0.83, 22),
    ("lipreading", "phased", "low"): (0.85, 18),
}
EVENTS = 4100.0  # of a recording


def made_up(
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
    """One record as a run would write it, out of a random generator; its place is that of a real run with these settings."""
    random = np.random.default_rng([seed, *map(ord, experiment + model + condition + json.dumps(settings))])
    last, speed = ENDS[experiment, model, condition]
    last = last if end is None else end
    start = 1 / 6 if experiment == "adding" else 0.5
    steps = np.arange(1, epochs + 1) * 70 / epochs
    noise = (0.03 if model == "phased" else 0.12) * abs(last - start) * random.normal(size=epochs)
    test = start + (last - start) * (1 - np.exp(-steps / speed)) + noise
    test[-1] = last + 0.2 * noise[-1]
    test = np.clip(test, 1e-4, 1.0)
    own = PHASED | ({"learn_ratio_on": False} if experiment in {"adding", "nmnist"} else {})
    if experiment == "nmnist":
        own, settings = own | {"leak": 0.0}, {"schedule": "one-cycle", "train": 60_000, "test": 10_000} | settings
    if experiment == "lipreading":
        own, settings = own | {"leak": 0.0, "ratio_on": 0.5}, {"schedule": "one-cycle", "train": 1603, "test": 178} | settings
    settings = {"epochs": epochs, "batch": 32, "units": UNITS, "lr": 1e-3} | (own if model == "phased" else {}) | settings
    share = None
    gates: dict[str, Any] = {}
    if model == "phased":
        low, high = (0, 3) if not condition.startswith("exp") else map(float, condition[4:-1].split(","))
        period = np.exp(random.uniform(low, high, UNITS))
        ratio = np.full(UNITS, settings["ratio_on"])
        after = np.clip(ratio + random.gamma(3, 0.05, UNITS), 0, 1) if settings["learn_ratio_on"] else ratio
        after = after / (1 + 20 * settings["openness_cost"])
        share = float(after.mean())
        shift = random.uniform(0, period)
        gates = {
            "period": {"before": period.tolist(), "after": (period * np.exp(0.1 * random.normal(size=UNITS))).tolist()},
            "ratio_on": {"before": ratio.tolist(), "after": after.tolist()},
            "shift": {"before": shift.tolist(), "after": (shift + 0.1 * random.normal(size=UNITS)).tolist()},
        }
    seconds = 2.0 if settings.get("leak") == 0 else 5.0
    place = place_of(experiment, model, settings)
    study, variant, data = (place[n] if given is None else given for n, given in enumerate((study, variant, data)))
    evaluations = {}
    if experiment == "nmnist":
        for name, rho in (("rho 0.4", 0.4), ("rho 0.75", 0.75), ("rho 1", 1.0), ("real, rho 1", 1.0)):
            evaluations[name] = {"test": float(test[-1]) - (1 - rho) / 20, "sequences": 100, "steps": rho * EVENTS}
            evaluations[name]["updates"] = share
    if experiment == "lipreading":
        for sense, more in (("video", 0.0), ("audio", 0.12), ("both", 0.13)):
            score = {"test": float(test[-1]) + more, "sequences": 178, "steps": 373.0, "updates": share}
            evaluations[sense] = score | {"loss": 0.5 - more, "whole": float(test[-1]) ** 6}
    parts = (experiment, condition, model, variant.replace(" ", ""), data, f"seed{seed}", "" if scale == "paper" else scale)
    return {
        "schema": SCHEMA if evaluations else WITHOUT_EVALUATIONS,
        **({"evaluations": evaluations} if evaluations else {}),
        "experiment": experiment,
        "study": study,
        "variant": variant,
        "data": data,
        "name": "-".join(filter(None, parts)),
        "model": model,
        "condition": condition,
        "scale": scale,
        "seed": seed,
        "settings": settings,
        "curve": [
            {"epoch": i + 1, "loss": float(abs(1 - value)), "test": float(value), "seconds": seconds, "updates": share}
            | ({"test_loss": 4 * float(abs(1 - value))} if experiment == "lipreading" else {})
            for i, value in enumerate(test)
        ],
        "wall": seconds * epochs,
        "updates": share,
        **({"gates": gates} if gates else {}),
        "versions": {"phased": "0.1.0", "torch": "2.13.0", "python": "3.11.7"},
        "machine": {"processor": "Made-up CPU, 2 cores", "device": "cpu"},
        "date": "2026-11-15",
        "command": f"phased run {study} --scale {scale}",
    }


def place_of(experiment: str, model: str, settings: dict[str, Any]) -> tuple[str, str, str]:
    """Study, variant and data of a real run with such settings."""
    task = settings.get("task")
    data = "authors" if isinstance(task, dict) and task.get("periods") == "authors" else ""
    if experiment == "nmnist":
        return experiment, f"r_on {settings['ratio_on']:g}" if model == "phased" else "", data
    if experiment == "lipreading":
        return experiment, f"r_on learned from {settings['ratio_on']:g}" if model == "phased" else "", data
    if experiment != "frequency":
        return experiment, f"leak {settings['leak']:g}" if model == "phased" else "", data
    beyond = {
        "sparsity": settings.get("learn_ratio_on") is False or settings.get("openness_cost", 0.0) > 0,
        "ranges": settings.get("period", PHASED["period"]) != PHASED["period"],
        "peepholes": settings.get("peephole") is True,
        "weights": settings.get("weights") == "normal",
        "normalisation": settings.get("normalise") == "term",
    }
    study = next((name for name, of_it in beyond.items() if of_it), experiment)
    normal = "initial weights N(0, 0.1)" if beyond["weights"] else ""
    if model != "phased":
        return study, "normalises the input-to-hidden term" if beyond["normalisation"] else normal, data
    if study == experiment:
        return study, f"leak {settings['leak']:g}", data
    ratio, leak = f"{settings['ratio_on']:g}", f"leak {settings['leak']:g}"
    if not settings["learn_ratio_on"]:
        return study, f"r_on {ratio} fixed, {leak}", data
    words = [f"r_on learned from {ratio}", leak]
    words += [f"openness cost {settings['openness_cost']:g}"] if settings["openness_cost"] else []
    words += [f"period {settings['period']}"] if beyond["ranges"] else []
    words += ["peepholes"] if beyond["peepholes"] else []
    return study, ", ".join(filter(None, [*words, normal])), data


def write(folder: Path, *lines: dict[str, Any]) -> Path:
    """Each record into a file of its own, as runs do."""
    for line in lines:
        file = folder / line["experiment"] / f"{line['name']}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(line) + "\n")
    return folder


def records(*lines: dict[str, Any]) -> list[Record]:
    """These lines as they are read."""
    return [parse(json.dumps(line)) for line in lines]


def page_of(folder: Path, out: Path) -> Path:
    """The page about what lies in a folder."""
    from phased_lab.report.html.page import save_page  # slow to import, and not for all tests

    out.mkdir(parents=True, exist_ok=True)
    return save_page(read(folder), folder, out)


def everything(seeds: int = 5, epochs: int = 12) -> list[dict[str, Any]]:
    """Every figure and table of the paper, leak 0 beside the paper's, and the studies of open ratios."""
    lines = []
    for place in ENDS:
        leaks = ({}, {"leak": 0.0}) if place[1] == "phased" and place[0] not in {"nmnist", "lipreading"} else ({},)
        leaks = ({"study": "nmnist-real"},) if place[2] == "both" else leaks
        lines += [made_up(*place, seed, epochs=epochs, **leak) for seed in range(seeds) for leak in leaks]
    sweep = {0.05: 0.9, 0.1: 0.947, 0.2: 0.972}
    for seed in range(seeds):
        lines += [
            made_up(seed=seed, epochs=epochs, leak=0.0, learn_ratio_on=False, ratio_on=r, end=end) for r, end in sweep.items()
        ]
        lines += [made_up(seed=seed, epochs=epochs, leak=0.0, openness_cost=cost, end=0.986) for cost in (0.1,)]
        digits = {"experiment": "nmnist", "condition": "simulated", "study": "nmnist-ratios", "seed": seed, "epochs": epochs}
        lines += [made_up(**digits, ratio_on=r, end=end) for r, end in {0.02: 0.96, 0.1: 0.988, 0.2: 0.989}.items()]
    return lines
