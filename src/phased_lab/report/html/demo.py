"""The page of `phased demo`: accuracy of three networks, the gates of one of them on a sequence, and events per second."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import jinja2
import numpy as np
import torch
from numpy.typing import NDArray

from phased.layer import PhasedRNN
from phased.pictures.save import save_text
from phased_lab.runs.descriptor import Demo, Events
from phased_lab.runs.record import Record

PAGE = "demo.html"
SHOWN = 10  # units
END = 60.0  # ms of the sequence
FIRST = {
    "phased fit TABLE --labels LABELS --out MODEL": "Train a model on your own table.",
    "phased classify RECORDING": "Classify recordings of an event camera.",
}
LAST = {
    "phased run --help": "List all experiments of the paper.",
    "phased bench cpu --quick": "Time training steps beside nn.LSTM on this machine.",
}


class Speed(NamedTuple):
    """How events were processed, and microseconds per event."""

    label: str
    ours: bool
    microseconds: float

    @property
    def per_second(self) -> float:
        """Events per second."""
        return 1e6 / self.microseconds


class Lane(NamedTuple):
    """A unit: its period in ms, the open phases within the sequence (start, end), and the samples that update it."""

    period: float
    open: list[tuple[float, float]]
    updated: list[float]


def save_page(demo: Demo, records: Sequence[Record], rnn: PhasedRNN, speeds: Sequence[Speed], folder: Path) -> Path:
    """Write `demo.html`."""
    events = demo.events(int(END))
    events = Events(events.x[events.time < END], events.time[events.time < END])
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = files("phased_lab.report.html").joinpath("templates", "demo.html.j2").read_text(encoding="utf-8")
    page = environment.from_string(template).render(
        question=demo.question,
        networks=[(label(record), [100 * epoch.test for epoch in record.curve], record) for record in records],
        end=END,
        samples=list(zip(events.time.tolist(), events.x[:, 0].tolist(), strict=True)),
        lanes=lanes(rnn, events.time),
        speeds=speeds,
        fastest=max(speed.per_second for speed in speeds),
        following=FIRST | {f"phased run {records[0].study} --scale quick": "Repeat the paper's figure with such waves."} | LAST,
    )
    return save_text(page, folder, PAGE)


def label(record: Record) -> str:
    """The name of a network."""
    return {"phased": "PhasedLSTM", "lstm": "nn.LSTM", "bn-lstm": "nn.LSTM, normalised input"}[record.model]


def lanes(rnn: PhasedRNN, time: NDArray[np.float64]) -> list[Lane]:
    """Units of the first layer that open at these times, from short to long periods."""
    gate = rnn.gates()[0]
    found = []
    for unit in gate.period.argsort():
        own = gate.of(unit)
        period, shift, ratio = (value.item() for value in own.parameters())
        updated = time[own.is_open(own.phase(torch.from_numpy(time))).numpy()]
        starts = np.arange(shift % period - period, END, period)
        phases = np.clip(np.stack([starts, starts + ratio * period], 1), 0.0, END)
        found.append(Lane(period, [(a, b) for a, b in phases.tolist() if b > a], updated.tolist()))
    found = [lane for lane in found if len(lane.updated) > 1]
    return [found[at] for at in np.linspace(0, len(found) - 1, min(SHOWN, len(found))).astype(int)]
