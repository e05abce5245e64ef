"""The training loop: its results are those of the model, and depend neither on interruptions nor on the number of processes."""

import json
import math
import multiprocessing
import socket
from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch
from torch.optim.lr_scheduler import OneCycleLR

from phased import PhasedLSTM
from phased.learn.average import Best
from phased.learn.batch import Batch, Evaluation
from phased.learn.device import make_fabric
from phased.learn.loop import RISE, OpenFirst, Pace, Training, flushed_denormals, one_cycle, set_pace
from phased.learn.metric import sum_of_losses
from phased.learn.store import CHECKPOINT, LOG, Epoch, load_checkpoint
from phased_lab.paper.adding import Adding
from phased_lab.paper.waves import Sines
from phased_lab.runs.network import NetworkConfig
from phased_lab.runs.run import Run
from training import (
    SMALL,
    EveryStep,
    Signs,
    SignsAsNumbers,
    TwoClocks,
    TwoSensors,
    WrongShare,
    assert_same_weights,
    execute,
    numbers,
    tiny_run,
    train_as_machine,
    train_together,
)

RICH = {"epochs": 4, "schedule": "one-cycle", "average": 0.9, "smoothing": 0.1}


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


def by_hand(task, model, epoch, size):
    """The test result, the updates and the number of steps of a network in eval, batch after batch of eight."""
    batches, model = [task.batch(0, "test", epoch, index, 8) for index in range(size // 8)], model.eval()
    result, steps, counts = 0.0, 0, []
    for batch in batches:
        answer = model(batch).detach()
        each = (answer - batch.y).square() if batch.y.is_floating_point() else answer.argmax(-1) == batch.y
        result += each[batch.mask].sum().item()
        steps += sum(int(samples.lengths.sum()) for samples in batch.streams.values())
        counts.append(model.updates(batch))
    made = None if counts[0] is None else sum(int(count.made) for count in counts) / sum(int(count.possible) for count in counts)
    return result / sum(batch.labels for batch in batches), made, steps


@pytest.mark.parametrize(
    "task, network, settings",
    [
        (SMALL, NetworkConfig(units=5, leak=0.5, ratio_on=0.2), {}),
        (SMALL, NetworkConfig("lstm", units=5), {}),
        (SMALL, NetworkConfig(units=5), RICH),
        (Adding(length=(10, 14)), NetworkConfig(units=5), {}),
        (Signs(), EveryStep(units=12), {}),
        (Signs(share=0.02), EveryStep(units=12), {}),  # batches without a label
        (SignsAsNumbers(), EveryStep(units=4), {}),
        (TwoSensors(), TwoClocks(), {"openness_cost": 0.01}),
    ],
)
def test_a_curve_ends_with_the_test_of_the_network_in_eval(train, task, network, settings):
    trained, model = train(task=task, network=network, test=32, **settings)
    test, updates, _ = by_hand(task, model, len(trained.curve), 32)
    assert trained.curve[-1].test == pytest.approx(test, rel=1e-5)
    assert trained.curve[-1].updates == (None if updates is None else pytest.approx(updates))


def test_the_loss_of_labels_a_step_is_the_mean_over_labels(train):
    trained, _ = train(task=Signs(), network=EveryStep(units=12), epochs=1, train=8)
    batch, model = Signs().batch(0, "train", 1, 0, 8), EveryStep(units=12).build(Signs(), 0)
    wanted = torch.nn.functional.cross_entropy(model.train()(batch)[batch.mask], batch.y[batch.mask])
    assert trained.curve[0].loss == pytest.approx(wanted.item(), rel=1e-5)


@pytest.mark.parametrize("model", ["phased", "lstm", "bn-lstm"])
def test_the_same_seed_gives_the_same_numbers_and_another_others(train, model):
    network = NetworkConfig(model, units=5)
    curves = [numbers(train(folder, network=network, seed=seed)[0].curve) for folder, seed in (("a", 1), ("b", 1), ("c", 2))]
    assert curves[0] == curves[1] != curves[2]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("workers", [1, 2])
def test_batches_made_ahead_change_no_number(train, workers):
    assert numbers(train("helped", workers=workers)[0].curve) == numbers(train("alone")[0].curve)


def test_every_epoch_is_told_logged_and_kept(tmp_path, train):
    told: list[Epoch] = []
    outcome, _ = train(progress=told.append)
    assert told == outcome.curve
    assert [epoch.epoch for epoch in told] == [1, 2]
    lines = [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()]
    assert [Epoch(**line) for line in lines] == told
    assert outcome.wall == pytest.approx(sum(epoch.seconds for epoch in told))
    assert {file.name for file in tmp_path.iterdir()} == {CHECKPOINT, LOG}
    kept, read_by_torch = load_checkpoint(tmp_path / CHECKPOINT), torch.load(tmp_path / CHECKPOINT, weights_only=True)
    assert kept["curve"] == read_by_torch["curve"] == [tuple(epoch) for epoch in told]


@pytest.fixture
def norms(monkeypatch):
    """The norms of the gradients that Adam is given."""
    found = []

    def step(self, closure=None, original=torch.optim.Adam.step):
        gradients = [p.grad.double().flatten() for group in self.param_groups for p in group["params"]]
        found.append(torch.cat(gradients).norm().item())
        return original(self, closure)

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    return found


def test_gradients_are_clipped_to_the_norm_the_settings_say(train, norms):
    train("small", clip=1e-3)
    assert max(norms) <= 1.001e-3
    train("large", clip=1e6)
    assert max(norms) > 1e-2


@pytest.mark.gpu
def test_gradients_of_mixed_precision_are_unscaled_before_they_are_clipped(train, norms):
    trained, _ = train(fabric=make_fabric("cuda", precision="16-mixed"), clip=1e-3)
    assert 0 < min(norms) <= max(norms) <= 1.001e-3
    assert all(math.isfinite(epoch.loss) for epoch in trained.curve)


def test_a_price_on_openness_lowers_the_open_ratio_and_a_model_without_a_penalty_has_no_price(train):
    phased, lstm = NetworkConfig(units=5, ratio_on=0.3), NetworkConfig("lstm", units=5)
    free, paid = (train(f"{price}", network=phased, openness_cost=price)[1].rnn.ratio_on_l0.mean() for price in (0.0, 10.0))
    assert paid < 0.3 - 0.004 < free
    one, other = (numbers(train(f"{price} lstm", network=lstm, openness_cost=price)[0].curve) for price in (0.0, 10.0))
    assert one == other


def test_gates_that_open_first_pay_nothing_and_close_later(train):
    def ratios(folder, **options):
        trained, model = train(folder, network=NetworkConfig(units=5, ratio_on=0.9), rate=0.01, epochs=4, **options)
        return numbers(trained.curve), model.rnn.ratio_on_l0.mean().item()

    free, never = ratios("free"), ratios("never", openness_cost=10.0, pricing=OpenFirst(1.0))
    late, always = ratios("late", openness_cost=10.0, pricing=OpenFirst(0.5)), ratios("always", openness_cost=10.0)
    assert never == free
    assert late[0][:2] == free[0][:2]  # of four epochs
    assert late[0][3] != free[0][3]
    assert always[1] < late[1] < free[1]


def test_a_schedule_without_a_cost_is_refused(train):
    with pytest.raises(ValueError, match=r"pricing must come with an openness_cost above 0, got 0\. Set it: Training\("):
        train(pricing=OpenFirst())
    with pytest.raises(ValueError, match=r"free must be in \[0, 1\], got 1.5"):
        OpenFirst(1.5)


def test_times_reach_the_layer_exactly_under_mixed_precision(train, monkeypatch):
    seen = set()
    forward = PhasedLSTM.forward

    def spy(self, input, time, *rest, **options):
        seen.add((input.dtype, time.dtype))
        return forward(self, input, time, *rest, **options)

    monkeypatch.setattr(PhasedLSTM, "forward", spy)
    train(fabric=make_fabric("cpu", precision="bf16-mixed"))
    assert seen == {(torch.float32, torch.float64)}


def test_a_loss_that_is_no_number_ends_the_training_and_says_so(tmp_path, train):
    model = NetworkConfig("lstm", units=4).build(SMALL, 0)
    with pytest.raises(FloatingPointError, match=r"the loss of epoch 2 is nan. Try a smaller rate than 0.001"):
        train(network=model, progress=lambda epoch: torch.nn.init.constant_(model.linear.weight, math.nan))
    assert len((tmp_path / LOG).read_text().splitlines()) == 1


def test_denormal_numbers_are_flushed_inside_and_only_there():
    tiny = torch.full((1,), 1e-310, dtype=torch.float64)
    assert (tiny * 1).item() > 0
    with flushed_denormals():
        assert (tiny * 1).item() == 0
    assert (tiny * 1).item() > 0


# Tasks with data of their own, and further tests


def test_a_task_that_can_be_placed_makes_its_batches_on_the_device_and_in_this_process(train):
    CALLS.clear()
    placed, plain = train("a", task=PLACED, workers=4)[0], train("b")[0]
    assert set(CALLS) == {(torch.device("cpu"), 8)}
    assert numbers(placed.curve) == numbers(plain.curve)
    assert plain.evaluations == {}


def test_further_tests_are_made_once_with_the_trained_network(train):
    outcome, model = train(task=PLACED)
    assert set(outcome.evaluations) == {"once", "slowly"}
    score = outcome.evaluations["slowly"]
    test, made, steps = by_hand(Sines(points=(20, 25)), model, 0, 24)
    assert (score.sequences, score.test, score.steps, score.updates) == (24, test, steps / 24, made)
    again, _ = train(task=PLACED, progress=lambda epoch: pytest.fail("an epoch was run"))
    assert again.resumed == len(again.curve) == 2
    assert again.evaluations == outcome.evaluations


# Averages, smoothing, and interruptions


def interrupt(epoch, stop):
    if epoch.epoch == stop:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "task, network, options",
    [
        (SMALL, lambda: NetworkConfig(units=5), lambda: RICH),
        (TwoSensors(), TwoClocks, lambda: {"epochs": 4}),
        (SMALL, lambda: NetworkConfig(units=5), lambda: {"epochs": 8, "rate": 3e-2, "objective": WrongShare(), "best": Best(2)}),
    ],
    ids=["cycle and average", "two streams", "early stopping"],
)
def test_a_training_that_was_interrupted_ends_with_the_unbroken_trainings_bits(train, task, network, options):
    def trained(folder, *stops):
        for stop in stops:
            torch.manual_seed(0)
            with pytest.raises(KeyboardInterrupt):
                train(folder, task, network(), progress=lambda epoch, stop=stop: interrupt(epoch, stop), **options())
        torch.manual_seed(0)
        return train(folder, task, network(), **options())

    (whole, one), (resumed, other) = trained("whole"), trained("broken", 1, 3)
    assert (whole.resumed, resumed.resumed) == (0, 3)
    assert numbers(whole.curve) == numbers(resumed.curve)
    assert_same_weights(one, other)


def test_the_averaged_network_is_kept_and_returned_beside_the_one_that_is_trained(tmp_path, train):
    model, without = train("average", **RICH)[1], train("plain", **RICH | {"average": 0.0})[1]
    state = load_checkpoint(tmp_path / "average" / CHECKPOINT)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in state["model"].items())
    learned = ([p for p in network.parameters() if p.requires_grad] for network in (model, without))
    for averaged, trained, value in zip(*learned, state["average"]["values"], strict=True):
        assert torch.equal(value, trained)
        assert not torch.equal(value, averaged)


