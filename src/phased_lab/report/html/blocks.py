"""The elements of the page: sections of parts, each with charts, a legend, a table and text."""

from __future__ import annotations

from dataclasses import dataclass, field

from phased_lab.report.html import vega


@dataclass(frozen=True)
class Chart:
    """A chart; a `wide` one takes a whole row."""

    id: str
    spec: vega.Spec
    title: str = ""
    wide: bool = False


@dataclass(frozen=True)
class Table:
    """A table whose first column is text. Each row is the heading of its row group, then its cells."""

    head: list[str]
    rows: list[tuple[str, list[str]]]


@dataclass(frozen=True)
class Key:
    """An entry of a legend: a text mark or, without one, a line with a dash, in a colour."""

    label: str
    colour: str
    dash: tuple[float, ...] = ()
    mark: str = ""


@dataclass(frozen=True)
class Part:
    """Charts, a table, a picture, and a note about them; a `choice` sets the parameter `which` of the charts."""

    title: str = ""
    note: str = ""
    charts: list[Chart] = field(default_factory=list)
    table: Table | None = None
    picture: str = ""  # a data URI
    choice: list[str] = field(default_factory=list)
    chosen: int = 0
    units: vega.Rows = field(default_factory=list)  # the data set `units` of its charts
    legend: list[Key] = field(default_factory=list)  # an entry sets the parameter `pick` of the charts


@dataclass(frozen=True)
class Section:
    """One figure of the paper, or one question."""

    id: str
    title: str
    badges: list[str]
    text: list[str]
    parts: list[Part]
    command: str = ""
    apart: str = ""  # what distinguishes it from other sections of the same title
