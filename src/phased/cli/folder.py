"""The folder that results go to, tried before anything is computed."""

from __future__ import annotations

from pathlib import Path

from phased import files


def writable(folder: Path, option: str = "--out") -> Path:
    """The folder, made if need be; if nothing can be written there an OSError that names it and the option that chose it."""
    try:
        return files.writable(folder)
    except OSError as error:
        raise OSError(f"{error} It was chosen by {option}.") from error
