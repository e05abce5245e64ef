"""What the page's charts share: style, format of the data, and a width that follows the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from phased.pictures.style import INK, QUIET
from phased_lab.report.looks import Look

Spec = dict[str, Any]
Rows = list[dict[str, Any]]

HEIGHT = 280
DIGITS = 4  # significant digits of drawn numbers; few, to keep the page small
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
CONFIG: dict[str, Any] = {
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "titleFontWeight": "normal",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "domainColor": QUIET,
        "tickColor": QUIET,
        "gridColor": "#eef0f2",
    },
    "axisX": {"grid": False},
    "title": {"anchor": "start", "fontSize": 13, "fontWeight": "normal", "color": INK},
}


def colours(kinds: Sequence[Look]) -> alt.Color:
    """The colour of each label. The legend is on the page, where it can wrap; in a chart it would be cut off."""
    scale = alt.Scale(domain=[kind.label for kind in kinds], range=[kind.colour for kind in kinds])
    return alt.Color("label:N", title=None, scale=scale, legend=None)


def pick() -> alt.Parameter:
    """The label to highlight, "" for none. The page's legend sets it."""
    return alt.param(name="pick", value="")


def if_picked(shown: float, faded: float) -> alt.OpacityValue:
    """The opacity of marks with the highlighted label, and of the others."""
    condition = {"test": "pick == '' || datum.label == pick", "value": shown}
    return alt.OpacityValue(faded, condition=condition)


def named(data: str) -> alt.Chart:
    """A chart of the data set of this name, which `spec` embeds."""
    return alt.Chart(alt.NamedData(data))


def level(y: float, scale: alt.Scale) -> alt.Chart:
    """A thin line across the chart."""
    line: alt.Chart = named("one").mark_rule(color=QUIET, strokeWidth=0.8).encode(y=alt.YDatum(y, scale=scale))
    return line


def percent(value: float) -> float | None:
    """A share in percent."""
    return short(100 * value)


def short(value: float) -> float | None:
    """A number with few digits; None if it is not finite, because JSON has no nan."""
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


def spec(chart: alt.TopLevelMixin, description: str, data: Mapping[str, Rows], height: int = HEIGHT) -> Spec:
    """A chart as the page embeds it. Data are added after altair, which would check every row."""
    size = {"width": "container", "height": height, "autosize": {"type": "fit-x", "contains": "padding"}}
    made: Spec = chart.to_dict()
    return made | size | {"config": CONFIG, "description": description, "datasets": {"one": [{}], **data}}
