"""Time of a training step of the paper's synthetic tasks with PhasedLSTM, nn.LSTM and a plain PyTorch loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from phased.layer import PhasedRNN
from phased.learn.batch import Task
from phased.learn.device import one_device
from phased.learn.feed import shared
from phased.learn.loop import Training, adam, train_once
from phased.learn.model import Readout
from phased.learn.step import WARM_UP, RecordedStep, Step
from phased_lab.bench.benchmark import Case, Cases, Row, Sheet, benchmark, each_case
from phased_lab.bench.measure import compare, synchroniser
from phased_lab.paper.adding import Adding
from phased_lab.paper.waves import Sines
from phased_lab.runs.network import NetworkConfig

FIRST, PLAIN = f"leak 0, r_on {NetworkConfig().ratio_on:g}", "plain loop"
RECORDED = ", recorded"  # steps are replayed as CUDA graphs
STEPS = 8  # of a call that is timed


@dataclass(frozen=True)
class Figure:
    """A task of the paper and the epochs of a run. An epoch is 157 training steps of 32 sequences."""

    name: str
    task: Task
    epochs: int
    network: NetworkConfig = NetworkConfig()  # noqa: RUF009 (frozen)
    learned: float = 0.25  # about the mean open ratio after training

    @property
    def steps(self) -> int:
        """Training steps of a run."""
        training = Training()
        return self.epochs * -(-training.train // training.batch)


FIGURES = (
    Figure("frequency, standard", Sines(condition="standard"), 70),
    Figure("frequency, high resolution", Sines(condition="high"), 70, learned=0.13),
    Figure("frequency, asynchronous", Sines(condition="asynchronous"), 70),
    Figure("superimposed", Sines(condition="asynchronous", waves=2), 300, learned=0.4),
    Figure("adding", Adding(), 100, NetworkConfig(period=(6.0, 8.0), learn_ratio_on=False), learned=0.05),
)


def networks(figure: Figure) -> dict[str, NetworkConfig]:
    """Return PhasedLSTM with the open ratio of the start and the end of training and with the paper's leak, and the peers."""
    network = figure.network
    ratios = dict.fromkeys((network.ratio_on, figure.learned))
    return {
        **{f"leak 0, r_on {ratio:g}": replace(network, leak=0.0, ratio_on=ratio) for ratio in ratios},
        "leak 0.001": network,
        "nn.LSTM": replace(network, model="lstm"),
        PLAIN: network,
    }


def build(figure: Figure, name: str, network: NetworkConfig) -> Readout:
    """Build the network. The plain loop runs in PyTorch."""
    model: Readout = network.build(figure.task, seed=0)
    if name == PLAIN and isinstance(model.rnn, PhasedRNN):
        model.rnn.backend = "reference"
    return model


def training(figure: Figure, name: str, count: int = STEPS, recorded: bool = False) -> Callable[[], None]:
    """A function that makes `count` training steps, with the optimiser, and was warmed up.

    With `recorded`, steps are replayed as CUDA graphs, and the warm-up lasts until the graphs are recorded.
    """
    fabric, training = one_device("auto"), Training()
    model = build(figure, name, networks(figure)[name])
    optimizer = adam(list(model.parameters()), training.rate, fabric.device)
    steps = (RecordedStep if recorded else Step).of(model, optimizer, training, fabric)
    batches = [shared(figure.task.batch(0, "train", 1, i, training.batch), fabric) for i in range(count)]

    def run() -> None:
        train_once(steps, iter(batches))

    for _ in range(2 + WARM_UP // count if recorded else 1):
        run()
    return run


def measure(figure: Figure, rounds: int) -> dict[str, Any]:
    """Time training steps in rounds of 8, and in two rounds of 1 for the plain loop. On a GPU also as CUDA graphs."""
    sync, fast = synchroniser(), [name for name in networks(figure) if name != PLAIN]
    ways = {name: training(figure, name) for name in fast}
    if sync is not None:
        ways |= {name + RECORDED: training(figure, name, recorded=True) for name in fast}
    seconds = {name: timing.per(STEPS) for name, timing in compare(ways, rounds, sync=sync, long=True).items()}
    seconds |= compare({PLAIN: training(figure, PLAIN, 1)}, 2, sync=sync, long=True)
    return {"steps": figure.steps, "seconds": seconds}


def learned(row: Row) -> str:
    """Return the contestant with the open ratio of the end of training, or "" if the open ratio is not learned."""
    names = [name for name in row.case["seconds"] if name.startswith("leak 0, ") and name != FIRST and RECORDED not in name]
    return names[0] if names else ""


def with_run(row: Row, name: str) -> str:
    """The time of a step and of a whole run."""
    return f"{row.value(name)}, {row.median(name) * row.case['steps'] / 60:.1f} min"


def with_ratio(row: Row, name: str) -> str:
    """Format the time of a recorded step and the speed-up over nn.LSTM without recording."""
    return f"{row.value(name + RECORDED, 2)}, {row.speed_up(name + RECORDED)}"


def recorded(cases: Cases) -> Iterator[Row]:
    """A row for each case that was also measured as CUDA graphs."""
    return (row for row in each_case("a training step")(cases) if row.has(FIRST + RECORDED))


@benchmark(
    Sheet(
        each_case("a training step"),
        {
            "task": lambda row: row.label,
            FIRST: lambda row: with_run(row, FIRST),
            "leak 0, r_on as learned": lambda row: (
                f"{with_run(row, learned(row))} ({learned(row).rpartition(' ')[2]})" if learned(row) else "stays"
            ),
            **{name: partial(with_run, name=name) for name in ("leak 0.001", "nn.LSTM", PLAIN)},
        },
    ),
    Sheet(
        recorded,
        {
            "task, steps recorded": lambda row: row.label,
            FIRST: lambda row: with_ratio(row, FIRST),
            "leak 0, r_on as learned": lambda row: with_ratio(row, learned(row)) if learned(row) else "stays",
            **{name: partial(with_ratio, name=name) for name in ("leak 0.001", "nn.LSTM")},
            "nn.LSTM, not recorded": lambda row: row.value("nn.LSTM", 2),
        },
    ),
    gpu={},
    quick={"rounds": 2, "figures": (FIGURES[2].name,)},
)
def tasks(rounds: int = 9, figures: tuple[str, ...] = tuple(figure.name for figure in FIGURES)) -> Iterator[Case]:
    """The paper's tasks."""
    for figure in (figure for figure in FIGURES if figure.name in figures):
        yield Case("a training step", figure.name, partial(measure, figure, rounds))
