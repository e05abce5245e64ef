"""The style of the figures: type sizes, lines and colours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

INK = "#1f2328"
QUIET = "#8b929a"
FAINT = "#dfe2e6"

# Distinguishable in every common form of colour blindness and in grey; units are coloured from short periods to long ones.
UNITS = ("#d1495b", "#2a7f9e", "#3b3a7a")

# For further kinds.
OTHERS = (UNITS[2], "#b07d2b", "#4f8a4c", "#8a4f7d")

WIDTH = 7.0  # inches: the text width of a page

RULES: dict[RcKeyType, Any] = {
    # Shipped with matplotlib, so a figure is the same on every machine.
    "font.family": "DejaVu Sans",
    "mathtext.fontset": "dejavusans",
    "font.size": 8.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": QUIET,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "xtick.minor.size": 1.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 8.0,
    "lines.linewidth": 1.3,
    "lines.solid_joinstyle": "round",
    "figure.facecolor": "white",
    "savefig.dpi": 220.0,
    # The same figure gives the same file.
    "svg.hashsalt": "phased",
}


def shades(colour: str, count: int) -> list[str]:
    """`count` shades of a colour from light to dark, all readable on white; with one or two the first is the colour itself."""
    if count == 1:
        return [colour]
    base = np.array(to_rgb(colour))
    lightest, darkest = (0.0, 0.5) if count == 2 else (-0.35, 0.6)
    steps = np.linspace(lightest, darkest, count)
    return [to_hex(base + abs(step) * (np.array(to_rgb("white" if step < 0 else INK)) - base)) for step in steps]


def figure(height: float) -> Figure:
    """Make an empty figure of the width of a page. The height is in inches."""
    return Figure(figsize=(WIDTH, height), layout="constrained")


@contextmanager
def styled() -> Iterator[None]:
    """Apply the style to figures drawn and saved inside; matplotlib's settings are restored afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(RULES)
        yield
