"""Training of the paper's networks and their peers: steps of the synthetic tasks and of lip reading, epochs of digits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import torch

from phased.fusion import Timeline
from phased.learn.average import Average
from phased.learn.batch import Batch, Samples
from phased.learn.device import one_device
from phased.learn.feed import Part, numbered, shared, shares, sizes
from phased.learn.loop import Training, adam, train_once
from phased.learn.model import Model
from phased.learn.step import WARM_UP, RecordedStep, Step
from phased_lab.bench.cases import Case, Cases, Columns, Row, Sheet, benchmark, contestants, each_case
from phased_lab.bench.measure import compare, synchroniser
from phased_lab.clips.face import SIDE
from phased_lab.lipreader.network import SOUND
from phased_lab.paper import lipreading as lips
from phased_lab.paper import nmnist as digits
from phased_lab.paper.lipreading.task import RATES, RESOLUTIONS, Resolution, Sentences
from phased_lab.paper.nmnist.network import DigitNetwork
from phased_lab.paper.nmnist.task import Digits
from phased_lab.runs.network import NetworkConfig
from phased_lab.runs.run import Run
from phased_lab.runs.sweep import runs_of

USUAL_RATIO = NetworkConfig().ratio_on
FIRST, PLAIN = f"leak 0, r_on {USUAL_RATIO:g}", "plain loop"
RECORDED = ", recorded"  # steps are replayed as CUDA graphs
STEPS = 8  # of a call that is timed
RUNS = {
    "frequency, standard": ("frequency-standard-phased-leak0.001-seed0", 0.25),
    "frequency, high resolution": ("frequency-high-phased-leak0.001-seed0", 0.13),
    "frequency, asynchronous": ("frequency-asynchronous-phased-leak0.001-seed0", 0.25),
    "superimposed": ("superimposed-superimposed-phased-leak0.001-seed0", 0.4),
    "adding": ("adding-exp6to8-phased-leak0.001-seed0", 0.05),
}
"""The run of each task, and about the mean open ratio of its network after training."""
DIGITS, LIPS = digits.BASE, lips.improved(lips.BASE)
BEFORE = 20  # batches of digits, in the warm-up
SECONDS, FRAMES = 3, 25  # of a clip, and a second


class Contestant:
    """A network in training on the device of the benchmark."""

    def __init__(self, model: Model, training: Training, recorded: bool = False) -> None:
        self.fabric, self.model, self.training = one_device("auto"), model, training
        optimizer = adam([each for each in model.parameters() if each.requires_grad], training.rate, self.fabric.device)
        self.step = (RecordedStep if recorded else Step)(model, optimizer, training, self.fabric)
        self.average = Average(model, training.average) if training.average else None

    def train(self, batches: Iterable[Part], epoch: int = 1) -> None:
        """One training step for each batch. The last step reads the loss from the device."""
        train_once(self.step, iter(batches), epoch, self.average)

    def on(self, batches: Iterable[Batch], warm_up: int = 1) -> Callable[[], None]:
        """Make a function that trains on these batches. It was called before."""
        ready = [shared(batch, self.fabric) for batch in batches]
        for _ in range(warm_up):
            self.train(ready)
        return partial(self.train, ready)


def run_of(task: str) -> Run:
    """The run of a synthetic task."""
    name, _ = RUNS[task]
    (run,) = runs_of(name.partition("-")[0], seeds=[0], only=name)
    return run


def variants(run: Run, ratio: float) -> dict[str, NetworkConfig]:
    """Return PhasedLSTM with the open ratio of the start and the end of training and with the paper's leak, and nn.LSTM."""
    network: Any = run.network
    return {
        **{f"leak 0, r_on {each:g}": replace(network, leak=0.0, ratio_on=each) for each in dict.fromkeys((USUAL_RATIO, ratio))},
        "leak 0.001": network,
        "nn.LSTM": replace(network, model="lstm"),
    }


