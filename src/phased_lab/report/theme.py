"""The look of all charts: an Altair theme, the colours of labels, and the files of a chart."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import altair as alt
import polars as pl
import vl_convert

from phased.files import write_whole
from phased.pictures.style import INK, QUIET

WIDTH = 700  # of all panels of a picture, in pixels (the page sets the width in JavaScript)
HEIGHT = 260
SCALE = 2.0  # pixels of a PNG for each pixel of the chart
DIGITS = 4  # significant digits of drawn numbers (more would enlarge the page)
AXIS = 65  # pixels for the labels of a vertical axis
VERSION = alt.SCHEMA_VERSION.removeprefix("v").rpartition(".")[0]  # of Vega-Lite, as vl-convert expects it

alt.data_transformers.disable_max_rows()


@alt.theme.register("phased", enable=True)
def theme() -> Any:
    """The style of every chart of the laboratory."""
    text = {"titleColor": INK, "labelColor": INK, "titleFontWeight": "normal", "labelFontSize": 12, "titleFontSize": 12}
    lines = {"domainColor": QUIET, "tickColor": QUIET, "gridColor": "#eef0f2"}
    config: dict[str, Any] = {
        "font": "Liberation Sans",  # comes with vl-convert, so a picture is the same on every machine
        "background": "white",
        "view": {"stroke": None},
        "axis": text | lines,
        "axisX": {"grid": False},
        "header": text | {"labelAnchor": "start", "labelFontSize": 13},
        "title": {"anchor": "start", "fontSize": 14, "color": INK, "subtitleColor": QUIET, "subtitleFontSize": 11, "offset": 10},
        "legend": text
        | {"title": None, "orient": "top", "labelLimit": WIDTH, "symbolSize": 140, "symbolOpacity": 1, "padding": 4},
    }
    return {"config": config}


class Figure(NamedTuple):
    """A chart with its name in file names and URLs, its title and its note."""

    name: str
    title: str
    note: str
    chart: alt.TopLevelMixin


def data(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Return rows as the data of a chart, with numbers rounded by `short`."""
    # Altair copies lists of rows whenever a chart is changed, and a frame never.
    fewer = [{name: short(v) if isinstance(v, float) else v for name, v in row.items()} for row in rows]
    return pl.DataFrame(fewer, infer_schema_length=None)


def short(value: float) -> float | None:
    """Round to DIGITS significant digits. Return None for nan and infinities, which JSON cannot hold."""
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def colours(kinds: Mapping[str, str], **legend: Any) -> alt.Color:
    """The colour of each label, with a legend."""
    return alt.Color("label:N", scale=alt.Scale(domain=list(kinds), range=list(kinds.values())), legend=alt.Legend(**legend))


def finished(chart: alt.TopLevelMixin, description: str, labels: Sequence[str] = (), renderer: str = "svg") -> alt.TopLevelMixin:
    """Add the columns of the legend, and the width of a legend entry for the page (`usermeta.entry`)."""
    entry = 26 + round(5.6 * max(map(len, labels), default=0))  # pixels of an entry of the legend
    usermeta = {"entry": entry, "embedOptions": {"renderer": renderer, "actions": False}}
    made: Any = chart
    done: alt.TopLevelMixin = made.properties(description=description, usermeta=usermeta).configure_legend(
        columns=max(1, WIDTH // entry)
    )
    return done


def save(chart: alt.TopLevelMixin, folder: Path, name: str, title: str, note: str) -> list[Path]:
    """Write the chart as PNG and SVG, with its title and note above, into an existing folder, and return the files."""
    spec = chart.to_dict() | {"title": {"text": title, "subtitle": textwrap.wrap(note, WIDTH // 5)}}
    svg = vl_convert.vegalite_to_svg(spec, vl_version=VERSION)
    files = {folder / f"{name}.png": vl_convert.svg_to_png(svg, scale=SCALE), folder / f"{name}.svg": svg.encode()}
    for path, content in files.items():
        write_whole(path, content)
    return list(files)
