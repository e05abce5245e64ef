"""Writing a figure to disk so that a file is either whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

from matplotlib.figure import Figure

# No date in the files: the same figure gives the same bytes.
FORMATS: dict[str, dict[str, str | None]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write the figure as PNG and SVG into an existing folder and return the files."""
    return [_write(figure, folder, f"{name}.{form}", form, metadata) for form, metadata in FORMATS.items()]


def _write(figure: Figure, folder: Path, name: str, form: str, metadata: dict[str, str | None]) -> Path:
    target = folder / name
    part = folder / f".{name}.{os.getpid()}.part"
    try:
        figure.savefig(part, format=form, metadata=metadata)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target
