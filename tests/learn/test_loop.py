"""The training loop: its results depend neither on interruptions nor on the number of processes."""

import errno
import json
import multiprocessing
import os
import random
import resource
import signal
import time
from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch

from phased import PhasedLSTM, files
from phased.experiments.network import NetworkConfig
from phased.experiments.run import Run
from phased.learn.batch import Batch, Evaluation, Split
from phased.learn.device import make_fabric
from phased.learn.loop import Training, fit, flushed_denormals
from phased.learn.metric import sum_of_losses
from phased.learn.model import Model
from phased.learn.readout import Readout
from phased.learn.store import CHECKPOINT, LOG, Epoch, load_checkpoint
from phased.paper.adding.task import Adding
from phased.paper.frequency.task import Sines
from training import (
    SMALL,
    EveryStep,
    Exploding,
    Signs,
    TwoClocks,
    TwoSensors,
    execute,
    killed_while_writing,
    same_numbers,
    slowly,
    tiny_run,
    train_together,
    weights,
)

SHORT = Training(epochs=2, train=24, test=16, batch=8)
STEPS = Training(epochs=2, train=240, test=80, batch=8, rate=2e-2)
SIGNS = Signs()


@pytest.fixture(scope="module")
def children():
    """Processes that start quickly, because their fork server has imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["phased.experiments.sweep", "lightning.fabric"])
    return context


@pytest.fixture(scope="module")
def fabric():
    return make_fabric("cpu")


def test_the_loss_falls(tmp_path, fabric):
    """Short waves, 32 units, a second of training."""
    task = Sines(periods="authors", points=(20, 30), duration=(20.0, 30.0))
    model = NetworkConfig(units=32, leak=0.0, ratio_on=0.3, period=(1.0, 2.0)).build(task, 0)
    curve = fit(task, model, Training(epochs=12, train=640, test=100, rate=1e-2), tmp_path, fabric).curve
    assert curve[-1].loss < 0.85 * curve[0].loss
    assert curve[-1].test > 0.6


@pytest.mark.parametrize("model", ["phased", "lstm", "bn-lstm"])
def test_the_same_seed_gives_the_same_numbers_and_another_others(tmp_path, model):
    lines = [execute(tiny_run(model=model, seed=seed), tmp_path / folder) for folder, seed in (("a", 1), ("b", 1), ("c", 2))]
    assert same_numbers(lines[0]) == same_numbers(lines[1])
    assert lines[0]["curve"][-1]["loss"] != lines[2]["curve"][-1]["loss"]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("workers", [1, 2])
def test_batches_made_ahead_change_no_number(tmp_path, fabric, workers):
    curves = []
    for folder, count in (("alone", 0), ("helped", workers)):
        model = NetworkConfig(units=5).build(SMALL, 0)
        curves.append([e[:3] for e in fit(SMALL, model, SHORT, tmp_path / folder, fabric, workers=count).curve])
    assert curves[0] == curves[1]


def test_every_epoch_is_told_logged_and_kept(tmp_path, fabric):
    told: list[Epoch] = []
    outcome = fit(SMALL, NetworkConfig(units=5).build(SMALL, 0), SHORT, tmp_path, fabric, told.append)
    assert told == outcome.curve
    assert [epoch.epoch for epoch in told] == [1, 2]
    lines = [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()]
    assert [Epoch(**line) for line in lines] == told
    assert outcome.wall == pytest.approx(sum(epoch.seconds for epoch in told))
    assert {file.name for file in tmp_path.iterdir()} == {CHECKPOINT, LOG}


def test_accuracy_and_updates_are_those_of_the_model_in_eval_on_the_test_set(tmp_path, fabric):
    model = NetworkConfig(units=5, leak=0.5, ratio_on=0.2).build(SMALL, 0)
    (epoch,) = fit(SMALL, model, replace(SHORT, epochs=1), tmp_path, fabric).curve
    model.eval()
    right, opened, steps = 0, 0, 0
    for index in range(2):
        batch = SMALL.batch(0, "test", 1, index, 8)
        right += int((model(batch).argmax(-1) == batch.y).sum())
        (gate,) = model.rnn.gates()
        is_open = gate.phase(batch.samples.time.unsqueeze(-1)) < gate.ratio_on
        real = torch.arange(len(batch.samples.x))[:, None] < batch.samples.lengths
        opened += int(is_open[real].sum())
        steps += int(real.sum()) * 5
    assert epoch.test == right / 16
    assert epoch.updates == pytest.approx(opened / steps)


def test_a_regression_is_tested_by_its_mean_squared_error(tmp_path, fabric):
    task = Adding(length=(10, 14))
    model = NetworkConfig(units=5).build(task, 0)
    (epoch,) = fit(task, model, replace(SHORT, epochs=1, test=8), tmp_path, fabric).curve
    batch = task.batch(0, "test", 1, 0, 8)
    assert epoch.test == pytest.approx((model.eval()(batch) - batch.y).square().mean().item(), rel=1e-5)
    assert epoch.loss > 0


def test_baselines_have_no_updates_to_count(tmp_path):
    line = execute(tiny_run(model="lstm"), tmp_path)
    assert line["updates"] is None
    assert {epoch["updates"] for epoch in line["curve"]} == {None}


def test_gradients_are_clipped_to_the_norm_the_settings_say(tmp_path, fabric, monkeypatch):
    norms = []

    def step(self, closure=None):
        gradients = [p.grad.double().flatten() for group in self.param_groups for p in group["params"]]
        norms.append(torch.cat(gradients).norm().item())

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    fit(SMALL, NetworkConfig(units=5).build(SMALL, 0), replace(SHORT, clip=1e-3), tmp_path / "small", fabric)
    assert max(norms) <= 1.001e-3
    norms.clear()
    fit(SMALL, NetworkConfig(units=5).build(SMALL, 0), replace(SHORT, clip=1e6), tmp_path / "large", fabric)
    assert max(norms) > 1e-2


def test_a_price_on_openness_lowers_the_open_ratio(tmp_path, fabric):
    ratios = []
    for price in (0.0, 10.0):
        model = NetworkConfig(units=5, ratio_on=0.3).build(SMALL, 0)
        fit(SMALL, model, replace(SHORT, openness_cost=price), tmp_path / f"{price}", fabric)
        ratios.append(model.rnn.get_parameter("ratio_on_l0").mean().item())
    assert ratios[1] < 0.3 - 0.004 < ratios[0]


def test_times_reach_the_layer_exactly_under_mixed_precision(tmp_path, monkeypatch):
    seen = set()
    forward = PhasedLSTM.forward

    def spy(self, input, time, *rest, **options):
        seen.add((input.dtype, time.dtype))
        return forward(self, input, time, *rest, **options)

    monkeypatch.setattr(PhasedLSTM, "forward", spy)
    model = NetworkConfig(units=5).build(SMALL, 0)
    outcome = fit(SMALL, model, SHORT, tmp_path, make_fabric("cpu", precision="bf16-mixed"))
    assert seen == {(torch.float32, torch.float64)}
    assert outcome.curve[-1].loss > 0


def test_a_loss_that_is_no_number_ends_the_training_and_says_so(tmp_path, fabric):
    task = Exploding(points=(5, 12), duration=(5.0, 20.0))
    with pytest.raises(FloatingPointError, match=r"the loss of epoch 2 is nan. Try a smaller rate than 0.001"):
        fit(task, NetworkConfig("lstm", units=4).build(task, 0), SHORT, tmp_path, fabric)
    assert len((tmp_path / LOG).read_text().splitlines()) == 1


# Labels per step, and models of all kinds


@dataclass(frozen=True)
class Numbers(Signs):
    """The labels are the samples themselves; labels that do not count are nan."""

    classes: int | None = None

    def batch(self, seed, split, epoch, index, size):
        batch = super().batch(seed, split, epoch, index, size)
        y = torch.where(batch.mask, batch.samples.x[..., 0], float("nan"))
        return Batch.of(*batch.samples, y, batch.mask)


@dataclass(frozen=True)
class Words:
    """Is the index, constant along a sequence, below five? Padding has an index that is out of range."""

    def batch(self, seed, split, epoch, index, size):
        batch = SIGNS.batch(seed, split, epoch, index, size)
        first = (5 + 5 * batch.samples.x[0, :, 0].tanh()).long().clamp(0, 9)
        indices = torch.where(batch.samples.time > 0, first, 10**6)
        return Batch.of(indices, batch.samples.time, batch.samples.lengths, (first < 5).long())


def every_step(folder, fabric, task=SIGNS, **training):
    """The curve and the network of a training with labels per step."""
    model = EveryStep(units=12).build(task, 0)
    return fit(task, model, replace(STEPS, **training), folder, fabric).curve, model


def numbers(curve):
    """The parts of a curve that do not depend on the time it took."""
    return [(point.epoch, point.loss, point.test, point.updates) for point in curve]


def test_labels_a_step_are_learned(tmp_path, fabric):
    curve, _ = every_step(tmp_path, fabric, epochs=6)
    assert curve[-1].loss < 0.7 * curve[0].loss
    assert curve[-1].test > 0.85


def test_what_the_mask_leaves_out_changes_nothing(tmp_path, fabric):
    one, other = (every_step(tmp_path / f"{poison}", fabric, Signs(poison=poison)) for poison in (0, 10**9))
    assert numbers(one[0]) == numbers(other[0])
    for name, value in one[1].state_dict().items():
        assert torch.equal(value, other[1].state_dict()[name]), name


@pytest.mark.parametrize("share", [0.5, 0.02])
def test_the_metric_of_labels_a_step_counts_labels(tmp_path, fabric, share):
    task = Signs(share=share)
    (epoch,), model = every_step(tmp_path, fabric, task, epochs=1)
    batches = [task.batch(0, "test", 1, index, 8) for index in range(STEPS.test // 8)]
    model.eval()
    right = sum(int((model(batch).argmax(-1) == batch.y)[batch.mask].sum()) for batch in batches)
    assert epoch.test == right / sum(int(batch.mask.sum()) for batch in batches)
    if share < 0.1:
        assert min(int(batch.mask.sum()) for batch in batches) == 0, "a batch without a label is no hindrance"


def test_the_loss_of_labels_a_step_is_the_mean_over_labels(tmp_path, fabric):
    (epoch,), _ = every_step(tmp_path, fabric, epochs=1, train=8)
    batch, model = SIGNS.batch(0, "train", 1, 0, 8), EveryStep(units=12).build(SIGNS, 0)
    wanted = torch.nn.functional.cross_entropy(model.train()(batch)[batch.mask], batch.y[batch.mask])
    assert epoch.loss == pytest.approx(wanted.item(), rel=1e-5)


def test_a_number_a_step_is_learned_by_its_squared_error(tmp_path, fabric):
    task = Numbers()
    model = EveryStep(units=4).build(task, 0)
    (epoch,) = fit(task, model, replace(STEPS, epochs=1, test=8), tmp_path, fabric).curve
    batch = task.batch(0, "test", 1, 0, 8)
    wanted = (model.eval()(batch) - batch.y)[batch.mask].square().mean()
    assert epoch.test == pytest.approx(wanted.item(), rel=1e-5)


def test_a_model_of_two_streams_with_their_own_clocks_is_trained(tmp_path, fabric):
    torch.manual_seed(0)
    model = TwoClocks()
    curve = fit(TwoSensors(), model, replace(STEPS, epochs=8, openness_cost=0.01), tmp_path, fabric).curve
    assert curve[-1].loss < 0.7 * curve[0].loss
    assert curve[-1].test > 0.85
    batches = [TwoSensors().batch(0, "test", 8, index, 8) for index in range(STEPS.test // 8)]
    counts = [model.updates(batch) for batch in batches]
    assert curve[-1].updates == pytest.approx(float(sum(c.made for c in counts) / sum(c.possible for c in counts)))
    assert 0 < curve[-1].updates < 1


def test_a_model_of_two_streams_resumes_with_the_unbroken_trainings_bits(tmp_path, fabric):
    def trained(folder, *epochs):
        for count in epochs:
            torch.manual_seed(0)
            model = TwoClocks()
            outcome = fit(TwoSensors(), model, replace(STEPS, epochs=count), tmp_path / folder, fabric)
        return outcome, model.state_dict()

    (unbroken, one), (resumed, other) = trained("unbroken", 4), trained("broken", 1, 3, 4)
    assert (unbroken.resumed, resumed.resumed) == (0, 3)
    assert numbers(unbroken.curve) == numbers(resumed.curve)
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


def test_a_model_without_a_penalty_has_no_price(tmp_path, fabric):
    curves = []
    for price in (0.0, 10.0):
        model = NetworkConfig("lstm", units=5).build(SMALL, 0)
        assert model.penalty() is None
        curves.append(numbers(fit(SMALL, model, replace(SHORT, openness_cost=price), tmp_path / f"{price}", fabric).curve))
    assert curves[0] == curves[1]


def test_any_module_with_the_three_methods_is_trained(tmp_path, fabric):
    class Mine(torch.nn.Module):
        """Not a subclass of Model."""

        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(1, 2)

        def forward(self, batch):
            return self.linear(batch.samples.x[0])

        def updates(self, batch):
            return None

        def penalty(self):
            return None

    (epoch,) = fit(SMALL, Mine(), replace(SHORT, epochs=1), tmp_path, fabric).curve
    assert epoch.updates is None
    assert epoch.loss > 0


@pytest.mark.parametrize(
    "model, got",
    [
        (torch.nn.Linear(1, 2), "got Linear without updates, penalty."),
        (PhasedLSTM(1, 2), "got PhasedLSTM without updates, penalty."),
        (lambda batch: batch.y, "got function."),
        (None, "got NoneType."),
    ],
    ids=["Linear", "PhasedLSTM", "function", "None"],
)
def test_what_is_no_model_is_refused_before_anything_is_written(tmp_path, fabric, model, got):
    with pytest.raises(TypeError) as caught:
        fit(SMALL, model, SHORT, tmp_path / "new", fabric)
    wanted = "model must be a torch module with forward(batch), updates(batch) and penalty(), "
    assert str(caught.value) == f"{wanted}{got} Make it a subclass of phased.learn.Model."
    assert not (tmp_path / "new").exists()


class Answering(Model):
    """Returns zeros of a shape."""

    def __init__(self, *shape):
        super().__init__()
        self.shape, self.weight = shape, torch.nn.Parameter(torch.zeros(()))

    def forward(self, batch):
        return self.weight * torch.zeros(self.shape)


@pytest.mark.parametrize(
    "task, shape, wanted",
    [
        (SMALL, (7, 2), "(8, classes), because y holds classes"),
        (SMALL, (8, 2, 1), "(8, classes), because y holds classes"),
        (SMALL, (12, 8, 2), "(8, classes), because y holds classes"),
        (SMALL, (), "(8, classes), because y holds classes"),
        (SMALL, (8,), "(8, classes), because y holds classes"),
        (Adding(length=(10, 12)), (8, 1), "(8), because y holds numbers"),
        (SIGNS, (8, 2), "(9, 8, classes), because y holds classes"),
        (SIGNS, (9, 8), "(9, 8, classes), because y holds classes"),
    ],
)
def test_an_answer_of_another_shape_is_named(tmp_path, fabric, task, shape, wanted):
    with pytest.raises(ValueError) as caught:
        fit(task, Answering(*shape), SHORT, tmp_path, fabric)
    got = str(shape).replace("'", "")
    assert f"the model's output must have shape {wanted}" in str(caught.value)
    assert f"got {got}" in str(caught.value)


@dataclass(frozen=True)
class Unlabelled(Signs):
    """No label counts."""

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        batch = super().batch(seed, split, epoch, index, size)
        return replace(batch, mask=torch.zeros_like(batch.mask))


def test_an_epoch_without_any_label_is_an_error(tmp_path, fabric):
    model = Readout(PhasedLSTM(1, 4, period=2.0, ratio_on=0.9), 2, every_step=True)
    with pytest.raises(ValueError, match="at least one label must count in an epoch, got none"):
        fit(Unlabelled(), model, STEPS, tmp_path, fabric)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_an_encoder_is_trained_with_its_layer(tmp_path, precision):
    task = Words()
    model = Readout(PhasedLSTM(3, 8, period=2.0, ratio_on=0.9), 2, encoder=torch.nn.Embedding(10, 3))
    before = model.encoder.weight.detach().clone()
    curve = fit(task, model, replace(STEPS, epochs=4), tmp_path, make_fabric("cpu", precision=precision)).curve
    assert curve[-1].loss < 0.8 * curve[0].loss
    assert not torch.equal(model.encoder.weight, before)


def test_denormal_numbers_are_flushed_inside_and_only_there():
    tiny = torch.full((1,), 1e-310, dtype=torch.float64)
    assert (tiny * 1).item() > 0
    with flushed_denormals():
        assert (tiny * 1).item() == 0
    assert (tiny * 1).item() > 0


# Tasks with data of their own, and further tests


@dataclass(frozen=True)
class OnDevice(Sines):
    """Counts the calls of `to`, and has two further tests."""

    def to(self, device, size):
        CALLS.append((device, size))
        return Sines(points=self.points, duration=self.duration)

    def evaluations(self):
        return {"once": Evaluation(self, 16), "slowly": Evaluation(Sines(points=(20, 25)), 24)}


CALLS = []
PLACED = OnDevice(points=(5, 12), duration=(5.0, 20.0))


def test_a_task_that_can_be_placed_makes_its_batches_on_the_device_and_in_this_process(tmp_path, fabric):
    CALLS.clear()
    network = NetworkConfig(units=5)
    placed = fit(PLACED, network.build(PLACED, 0), SHORT, tmp_path / "a", fabric, workers=4)
    assert set(CALLS) == {(torch.device("cpu"), 8)}
    plain = fit(SMALL, network.build(SMALL, 0), SHORT, tmp_path / "b", fabric)
    assert [epoch[:3] for epoch in placed.curve] == [epoch[:3] for epoch in plain.curve]
    assert plain.evaluations == {}


def test_further_tests_are_made_once_with_the_trained_network(tmp_path, fabric):
    model = NetworkConfig(units=5).build(PLACED, 0)
    outcome = fit(PLACED, model, SHORT, tmp_path, fabric)
    assert set(outcome.evaluations) == {"once", "slowly"}
    task = Sines(points=(20, 25))
    batches = [task.batch(0, "test", 0, index, 8) for index in range(3)]
    model.eval()
    with torch.no_grad():
        right = sum((model(batch).argmax(-1) == batch.y).sum().item() for batch in batches)
    made, possible = (sum(int(model.updates(batch)[side]) for batch in batches) for side in (0, 1))
    score = outcome.evaluations["slowly"]
    assert score.sequences == 24
    assert score.test == right / 24
    assert score.steps == sum(int(batch.samples.lengths.sum()) for batch in batches) / 24
    assert score.updates == made / possible
    again = fit(PLACED, NetworkConfig(units=5).build(PLACED, 0), SHORT, tmp_path, fabric)
    assert again.resumed == 2
    assert again.evaluations == outcome.evaluations


# Rate, smoothing and averages

RICH = replace(SHORT, epochs=4, schedule="one-cycle", average=0.9, smoothing=0.1)


def test_a_resumed_training_with_a_cycle_and_an_average_gives_the_same_bits(tmp_path, fabric):
    def stop(epoch):
        if epoch.epoch == 2:
            raise KeyboardInterrupt

    whole, broken = (NetworkConfig(units=5).build(SMALL, 0) for _ in range(2))
    wanted = fit(SMALL, whole, RICH, tmp_path / "whole", fabric)
    with pytest.raises(KeyboardInterrupt):
        fit(SMALL, broken, RICH, tmp_path / "broken", fabric, stop)
    again = NetworkConfig(units=5).build(SMALL, 0)
    found = fit(SMALL, again, RICH, tmp_path / "broken", fabric)
    assert found.resumed == 2
    assert [epoch[:3] for epoch in found.curve] == [epoch[:3] for epoch in wanted.curve]
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_the_averaged_network_is_tested_kept_and_returned(tmp_path, fabric):
    model = NetworkConfig(units=5).build(SMALL, 0)
    outcome = fit(SMALL, model, RICH, tmp_path, fabric)
    state = load_checkpoint(tmp_path / CHECKPOINT)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in state["model"].items())
    learned = [p for p in model.parameters() if p.requires_grad]
    assert not any(torch.equal(p, value) for p, value in zip(learned, state["average"]["values"], strict=True))
    batches = [SMALL.batch(0, "test", 4, index, 8) for index in range(2)]
    model.eval()
    with torch.no_grad():
        assert outcome.curve[-1].test == sum((model(batch).argmax(-1) == batch.y).sum().item() for batch in batches) / 16


def test_a_cycle_of_another_length_is_another_training(tmp_path, fabric):
    fit(SMALL, NetworkConfig(units=5).build(SMALL, 0), RICH, tmp_path, fabric)
    with pytest.raises(ValueError, match="epochs is 4 there, 6 here"):
        fit(SMALL, NetworkConfig(units=5).build(SMALL, 0), replace(RICH, epochs=6), tmp_path, fabric)


def test_smoothing_raises_the_loss_of_a_certain_network():
    batch = Batch.of(torch.zeros(3, 2, 1), torch.zeros(3, 2), torch.tensor([3, 3]), torch.tensor([0, 1]))
    answer = torch.tensor([[9.0, -9.0], [-9.0, 9.0]])
    assert sum_of_losses(answer, batch).item() == pytest.approx(0.0, abs=1e-6)
    assert sum_of_losses(answer, batch, smoothing=0.2).item() == pytest.approx(2 * 0.1 * 18, rel=1e-5)


# Interruptions


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """An uninterrupted run of every model: its result and its weights."""
    results = {}
    for model in ("phased", "bn-lstm"):
        out = tmp_path_factory.mktemp(model)
        run = tiny_run(model=model, epochs=6)
        results[model] = same_numbers(execute(run, out)), weights(run, out)
    return results


def wait_for_epoch(log, epoch):
    """Wait until the log has this many epochs."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if log.exists() and len(log.read_text().splitlines()) >= epoch:
            return
        time.sleep(0.001)
    pytest.fail(f"no epoch {epoch} in a minute")


