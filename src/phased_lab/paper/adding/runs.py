"""Figure 4b: adding two of about 500 numbers, for four ranges of periods."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from phased.learn.loop import Training
from phased_lab.paper.adding.task import Adding
from phased_lab.runs.network import NetworkConfig
from phased_lab.runs.run import Run, Scale, check_scale


@dataclass(frozen=True)
class Figure4b:
    """The settings of Figure 4b; a step is one unit of time."""

    # Periods are initialised to exp U(a, b).
    ranges: tuple[tuple[float, float], ...] = ((0, 2), (2, 4), (4, 6), (6, 8))
    leaks: tuple[float, ...] = (1e-3, 0.0)
    # The open ratio is fixed at 0.05. The paper: "the total number of updates remains approximately the same".
    network: NetworkConfig = field(default_factory=lambda: NetworkConfig(learn_ratio_on=False))
    # The paper gives neither the number of epochs nor the learning rate. At 1e-3, in a preliminary test, one of three seeds with
    # the longest periods had not converged after 100 epochs.
    training: Training = field(default_factory=lambda: Training(epochs=100, rate=2e-3))
    task: Adding = field(default_factory=Adding)


PAPER = Figure4b()
# The shortest and the longest periods, with enough epochs to see a difference.
QUICK = Figure4b(ranges=((0, 2), (6, 8)), leaks=(0.0,), training=Training(epochs=20, rate=2e-3))
FIGURES: dict[str, Figure4b] = {"paper": PAPER, "quick": QUICK}


def runs(scale: Scale, seeds: Iterable[int]) -> list[Run]:
    """The Phased LSTM with each range of periods."""
    check_scale(scale)
    figure = FIGURES[scale]
    return [
        Run(
            "adding",
            f"exp({low:g},{high:g})",
            scale,
            figure.task,
            replace(figure.network, period=(low, high), leak=leak),
            replace(figure.training, seed=seed),
            variant=f"leak {leak:g}",
            tag=f"leak{leak:g}",
            condition_tag=f"exp{low:g}to{high:g}",
        )
        for seed in seeds
        for low, high in figure.ranges
        for leak in figure.leaks
    ]
