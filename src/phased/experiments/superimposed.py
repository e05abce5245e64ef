"""Figure 4a: the same with two waves at once, at random times."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from phased.data.sines import Law, Sines
from phased.experiments.run import Run, Scale, check_scale
from phased.models.network import Model, Network
from phased.train import Settings


@dataclass(frozen=True)
class Figure4a:
    """The numbers behind Figure 4a; those of the first task where the paper says nothing else."""

    models: tuple[Model, ...] = ("phased", "bn-lstm", "lstm")
    leaks: tuple[float, ...] = (1e-3, 0.0)
    network: Network = field(default_factory=Network)
    training: Settings = field(default_factory=lambda: Settings(epochs=300))
    task: Sines = field(default_factory=lambda: Sines(condition="asynchronous", waves=2))


PAPER = Figure4a()
# Enough epochs to see who starts to learn.
QUICK = Figure4a(leaks=(0.0,), training=Settings(epochs=20))
FIGURES: dict[str, Figure4a] = {"paper": PAPER, "quick": QUICK}

# What the authors' code has: shorter, with more samples, and other periods.
AUTHORS = Sines(condition="asynchronous", waves=2, periods="authors", points=(100, 1000), duration=(1.0, 100.0))


def runs(scale: Scale, seeds: Iterable[int], periods: Law | None = None) -> list[Run]:
    """Every model; `periods="authors"` takes all of the authors' numbers for the waves, and says so in the names."""
    check_scale(scale)
    figure = FIGURES[scale]
    task, variant, by = figure.task, "", ""
    if periods == "authors":
        task, variant, by = AUTHORS, "authors", "superimposed --periods authors"
    return [
        Run(
            "superimposed",
            "superimposed",
            scale,
            task,
            replace(figure.network, model=model, leak=leak),
            replace(figure.training, seed=seed),
            variant,
            by,
        )
        for seed in seeds
        for model in figure.models
        for leak in (figure.leaks if model == "phased" else (figure.network.leak,))
    ]
