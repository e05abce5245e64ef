"""The report as one page: interactive, self-contained, and readable offline and on a phone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import altair as alt
import jinja2
import vl_convert

from phased.report import findings, names, paper
from phased.report.html.blocks import Section
from phased.report.html.sections import sections
from phased.report.reader import printable
from phased.report.results import Result, read
from phased.report.save import save_text
from phased.report.study import groups, newest

NAME = "report.html"


def make_page(results_folder: Path, out_folder: Path) -> Path:
    """Read every result under a folder and write `report.html` about them; what is missing is on the page, with its command."""
    reading = read(results_folder)
    text = render(reading.results, reading.skipped, printable(results_folder.as_posix()))
    out_folder.mkdir(parents=True, exist_ok=True)
    return save_text(text, out_folder, NAME)


def render(results: Sequence[Result], skipped: Sequence[str], folder: str = "results") -> str:
    """The page about these results; `folder` is where its commands would put more."""
    found = groups(results)
    shown = sections(found, results, folder)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = files("phased.report.html").joinpath("templates", "page.html.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        citation=paper.CITATION,
        summary=summary(results),
        missing=findings.missing(found, folder),
        sections=shown,
        skipped=skipped,
        repeated=len(results) - len(newest(results)),
        runs=[_run(result) for group in found for result in group.results],
        commands=sorted({result.command for result in results}),
        charts=_charts(shown),
        library=_library(),
    )


def summary(results: Sequence[Result]) -> str:
    """How many results there are, of when, made with what."""
    if not results:
        return "There are no results yet."
    dates = sorted({result.date for result in results})
    span = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    machines = ", ".join(dict.fromkeys(result.device for result in results))
    versions = ", ".join(sorted({f"phased {result.versions.get('phased', '?')}" for result in results}))
    return f"{names.counted(len(results), 'result')} of {span}, made on {machines} with {versions}."


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed in the version altair writes for, as one script that loads nothing."""
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    return _inside_script(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version))


def _charts(shown: Sequence[Section]) -> str:
    """Every chart's specification under its id; charts of one part that show units share their rows."""
    parts = [part for section in shown for part in section.parts if part.charts]
    specs = [{"units": part.units, "charts": {chart.id: chart.spec for chart in part.charts}} for part in parts]
    # No `<` at all: no text in it can end the script element that holds it.
    return json.dumps(specs, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _inside_script(text: str) -> str:
    """Script that cannot end its element early; in a string, where alone this can occur, the escape means the same."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _run(result: Result) -> list[str]:
    figure = paper.figure(result.experiment)
    test = f"{100 * result.test:.2f} %" if figure is None or figure.metric == "accuracy" else f"{result.test:.3g}"
    return [result.name, result.scale, str(result.seed), test, names.seconds(result.wall), result.device, result.date]
