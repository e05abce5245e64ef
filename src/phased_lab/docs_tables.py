"""The tables of docs, from the files of `phased run` and `phased bench`: `python -m phased_lab.docs_tables results`."""

from __future__ import annotations

import sys
from pathlib import Path

from phased_lab.bench.cases import load
from phased_lab.bench.cases import read as measured
from phased_lab.report.seeds import groups, main, sections
from phased_lab.report.tables import beyond, further_tests, leaks, paper_table, results
from phased_lab.runs.folder import read

ONE = (
    "tables online memory reading startup cpu cpu-avx2 stream stream-avx2 nmnist tasks-cpu epoch-cuda lipreading-cpu "
    "lipreading-cuda"
)
TWO = "cuda tasks-cuda"
SHOWN = dict.fromkeys(ONE.split(), 1) | dict.fromkeys(TWO.split(), 2)
"""Number of tables of a file of `phased bench` in docs."""


def of_times(folder: Path, name: str) -> list[str]:
    """The tables of a file of `phased bench` in Markdown. A file begins with the name of its benchmark.

    Several files of `phased bench tables` are one: fits are measured in parts, and other models in another environment.
    """
    found = measured(folder / f"{name}.json")
    if name == "tables":
        found["cases"] += [case for file in sorted(folder.glob("tables-*.json")) for case in measured(file)["cases"]]
    return [table.markdown() for table in load(name.partition("-")[0]).tables(found)[: SHOWN[name]]]


def of_runs(folder: Path) -> dict[str, str]:
    """Return the tables of the runs at the paper's scale in Markdown by name.

    The names are "leak" and, for each section (key), "key" (runs in the figure), "beyond key" (other runs), "table of key" (rows
    as in the paper) and "further tests of key".
    """
    at_scale = [group for group in groups(read(folder).records) if group.scale == "paper"]
    found = {"leak": leaks(at_scale)}
    for section in sections(at_scale):
        key = section[0].key
        found[key] = results(main(section))
        more = {"table of": paper_table(section), "further tests of": further_tests(section), "beyond": beyond(section)}
        found |= {f"{name} {key}": table for name, table in more.items() if table is not None}
    return {name: table.markdown(literally=True) for name, table in found.items()}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for title, text in of_runs(folder).items():
        print(f"{title}\n\n{text}\n")
    for name in SHOWN:
        if (folder / "bench" / f"{name}.json").exists():
            print("\n\n".join(of_times(folder / "bench", name)) + "\n")
