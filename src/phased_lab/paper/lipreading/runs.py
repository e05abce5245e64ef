"""Figure 6: words read from lips and heard; and the same as close to the paper's own settings as it gives them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from phased.learn.loop import Training
from phased_lab.paper.lipreading import data
from phased_lab.paper.lipreading.network import LipNetwork, ModelName
from phased_lab.paper.lipreading.task import RESOLUTIONS, Resolution, Sentences
from phased_lab.runs.run import Run, Scale, check_scale

MODELS: tuple[ModelName, ...] = ("phased", "bn-lstm", "lstm")


@dataclass(frozen=True)
class Figure6:
    """The settings of Fig. 6. The paper gives neither the learning rate, the number of epochs nor the open ratio."""

    # Two speakers are few: networks learn 1,600 sentences by heart unless every epoch changes them. Clips begin at random times,
    # so that the gates of a Phased LSTM are in other phases at every visit.
    task: Sentences = field(
        default_factory=lambda: Sentences(
            silent=0.45, blind=0.3, flip=True, shift=3.0, zoom=0.1, light=0.3, begin=3000.0, noise=0.6
        )
    )
    # A word lasts a quarter of a second: with a lower open ratio many merged units are closed during all of it.
    network: LipNetwork = field(
        default_factory=lambda: LipNetwork(normalised=True, dropout=0.3, ratio_on=1.0, learn_ratio_on=True)
    )
    training: Training = field(
        default_factory=lambda: Training(epochs=100, batch=64, rate=4e-3, schedule="one-cycle", average=0.99, smoothing=0.1)
    )
    # As far as the paper says, and with its usual open ratio and Adam's usual rate.
    paper_task: Sentences = field(default_factory=Sentences)
    paper_network: LipNetwork = field(default_factory=LipNetwork)
    paper_training: Training = field(default_factory=lambda: Training(epochs=100, batch=64))
    models: tuple[ModelName, ...] = MODELS


PAPER = Figure6()
# A few minutes on two cores: a tenth of the clips, smaller layers, and the low resolution alone.
FEW = Sentences(most=180, clips=(0, 0))
SMALL = (32, 32, 48, 48)
SHORT = Training(epochs=8, batch=8, rate=3e-3, schedule="one-cycle")
QUICK = Figure6(
    task=FEW,
    network=replace(PAPER.network, units=SMALL, dropout=0.0),
    training=SHORT,
    paper_task=FEW,
    paper_network=LipNetwork(units=SMALL),
    paper_training=replace(SHORT, schedule="constant"),
    models=("phased", "lstm"),
)
SETTINGS: dict[str, Figure6] = {"paper": PAPER, "quick": QUICK}


def runs(scale: Scale, seeds: Iterable[int], **options: str) -> list[Run]:
    """Every model at both resolutions, trained on clips that are changed at random."""
    found = of(scale)
    return listed("lipreading", scale, found.task, found.network, found.training, seeds, options)


def paper_settings(scale: Scale, seeds: Iterable[int], **options: str) -> list[Run]:
    """The same without changes of the clips, batch normalisation of the convolutions, dropout and a learned open ratio."""
    found = of(scale)
    parts = found.paper_task, found.paper_network, found.paper_training
    return listed("lipreading-paper", scale, *parts, seeds, options, "clips unchanged", "unchanged")


def normalised(scale: Scale, seeds: Iterable[int], **options: str) -> list[Run]:
    """The Phased LSTM with batch normalisation of the input of every layer, which the BN-LSTM has."""
    found = of(scale)
    parts = found.task, replace(found.network, layers_normalised=True), found.training
    runs = listed("lipreading-normalised", scale, *parts, seeds, options, "inputs normalised", "normalised")
    return [run for run in runs if run.network.model == "phased"]


def of(scale: Scale) -> Figure6:
    """The settings of a scale."""
    check_scale(scale)
    return SETTINGS[scale]


def listed(
    study: str,
    scale: Scale,
    task: Sentences,
    network: LipNetwork,
    training: Training,
    seeds: Iterable[int],
    options: dict[str, str],
    words: str = "",
    tag: str = "",
) -> list[Run]:
    """The runs of a study: every seed, resolution and model."""
    resolutions: tuple[Resolution, ...] = RESOLUTIONS if scale == "paper" else ("low",)
    made = []
    for seed in seeds:
        for resolution in resolutions:
            placed = counted(replace(task, resolution=resolution, folder=options.get("data", "")))
            made += [
                Run(
                    "lipreading",
                    resolution,
                    scale,
                    placed,
                    replace(network, model=model),
                    replace(training, seed=seed, train=placed.clips[0], test=placed.clips[1]),
                    study=study,
                    variant=", ".join(filter(None, (words, ratio(network) if model == "phased" else ""))),
                    tag=tag,
                    options={"data": "FOLDER"} if "data" in options else {},
                )
                for model in SETTINGS[scale].models
            ]
    return made


def counted(task: Sentences) -> Sentences:
    """The task with the number and the identity of the clips that there are.

    Where there are none it keeps its own, so that runs can be listed.
    """
    parts = data.there(task.source)
    if parts is None:
        usual = (task.most * 9 // 10, task.most - task.most * 9 // 10)
        return replace(task, clips=usual) if task.most else task
    return replace(task, clips=(len(parts.train), len(parts.test)), names=data.identity(parts))


def ratio(network: LipNetwork) -> str:
    """The open ratio in a label."""
    return f"r_on learned from {network.ratio_on:g}" if network.learn_ratio_on else f"r_on {network.ratio_on:g}"
