"""The experiments' figures drawn from records, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from phased.pictures.save import save
from phased.pictures.style import styled
from phased_lab.report.drawing.bars import draw_bars
from phased_lab.report.drawing.learning import draw_learning, draw_loss
from phased_lab.report.drawing.tradeoff import draw_tradeoff
from phased_lab.report.drawing.trained import draw_learned, draw_raster
from phased_lab.report.groups import Group, compared, groups, keys, learning, main, sections
from phased_lab.runs.record import Record

# More could not be read; the page shows all of them.
MOST_CONDITIONS = 6
MOST_GROUPS = 24


def save_pictures(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw the figures of the records into an existing folder: `adding-learning.png`, `adding-quick-learning.png`, and so on."""
    files = []
    with styled():
        apart = sections(groups(records))
        for key, section in zip(keys(apart), apart, strict=True):
            for name, figure in _pictures(section):
                files += save(figure, folder, f"{key}-{name}")
    return files


def _pictures(section: Sequence[Group]) -> Iterator[tuple[str, Figure]]:
    """The figures of one section, as far as its descriptor names them and its groups have the data."""
    shown, curves, charts = few(main(section)), few(learning(section)), section[0].experiment.charts
    if "bars" in charts:
        yield "bars", draw_bars(shown)
    if "loss" in charts and all(group.has_test_loss for group in curves):
        yield "loss", draw_loss(curves)
    if "learning" in charts:
        yield "learning", draw_learning(curves)
    settings = few(compared(section))
    if settings:
        yield "updates", draw_tradeoff(settings)
    gated = [group for group in shown if any(run.after is not None for run in group.records)]
    if "gates" in charts and gated:
        # The last condition is the hardest in every experiment so far. Of its groups the first is drawn.
        group = next(group for group in gated if group.condition == gated[-1].condition)
        yield "gates", draw_learned(group)
        yield "raster", draw_raster(group)
    if section[0].experiment.illustrate is not None:
        example = section[0].experiment.illustrate()
        yield example.name, example.figure


def few(of: Sequence[Group]) -> list[Group]:
    """The first groups of the first conditions, as many as a figure can show."""
    conditions = list(dict.fromkeys(group.condition for group in of))[:MOST_CONDITIONS]
    return [group for group in of if group.condition in conditions][:MOST_GROUPS]
