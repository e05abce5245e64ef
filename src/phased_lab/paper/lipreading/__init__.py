"""Figure 6: words read from lips and heard, by one network of two sensors with different rates."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from phased_lab.paper.lipreading import data, runs
from phased_lab.runs.descriptor import BN_LSTM, LSTM, PHASED, Clock, Experiment, Option, Packed, Printed, Row, Study, Words
from phased_lab.runs.record import Record

OPTIONS = {"data": Option("The folder of GRID, or of its prepared clips. Default: PHASED_DATA.")}
DURATION = 3000.0  # ms of a clip
HEARD = {name: Printed(0.98, above=True) for name in ("phased", "bn-lstm", "lstm")}  # the paper: "greater than 98%"
SENSES = {"video": "video alone", "audio": "sound alone", "both": "video and sound"}
CONDITIONS = {"high": Words("high resolution", "high"), "low": Words("low resolution", "low")}


def rows(condition: str, study: str = "", what: str = "") -> list[Row]:
    """Words and whole sentences by what is present, under one condition; of another study than the paper's figure."""
    heading = f"{CONDITIONS[condition].full}{what}"
    found = []
    for sense, words in SENSES.items():
        paper = {"phased": Printed(0.8115)} if sense == "video" else HEARD
        row = Row(f"words, {words}", heading, evaluation=sense, condition=condition, study=study)
        found += [row if study else replace(row, paper=paper), replace(row, label=f"sentences, {words}", quantity="whole")]
    return found


def prepare(options: Mapping[str, str]) -> None:
    """Prepare GRID's clips, if there are any: their number is among the settings of a run."""
    with suppress(FileNotFoundError):
        data.prepared_folder(options.get("data", ""))


def packed(record: Record, state: Any, folder: str) -> Packed:
    """The lip reader of a run, whose clips are in a folder; "" for PHASED_DATA."""
    from phased_lab.paper.lipreading.pack import reader_of  # needs the clips

    return reader_of(record, state, folder)


def clock(record: Record) -> Clock:
    """The times of a clip's timeline: every 10 or 40 ms."""
    step = 10.0 if record.condition == "high" else 40.0
    return Clock(np.arange(0.0, DURATION, step), "ms", f"a clip of three seconds, a step every {step:g} ms")


def merged(record: Record) -> slice:
    """The units of the merged layers; those of the sensors are open at every sample."""
    units = record.settings.get("units")
    return slice(sum(units[:2]), None) if isinstance(units, list | tuple) and len(units) == 4 else slice(None)


EXPERIMENT = Experiment(
    name="lipreading",
    number="Fig. 6",
    title="Lip reading with two sensors of different rates",
    place=60,
    studies=(
        Study("lipreading", "Figure 6: words read from lips and heard, three networks, two resolutions", runs.runs, OPTIONS),
        Study(
            "lipreading-normalised", "Figure 6 with a Phased LSTM whose layers have normalised inputs", runs.normalised, OPTIONS
        ),
        Study("lipreading-paper", "Figure 6 as close to the paper's settings as it gives them", runs.paper_settings, OPTIONS),
    ),
    models=(LSTM, BN_LSTM, PHASED),
    conditions=CONDITIONS,
    seeds=3,
    tested="with video alone",
    chance=1 / 51,
    finding="with sound all networks recognise more than 98 % of the words. With video alone the Phased LSTM learns fastest, and "
    "recognises up to 81 %. Sound every 10 ms instead of every 40 ms does not make it more accurate, and shortens the latency.",
    table=(
        *(row for condition in CONDITIONS for row in rows(condition)),
        *(row for condition in CONDITIONS for row in rows(condition, "lipreading-normalised", ", inputs normalised")),
        *(row for condition in CONDITIONS for row in rows(condition, "lipreading-paper", ", the paper's settings")),
    ),
    headings="resolution",
    charts=("loss", "learning", "gates"),
    curves_of=("lipreading-normalised",),
    prepare=prepare,
    pack=packed,
    clock=clock,
    units=merged,
)
