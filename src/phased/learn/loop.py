"""The training loop, its tests, and the learning rate over a training."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor, nn

from phased import check, files
from phased.learn.average import Average, Best, Last
from phased.learn.batch import Evaluated, Evaluation, Task
from phased.learn.device import OneDevice, devices_of
from phased.learn.feed import Part, numbered, numbered_epochs, shares, sizes
from phased.learn.metric import Objective, mean, sum_of_losses, sum_of_scores, summed
from phased.learn.model import Model
from phased.learn.step import RecordedStep, Step
from phased.learn.store import Epoch, Score, Store

if TYPE_CHECKING:
    from lightning.fabric import Fabric

Schedule = Literal["constant", "one-cycle"]
SCHEDULES: tuple[str, ...] = get_args(Schedule)

# As in torch.optim.lr_scheduler.OneCycleLR: the part of the steps before the highest rate, the rate at the first and at the last
# step as parts of the highest, and Adam's beta1 at the ends and at the highest rate. The rise is shorter than torch's 0.3:
# the first epoch of many is trained at nearly the highest rate.
RISE = 0.02
FIRST, LAST = 1 / 25, 1 / 25e4
BETA, LOWEST_BETA = 0.95, 0.85


@dataclass(frozen=True)
class Training:
    """The settings of a training with Adam. Every epoch trains on `train` sequences of the task, and tests on `test`.

    Args:
        epochs: number of epochs.
        train: training sequences per epoch.
        test: test sequences per epoch.
        batch: sequences per batch.
        rate: learning rate. The default is Adam's, and the authors'.
        clip: largest norm of the gradients. The period's gradient grows with time, so a bound is needed.
        openness_cost: factor of `Model.penalty`, which is added to the loss (`phased.openness_cost`).
        seed: seed of the batches and of torch's random numbers.
        schedule: "constant", or "one-cycle" for a rate that rises to `rate` and falls to almost 0, as in torch's OneCycleLR.
        average: decay of a moving average of the parameters, with which the network is tested and which it has in the end;
            0 for none.
        smoothing: label smoothing of the loss of classes, from 0 to 1.

    Raises:
        ValueError: a number is out of its range.
    """

    epochs: int = 70
    train: int = 5000
    test: int = 500
    batch: int = 32
    rate: float = 1e-3
    clip: float = 1.0
    openness_cost: float = 0.0
    seed: int = 0
    schedule: Schedule = "constant"
    average: float = 0.0
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        for name in ("epochs", "train", "test", "batch"):
            check.positive_int(name, getattr(self, name))
        for name in ("rate", "clip"):
            check.number(name, getattr(self, name), low=0.0, low_open=True)
        check.number("openness_cost", self.openness_cost, low=0.0)
        check.choice("schedule", self.schedule, SCHEDULES)
        check.number("average", self.average, low=0.0, high=1.0, high_open=True)
        check.number("smoothing", self.smoothing, low=0.0, high=1.0)
        for name, value in vars(self).items():
            if isinstance(value, np.generic):  # a checkpoint has Python's numbers
                object.__setattr__(self, name, value.item())

    @property
    def steps(self) -> int:
        """Training steps of an epoch."""
        return len(sizes(self.train, self.batch))


@dataclass(frozen=True)
class OpenFirst:
    """Schedule of the openness cost: free at the beginning, then rising linearly.

    Use it with gates that begin open, `ratio_on=1.0` and `learn_ratio_on=True`. `phased.learn.fit` takes it as `pricing`. In a
    loop of one's own it is a factor: `loss + cost * pricing(step / steps) * openness_cost(rnn)`.

    Args:
        free: part of the training without openness cost, in [0, 1]. After this part the cost rises linearly, to `1 - free` times
            `Training.openness_cost` at the end. Default: 0.4.

    Raises:
        TypeError: free is no number.
        ValueError: free is not in [0, 1].

    Example:
        >>> from phased.learn import OpenFirst
        >>> [round(OpenFirst(0.4)(part), 2) for part in (0.0, 0.4, 0.7, 1.0)]
        [0.0, 0.0, 0.3, 0.6]
    """

    free: float = 0.4

    def __post_init__(self) -> None:
        check.number("free", self.free, low=0.0, high=1.0)

    def __call__(self, part: float) -> float:
        """Return the factor of the openness cost after this part of the training, from 0 to 1."""
        return max(0.0, part - self.free)


@dataclass(frozen=True)
class Trained:
    """The learning curve, and how many of its epochs come from the checkpoint of an earlier, interrupted call.

    `evaluations` has the results of the task's further tests, by name.
    """

    curve: list[Epoch]
    resumed: int
    evaluations: dict[str, Score] = field(default_factory=dict)

    @property
    def wall(self) -> float:
        """Seconds spent on all epochs, including those before an interruption."""
        return math.fsum(epoch.seconds for epoch in self.curve)


Progress = Callable[[Epoch], None]
MakeOptimizer = Callable[[nn.Module], torch.optim.Optimizer]


def fit(
    task: Task,
    model: Model,
    training: Training,
    folder: Path,
    fabric: Fabric | OneDevice,
    progress: Progress | None = None,
    workers: int = 0,
    *,
    objective: Objective | None = None,
    optimizer: MakeOptimizer | None = None,
    best: Best | Last | None = None,
    pricing: OpenFirst | None = None,
    recorded: bool = False,
) -> Trained:
    """Train a model in place, or resume from the checkpoint in the folder.

    Every epoch ends with a checkpoint and a line in the log. A training that was killed and resumed gives the same numbers as
    one that was not: batches are pure functions of the seed, and torch is seeded again for each epoch, so a checkpoint holds
    only the weights, the optimiser's state and the learning curve.

    Args:
        task: makes the batches.
        model: the network to train; see `phased.learn.Model`.
        training: the settings.
        folder: for the checkpoint and the log; created if it does not exist.
        fabric: the device or devices to train on (`phased.learn.make_fabric`).
        progress: called after every epoch, in the first process.
        workers: processes that prefetch batches; 0 makes each batch when it is needed.
        objective: the loss and the test result. Default: cross entropy and accuracy of classes, squared error of numbers.
            Objective, optimizer and pricing need a `repr` that is the same in every process, as task and model do.
        optimizer: makes the optimiser from the model. Default: Adam for all parameters that require a gradient.
        best: ends the training early, and selects the final weights (`Best` or `Last`). Default: train for all epochs.
        pricing: schedule of the factor of `training.openness_cost`, which must be above 0. Default: the full cost in every step.
        recorded: replay training steps as CUDA graphs, on one GPU. A small network, bound by Python, then trains several times
            as fast, with the same numbers up to rounding. Model, objective and penalty are called only until a step is recorded:
            they must do the same work for every batch of a size, read no values of tensors, and not depend on padding.

    Returns:
        The learning curve, including the epochs of an earlier, interrupted call, and the results of the task's further tests.

    Raises:
        TypeError: the model lacks one of the methods of `phased.learn.Model`.
        ValueError: the checkpoint in the folder is damaged, of another training or of more epochs; a batch has fewer sequences
            than there are processes; pricing has no openness cost to multiply; no label of an epoch counts; or the model's
            output does not have the shape of the labels.
        OSError: the folder cannot be written to.
        FloatingPointError: the loss is not finite.
    """
    check_model(model)
    devices = devices_of(fabric)
    if recorded and (devices.device.type != "cuda" or devices.world_size > 1):
        where = f"{devices.world_size} processes" if devices.world_size > 1 else devices.device.type
        raise ValueError(f"recorded=True needs one GPU, got {where}. Use recorded=False.")
    if recorded and "mixed" in devices.precision:
        raise ValueError(f"recorded=True needs training in full precision, got {devices.precision!r}. Use recorded=False.")
    if pricing is not None and not training.openness_cost:
        raise ValueError("pricing must come with an openness_cost above 0, got 0. Set it: Training(openness_cost=0.1).")
    folder = files.named(folder)
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not learned:
        raise ValueError("model must have a parameter that requires a gradient, got none. Call model.requires_grad_().")
    further = task.evaluations() if isinstance(task, Evaluated) else {}
    counts = (training.train, training.test, *(test.sequences for test in further.values()))
    smallest = min(size for count in counts for size in sizes(count, training.batch))
    divisible = getattr(model, "divisible", False)
    if smallest < devices.world_size and not divisible:
        raise ValueError(
            f"every batch must have a sequence for each of the {devices.world_size} processes, but one has {smallest}. "
            f"Choose train, test and the sizes of further tests as multiples of batch."
        )
    given = {"task": task, "model": model, "objective": objective, "optimizer": optimizer, "pricing": pricing}
    named = {name: repr(value) for name, value in given.items() if value is not None}
    for name, text in named.items():
        if " at 0x" in text:  # an address, which differs between processes
            raise ValueError(
                f"{name} must have a repr that is the same in every process, so that a checkpoint is recognised, got {text}. "
                f"Make it a frozen dataclass, or give it a __repr__."
            )
    identity: dict[str, Any] = {"task": repr(task), "model": repr(model), **asdict(training), **named}
    if training.schedule == "constant" and pricing is None:  # rate and cost do not depend on the number of epochs
        del identity["epochs"]  # so the training may be continued with more epochs
    made = adam(learned, training.rate, devices.device, devices.precision) if optimizer is None else optimizer(model)
    step = (RecordedStep if recorded else Step)(model, made, training, devices, objective)
    average = Average(model, training.average) if training.average else None
    parts = {"model": model, "optimizer": step.optimizer, "average": average, "best": best}
    ending = best or Last(training.epochs)
    store = Store(folder, identity, {name: part for name, part in parts.items() if part is not None}, devices)
    curve = store.resume(training.epochs)
    resumed = len(curve)
    if not curve:  # a full disk is noticed before the first epoch
        store.keep(curve)
    epochs = range(resumed + 1, training.epochs + 1)
    places = numbered_epochs(epochs, training.train, training.test, training.batch)
    batches = shares(task, training.batch, training.seed, places, devices, workers)
    tests = len(sizes(training.test, training.batch))
    with flushed_denormals():
        for epoch in epochs:
            if ending.over:
                break
            begin = time.perf_counter()
            torch.manual_seed(epoch_seed(training.seed, epoch, 0 if divisible else devices.global_rank))
            if average is not None:
                average.swap()  # back to the parameters that are trained
            loss = train_once(step, islice(batches, training.steps), epoch, average, pricing)
            if not math.isfinite(loss):
                raise FloatingPointError(f"the loss of epoch {epoch} is {loss}. Try a smaller rate than {training.rate:g}.")
            if average is not None:
                average.swap()
            score = evaluate(step, islice(batches, tests))
            curve.append(Epoch(epoch, loss, score.test, time.perf_counter() - begin, score.updates, score.loss))
            ending.take(model, epoch, score.test)
            store.keep(curve)
            if progress is not None and devices.is_global_zero:
                progress(curve[-1])
        ending.restore(model)
        return Trained(curve, resumed, evaluate_further(step, further))


def adam(parameters: list[nn.Parameter], rate: float, device: torch.device, precision: str = "32-true") -> torch.optim.Adam:
    """Adam; on a GPU in one kernel for all parameters, where a step of a small network would be a dozen launches otherwise.

    Not where float16 needs scaled gradients: that kernel would unscale them itself, after they were clipped.
    """
    fused = device.type == "cuda" and precision != "16-mixed"
    return torch.optim.Adam(parameters, lr=rate, fused=True if fused else None)


def check_model(model: object) -> None:
    """Raise a TypeError if the model cannot be trained."""
    lacking = [name for name in ("forward", "updates", "penalty") if not callable(getattr(model, name, None))]
    if not isinstance(model, nn.Module) or lacking:
        without = f" without {', '.join(lacking)}" if isinstance(model, nn.Module) else ""
        raise TypeError(
            f"model must be a torch module with forward(batch), updates(batch) and penalty(), got {check.kind(model)}{without}. "
            f"Make it a subclass of phased.learn.Model."
        )


def train_once(
    step: Step, batches: Iterator[Part], epoch: int = 1, average: Average | None = None, pricing: OpenFirst | None = None
) -> float:
    """Train on the batches of an epoch, and return the mean loss over all labels of all processes."""
    step.model.train()
    training, fabric = step.training, step.fabric
    loss, labels = torch.zeros((), dtype=torch.float64, device=fabric.device), 0
    for number, share in enumerate(batches, (epoch - 1) * training.steps):
        if training.schedule == "one-cycle":
            set_pace(step.optimizer, one_cycle(number, training.epochs * training.steps, training.rate))
        if pricing is not None:
            step.charge(pricing(number / (training.epochs * training.steps)))
        loss += step(share)
        labels += share.labels
        fabric.step(step.optimizer)
        if average is not None:
            average.update()
    total = summed({"loss": loss, "labels": labels}, fabric)
    return mean(total["loss"], total["labels"])


@torch.no_grad()
def evaluate(step: Step, batches: Iterator[Part]) -> Score:
    """Test the model of a step in eval mode, and return the scores."""
    module, objective = step.module, step.objective
    step.model.eval()
    zero = torch.zeros((), dtype=torch.float64, device=step.fabric.device)
    sums: dict[str, Tensor | int] = {}
    for batch, labels, _ in batches:
        output = module(batch)
        found: dict[str, Any] = {"labels": labels, "loss": sum_of_losses(output, batch, objective), "sequences": batch.size}
        found["steps"] = sum(samples.lengths.sum() for samples in batch.streams.values())
        for counts in (sum_of_scores(output, batch, labels, objective), step.model.updates(batch)):
            found |= {} if counts is None else counts._asdict()
        for name, value in found.items():
            if value is not None:
                sums[name] = sums.get(name, zero if isinstance(value, Tensor) else 0) + value
    total = summed(sums, step.fabric)
    return Score(
        test=mean(total["score"], total["answers"]),
        sequences=int(total["sequences"]),
        steps=total["steps"] / total["sequences"],
        updates=total["made"] / (total["possible"] or 1.0) if "made" in total else None,
        loss=mean(total["loss"], total["labels"]),
        whole=total["whole"] / total["sequences"] if "whole" in total else None,
    )


def evaluate_further(step: Step, tests: Mapping[str, Evaluation]) -> dict[str, Score]:
    """Return the scores of the further tests of a task, by name."""
    found, size, seed = {}, step.training.batch, step.training.seed
    for name, (test, sequences) in tests.items():
        found[name] = evaluate(step, shares(test, size, seed, numbered("test", 0, sequences, size), step.fabric))
    return found


def epoch_seed(seed: int, epoch: int, rank: int) -> int:
    """Seed of torch's random numbers in an epoch: a resumed run draws the same numbers as an uninterrupted one."""
    return int(np.random.SeedSequence([seed, epoch, rank]).generate_state(1)[0])


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Flush denormal numbers to zero: gradients decay to them over many steps, and they are 30 times slower to compute with."""
    before = bool((torch.full((1,), 1e-310, dtype=torch.float64) * 1 == 0).item())
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


class Pace(NamedTuple):
    """The learning rate and Adam's beta1 at one step."""

    rate: float
    beta: float


def one_cycle(step: int, steps: int, highest: float) -> Pace:
    """Step number `step` of `steps` of torch's OneCycleLR: a function of the step, so a resumed training needs no state of it."""
    peak, end = RISE * steps - 1, steps - 1
    if peak > 0 and step <= peak:
        part = step / peak
        return Pace(_between(FIRST, 1.0, part) * highest, _between(BETA, LOWEST_BETA, part))
    part = (step - peak) / (end - peak)
    return Pace(_between(1.0, LAST, part) * highest, _between(LOWEST_BETA, BETA, part))


def _between(begin: float, end: float, part: float) -> float:
    """Half a cosine wave from `begin`, at part 0, to `end`, at part 1."""
    return end + (begin - end) / 2 * (1 + math.cos(math.pi * part))


def set_pace(optimizer: Any, pace: Pace) -> None:
    """Set rate and beta1 of an Adam optimiser."""
    for group in optimizer.param_groups:
        group["lr"], group["betas"] = pace.rate, (pace.beta, group["betas"][1])
