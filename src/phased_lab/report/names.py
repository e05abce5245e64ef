"""Numbers, times and names as text."""

from __future__ import annotations

import re

LONGEST_SLUG = 80  # characters (file names may have 255)


def rounded(value: float) -> str:
    """Three significant digits, without an exponent below a million."""
    return f"{value:.0f}" if 100 <= value < 1e6 else f"{value:.3g}"


def seconds(value: float) -> str:
    """A time in seconds, minutes or hours."""
    if value != value:
        return "unknown"
    for limit, size, unit in ((90, 1, "s"), (5400, 60, "min")):
        if value < limit:
            return f"{value / size:.3g} {unit}"
    return f"{value / 3600:.3g} h"


def counted(count: int, word: str) -> str:
    """'1 seed', '5 seeds'."""
    return f"{count} {word}{'' if count == 1 else 's'}"


def slug(name: str) -> str:
    """A name for files and URLs: at most LONGEST_SLUG letters, digits, points and dashes."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")[:LONGEST_SLUG].rstrip("-.") or "unnamed"
