"""The tables of times in docs, from the files of `phased bench`: `python -m phased_lab.bench.docs_tables results/bench`."""

from __future__ import annotations

import sys
from pathlib import Path

from phased_lab.bench.cases import load, read

ONE = "estimators widths physionet online reading startup cpu cpu-avx2 stream stream-avx2 nmnist tasks-cpu"
TWO = "cuda tasks-cuda"
SHOWN = dict.fromkeys(f"{ONE} epoch-cuda lipreading-cpu lipreading-cuda".split(), 1) | dict.fromkeys(TWO.split(), 2)
"""Number of tables of a file in docs."""


def shown(folder: Path, name: str) -> list[str]:
    """The tables of a file in Markdown. A file begins with the name of its benchmark."""
    tables = load(name.partition("-")[0]).tables(read(folder / f"{name}.json"))
    return [table.markdown() for table in tables[: SHOWN[name]]]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    print("\n\n".join(table for name in SHOWN if (folder / f"{name}.json").exists() for table in shown(folder, name)))
