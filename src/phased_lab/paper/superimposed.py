"""Figure 4a: is each of two superimposed waves in its target range?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from phased.learn.loop import Training
from phased_lab.paper.frequency import DATA, PERIODS, clock, tag
from phased_lab.paper.frequency.task import Sines
from phased_lab.runs.descriptor import BN_LSTM, LSTM, PHASED, Claim, Experiment, Words
from phased_lab.runs.network import NetworkConfig
from phased_lab.runs.run import Run

# The settings of Figure 4a; those of Figure 3 where the paper gives no others.
RUN = Run("superimposed", "superimposed", "paper", Sines(waves=2), NetworkConfig(), Training(epochs=300))
# As in the authors' code: shorter durations, more samples, and another law of periods.
AUTHORS = Sines(waves=2, periods="authors", points=(100, 1000), duration=(1.0, 100.0))


def choose(run: Run, options: Mapping[str, str]) -> Run:
    """The run, with all settings of the authors' code for the waves if their periods are chosen."""
    if options.get("periods") != "authors":
        return run
    return run.vary(task=AUTHORS, data="authors", tag="authors", options={"periods": "authors"})


SUPERIMPOSED = Experiment(
    name="superimposed",
    number="Fig. 4a",
    title="Two superimposed waves",
    place=41,
    # Quick has enough epochs to see which networks begin to learn.
    scales={"paper": RUN, "quick": RUN.vary(scale="quick", training={"epochs": 20})},
    options=PERIODS,
    choose=choose,
    models=(PHASED, BN_LSTM, LSTM),
    conditions={"superimposed": Words("two waves, asynchronous", "two waves")},
    data=DATA,
    chance=0.5,  # two balanced classes
    finding="the Phased LSTM learns fast and with little variance; the others stay near chance.",
    # Read off the authors' published plots, after the last epoch.
    claims={
        ("phased", "superimposed"): Claim(0.93, 0.94, epochs=300),
        ("bn-lstm", "superimposed"): Claim(0.50, 0.60, epochs=300),
        ("lstm", "superimposed"): Claim(0.50, 0.60, epochs=300),
    },
    charts=("learning", "updates", "gates"),
    clock=clock,
)


@SUPERIMPOSED.study("Figure 4a: two waves at once")
def superimposed(run: Run) -> Iterator[Run]:
    """Every model; the Phased LSTM with the paper's leak, and with 0."""
    for leak in run.pick(paper=(1e-3, 0.0), quick=(0.0,)):
        yield run.vary(network={"leak": leak}, variant=f"leak {leak:g}", tag=tag(run, f"leak{leak:g}"))
    yield from (run.vary(network={"model": model}) for model in ("bn-lstm", "lstm"))
