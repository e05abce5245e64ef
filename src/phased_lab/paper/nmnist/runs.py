"""Table 1: digits seen by an event camera; and studies beyond it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from phased import check
from phased.data.places import find_nmnist
from phased.learn.loop import Training
from phased_lab.paper.nmnist import data
from phased_lab.paper.nmnist.network import DigitNetwork, ModelName
from phased_lab.paper.nmnist.task import TRAINED, Digits, Trained
from phased_lab.runs.run import Run, Scale, check_scale

EPOCHS = 24


@dataclass(frozen=True)
class Table1:
    """The settings of Table 1. The paper gives neither the learning rate nor the number of epochs."""

    models: tuple[ModelName, ...] = ("cnn", "bn-lstm", "phased")
    # 60,000 recordings are few: networks learn them by heart unless every epoch changes them.
    task: Digits = field(default_factory=lambda: Digits(shift=1, turn=10.0, stretch=0.1, jitter=4.0))
    network: DigitNetwork = field(default_factory=lambda: DigitNetwork(forget=2.0, dropout=0.2))
    training: Training = field(
        default_factory=lambda: Training(epochs=EPOCHS, batch=128, rate=5e-3, schedule="one-cycle", average=0.998)
    )
    # The same networks trained on the recordings as they are, as far as the paper says.
    unchanged_task: Digits = field(default_factory=Digits)
    unchanged: DigitNetwork = field(default_factory=DigitNetwork)
    # The study of open ratios, beside the one of the network above.
    ratios: tuple[float, ...] = (0.02, 0.1, 0.2)
    # A larger network, for a quarter of an hour on a GPU: more units that are open for longer, and recordings that are also bent.
    best: DigitNetwork = field(default_factory=lambda: DigitNetwork(units=256, ratio_on=0.1, forget=2.0, dropout=0.3))
    best_task: Digits = field(
        default_factory=lambda: Digits(keep=0.7, spread=0.3, shift=1, turn=10.0, stretch=0.1, bend=1.0, jitter=4.0)
    )
    best_training: Training = field(
        default_factory=lambda: Training(epochs=42, batch=128, rate=4e-3, schedule="one-cycle", average=0.999)
    )
    # Taught by a convolutional network that sees whole recordings, for ten minutes; units are open for longer, recordings have
    # fewer events.
    taught: DigitNetwork = field(
        default_factory=lambda: DigitNetwork(
            units=256, ratio_on=0.2, smooth=3.0, mean=True, hidden=256, forget=2.0, dropout=0.2, teacher=0.7
        )
    )
    taught_task: Digits = field(
        default_factory=lambda: Digits(keep=0.85, spread=0.15, most=3000, shift=1, turn=10.0, stretch=0.1, bend=1.0, jitter=4.0)
    )
    taught_training: Training = field(
        default_factory=lambda: Training(epochs=31, batch=128, rate=4e-3, schedule="one-cycle", average=0.999)
    )


PAPER = Table1()
# A few minutes on two cores: a thirtieth of the recordings, and no BN-LSTM, which alone would take a quarter of an hour.
FEW = (2000, 500)
SHORT = Training(epochs=4, batch=16, rate=3e-3, schedule="one-cycle")
QUICK = Table1(
    models=("cnn", "phased"),
    task=Digits(images=FEW),
    unchanged_task=Digits(images=FEW),
    training=SHORT,
    ratios=(0.02, 0.2),
    best=DigitNetwork(ratio_on=0.1),
    best_task=Digits(images=FEW, spread=0.25, shift=1, jitter=4.0),
    best_training=SHORT,
    taught=DigitNetwork(ratio_on=0.1, smooth=3.0, mean=True, hidden=64, teacher=0.7),
    taught_task=Digits(images=FEW, spread=0.25, most=2800, shift=1, jitter=4.0),
    taught_training=SHORT,
)
TABLES: dict[str, Table1] = {"paper": PAPER, "quick": QUICK}


def runs(scale: Scale, seeds: Iterable[int], **options: str) -> list[Run]:
    """Every model of Table 1."""
    maker = Maker.of("nmnist", scale, options)
    table = maker.table
    return [
        maker.run(table.task, replace(table.network, model=model), table.training, seed)
        for seed in seeds
        for model in table.models
    ]


def unchanged(scale: Scale, seeds: Iterable[int], **options: str) -> list[Run]:
    """Every model of Table 1, trained on recordings as they are, without dropout and without a bias of the forget gates."""
    maker = Maker.of("nmnist-unchanged", scale, options)
    table = maker.table
    return [
        maker.run(
            table.unchanged_task, replace(table.unchanged, model=model), table.training, seed, "recordings unchanged", "unchanged"
        )
        for seed in seeds
        for model in table.models
    ]


def ratios(scale: Scale, seeds: Iterable[int], **options: str) -> list[Run]:
    """The Phased LSTM with several open ratios."""
    maker = Maker.of("nmnist-ratios", scale, options)
    table = maker.table
    return [
        maker.run(table.task, replace(table.network, ratio_on=ratio), table.training, seed, tag=f"ratio{ratio:g}")
        for seed in seeds
        for ratio in table.ratios
    ]


def with_real(scale: Scale, seeds: Iterable[int], **options: str) -> list[Run]:
    """The Phased LSTM trained on simulated and real recordings."""
    maker = Maker.of("nmnist-real", scale, options)
    table = maker.table
    return [maker.run(table.task, table.network, table.training, seed) for seed in seeds]


def best(scale: Scale, seeds: Iterable[int], **options: str) -> list[Run]:
    """The best network of a quarter of an hour on a GPU."""
    maker = Maker.of("nmnist-best", scale, options)
    table = maker.table
    return [
        maker.run(table.best_task, table.best, table.best_training, seed, f"{table.best.units} units", "best") for seed in seeds
    ]


def taught(scale: Scale, seeds: Iterable[int], **options: str) -> list[Run]:
    """The larger network taught by a convolutional one, for ten minutes on a GPU."""
    maker = Maker.of("nmnist-taught", scale, options)
    table = maker.table
    words = f"{table.taught.units} units, taught by a CNN"
    return [maker.run(table.taught_task, table.taught, table.taught_training, seed, words, "taught") for seed in seeds]


@dataclass(frozen=True)
class Maker:
    """Makes the runs of one study at one scale, on recordings that the options choose."""

    study: str
    scale: Scale
    table: Table1
    recordings: Trained
    folder: str
    skip_bad: bool

    @classmethod
    def of(cls, study: str, scale: Scale, options: dict[str, str]) -> Maker:
        """A maker for the options of a study: `recordings`, `data` and `skip_bad`."""
        check_scale(scale)
        folder = options.get("data", "")
        if folder:
            find_nmnist(folder)
        recordings: Any = options.get("recordings", usual(study, folder))
        check.choice("recordings", recordings, TRAINED)
        return cls(study, scale, TABLES[scale], recordings, folder, options.get("skip_bad", "no") == "yes")

    def run(self, task: Digits, network: DigitNetwork, training: Training, seed: int, words: str = "", tag: str = "") -> Run:
        """One run. The number of its recordings is among its settings."""
        real = data.identity(self.folder) if self.folder else ""
        task = replace(task, recordings=self.recordings, real=real, folder=self.folder, skip_bad=self.skip_bad)
        return Run(
            "nmnist",
            self.recordings,
            self.scale,
            task,
            network,
            replace(training, seed=seed, train=task.visits, test=task.test().sequences),
            study=self.study,
            variant=", ".join(filter(None, (words, f"r_on {network.ratio_on:g}" if network.model == "phased" else ""))),
            tag=tag,
            data="real" if self.recordings == "real" else "",
            options=self.options(),
        )

    def options(self) -> dict[str, str]:
        """The options in the command of a record, which has no path of this machine."""
        known = self.recordings == usual(self.study, self.folder)
        found: dict[str, str] = {} if known else {"recordings": self.recordings}
        found |= {"data": "FOLDER"} if self.folder else {}
        return found | ({"skip_bad": "yes"} if self.skip_bad else {})


def usual(study: str, folder: str) -> Trained:
    """The recordings that a study trains on unless an option names others: with a folder of real ones, these."""
    if study == "nmnist-real":
        return "both"
    return "real" if folder else "simulated"
