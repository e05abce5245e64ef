"""The runs of every study at both scales: names, commands and settings are the same as in `all_runs.txt`.

A record belongs to a run only if these agree, so a change of the code must not change them. After an intended change, write the
file again: `PHASED_WRITE_RUNS=1 pytest tests/lab/paper/test_all_runs.py`.
"""

import json
import os
from hashlib import sha256
from itertools import product
from pathlib import Path

import pytest

from phased_lab.runs import discovery
from phased_lab.runs.run import Run
from phased_lab.runs.sweep import runs_of

GOLDEN = Path(__file__).with_name("all_runs.txt")
EVENT = bytes((3, 4, 0x80, 0, 1))  # one event of a camera in the format of N-MNIST
GONE = {"nmnist-readout", "nmnist-settled"}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory) -> Path:
    """A folder with a few recordings in the layout of N-MNIST."""
    folder = tmp_path_factory.mktemp("nmnist")
    for split, digit, number in product(("Train", "Test"), (0, 7), (1, 2, 3)):
        file = folder / split / str(digit) / f"{10 * digit + number:05}.bin"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(EVENT * number)
    return folder


def choices(name: str, recordings: Path) -> list[dict[str, str]]:
    """Options of a study that change its runs."""
    options = discovery.studies()[name].experiment.options
    if "periods" in options:
        return [{}, *({"periods": value} for value in options["periods"].values)]
    if "recordings" in options:
        data = {"data": str(recordings)}
        return [{}, data, *(data | {"recordings": value} for value in options["recordings"].values), data | {"skip_bad": "yes"}]
    return [{}]


def described(run: Run) -> str:
    """A line of the golden file."""
    parts = (
        run.experiment,
        run.study or run.experiment,
        run.condition,
        run.scale,
        run.network.model,
        run.variant,
        "-".join(filter(None, (run.tag, run.option_tag))),
        run.data,
        run.settings,
    )
    text = json.dumps((*parts, run.options, run.command), sort_keys=True)
    return f"{run.name} {sha256(text.encode()).hexdigest()[:16]}"


def lines(name: str, recordings: Path) -> list[str]:
    found = []
    for scale, options in product(("paper", "quick"), choices(name, recordings)):
        words = " ".join(f"{key}={'FOLDER' if key == 'data' else value}" for key, value in options.items())
        found.append(f"# {name} {scale} {words}".rstrip())
        found += [described(run) for run in runs_of(name, scale, (0, 3), options=options)]
    return found


def test_every_run_has_the_name_the_command_and_the_settings_that_it_had(recordings, tmp_path, monkeypatch):
    monkeypatch.setenv("PHASED_DATA", str(recordings))
    monkeypatch.setenv("PHASED_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found = [line for name in sorted(discovery.studies().keys() - GONE) for line in lines(name, recordings)]
    if os.environ.get("PHASED_WRITE_RUNS"):
        GOLDEN.write_text("\n".join(found) + "\n")
    assert found == GOLDEN.read_text().splitlines()
