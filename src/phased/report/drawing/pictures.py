"""The paper's figures redrawn from results, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from phased.report import paper
from phased.report.drawing.bars import draw_bars
from phased.report.drawing.learning import draw_learning
from phased.report.drawing.tradeoff import draw_tradeoff
from phased.report.drawing.trained import draw_learned, draw_raster
from phased.report.results import Result, read
from phased.report.save import save
from phased.report.study import FEWEST_SETTINGS, Group, compared, groups, keys, main, studies
from phased.report.style import styled

# More would be too small to read; the page shows all of them.
MOST_CONDITIONS = 6
MOST_GROUPS = 24


def make_pictures(results_folder: Path, out_folder: Path) -> list[Path]:
    """Read every result under a folder and draw what they allow; returns the files."""
    out_folder.mkdir(parents=True, exist_ok=True)
    return save_pictures(read(results_folder).results, out_folder)


def save_pictures(results: Sequence[Result], folder: Path) -> list[Path]:
    """Draw results into an existing folder: `frequency-bars.png` at the paper's scale, `frequency-quick-bars.png` if quick."""
    files = []
    with styled():
        apart = studies(groups(results))
        for key, study in zip(keys(apart), apart, strict=True):
            for name, figure in _pictures(study):
                files += save(figure, folder, f"{key}-{name}")
    return files


def _pictures(mine: Sequence[Group]) -> Iterator[tuple[str, Figure]]:
    """Every picture that the groups of one study allow."""
    shown = few(main(mine))
    figure = paper.figure(mine[0].experiment)
    if mine[0].experiment == "frequency":
        yield "bars", draw_bars(shown)
    yield "learning", draw_learning(shown)
    settings = few(compared(mine))
    if (figure is None or figure.metric == "accuracy") and sum(group.model == "phased" for group in settings) >= FEWEST_SETTINGS:
        yield "updates", draw_tradeoff(settings)
    gated = [group for group in shown if any(run.after is not None for run in group.results)]
    if gated:
        # The last condition is the asynchronous one, or the longest periods; of its settings the first.
        group = next(group for group in gated if group.condition == gated[-1].condition)
        yield "gates", draw_learned(group)
        yield "raster", draw_raster(next(run for run in group.results if run.after is not None))


def few(of: Sequence[Group]) -> list[Group]:
    """The groups that a picture has room for: those of the first conditions, and of these the first."""
    conditions = list(dict.fromkeys(group.condition for group in of))[:MOST_CONDITIONS]
    return [group for group in of if group.condition in conditions][:MOST_GROUPS]