def test_smoothing_raises_the_loss_of_a_certain_network():
    batch = Batch.of(torch.zeros(3, 2, 1), torch.zeros(3, 2), torch.tensor([3, 3]), torch.tensor([0, 1]))
    answer = torch.tensor([[9.0, -9.0], [-9.0, 9.0]])
    assert sum_of_losses(answer, batch).item() == pytest.approx(0.0, abs=1e-6)
    assert sum_of_losses(answer, batch, smoothing=0.2).item() == pytest.approx(2 * 0.1 * 18, rel=1e-5)


# Devices and processes


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_two_machines_train_as_one_does(tmp_path, device):
    """39 sequences in batches of 8: unequal shares, batch norm over both processes, and shares without any label.

    On a GPU both use the same one.
    """
    runs = [tiny_run(model=model, epochs=2) for model in ("phased", "bn-lstm")]
    runs = [replace(run, training=replace(run.training, train=39)) for run in runs]
    runs.append(replace(runs[-1], network=replace(runs[-1].network, normalise="term"), tag="term"))
    settings = replace(runs[0].training, openness_cost=0.1)
    runs += [Run("tiny", "every", "quick", Signs(share=share), EveryStep(), settings, tag=f"{share}") for share in (0.5, 0.05)]
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    process = multiprocessing.get_context("spawn").Process
    machines = [process(target=train_as_machine, args=(n, port, device, runs, tmp_path / "together")) for n in (0, 1)]
    for machine in machines:
        machine.start()
    for machine in machines:
        machine.join(120)
        assert machine.exitcode == 0
    assert sorted(file.name for file in tmp_path.glob("together/rank*")) == ["rank 0 of 2", "rank 1 of 2"]
    for run in runs:
        alone, together = execute(run, tmp_path / "alone", device), json.loads(run.file(tmp_path / "together").read_text())
        for one, two in zip(alone["curve"], together["curve"], strict=True):
            assert two["loss"] == pytest.approx(one["loss"], rel=1e-5 if device == "cpu" else 1e-4)
            assert device == "cuda" or (two["test"], two["updates"]) == (one["test"], one["updates"])
        states = [load_checkpoint(run.folder(tmp_path / folder) / CHECKPOINT)["model"] for folder in ("alone", "together")]
        torch.testing.assert_close(states[1], states[0], rtol=1e-3, atol=1e-5, msg=lambda text, run=run: f"{run.name}: {text}")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_lightning_starts_two_processes_of_one_machine_which_train_as_one_does(tmp_path):
    run, ranks = tiny_run(epochs=1), {"rank 0 of 2", "rank 1 of 2"}
    # A partial, because Fabric searches arguments for modules, and fails at frozen dataclasses.
    make_fabric("cpu", devices=2, strategy="ddp_fork").launch(partial(train_together, runs=[run], out=tmp_path / "together"))
    assert {file.name for file in tmp_path.glob("together/rank*")} == ranks
    (one,), (two,) = execute(run, tmp_path / "alone")["curve"], json.loads(run.file(tmp_path / "together").read_text())["curve"]
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)


