"""Figure 3: sine waves classified by their period, sampled every 1 ms, every 0.1 ms or at random times; and further studies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from phased.learn.loop import Training
from phased_lab.paper.frequency.task import Condition, Sines, Source
from phased_lab.runs.network import ModelName, NetworkConfig
from phased_lab.runs.run import Run, Scale, check_scale


@dataclass(frozen=True)
class Figure3:
    """The settings of Figure 3, as in the paper's text."""

    conditions: tuple[Condition, ...] = ("standard", "high", "asynchronous")
    models: tuple[ModelName, ...] = ("phased", "bn-lstm", "lstm")
    # The paper's leak, and 0, at which closed units are not computed.
    leaks: tuple[float, ...] = (1e-3, 0.0)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    training: Training = field(default_factory=lambda: Training(epochs=70))
    # In the authors' code periods close to the target range are more frequent, and LSTMs are less accurate.
    periods: Source = "paper"
    # The study of sparsity: fixed open ratios, and weights of the openness cost with learned ones.
    ratios: tuple[float, ...] = (0.05, 0.1, 0.2)
    prices: tuple[float, ...] = (0.1, 0.3, 0.4, 1.0)
    # The study of initial periods: exp U(a, b), as in the paper's text.
    start: tuple[float, float] = (0.0, 3.0)


PAPER = Figure3()
# About three minutes on two cores. Random times and the authors' waves show a difference between the networks in few epochs, and
# training is fastest with a leak of 0.
QUICK = Figure3(
    conditions=("asynchronous",),
    leaks=(0.0,),
    training=Training(epochs=25),
    periods="authors",
    ratios=(0.05,),
    prices=(0.3,),
)
# Seconds: fewer units, and a higher learning rate.
DEMO = replace(
    QUICK, periods="paper", network=NetworkConfig(units=64, leak=0.0), training=Training(epochs=24, train=3000, rate=3e-3)
)
FIGURES: dict[str, Figure3] = {"paper": PAPER, "quick": QUICK}


def runs(scale: Scale, seeds: Iterable[int], periods: Source | None = None) -> list[Run]:
    """Every model under every condition."""
    maker = Maker.of("frequency", scale, periods)
    figure = maker.figure
    return [
        maker.run(
            condition, replace(figure.network, model=model, leak=leak), seed, words_of_leak(leak) if model == "phased" else ""
        )
        for seed in seeds
        for condition in figure.conditions
        for model in figure.models
        for leak in (figure.leaks if model == "phased" else (figure.network.leak,))
    ]


def demo() -> list[Run]:
    """The three networks of `phased demo`."""
    maker = Maker("frequency", "quick", DEMO)
    return [maker.run("asynchronous", replace(DEMO.network, model=model), 0, "demo", "demo") for model in DEMO.models]


def sparsity(scale: Scale, seeds: Iterable[int], periods: Source | None = None) -> list[Run]:
    """Accuracy against updates at random times: fixed open ratios, and learned ones with an openness cost; all without a leak."""
    maker = Maker.of("sparsity", scale, periods)
    figure = maker.figure
    free = replace(figure.network, leak=0.0)
    found = []
    for seed in seeds:
        for ratio in figure.ratios:
            network = replace(free, ratio_on=ratio, learn_ratio_on=False)
            found.append(maker.run("asynchronous", network, seed, f"r_on {ratio:g} fixed, leak 0", f"ratio{ratio:g}"))
        for price in figure.prices:
            words = f"{LEARNED}, openness cost {price:g}"
            found.append(maker.run("asynchronous", free, seed, words, f"price{price:g}", price))
    return found


def ranges(scale: Scale, seeds: Iterable[int], periods: Source | None = None) -> list[Run]:
    """The Phased LSTM with initial periods as in the paper's text, without a leak."""
    maker = Maker.of("ranges", scale, periods)
    low, high = maker.figure.start
    network = replace(maker.figure.network, leak=0.0, period=maker.figure.start)
    words, tag = f"{LEARNED}, period exp U({low:g}, {high:g})", f"exp{low:g}to{high:g}"
    return [maker.run(condition, network, seed, words, tag) for seed in seeds for condition in maker.figure.conditions]


def peepholes(scale: Scale, seeds: Iterable[int], periods: Source | None = None) -> list[Run]:
    """The Phased LSTM with peepholes, as in the authors' code, without a leak."""
    maker = Maker.of("peepholes", scale, periods)
    network = replace(maker.figure.network, leak=0.0, peephole=True)
    words = f"{LEARNED}, peepholes"
    return [maker.run(condition, network, seed, words, "peepholes") for seed in seeds for condition in maker.figure.conditions]


def normalisation(scale: Scale, seeds: Iterable[int], periods: Source | None = None) -> list[Run]:
    """The BN-LSTM of the work the paper cites, which normalises the input-to-hidden term."""
    maker = Maker.of("normalisation", scale, periods)
    network = replace(maker.figure.network, model="bn-lstm", normalise="term")
    words = "normalises the input-to-hidden term"
    return [maker.run(condition, network, seed, words, "term") for seed in seeds for condition in maker.figure.conditions]


def weights(scale: Scale, seeds: Iterable[int], periods: Source | None = None) -> list[Run]:
    """Every model, with initial weights as in the authors' code; the Phased LSTM without a leak."""
    maker = Maker.of("weights", scale, periods)
    network = replace(maker.figure.network, leak=0.0, weights="normal")
    drawn = "initial weights N(0, 0.1)"
    return [
        maker.run(condition, replace(network, model=model), seed, f"{LEARNED}, {drawn}" if model == "phased" else drawn, "normal")
        for seed in seeds
        for condition in maker.figure.conditions
        for model in maker.figure.models
    ]


LEARNED = "r_on learned from 0.05, leak 0"  # common to the studies beyond the figure


def words_of_leak(leak: float) -> str:
    """The label of a variant with this leak."""
    return f"leak {leak:g}"


@dataclass(frozen=True)
class Maker:
    """Makes the runs of one study at one scale on one version of the waves."""

    study: str
    scale: Scale
    figure: Figure3

    @classmethod
    def of(cls, study: str, scale: Scale, periods: Source | None) -> Maker:
        """A maker with the scale's default law of periods, or another."""
        check_scale(scale)
        figure = FIGURES[scale]
        return cls(study, scale, figure if periods is None else replace(figure, periods=periods))

    def run(
        self, condition: Condition, network: NetworkConfig, seed: int, variant: str, tag: str = "", price: float = 0.0
    ) -> Run:
        """One run. A law of periods other than the scale's default is part of its name."""
        source, own = self.figure.periods, FIGURES[self.scale].periods
        leak = f"leak{network.leak:g}" if network.model == "phased" else ""
        return Run(
            "frequency",
            condition,
            self.scale,
            Sines(condition=condition, periods=source),
            network,
            replace(self.figure.training, seed=seed, openness_cost=price),
            study=self.study,
            variant=variant,
            tag="-".join(filter(None, (leak, tag, "" if source == own else source))),
            data="" if source == "paper" else source,
            options={} if source == own else {"periods": source},
        )