@pytest.mark.parametrize("model", ["phased", "bn-lstm"])
@pytest.mark.parametrize("chance", range(2))
def test_killed_at_any_moment_and_resumed_it_gives_the_unbroken_runs_bits(tmp_path, children, unbroken, model, chance):
    draw = random.Random(f"{model} {chance}")
    run = tiny_run(model=model, epochs=6)
    for least in (0, 3):
        child = children.Process(target=slowly, args=(run, tmp_path))
        child.start()
        wait_for_epoch(run.folder(tmp_path) / LOG, draw.randint(least, least + 1))
        time.sleep(draw.uniform(0.0, 0.06))  # about an epoch: in training, or in a checkpoint
        child.kill()
        child.join()
        assert child.exitcode == -signal.SIGKILL
        assert not run.file(tmp_path).exists()
    assert same_numbers(execute(run, tmp_path)) == unbroken[model][0]
    assert weights(run, tmp_path) == unbroken[model][1]


# The calls of fsync are, in turn, for a checkpoint, its folder, a log, its folder. Calls 1 to 4 come before the first epoch.
@pytest.mark.parametrize("write", [1, 2, 5, 9, 15])
def test_killed_while_it_writes_a_checkpoint_it_resumes_with_the_unbroken_runs_bits(tmp_path, children, unbroken, write):
    run = tiny_run(epochs=6)
    child = children.Process(target=killed_while_writing, args=(run, tmp_path, write))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert not run.file(tmp_path).exists()
    assert same_numbers(execute(run, tmp_path)) == unbroken["phased"][0]
    assert weights(run, tmp_path) == unbroken["phased"][1]
    assert {file.name for file in run.folder(tmp_path).iterdir()} == {CHECKPOINT, LOG}, (
        "what a killed writer left is cleared away"
    )


