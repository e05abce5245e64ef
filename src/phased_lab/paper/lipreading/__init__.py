"""Figure 6: words read from lips and heard, by one network of two sensors with different rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from phased.learn.loop import Training
from phased_lab.paper.lipreading import data
from phased_lab.paper.lipreading.network import LipNetwork
from phased_lab.paper.lipreading.pack import SENSED, reader_of
from phased_lab.paper.lipreading.task import Sentences
from phased_lab.runs.descriptor import BN_LSTM, LSTM, PHASED, Clock, Experiment, Option, Printed, Row, Words
from phased_lab.runs.record import Record
from phased_lab.runs.run import Run

OPTIONS = {"data": Option("The folder of GRID, or of its prepared clips. Default: PHASED_DATA.")}
DURATION = 3000.0  # ms of a clip
HEARD = {name: Printed(0.98, above=True) for name in ("phased", "bn-lstm", "lstm")}  # the paper: "greater than 98%"
CONDITIONS = {"high": Words("high resolution", "high"), "low": Words("low resolution", "low")}


def rows(condition: str, study: str = "", what: str = "") -> list[Row]:
    """Rows of words and whole sentences for each modality under one condition. Rows of other studies lack the paper's numbers."""
    heading = f"{CONDITIONS[condition].full}{what}"
    found = []
    for sense, words in SENSED.items():
        paper = {"phased": Printed(0.8115)} if sense == "video" else HEARD
        row = Row(f"words, {words}", heading, evaluation=sense, condition=condition, study=study)
        found += [row if study else replace(row, paper=paper), replace(row, label=f"sentences, {words}", quantity="whole")]
    return found


def prepare(options: Mapping[str, str]) -> None:
    """Prepare GRID's clips, if there are any: their number is among the settings of a run."""
    with suppress(FileNotFoundError):
        data.prepared_folder(options.get("data", ""))


def clock(record: Record) -> Clock:
    """The times of a clip's timeline: every 10 or 40 ms."""
    step = 10.0 if record.condition == "high" else 40.0
    return Clock(np.arange(0.0, DURATION, step), "ms", f"a clip of three seconds, a step every {step:g} ms")


# Settings as far as the paper says. It gives neither the learning rate, the number of epochs nor the open ratio. These are Adam's
# usual rate, and the ratio of the paper's other networks.
BASE = Run("lipreading", "high", "paper", Sentences(), LipNetwork(), Training(epochs=100, batch=64))
# A few minutes on two cores: a tenth of the clips, smaller layers, and the low resolution alone.
QUICK = {
    "task": {"most": 180},
    "network": {"units": (32, 32, 48, 48)},
    "training": {"epochs": 8, "batch": 8, "rate": 3e-3},
}


def choose(run: Run, options: Mapping[str, str]) -> Run:
    """The run with the clips of a folder. The command of a record has no path of this machine."""
    folder = options.get("data", "")
    return run.vary(task={"folder": folder}, options={"data": "FOLDER"} if folder else {})


def improved(run: Run) -> Run:
    """The run with what the paper does not mention.

    Two speakers are few: networks learn 1,600 sentences by heart unless every epoch changes them. Clips begin at random times, so
    that the gates of a Phased LSTM are in other phases at every visit. A word lasts a quarter of a second: with a lower open
    ratio many merged units are closed during all of it.
    """
    changed = {"silent": 0.45, "blind": 0.3, "flip": True, "shift": 3.0, "zoom": 0.1, "light": 0.3, "begin": 3000.0, "noise": 0.6}
    training = {"rate": 4e-3, "average": 0.99, "smoothing": 0.1}
    return run.vary(
        task=run.pick(paper=changed, quick={}),
        network={"normalised": True, "dropout": run.pick(paper=0.3, quick=0.0), "ratio_on": 1.0, "learn_ratio_on": True},
        training={"schedule": "one-cycle"} | run.pick(paper=training, quick={}),
    )


def at_resolutions(run: Run, models: tuple[str, ...], *words: str) -> Iterator[Run]:
    """The run at every resolution of its scale with each model, on the clips that there are."""
    task: Any = run.task
    network: Any = run.network
    gates = f"r_on {'learned from ' if network.learn_ratio_on else ''}{network.ratio_on:g}"
    for resolution in run.pick(paper=tuple(CONDITIONS), quick=("low",)):
        clips = counted(replace(task, resolution=resolution))
        counts = dict(zip(("train", "test"), clips.clips, strict=True))
        for model in models:
            variant = ", ".join((*words, gates) if model == "phased" else words)
            yield run.vary(condition=resolution, task=clips, network={"model": model}, training=counts, variant=variant)


def counted(task: Sentences) -> Sentences:
    """The task with the number and the identity of the clips that there are.

    Where there are none it keeps its own, so that runs can be listed.
    """
    parts = data.there(task.folder, task.split, task.most)
    if parts is None:
        usual = (task.most * 9 // 10, task.most - task.most * 9 // 10)
        return replace(task, clips=usual) if task.most else task
    return replace(task, clips=(len(parts.train), len(parts.test)), names=data.identity(parts))


def models(run: Run) -> tuple[str, ...]:
    """Those of a scale."""
    return run.pick(paper=("phased", "bn-lstm", "lstm"), quick=("phased", "lstm"))


LIPREADING = Experiment(
    name="lipreading",
    number="Fig. 6",
    title="Lip reading with two sensors of different rates",
    place=60,
    base=BASE,
    quick=QUICK,
    options=OPTIONS,
    choose=choose,
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
    pack=reader_of,
    clock=clock,
    # The units of the merged layers: those of the sensors are open at every sample.
    units=lambda record: slice(sum(record.settings["units"][:2]), None),
)


@LIPREADING.study("Figure 6: words read from lips and heard, three networks, two resolutions")
def lipreading(run: Run) -> Iterator[Run]:
    """Every model at both resolutions, trained on clips that are changed at random."""
    return at_resolutions(improved(run), models(run))


@LIPREADING.study("Figure 6 with a Phased LSTM whose layers have normalised inputs")
def lipreading_normalised(run: Run) -> Iterator[Run]:
    """The Phased LSTM with batch normalisation of the input of every layer, which the BN-LSTM has."""
    wide = improved(run).vary(network={"layers_normalised": True}, tag="normalised")
    return at_resolutions(wide, ("phased",), "inputs normalised")


@LIPREADING.study("Figure 6 as close to the paper's settings as it gives them")
def lipreading_paper(run: Run) -> Iterator[Run]:
    """The same without changes of the clips, batch normalisation of the convolutions, dropout and a learned open ratio."""
    return at_resolutions(run.vary(tag="unchanged"), models(run), "clips unchanged")
