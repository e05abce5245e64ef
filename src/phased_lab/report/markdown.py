"""The tables of docs/results.md, from the records: `python -m phased_lab.report.markdown results`."""

from __future__ import annotations

import sys
from pathlib import Path

from phased_lab.report.seeds import groups, main, sections
from phased_lab.report.tables import beyond, further_tests, leaks, paper_table, results
from phased_lab.runs.folder import read


def tables(folder: Path) -> dict[str, str]:
    """Return the tables of the runs at the paper's scale by name.

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
    for name, text in tables(Path(sys.argv[1])).items():
        print(f"{name}\n\n{text}\n")
