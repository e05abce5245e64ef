"""The page of `phased demo`: accuracy of three networks, the gates of one of them on a sequence, and events per second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from phased.pictures.save import save_text
from phased_lab.report.html import filled
from phased_lab.report.openness import by_period, evenly, is_open, of_units
from phased_lab.runs.descriptor import Events
from phased_lab.runs.record import Record

PAGE = "demo.html"
SHOWN = 10  # units
END = 60.0  # ms of the sequence
LABELS = {"phased": "PhasedLSTM", "lstm": "nn.LSTM", "bn-lstm": "nn.LSTM, normalised input"}


def save_page(question: str, events: Events, records: Sequence[Record], speeds: Mapping[str, float], folder: Path) -> Path:
    """Write `demo.html`: the networks' records, the one with gates first, and microseconds per event."""
    shown = events.time < END
    time, gates = events.time[shown], records[0].after
    assert gates is not None
    opened = is_open(by_period(gates), time)
    units = evenly([unit for unit, updates in enumerate(opened.sum(0)) if updates > 1], SHOWN)
    lanes = zip(zip(*of_units(by_period(gates), units), strict=True), opened.T[units], strict=True)
    page = filled(
        "demo.html.j2",
        question=question,
        networks=[(LABELS[record.model], [100 * epoch.test for epoch in record.curve], record) for record in records],
        end=END,
        samples=list(zip(time, events.x[shown, 0], strict=True)),
        lanes=[(*gate, time[updated]) for gate, updated in lanes],
        speeds={name: 1e6 / each for name, each in speeds.items()},
        study=records[0].study,
    )
    return save_text(page, folder, PAGE)
