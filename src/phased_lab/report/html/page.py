"""The report as one page: interactive, self-contained, and readable offline and on a phone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import altair as alt
import vl_convert

from phased.files import printable
from phased.pictures.save import save_text
from phased_lab.report import findings, names
from phased_lab.report.groups import groups
from phased_lab.report.html import filled
from phased_lab.report.html.blocks import Section
from phased_lab.report.html.sections import sections
from phased_lab.runs import catalogue
from phased_lab.runs.folder import Reading
from phased_lab.runs.record import Record

NAME = "report.html"
CITATION = "D. Neil, M. Pfeiffer, S.-C. Liu: Phased LSTM. NIPS 2016, arXiv:1610.09513"


def save_page(reading: Reading, results: Path, folder: Path) -> Path:
    """Write `report.html` about the records read from `results`; missing runs are listed with their commands."""
    return save_text(render(reading.records, reading.skipped, printable(results.as_posix())), folder, NAME)


def render(records: Sequence[Record], skipped: Sequence[str], folder: str = "results") -> str:
    """The page about these records; `folder` is the output folder in its commands."""
    found = groups(records)
    shown = sections(found, records, folder)
    return filled(
        "page.html.j2",
        citation=CITATION,
        summary=summary(records),
        missing=findings.missing(found, folder),
        sections=shown,
        skipped=skipped,
        repeated=len(records) - sum(len(group.records) for group in found),
        runs=[_run(record) for group in found for record in group.records],
        commands=sorted({record.command for record in records}),
        charts=_charts(shown),
        library=_library(),
    )


def summary(records: Sequence[Record]) -> str:
    """The number of results, their dates, devices and versions."""
    if not records:
        return "There are no results yet."
    dates = sorted({record.date for record in records})
    span = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    machines = ", ".join(dict.fromkeys(record.device for record in records))
    versions = ", ".join(sorted({f"phased {record.versions.get('phased', '?')}" for record in records}))
    return f"{names.counted(len(records), 'result')} of {span}, made on {machines} with {versions}."


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed in the version of altair's charts, as one self-contained script."""
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    return _inside_script(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version))


def _charts(shown: Sequence[Section]) -> str:
    """The specifications of all charts by id; charts of one part share the data set `units`."""
    parts = [part for section in shown for part in section.parts if part.charts]
    specs = [{"units": part.units, "charts": {chart.id: chart.spec for chart in part.charts}} for part in parts]
    # Every `<` is escaped, so that no text can end the script element.
    return json.dumps(specs, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _inside_script(text: str) -> str:
    """A script that cannot end its element early; these sequences occur only in strings, where the escapes are equivalent."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _run(record: Record) -> list[str]:
    metric = catalogue.experiment(record.experiment).metric
    test = f"{100 * record.test:.2f} %" if metric == "accuracy" else f"{record.test:.3g}"
    return [record.name, record.scale, str(record.seed), test, names.seconds(record.wall), record.device, record.date]
