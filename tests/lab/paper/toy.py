"""A toy experiment, as somebody would add it: one file. Is a number positive? And a figure that is only drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from phased.learn import Training
from phased.learn.batch import generator, padded
from phased_lab.runs.descriptor import Claim, Drawn, Experiment, Kind, Option, Words, drawing
from phased_lab.runs.network import NetworkConfig
from phased_lab.runs.run import Run


@dataclass(frozen=True)
class Numbers:
    """The same number again and again, in noise."""

    condition: str = "even"
    noise: float = 0.1
    features: int = 1
    classes: int = 2

    def batch(self, seed, split, epoch, index, size):
        random = generator(0x70, seed, split, epoch, index, size)
        lengths = random.integers(3, 6, size, endpoint=True)
        shape = (lengths.max(), size)
        shown = random.normal(size=size)
        steps = np.ones(shape) if self.condition == "even" else 2 * random.random(shape)
        x = shown + self.noise * random.normal(size=shape)
        return padded(x[..., None], steps.cumsum(0), lengths, (shown > 0).astype(np.int64))


def choose(run: Run, options: Mapping[str, str]) -> Run:
    """Numbers in more noise."""
    if options.get("noise") != "high":
        return run
    return run.vary(task={"noise": 1.0}, data="high", option_tag="high", options={"noise": "high"})


RUN = Run(
    "toy",
    "even",
    "paper",
    Numbers(),
    NetworkConfig(units=4, period=(0.0, 1.0), ratio_on=0.5),
    Training(epochs=2, train=96, test=64, batch=16, rate=2e-2),
)
TOY = Experiment(
    name="toy",
    number="Fig. 99",
    title="Signs of numbers",
    place=7,
    base=RUN,
    options={"noise": Option("How loud it is around.", ("low", "high"))},
    choose=choose,
    models=(Kind("phased", "Gated toy"), Kind("lstm", "LSTM of a toy", "#123456")),
    conditions={"even": Words("a sample every second", "every second"), "uneven": Words("a sample now and then", "now and then")},
    data={"": "quiet numbers", "high": "numbers in noise"},
    chance=0.5,
    finding="numbers have signs.",
    claims={("phased", "even"): Claim(0.875, 0.875, epochs=2)},
    charts=("bars", "learning", "updates", "gates"),
)


@TOY.study("is a number positive?")
def toy(run: Run) -> Iterator[Run]:
    """Both kinds of networks under both conditions."""
    for condition in ("even", "uneven"):
        each = run.vary(condition=condition, task={"condition": condition})
        for leak in (0.0, 0.001, 0.01):
            yield each.vary(network={"leak": leak}, variant=f"leak {leak:g}", tag=f"leak{leak:g}")
        yield each.vary(network={"model": "lstm"})


@TOY.study("the same with more units")
def toy_wide(run: Run) -> Iterator[Run]:
    """With more units."""
    yield run.vary(network={"units": 9, "leak": 0.0}, variant="9 units", tag="wide")


@drawing("A sketch", about="a line, drawn")
def sketch() -> Drawn:
    """What is drawn without training."""
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().plot([0, 1], [0, 1])
    return Drawn({"sketch": figure}, "A line has two ends.")
