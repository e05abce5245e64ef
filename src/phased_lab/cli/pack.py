"""`phased pack`: makes a model for `phased classify` or `phased lipread` from the checkpoint of a finished run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from phased.classifier import Classifier, Score
from phased.cli.classify import Recordings
from phased.cli.errors import print_line
from phased.model_folder import check_free
from phased_lab.runs import discovery
from phased_lab.runs.folder import read
from phased_lab.runs.record import Record
from phased_lab.runs.run import state_of


def pack(console: Console, name: str, results: Path, out: Path, test: Path | None, data: Path | None) -> None:
    """Write the model of a run to a folder, with its scores.

    `test` is a folder of recordings to measure it on, `data` the folder that the run had.
    """
    check_free(out, [folder for folder in (results, test, data) if folder is not None])
    record = find(name, results)
    state = state_of(record, results)
    make = discovery.experiment(record.experiment).pack
    if make is None:
        raise ValueError(f"there is no command that would use the network of '{name}'. Name a run of {' or '.join(packable())}.")
    with console.status("measuring"):
        model = make(record, state, "" if data is None else str(data))
        if test is not None:
            model = tested(console, model, test)
        model.save(out)
    print_line(console, f"  {out}")


def packable() -> list[str]:
    """The experiments whose networks can be packed."""
    return [name for name, experiment in discovery.experiments().items() if experiment.pack is not None]


def find(name: str, results: Path) -> Record:
    """The record of a run; a ValueError with the names of others if there is none."""
    records = read(results).records
    found = [record for record in records if record.name == name]
    if not found:
        others = ", ".join(sorted({record.name for record in records if record.experiment in packable()})) or "none"
        raise ValueError(f"there is no result of a run '{name}' in '{results}'. Those of {' and '.join(packable())}: {others}.")
    return max(found, key=lambda record: record.date)


def tested(console: Console, model: Any, folder: Path) -> Classifier:
    """The classifier with its accuracy on recordings of a camera, in one folder per class."""
    if not isinstance(model, Classifier):
        raise ValueError("--test takes recordings of a camera, for a network that classifies them. Leave it out.")
    total = Recordings(model, console=Console(quiet=True), errors=console)
    total.all([folder])
    if total.known != total.answered:
        raise ValueError(f"'{folder}' must have one folder per class, named {', '.join(model.classes)}.")
    score = Score(total.right / total.known, total.known, f"recordings in {folder.name}", simulated=False)
    return model.described(replace(model.config.about, scores=(*model.config.about.scores, score)))