def test_more_processes_than_a_batch_has_sequences_are_refused(train, fabric, monkeypatch):
    monkeypatch.setattr(type(fabric), "world_size", 3)
    with pytest.raises(ValueError, match=r"a sequence for each of the 3 processes, but one has 1. Choose train, test and"):
        train(train=25)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:phased runs on cpu without its compiled core")
@pytest.mark.parametrize("model", ["phased", "lstm", "bn-lstm"])
def test_a_gpu_trains_as_the_cpu_does(train, model):
    curves = [
        train(device, network=NetworkConfig(model, units=5), fabric=make_fabric(device), workers=1)[0].curve
        for device in ("cpu", "cuda")
    ]
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


# The learning rate


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 1001])
def test_one_cycle_is_torchs_with_a_shorter_rise(steps):
    optimizer = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])
    schedule = OneCycleLR(optimizer, 3e-3, total_steps=steps, pct_start=RISE)
    for step in range(steps):
        (group,) = optimizer.param_groups
        assert one_cycle(step, steps, 3e-3) == pytest.approx((group["lr"], group["betas"][0]), rel=1e-12)
        optimizer.step()
        if step < steps - 1:
            schedule.step()


def test_a_pace_is_set_for_all_parameters():
    optimizer = torch.optim.Adam([{"params": [torch.nn.Parameter(torch.zeros(1))]} for _ in range(2)])
    set_pace(optimizer, Pace(0.25, 0.5))
    assert [(group["lr"], group["betas"]) for group in optimizer.param_groups] == [(0.25, (0.5, 0.999))] * 2
