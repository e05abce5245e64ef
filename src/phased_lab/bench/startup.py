"""Seconds and imported modules of commands and imports in a new interpreter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from phased_lab.bench.cases import Case, Sheet, benchmark, contestants
from phased_lab.bench.measure import compare

NOTHING = "python -c pass"
COUNT = "\nimport sys, atexit; atexit.register(lambda: print(len(sys.modules), file=sys.stderr))\n"
COMMAND = "import sys; sys.argv = ['phased', {argument!r}]; from phased.cli import main; main()"
STARTS = {
    "phased --version": COMMAND.format(argument="--version"),
    "phased --help": COMMAND.format(argument="--help"),
    "import phased; phased.PhasedLSTM": "import phased; phased.PhasedLSTM",
    "import torch": "import torch",
    NOTHING: "pass",
}
"""The program of each start."""


def start(code: str) -> str:
    """Run a program in a new interpreter and return its standard error."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr


def measure(rounds: int) -> dict[str, Any]:
    """Time each start, in turns after a warm-up, and count the modules, including the modules of Python."""
    modules = {name: int(start(COUNT + code).split()[-1]) for name, code in STARTS.items()}
    seconds = compare({name: partial(start, code) for name, code in STARTS.items()}, rounds, long=True)
    return {"seconds": seconds, "modules": modules}


@benchmark(
    Sheet(
        contestants("start"),
        {
            "start of a new interpreter": lambda row: f"`{row.label}`",
            "s": lambda row: f"{row.median():.2f}",
            "modules": lambda row: f"{row.case['modules'][row.own]:,}",
        },
    ),
    quick={"rounds": 3},
)
def startup(rounds: int = 15) -> Iterator[Case]:
    """Commands and imports, beside an empty program and `import torch`."""
    yield Case("start", "new interpreters", partial(measure, rounds))
