"""Results of long computations, kept in files, so that an interrupted benchmark continues."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from phased.files import write_whole


def kept(folder: Path | None, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `compute` returns, as JSON keeps it; from the file of this name, if an earlier call left it in the folder."""
    file = None if folder is None else folder / f"{name}.json"
    if file is None:
        return compute()
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(compute()).encode())
    try:
        found: dict[str, Any] = json.loads(file.read_bytes())
    except ValueError as error:
        raise ValueError(
            f"'{file}' must hold a finished result as JSON, and is damaged. Delete it, and it is computed again."
        ) from error
    return found
