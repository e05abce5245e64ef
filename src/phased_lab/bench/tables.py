"""The tables of times in docs, from the files of `phased bench`: `python -m phased_lab.bench.tables results/bench`."""

from __future__ import annotations

import sys
from pathlib import Path

from phased_lab.bench.benchmark import load, read

SHOWN = {
    "estimators": 1,
    "widths": 1,
    "physionet": 1,
    "online": 1,
    "reading": 1,
    "startup": 1,
    "cpu": 1,
    "cpu-avx2": 1,
    "stream": 1,
    "stream-avx2": 1,
    "nmnist": 1,
    "cuda": 2,
    "tasks-cpu": 1,
    "tasks-cuda": 2,
    "epoch-cuda": 1,
    "lipreading-cpu": 1,
    "lipreading-cuda": 1,
}
"""Number of tables of a file in docs."""


def shown(folder: Path, name: str) -> list[str]:
    """The tables of a file in Markdown. A file begins with the name of its benchmark."""
    tables = load(name.partition("-")[0]).tables(read(folder / f"{name}.json"))
    return [table.markdown() for table in tables[: SHOWN[name]]]


def read_all(folder: Path) -> dict[str, list[str]]:
    """Return every table in docs, keyed by file."""
    return {name: shown(folder, name) for name in SHOWN if (folder / f"{name}.json").exists()}


if __name__ == "__main__":
    print("\n\n".join(table for tables in read_all(Path(sys.argv[1])).values() for table in tables))