def test_more_epochs_are_more_of_the_same_training(tmp_path, unbroken):
    execute(tiny_run(epochs=4), tmp_path)
    line = execute(tiny_run(epochs=6), tmp_path)
    assert same_numbers(line)["curve"] == unbroken["phased"][0]["curve"]


def test_a_finished_training_is_not_repeated(tmp_path, fabric):
    fit(SMALL, NetworkConfig(units=5).build(SMALL, 0), SHORT, tmp_path, fabric)
    model = NetworkConfig(units=5).build(SMALL, 0)
    outcome = fit(SMALL, model, SHORT, tmp_path, fabric, lambda epoch: pytest.fail("an epoch was run"))
    assert outcome.resumed == 2
    assert len(outcome.curve) == 2


@pytest.mark.parametrize(
    "other, message",
    [
        ({"settings": replace(SHORT, batch=4)}, "batch is 8 there, 4 here"),
        ({"task": Sines()}, 'task is "Sines'),
        ({"network": NetworkConfig(units=5, leak=0.25)}, "model is 'Readout"),
        ({"settings": replace(SHORT, epochs=1)}, "has 2 epochs, more than epochs=1"),
    ],
)
def test_the_checkpoint_of_another_training_is_not_taken_over(tmp_path, fabric, other, message):
    fit(SMALL, NetworkConfig(units=5).build(SMALL, 0), SHORT, tmp_path, fabric)
    given = {"task": SMALL, "network": NetworkConfig(units=5), "settings": SHORT} | other
    with pytest.raises(ValueError, match=message) as caught:
        fit(given["task"], given["network"].build(given["task"], 0), given["settings"], tmp_path, fabric)
    assert "Choose another folder, or delete it to start anew." in str(caught.value)


