"""The training loop: its results depend neither on interruptions nor on the number of processes."""

import json
import math
import multiprocessing
import socket
from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch

from phased import PhasedLSTM
from phased.learn.batch import Batch, Evaluation
from phased.learn.device import make_fabric
from phased.learn.loop import Training, fit, flushed_denormals
from phased.learn.metric import sum_of_losses
from phased.learn.store import CHECKPOINT, LOG, Epoch, load_checkpoint
from phased_lab.paper.adding import Adding
from phased_lab.paper.waves import Sines
from phased_lab.runs.network import NetworkConfig
from phased_lab.runs.run import Run
from training import (
    SHORT,
    SMALL,
    EveryStep,
    Exploding,
    Signs,
    execute,
    same_numbers,
    tiny_run,
    train_as_machine,
    train_together,
)

SIGNS = Signs()


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


@pytest.mark.gpu
def test_gradients_of_mixed_precision_are_unscaled_before_they_are_clipped(tmp_path, monkeypatch):
    norms = []

    def step(self, closure=None, original=torch.optim.Adam.step):
        gradients = [p.grad.double().flatten() for group in self.param_groups for p in group["params"]]
        norms.append(torch.cat(gradients).norm().item())
        return original(self, closure)

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    fabric = make_fabric("cuda", precision="16-mixed")
    trained = fit(SMALL, NetworkConfig(units=5).build(SMALL, 0), replace(SHORT, clip=1e-3), tmp_path, fabric)
    assert max(norms) <= 1.001e-3
    assert min(norms) > 0
    assert all(math.isfinite(epoch.loss) for epoch in trained.curve)


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


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_two_machines_train_as_one_does(tmp_path, device):
    """On a GPU both use the same one."""
    runs = [tiny_run(model=model, epochs=2) for model in ("phased", "bn-lstm")]
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    spawned = multiprocessing.get_context("spawn")
    machines = [
        spawned.Process(target=train_as_machine, args=(number, port, device, runs, tmp_path / "together")) for number in (0, 1)
    ]
    for machine in machines:
        machine.start()
    for machine in machines:
        machine.join(120)
        assert machine.exitcode == 0
    assert sorted(file.name for file in tmp_path.glob("together/rank*")) == ["rank 0 of 2", "rank 1 of 2"]
    for run in runs:
        alone, together = execute(run, tmp_path / "alone", device), json.loads(run.file(tmp_path / "together").read_text())
        for one, two in zip(alone["curve"], together["curve"], strict=True):
            assert two["loss"] == pytest.approx(one["loss"], rel=1e-4)


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
@pytest.mark.filterwarnings("ignore:phased runs on cpu without its compiled core")
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
