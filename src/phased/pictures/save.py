"""Writing figures and pages to disk, atomically."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.figure import Figure

from phased.files import write_whole

# No date in the files: the same figure gives the same bytes.
FORMATS: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write the figure as PNG and SVG and return the files."""
    return [save_as(figure, folder / f"{name}.{form}") for form in ("png", "svg")]


def save_as(figure: Figure, path: Path) -> Path:
    """Write the figure as one file in the format of its suffix: .png, .svg or .pdf."""
    form, drawn = picture_format(path), io.BytesIO()
    figure.savefig(drawn, format=form, metadata=FORMATS[form])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, drawn.getvalue())
    return path


def picture_format(path: Path) -> str:
    """The format that a file's suffix names; a ValueError if there is none of this name."""
    form = path.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        raise ValueError(f"a picture's name must end in {', '.join(f'.{each}' for each in FORMATS)}, got '{path.name}'.")
    return form


def save_text(text: str, folder: Path, name: str) -> Path:
    """Write a text into an existing folder and return the file."""
    path = folder / name
    write_whole(path, text.encode())
    return path
