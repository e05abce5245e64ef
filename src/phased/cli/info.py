"""`phased info`: versions, the machine, and the available backends."""

from __future__ import annotations

import platform

import numpy as np
import torch
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from phased import __version__
from phased.machine import processor
from phased.ops import backends


def describe() -> RenderableType:
    """The information that belongs in a bug report."""
    facts = Table.grid(padding=(0, 2))
    for name, value in versions_and_machine().items():
        facts.add_row(Text(name, style="bold"), Text(value))
    return Group(facts, "", backend_table())


def versions_and_machine() -> dict[str, str]:
    """The versions that affect the results of a run, and the processors as PyTorch will use them."""
    gpus = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
    return {
        "phased": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": f"{processor()}, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}",
        "gpu": ", ".join(gpus) or "none that PyTorch can use",
    }


def backend_table() -> Table:
    """Each backend, whether it can run here, and if not, why and what to do."""
    table = Table("backend", "available", "about", box=None, padding=(0, 2, 0, 0), header_style="bold")
    for backend in backends().values():
        missing = backend.missing()
        if missing is None:
            table.add_row(backend.name, Text("yes", style="green"), Text(backend.about))
        else:
            table.add_row(backend.name, Text("no", style="red"), Text(f"{backend.about}\n{missing}"))
    return table
