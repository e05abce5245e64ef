"""The page of `phased demo`: accuracy of three networks, the gates of one of them on a sequence, and events per second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from phased.pictures.save import save_text
from phased_lab.report.openness import by_period, evenly, is_open
from phased_lab.report.page import filled
from phased_lab.runs.descriptor import Events
from phased_lab.runs.record import Record

PAGE = "demo.html"
SHOWN = 10  # units
END = 60.0  # ms of the sequence
LABELS = {"phased": "PhasedLSTM", "lstm": "nn.LSTM", "bn-lstm": "nn.LSTM, normalised input"}


def save_page(question: str, events: Events, records: Sequence[Record], speeds: Mapping[str, float], folder: Path) -> Path:
    """Write `demo.html`: the networks' records, the one with gates first, and microseconds per event."""
    shown = events.time < END
    time, trained = events.time[shown], records[0].after
    assert trained is not None
    gates = by_period(trained)
    opened = is_open(gates, time)
    units = evenly([unit for unit, updates in enumerate(opened.sum(0)) if updates > 1], SHOWN)
    page = filled(
        "demo.html.j2",
        question=question,
        networks=[(LABELS[record.model], [100 * epoch.test for epoch in record.curve], record) for record in records],
        end=END,
        samples=list(zip(time, events.x[shown, 0], strict=True)),
        lanes=[(*gates[:, unit], time[opened[:, unit]]) for unit in units],
        speeds={name: 1e6 / each for name, each in speeds.items()},
        study=records[0].study,
    )
    return save_text(page, folder, PAGE)
