"""What the page is built of: sections of parts, each with charts, a legend, a table and words."""

from __future__ import annotations

from dataclasses import dataclass, field

from phased.report.html import vega


@dataclass(frozen=True)
class Chart:
    """A chart in a box of its own; `wide` ones have a row to themselves."""

    id: str
    spec: vega.Spec
    title: str = ""
    wide: bool = False


@dataclass(frozen=True)
class Table:
    """A table of words and numbers under headings; the first column is words. Each row is a heading, then its cells."""

    head: list[str]
    rows: list[tuple[str, list[str]]]


@dataclass(frozen=True)
class Key:
    """A line of a legend: a mark of text, or without one a dash, in the colour of what it names."""

    label: str
    colour: str
    dash: tuple[float, ...] = ()
    mark: str = ""


@dataclass(frozen=True)
class Part:
    """A few charts, a table, and what there is to say about them; a choice sets the parameter `which` of its charts."""

    title: str = ""
    note: str = ""
    charts: list[Chart] = field(default_factory=list)
    table: Table | None = None
    choice: list[str] = field(default_factory=list)
    chosen: int = 0
    units: vega.Rows = field(default_factory=list)  # the data named `units` of its charts
    legend: list[Key] = field(default_factory=list)  # each of them sets the parameter `pick` of its charts


@dataclass(frozen=True)
class Section:
    """One figure of the paper, or one question."""

    id: str
    title: str
    badges: list[str]
    text: list[str]
    parts: list[Part]
    command: str = ""
    apart: str = ""  # what tells it from other sections of the same title