def training(run: Run, network: Any, count: int = STEPS, recorded: bool = False, plain: bool = False) -> Callable[[], None]:
    """A function that makes `count` training steps, and was warmed up. With `plain` the layer is a loop in PyTorch.

    With `recorded`, steps are replayed as CUDA graphs, and the warm-up lasts until the graphs are recorded.
    """
    model, settings = network.build(run.task, seed=0), Training()
    if plain:
        model.rnn.backend = "reference"
    batches = [run.task.batch(0, "train", 1, number, settings.batch) for number in range(count)]
    return Contestant(model, settings, recorded).on(batches, 2 + WARM_UP // count if recorded else 1)


def step_of_task(task: str, rounds: int) -> dict[str, Any]:
    """Time training steps in rounds of 8, and in two rounds of 1 for the plain loop. On a GPU also as CUDA graphs."""
    run, sync = run_of(task), synchroniser()
    networks = variants(run, RUNS[task][1])
    ways = {name: training(run, network) for name, network in networks.items()}
    if sync is not None:
        ways |= {name + RECORDED: training(run, network, recorded=True) for name, network in networks.items()}
    seconds = {name: timing.per(STEPS) for name, timing in compare(ways, rounds, sync=sync, long=True).items()}
    seconds |= compare({PLAIN: training(run, run.network, 1, plain=True)}, 2, sync=sync, long=True)
    return {"steps": run.training.epochs * len(sizes(run.training.train, run.training.batch)), "seconds": seconds}


def columns(cell: Callable[..., str], *others: str) -> Columns:
    """A column for each contestant without a leak and for the others. "stays" stands for an open ratio that is not learned."""

    def learned(row: Row) -> str:
        names = (name for name in row.measured if name.startswith("leak 0, ") and name != FIRST and RECORDED not in name)
        return next((cell(row, name) for name in names), "stays")

    of_others = {name: partial(cell, name=name) for name in others}
    return {FIRST: partial(cell, name=FIRST), "leak 0, r_on as learned": learned, **of_others}


def with_run(row: Row, name: str) -> str:
    """The time of a step and of a whole run, and an open ratio as learned."""
    ratio = f" ({name.rpartition(' ')[2]})" if "r_on" in name and name != FIRST else ""
    return f"{row.value(name)}, {row.median(name) * row.case['steps'] / 60:.1f} min{ratio}"


def with_ratio(row: Row, name: str) -> str:
    """Format the time of a recorded step and the speed-up over nn.LSTM without recording."""
    return f"{row.value(name + RECORDED, 2)}, {row.speed_up(name + RECORDED)}"


def recorded(cases: Cases) -> Iterator[Row]:
    """A row for each case that was also measured as CUDA graphs."""
    return (row for row in each_case("a training step")(cases) if FIRST + RECORDED in row.measured)


@benchmark(
    Sheet(
        each_case("a training step"),
        {"task": lambda row: row.label, **columns(with_run, "leak 0.001", "nn.LSTM", PLAIN)},
    ),
    Sheet(
        recorded,
        {
            "task, steps recorded": lambda row: row.label,
            **columns(with_ratio, "leak 0.001", "nn.LSTM"),
            "nn.LSTM, not recorded": lambda row: row.value("nn.LSTM", 2),
        },
    ),
    gpu={},
    quick={"rounds": 2, "figures": ("frequency, asynchronous",)},
)
def tasks(rounds: int = 9, figures: tuple[str, ...] = tuple(RUNS)) -> Iterator[Case]:
    """The paper's tasks."""
    for name in figures:
        yield Case("a training step", name, partial(step_of_task, name, rounds))


def epochs_of(network: Any, task: Any) -> Callable[[], None]:
    """A function that trains on a further epoch of recordings, after a warm-up of a few batches.

    An epoch includes making the batches and the average of the parameters, and neither the test nor the checkpoint.
    """
    settings = replace(DIGITS.training, train=task.visits("train"))
    contestant, epochs = Contestant(network.build(task, seed=0), settings), 0

    def train(batches: int | None = None) -> None:
        nonlocal epochs
        epochs += 1
        places = numbered("train", epochs, settings.train, settings.batch)
        made = shares(task, settings.batch, settings.seed, places, contestant.fabric)
        contestant.train(islice(made, batches), epochs)

    train(BEFORE)
    return train


def epoch_of_digits(recordings: int, rounds: int) -> dict[str, Any]:
    """Time an epoch of simulated recordings, original and changed for PhasedLSTM, and original for its peers, in turns."""
    network, whole = DigitNetwork(), replace(Digits(), images=(recordings, 1))
    racing = {
        "Phased LSTM": epochs_of(network, whole),
        "Phased LSTM, recordings changed": epochs_of(DIGITS.network, DIGITS.vary(task={"images": (recordings, 1)}).task),
        "nn.LSTM": epochs_of(replace(network, model="lstm"), whole),
        "BN-LSTM": epochs_of(replace(network, model="bn-lstm"), whole),
    }
    return {"batch": DIGITS.training.batch, "seconds": compare(racing, rounds, long=True)}


@benchmark(
    Sheet(
        contestants("an epoch"),
        {
            "an epoch of {recordings:,} recordings": lambda row: row.label,
            "time": lambda row: f"{row.median():.1f} s",
            "speed-up of the first row": lambda row: row.speed_up_of_first(),
        },
    ),
    gpu={"recordings": 60_000, "rounds": 2},
    quick={"recordings": 2_000, "rounds": 1},
)
def epoch(recordings: int = 2_000, rounds: int = 1) -> Iterator[Case]:
    """Simulated recordings of digits, as `phased run nmnist` trains."""
    yield Case("an epoch", f"{recordings:,} recordings", partial(epoch_of_digits, recordings, rounds))


def made_up(resolution: Resolution, clips: int) -> Batch:
    """Make clips of noise with the times of GRID. A label counts at every step."""
    random = torch.Generator().manual_seed(0)
    streams = {}
    for name, rate, shape in (("video", FRAMES, (1, SIDE, SIDE)), ("audio", RATES[resolution], (SOUND,))):
        steps = SECONDS * rate
        moments = (1000 / rate * torch.arange(1, steps + 1, dtype=torch.float64)).unsqueeze(1).expand(steps, clips)
        streams[name] = Samples(
            torch.randn(steps, clips, *shape, generator=random), moments.contiguous(), torch.full((clips,), steps)
        )
    timeline = Timeline.of({name: samples.time for name, samples in streams.items()})
    words = torch.randint(Sentences().classes, timeline.time.shape, generator=random)
    return Batch(streams, words, torch.ones_like(words, dtype=torch.bool))


def updates(contestant: Contestant, batch: Batch) -> float:
    """Return the update rate. It is 1 for a network that updates all units at every step."""
    with torch.no_grad():
        counted = contestant.model.eval().updates(batch.to(contestant.fabric.device))
    return 1.0 if counted is None else float(counted.made / counted.possible)


def step_of_clips(resolution: Resolution, clips: int, rounds: int) -> dict[str, Any]:
    """Time a training step of the networks of the study and of the Phased LSTM with fewer open units, without and with a leak."""
    network: Any = LIPS.network
    usual = replace(network, ratio_on=USUAL_RATIO)
    networks = {
        f"Phased LSTM, r_on {network.ratio_on:g}": network,
        f"Phased LSTM, r_on {USUAL_RATIO:g}": usual,
        f"Phased LSTM, r_on {USUAL_RATIO:g}, leak 0.001": replace(usual, leak=1e-3),
        "BN-LSTM": replace(network, model="bn-lstm"),
        "LSTM": replace(network, model="lstm"),
    }
    batch, settings = made_up(resolution, clips), replace(LIPS.training, schedule="constant", average=0.0)
    racing = {name: Contestant(each.build(Sentences(), seed=0), settings) for name, each in networks.items()}
    seconds = compare({name: each.on([batch]) for name, each in racing.items()}, rounds, sync=synchroniser(), long=True)
    return {"seconds": seconds, "updates": {name: updates(each, batch) for name, each in racing.items()}}


@benchmark(
    Sheet(
        contestants("a training step"),
        {
            "resolution": lambda row: row.case["case"],
            "a training step of {clips} clips": lambda row: row.label,
            "time": lambda row: row.value(digits=0),
            "speed-up of the first row": lambda row: row.speed_up_of_first(),
            "updates": lambda row: f"{100 * row.case['updates'][row.own]:.0f} %",
        },
    ),
    gpu={"clips": 64},
    quick={"rounds": 2},
)
def lipreading(rounds: int = 9, clips: int = 4) -> Iterator[Case]:
    """Made-up clips at both resolutions."""
    for resolution in RESOLUTIONS:
        yield Case("a training step", resolution, partial(step_of_clips, resolution, clips, rounds))