def test_a_file_that_is_no_checkpoint_is_named(tmp_path, fabric):
    (tmp_path / CHECKPOINT).write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match=r"checkpoint\.pt' is damaged, or not a checkpoint.*Delete it to start anew"):
        fit(SMALL, NetworkConfig(units=5).build(SMALL, 0), SHORT, tmp_path, fabric)


def test_fabrics_advice_to_round_products_is_not_repeated_at_every_start(caplog):
    """Lightning advises a lower precision on each start on a GPU with tensor cores, which would change the results."""
    from lightning.fabric.utilities.rank_zero import rank_zero_info, rank_zero_warn

    make_fabric("cpu")
    rank_zero_info("You are using a CUDA device that has Tensor Cores")
    with pytest.warns(UserWarning, match="a real warning"):
        rank_zero_warn("a real warning")
    assert "Tensor Cores" not in caplog.text


# Disks


def full_disk(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_found_out_before_training(tmp_path, fabric, monkeypatch):
    monkeypatch.setattr(files.os, "fsync", full_disk)
    with pytest.raises(OSError, match=r"cannot write '.*checkpoint\.pt': No space left on device; there was none before it"):
        fit(SMALL, NetworkConfig(units=5).build(SMALL, 0), SHORT, tmp_path, fabric, lambda epoch: pytest.fail("an epoch was run"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("average, room", [(0.0, 3), (0.9, 7)], ids=["", "average"])
def test_a_disk_without_room_for_two_checkpoints_is_found_out_before_training(tmp_path, fabric, average, room):
    model = NetworkConfig(units=60).build(SMALL, 0)
    one = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room * one, before[1]))  # room for one checkpoint, not for two
    try:
        with pytest.raises(OSError, match=r"cannot write to the folder '.*': File too large. Make room there, or choose another"):
            fit(SMALL, model, replace(SHORT, average=average), tmp_path, fabric, lambda epoch: pytest.fail("an epoch was run"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_leaves_the_last_checkpoint_intact(tmp_path, unbroken, monkeypatch):
    run, synced, count = tiny_run(epochs=6), os.fsync, 0

    def fills_up(handle):
        nonlocal count
        count += 1
        full_disk() if count > 12 else synced(handle)

    monkeypatch.setattr(files.os, "fsync", fills_up)
    with pytest.raises(OSError, match=r"No space left on device; the one before it is intact. Make room"):
        execute(run, tmp_path)
    state = load_checkpoint(run.folder(tmp_path) / CHECKPOINT)
    assert len(state["curve"]) == 2
    monkeypatch.undo()
    assert same_numbers(execute(run, tmp_path)) == unbroken["phased"][0]


def test_a_folder_that_cannot_be_written_to_is_found_out_before_training(tmp_path, fabric):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match=r"cannot write to the folder '.*file/run'.*Choose another"):
        fit(SMALL, NetworkConfig(units=5).build(SMALL, 0), SHORT, tmp_path / "file" / "run", fabric)


# Devices and processes


def test_two_processes_train_as_one_does(tmp_path):
    """39 sequences in batches of 8: unequal shares, batch norm over both processes, and shares without any label."""
    runs = [tiny_run(model=model, epochs=2) for model in ("phased", "lstm", "bn-lstm")]
    runs = [replace(run, training=replace(run.training, train=39)) for run in runs]
    term = replace(runs[-1], network=replace(runs[-1].network, normalise="term"), tag="term")
    labels = [
        Run("tiny", "every", "quick", Signs(share=share), EveryStep(), replace(run.training, openness_cost=0.1), tag=f"{share}")
        for share in (0.5, 0.05)
        for run in runs[:1]
    ]
    runs = [*runs, term, *labels]
    # A partial, because Fabric searches arguments for modules, and fails at frozen dataclasses.
    make_fabric("cpu", devices=2, strategy="ddp_spawn").launch(partial(train_together, runs=runs, out=tmp_path / "together"))
    assert sorted(file.name for file in tmp_path.glob("together/rank*")) == ["rank 0 of 2", "rank 1 of 2"]
    for run in runs:
        alone, together = execute(run, tmp_path / "alone"), json.loads(run.file(tmp_path / "together").read_text())
        for one, two in zip(alone["curve"], together["curve"], strict=True):
            assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
            assert two["test"] == one["test"]
            assert two["updates"] == one["updates"]
        states = [load_checkpoint(run.folder(tmp_path / folder) / CHECKPOINT)["model"] for folder in ("alone", "together")]
        for name, value in states[0].items():
            torch.testing.assert_close(states[1][name], value, rtol=1e-3, atol=1e-5, msg=f"{run.name}: {name}")


def test_more_processes_than_a_batch_has_sequences_are_refused(tmp_path, fabric, monkeypatch):
    monkeypatch.setattr(type(fabric), "world_size", 3)
    with pytest.raises(ValueError, match=r"a sequence for each of the 3 processes, but one has 1. Choose train, test and"):
        fit(SMALL, NetworkConfig(units=5).build(SMALL, 0), replace(SHORT, train=25), tmp_path, fabric)


def test_an_unknown_device_is_named():
    with pytest.raises(ValueError, match="device must be one of 'auto', 'cpu', 'cuda', got 'tpu'"):
        make_fabric("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="device must be 'cpu' here, got 'cuda', which PyTorch does not find"):
            make_fabric("cuda")
        assert make_fabric("auto").device.type == "cpu"


@pytest.mark.gpu
@pytest.mark.parametrize("model", ["phased", "lstm", "bn-lstm"])
def test_a_gpu_trains_as_the_cpu_does(tmp_path, model):
    curves = []
    for device in ("cpu", "cuda"):
        net = NetworkConfig(model, units=5).build(SMALL, 0)
        curves.append(fit(SMALL, net, SHORT, tmp_path / device, make_fabric(device), workers=1).curve)
    for one, other in zip(*curves, strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-3)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"batch": -1}, "batch must be at least 1, got -1"),
        ({"rate": 0.0}, "rate must be in"),
        ({"clip": -1.0}, "clip must be in"),
        ({"openness_cost": -1.0}, "openness_cost must be in"),
    ],
)
def test_settings_without_meaning_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        Training(**wrong)
