"""Figure 4a: two sine waves at once, at random times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from phased.learn.loop import Training
from phased_lab.paper.frequency.task import Sines, Source
from phased_lab.runs.network import ModelName, NetworkConfig
from phased_lab.runs.run import Run, Scale, check_scale


@dataclass(frozen=True)
class Figure4a:
    """The settings of Figure 4a; those of Figure 3 where the paper gives no others."""

    models: tuple[ModelName, ...] = ("phased", "bn-lstm", "lstm")
    leaks: tuple[float, ...] = (1e-3, 0.0)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    training: Training = field(default_factory=lambda: Training(epochs=300))
    task: Sines = field(default_factory=lambda: Sines(condition="asynchronous", waves=2))


PAPER = Figure4a()
# Enough epochs to see which networks begin to learn.
QUICK = Figure4a(leaks=(0.0,), training=Training(epochs=20))
FIGURES: dict[str, Figure4a] = {"paper": PAPER, "quick": QUICK}

# As in the authors' code: shorter durations, more samples, and another law of periods.
AUTHORS = Sines(condition="asynchronous", waves=2, periods="authors", points=(100, 1000), duration=(1.0, 100.0))


def runs(scale: Scale, seeds: Iterable[int], periods: Source | None = None) -> list[Run]:
    """Every model; `periods="authors"` uses all settings of the authors' code for the waves."""
    check_scale(scale)
    figure = FIGURES[scale]
    theirs = periods == "authors"
    found = []
    for seed in seeds:
        for model in figure.models:
            for leak in figure.leaks if model == "phased" else (figure.network.leak,):
                tags = (f"leak{leak:g}" if model == "phased" else "", "authors" if theirs else "")
                found.append(
                    Run(
                        "superimposed",
                        "superimposed",
                        scale,
                        AUTHORS if theirs else figure.task,
                        replace(figure.network, model=model, leak=leak),
                        replace(figure.training, seed=seed),
                        variant=f"leak {leak:g}" if model == "phased" else "",
                        tag="-".join(filter(None, tags)),
                        data="authors" if theirs else "",
                        options={"periods": "authors"} if theirs else {},
                    )
                )
    return found
