"""The report as one page: interactive, self-contained, and readable offline and on a phone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jinja2
import vl_convert

from phased.files import printable
from phased.pictures.save import save_text
from phased_lab.report import charts, findings, tables
from phased_lab.report.looks import counted, machines_note
from phased_lab.report.seeds import Group, groups, main
from phased_lab.report.seeds import sections as comparable
from phased_lab.report.theme import VERSION, Figure, save
from phased_lab.runs.record import Record
from phased_lab.table import Table

NAME = "report.html"
CITATION = "D. Neil, M. Pfeiffer, S.-C. Liu: Phased LSTM. NIPS 2016, arXiv:1610.09513"
SPEED = "speed"  # the section of benchmarks (its pictures are named without the section)
QUICK = "Fewer epochs than in the paper: a first look, not a reproduction. The paper's numbers are for the paper's scale."


class Section(NamedTuple):
    """Charts and tables of one figure of the paper, in the order of the page."""

    id: str
    title: str
    parts: Sequence[Figure | Table]
    badges: Sequence[str] = ()
    text: Sequence[str] = ()
    apart: str = ""  # what distinguishes it from other sections of the same title

    @property
    def figures(self) -> list[Figure]:
        """Its charts."""
        return [part for part in self.parts if isinstance(part, Figure)]


def save_report(
    records: Sequence[Record], skipped: Sequence[str], results: Path, out: Path, benchmarks: Sequence[Figure] = ()
) -> list[Path]:
    """Write `report.html`, and each of its charts as PNG and SVG, into an existing folder, and return the files."""
    shown = sections(records, benchmarks)
    files = [save_text(render(shown, records, skipped, printable(results.as_posix())), out, NAME)]
    for section in shown:
        for part in section.figures:
            name = part.name if section.id == SPEED else f"{section.id}-{part.name}"
            files += save(part.chart, out, name, f"{section.title}: {part.title[0].lower()}{part.title[1:]}", part.note)
    return files


def sections(records: Sequence[Record], benchmarks: Sequence[Figure] = ()) -> list[Section]:
    """All sections of the page."""
    found = groups(records)
    shown = [of_results(section) for section in comparable(found)]
    leaks = tables.leaks(found)
    shown += [Section("leaks", "Training without a leak", [leaks])] if leaks.rows else []
    shown += [Section(SPEED, "Speed", benchmarks)] if benchmarks else []
    shown += [Section("costs", "What it cost", [tables.costs(records)])] if found else []
    return shown


def of_results(section: Sequence[Group]) -> Section:
    """The section of groups that are compared in one figure."""
    first, shown = section[0], main(section)
    about, drawn, numbers = first.experiment, charts.figures(section), tables.results(shown)
    parts = [tables.paper_table(section), *drawn, numbers, tables.beyond(section), tables.further_tests(section)]
    seeds = sorted({len(group.records) for group in section})
    number = counted(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]} seeds"
    machines = machines_note([record for group in section for record in group.records])
    badges = filter(None, (f"{first.scale} scale", number, first.data_words, machines))
    text = [f"What the paper finds: {about.finding}"] if about.finding else []
    text += [QUICK] if first.scale != "paper" else []
    apart = ", ".join(filter(None, ("" if first.scale == "paper" else first.scale, first.data and first.data_words)))
    return Section(first.key, about.heading, [part for part in parts if part is not None], [*badges], text, apart)


def render(shown: Sequence[Section], records: Sequence[Record], skipped: Sequence[str] = (), folder: str = "results") -> str:
    """Return the page of these sections. Its commands name `folder` for their output."""
    found = groups(records)
    specs = {f"{section.id}-{part.name}": part.chart.to_dict() for section in shown for part in section.figures}
    return filled(
        "page.html.j2",
        citation=CITATION,
        summary=summary(records),
        sections=shown,
        runs=tables.runs(found),
        repeated=len(records) - sum(len(group.records) for group in found),
        commands=sorted({record.command for record in records}),
        missing=findings.missing(found, folder),
        skipped=skipped,
        # Every `<` is escaped, so that no text can end the script element.
        specs=json.dumps(specs, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        library=library(),
    )


def filled(template: str, **values: object) -> str:
    """Return a page: the template with its values."""
    templates = jinja2.PackageLoader("phased_lab.report")
    environment = jinja2.Environment(
        loader=templates, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(values)


def summary(records: Sequence[Record]) -> str:
    """The number of results, their dates, devices and versions."""
    if not records:
        return "There are no results yet."
    dates = sorted({record.date for record in records})
    span = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"{counted(len(records), 'result')} of {span}, made on {machines_note(records)}."


@cache
def library() -> str:
    """Vega, Vega-Lite and Vega-Embed in the version of Altair's charts, as one script that cannot end its element early."""
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VERSION)
    # These sequences occur only in strings, where the escapes are equivalent.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
