"""The folder that results go to, tried before anything is computed."""

from __future__ import annotations

import tempfile
from pathlib import Path


def writable(folder: Path, option: str = "--out") -> Path:
    """The folder, made if need be; an OSError that names it and the cure if nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"cannot write to the folder '{folder}': {reason}. Choose another with {option}.") from error
    return folder
