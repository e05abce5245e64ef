"""Writing figures and pages to disk, atomically."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.figure import Figure

from phased.files import write_whole

# No date in the files: the same figure gives the same bytes.
FORMATS: dict[str, dict[str, str | None]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write the figure as PNG and SVG into an existing folder and return the files."""
    return [_draw(figure, folder / f"{name}.{form}", form, metadata) for form, metadata in FORMATS.items()]


def save_text(text: str, folder: Path, name: str) -> Path:
    """Write a text into an existing folder and return the file."""
    path = folder / name
    write_whole(path, text.encode())
    return path


def _draw(figure: Figure, path: Path, form: str, metadata: dict[str, str | None]) -> Path:
    drawn = io.BytesIO()
    figure.savefig(drawn, format=form, metadata=metadata)
    write_whole(path, drawn.getvalue())
    return path
