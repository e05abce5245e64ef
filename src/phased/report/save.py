"""Writing a figure or a page to disk so that a file is either whole or not there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

# No date in the files: the same figure gives the same bytes.
FORMATS: dict[str, dict[str, str | None]] = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write the figure as PNG and SVG into an existing folder and return the files."""
    return [_write(figure, folder, f"{name}.{form}", form, metadata) for form, metadata in FORMATS.items()]


def save_text(text: str, folder: Path, name: str) -> Path:
    """Write a text into an existing folder and return the file."""
    return _whole(folder, name, lambda part: part.write_text(text, encoding="utf-8"))


def _write(figure: Figure, folder: Path, name: str, form: str, metadata: dict[str, str | None]) -> Path:
    return _whole(folder, name, lambda part: figure.savefig(part, format=form, metadata=metadata))


def _whole(folder: Path, name: str, write: Callable[[Path], object]) -> Path:
    """Write aside, then rename."""
    target = folder / name
    part = folder / f".{name}.{os.getpid()}.part"
    try:
        write(part)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target
