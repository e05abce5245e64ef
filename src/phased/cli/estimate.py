"""`phased fit`, `phased predict` and `phased score`: a model of the user's own table."""

from __future__ import annotations

import csv
import io
import json
import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from phased import check, files
from phased.cli.cures import of_labels
from phased.cli.errors import uninterrupted
from phased.cli.own_data import Labels, Table
from phased.estimator import Events, PhasedClassifier, PhasedRegressor
from phased.estimator.report import Report
from phased.estimator.saved import finished, read
from phased.estimator.training import check_checkpoint
from phased.model_folder import check_free

TASKS = ("auto", "classes", "numbers")


def read_table(
    table: Table, source: Path, like: Any = None, static: list[str] | None = None, missing: Sequence[str] = ()
) -> tuple[Events, Any]:
    """Return the sequences of a file or folder, read as `like` was, and the times of their steps as the table has them."""
    roles = {"id": table.id, "time": table.time, "variable": table.variable, "value": table.value}
    how: dict[str, Any] = {"unit": table.unit, "merge": table.merge, "drop": tuple(table.drop or ())}
    return Events.read_with_times(source, roles, static=static, missing=marks(missing), like=like, **how)


def with_targets(labels: Labels, events: Events) -> tuple[Events, Any]:
    """Return the sequences, which remember the named columns for later tables, and their targets."""
    named = {"id": labels.labels_id, "target": labels.target, "time": labels.labels_time}
    remembered = {**events.settings.labels, **{role: name for role, name in named.items() if name}}
    if labels.labelled and "time" in remembered:
        raise ValueError("--labelled is for a target per sequence. Leave out --labelled, or fit without --labels-time.")
    events = replace(events, settings=replace(events.settings, labels=remembered))
    try:
        if labels.labelled:
            return events.labelled(labels.labels, id=labels.labels_id, target=labels.target)
        return events, events.labels(labels.labels, **named)
    except ValueError as error:
        raise ValueError(of_labels(str(error))) from error


def marks(texts: Sequence[str]) -> Any:
    """Numbers that stand for "not known", from options such as "Height=-1", or "-999" for all variables."""
    if not texts:
        return None
    found: dict[str, list[float]] = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            mark = float(number)
        except ValueError:
            mark = math.nan
        if not math.isfinite(mark):
            raise ValueError(f"--missing must be NAME=NUMBER or NUMBER with a finite number, such as Height=-1, got '{text}'.")
        found.setdefault(name or "*", []).append(mark)
    return found["*"] if found.keys() == {"*"} else found


def fit(
    source: Path,
    labels: Labels,
    out: Path,
    table: Table,
    static: list[str] | None,
    missing: Sequence[str],
    task: str,
    options: dict[str, Any],
) -> tuple[Report, Path]:
    """Train a model on a table and write it to a folder, or beside a finished model if the training was stopped."""
    check.choice("--task", task, TASKS)
    check_folders(source, labels, out, options["checkpoint"])  # before the training, which may take long
    events, y = with_targets(labels, read_table(table, source, None, static, missing)[0])
    numbers = task == "numbers" or (task == "auto" and fractions(y))
    kind: Any = PhasedRegressor if numbers else PhasedClassifier
    model = kind(verbose=True, **options).fit(events, y)
    place = unfinished(out) if model.report_.interrupted and finished(out) else out
    with uninterrupted():
        model.save(place, command=shlex.join(["phased", *sys.argv[1:]]))
    return model.report_, place


def check_folders(source: Path, labels: Labels, out: Path, checkpoint: Path | None) -> None:
    """Raise an error if the model, or the checkpoint of its training, cannot be written."""
    inputs = (source, labels.labels)
    check_free(out, inputs)
    aside = unfinished(out)
    if finished(out):
        check_free(aside, inputs)
        if finished(aside):
            raise FileExistsError(
                f"'{aside}' must be free for the model of a training that is stopped, got a finished model. Move it away."
            )
    if checkpoint is not None:
        check_checkpoint(checkpoint, inputs)


def unfinished(out: Path) -> Path:
    """Return the folder beside a finished model for an unfinished one."""
    whole = out.resolve() if out.name in ("", "..") else out
    return whole.with_name(f"{whole.name}.unfinished")


def fractions(y: Any) -> bool:
    """Whether targets are numbers and not classes: one of them is a fraction."""
    values = np.asarray(y)
    return values.dtype.kind == "f" and not bool((values[np.isfinite(values)] == np.round(values[np.isfinite(values)])).all())


def predict(folder: Path, source: Path, out: Path, table: Table, device: str) -> int:
    """Write a row for each sequence, or for each step: its id, and a probability for each class, or the number."""
    files.check_output(out, (source, folder))
    model = load(folder, device)
    events, times = read_table(table, source, model.table_.settings)
    classes = isinstance(model, PhasedClassifier)
    answer = model.predict_proba(events) if isinstance(model, PhasedClassifier) else model.predict(events)[:, None]
    names = [str(name) for name in model.classes_.tolist()] if classes else ["prediction"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if model.network_.every_step:
        writer.writerow(["id", "time", *names])
        ids = events.ids[events.sequence].tolist()
        writer.writerows([id, time, *row] for id, time, row in zip(ids, times.to_list(), answer.tolist(), strict=True))
    else:
        writer.writerow(["id", *names])
        writer.writerows([id, *row] for id, row in zip(events.ids.tolist(), answer.tolist(), strict=True))
    out.parent.mkdir(parents=True, exist_ok=True)
    files.write_whole(out, text.getvalue().encode())
    return len(events)


def score(folder: Path, source: Path, labels: Labels, table: Table, device: str) -> dict[str, float]:
    """The scores of a model on a table with targets."""
    model = load(folder, device)
    events, y = with_targets(labels, read_table(table, source, model.table_.settings)[0])
    found = model.evaluate(events, y)
    return {**found, "sequences": len(events)}


def printed(found: dict[str, float], as_json: bool) -> str:
    """Scores as one line of JSON, or a line each."""
    if as_json:
        return json.dumps(found)
    return "\n".join(
        f"{name:10} {value:,}" if isinstance(value, int) else f"{name:10} {value:.4f}" for name, value in found.items()
    )


def load(folder: Path, device: str) -> PhasedClassifier | PhasedRegressor:
    """The model of a folder, of either kind."""
    model: PhasedClassifier | PhasedRegressor = read(folder, PhasedClassifier, PhasedRegressor)
    model.set_params(device=device, verbose=False)
    return model
