"""Made-up results for the tests of the report: shaped like real ones, written to temporary folders only."""

import json
from pathlib import Path

import numpy as np
import pytest

from phased.models.network import Network

UNITS = 110
PHASED = {"leak": 0.001, "ratio_on": 0.05, "learn_ratio_on": True, "openness_cost": 0.0, "period": Network().numbers()["period"]}
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
}


def made_up(
    experiment="frequency", model="phased", condition="asynchronous", seed=0, scale="paper", epochs=12, end=None, **settings
):
    """One result as a run would write it, out of a random generator."""
    random = np.random.default_rng([seed, *map(ord, experiment + model + condition + json.dumps(settings))])
    last, speed = ENDS[experiment, model, condition]
    last = last if end is None else end
    start = 1 / 6 if experiment == "adding" else 0.5
    steps = np.arange(1, epochs + 1) * 70 / epochs
    noise = (0.03 if model == "phased" else 0.12) * abs(last - start) * random.normal(size=epochs)
    test = start + (last - start) * (1 - np.exp(-steps / speed)) + noise
    test[-1] = last + 0.2 * noise[-1]
    test = np.clip(test, 1e-4, 1.0)
    settings = {"epochs": epochs, "batch": 32, "units": UNITS, "lr": 1e-3} | (PHASED if model == "phased" else {}) | settings
    share = None
    gates = {}
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
    words = "".join(f"-{key}{value}" for key, value in settings.items() if key in PHASED and value != PHASED[key])
    return {
        "experiment": experiment,
        "name": f"{experiment}-{condition}-{model}{words}-seed{seed}",
        "model": model,
        "condition": condition,
        "scale": scale,
        "seed": seed,
        "settings": settings,
        "curve": [
            {"epoch": i + 1, "loss": float(abs(1 - value)), "test": float(value), "seconds": seconds, "updates": share}
            for i, value in enumerate(test)
        ],
        "wall": seconds * epochs,
        "updates": share,
        "gates": gates or None,
        "versions": {"phased": "0.1.0", "torch": "2.13.0", "python": "3.11.7"},
        "machine": {"processor": "Made-up CPU, 2 cores", "device": "cpu"},
        "date": "2026-11-15",
        "command": f"phased run {experiment} --scale {scale}",
    }


def write(folder: Path, *lines: dict) -> Path:
    """Each result into a file of its own, as runs do."""
    for line in lines:
        file = folder / line["experiment"] / f"{line['name']}-{line['scale']}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(line) + "\n")
    return folder


def everything(seeds=5, epochs=12) -> list[dict]:
    """Every figure of the paper, leak 0 beside the paper's, and a sweep over open ratios."""
    lines = []
    for place in ENDS:
        leaks = ({}, {"leak": 0.0}) if place[1] == "phased" else ({},)
        lines += [made_up(*place, seed, epochs=epochs, **leak) for seed in range(seeds) for leak in leaks]
    sweep = {0.05: 0.9, 0.1: 0.947, 0.2: 0.972}
    for seed in range(seeds):
        lines += [
            made_up(seed=seed, epochs=epochs, leak=0.0, learn_ratio_on=False, ratio_on=r, end=end) for r, end in sweep.items()
        ]
        lines += [made_up(seed=seed, epochs=epochs, leak=0.0, openness_cost=cost, end=0.986) for cost in (0.1,)]
    return lines


@pytest.fixture
def result():
    """The maker of single results."""
    return made_up


@pytest.fixture
def put():
    """The writer of results into a folder."""
    return write


@pytest.fixture(scope="session")
def all_lines() -> list[dict]:
    return everything()


@pytest.fixture(scope="session")
def full_folder(tmp_path_factory, all_lines) -> Path:
    return write(tmp_path_factory.mktemp("results"), *all_lines)


@pytest.fixture
def at_the_end():
    """What a line's test came to: the mean of its last five epochs."""

    def mean(line):
        last = [epoch["test"] for epoch in line["curve"][-5:]]
        return sum(last) / len(last)

    return mean
