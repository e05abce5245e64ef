"""Report of a training: choices, scores and costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from phased.estimator.gates import Opening
from phased.estimator.network import Part
from phased.learn.store import Epoch


@dataclass(frozen=True)
class Report:
    """Report of a call of `fit`. `print(model.report_)` shows a summary.

    Args:
        train: number of sequences trained on.
        held_out: number of sequences held out.
        unit: unit of the times.
        gap: median time between two steps of the training sequences.
        span: median time from first to last step.
        periods: smallest, median and largest period of the units after training. Empty for a layer without gates.
        updates: update rate on the training sequences: updates / (steps x units). 1 for a layer without gates.
        never_open: units that open at no step of the training sequences.
        scores: scores on the held-out sequences, with the weights of the best epoch.
        best: the epoch with the lowest loss on the held-out sequences.
        curve: losses on training and held-out sequences, seconds, and update rate per epoch.
        interrupted: whether the training was stopped by an interrupt.
        refitted: whether the model was then trained on all sequences, including the held-out sequences, for `best` epochs.
        opening: "sparse" for gates that begin closed for most of the time, "open" for gates that begin open.
        part: part of the model that gives the answers: "network" for the recurrent network, "convolutions" for a ridge on random
            convolutions, "both" for the mean of their outputs.
        openings: update rate and scores on the held-out sequences, for each opening that was tried.
        parts: scores on the held-out sequences, for each part that was tried.
    """

    train: int
    held_out: int
    unit: str
    gap: float
    span: float
    periods: tuple[float, ...]
    updates: float
    never_open: int
    scores: dict[str, float]
    best: int
    curve: list[Epoch] = field(default_factory=list)
    interrupted: bool = False
    refitted: bool = False
    opening: Opening = "open"
    part: Part = "network"
    openings: dict[str, dict[str, float]] = field(default_factory=dict)
    parts: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def seconds_per_epoch(self) -> float:
        """Mean duration of an epoch, including the test."""
        return sum(epoch.seconds for epoch in self.curve) / max(1, len(self.curve))

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        stopped = ", interrupted" if self.interrupted else ""
        kept, again = ("best", ", then as many on all sequences") if self.refitted else ("kept", "")
        lines = [
            f"sequences        {self.train:,} to train on, {self.held_out:,} held out",
            f"times            median gap {self.gap:.3g}{unit}, median span {self.span:.3g}{unit}",
        ]
        if self.periods:
            low, middle, high = self.periods
            lines += [
                f"periods          {low:.3g} to {high:.3g}{unit}, median {middle:.3g}{unit}",
                f"updates          {self.updates:.1%} of those of a layer without gates",
                f"units never open {self.never_open}",
            ]
        if len(self.openings) > 1:
            lines += [
                f"{f'{opening} gates':16} {found['updates']:.1%} of the updates, {scores_of(found)}"
                f"{' <- kept' if opening == self.opening else ''}"
                for opening, found in self.openings.items()
            ]
        if len(self.parts) > 1:
            lines += [
                f"{part:16} {scores_of(found)}{' <- kept' if part == self.part else ''}" for part, found in self.parts.items()
            ]
        lines += [
            f"held-out         {scores_of(self.scores)}",
            f"epochs           {len(self.curve)}, the best is {self.best}{again}{stopped}; {self.seconds_per_epoch:.2f} s each",
            "epoch   loss  held out",
        ]
        lines += [
            f"{point.epoch:5d}  {point.loss:.3f}  {point.test:.3f}{f' <- {kept}' if point.epoch == self.best else ''}"
            for point in self.curve
        ]
        return "\n".join(lines)


def scores_of(found: Mapping[str, float]) -> str:
    """Format scores with their names."""
    return ", ".join(f"{name} {value:.4f}" for name, value in found.items() if name != "updates")
