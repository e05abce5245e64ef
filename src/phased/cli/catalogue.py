"""The experiments that can be run by name: each computes a result, draws it, and says in a sentence what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from phased.experiments import sweep


@dataclass(frozen=True)
class Outcome:
    """The files an experiment wrote and its finding in one sentence."""

    files: list[Path]
    finding: str


@dataclass(frozen=True)
class Experiment:
    """What an experiment shows, and the function that computes it and draws it into a folder."""

    about: str
    run: Callable[[Path], Outcome]


# Experiments are imported when they run: listing them needs neither time nor matplotlib.


def _gate(folder: Path) -> Outcome:
    import numpy as np

    from phased.experiments import gate
    from phased.report.drawing import figures

    result = gate.run()
    changed = (np.diff(result.ramp.cell, axis=0) != 0).mean()
    return Outcome(
        figures.save_gate(result, folder),
        f"The cells followed the ramp at {changed:.1%} of the steps and kept their bits at all others.",
    )


def _memory(folder: Path) -> Outcome:
    from phased.experiments import memory
    from phased.report.drawing import figures

    result = memory.run()
    kept, counts = result.phased[-1], result.updates
    return Outcome(
        figures.save_memory(result, folder),
        f"After {result.settings.steps} steps the LSTM has {result.lstm[-1]:.0e} of its memory left, the Phased LSTM's units "
        f"{kept.min():.2f} to {kept.max():.2f}: they were open at {counts.min()} to {counts.max()} of the steps.",
    )


def _schedule(folder: Path) -> Outcome:
    from phased.experiments import schedule
    from phased.report.drawing import figures

    result = schedule.run()
    return Outcome(
        figures.save_schedule(result, folder),
        f"Of {result.settings.units} units x {result.settings.steps} steps, {len(result.unit)} are open: {result.share:.1%}.",
    )


EXPERIMENTS = {
    "gate": Experiment("Figure 2: when gates open, and a ramp flowing through them into the cell state", _gate),
    "memory": Experiment("Eq. 11: memory kept by a closed gate against an LSTM's decay", _memory),
    "schedule": Experiment("the sparsity: which units are open at which steps, from the timestamps alone", _schedule),
}

TRAINED = {name: experiment.about for name, experiment in sweep.EXPERIMENTS.items()}
