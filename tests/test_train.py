"""Training: one loop, whose numbers do not depend on what interrupts it or on how many processes share the work."""

import errno
import json
import multiprocessing
import os
import random
import resource
import signal
import time
from dataclasses import replace
from functools import partial

import pytest
import torch

from phased import PhasedLSTM, checkpoint, files
from phased.data.adding import Adding
from phased.data.sines import Sines
from phased.models.network import Network
from phased.train import CHECKPOINT, LOG, Epoch, Settings, fit, flushed_denormals, make_fabric
from training import SMALL, Exploding, execute, killed_while_writing, same_numbers, slowly, tiny_run, train_together, weights

SHORT = Settings(epochs=2, train=24, test=16, batch=8)


@pytest.fixture(scope="module")
def children():
    """Processes that start at once, because their server has imported everything; run like a script's, not like pytest's."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["phased.experiments.sweep", "lightning.fabric"])
    return context


@pytest.fixture(scope="module")
def fabric():
    return make_fabric("cpu")


def test_the_loss_falls(tmp_path, fabric):
    """Two waves far apart, a handful of units, a second of training."""
    task = Sines(periods="authors", points=(20, 30), duration=(20.0, 30.0))
    model = Network(units=32, leak=0.0, ratio_on=0.3, period=(1.0, 2.0)).build(task, 0)
    curve = fit(task, model, Settings(epochs=12, train=640, test=100, rate=1e-2), tmp_path, fabric).curve
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
        model = Network(units=5).build(SMALL, 0)
        curves.append([e[:3] for e in fit(SMALL, model, SHORT, tmp_path / folder, fabric, workers=count).curve])
    assert curves[0] == curves[1]


def test_every_epoch_is_told_logged_and_kept(tmp_path, fabric):
    told: list[Epoch] = []
    outcome = fit(SMALL, Network(units=5).build(SMALL, 0), SHORT, tmp_path, fabric, told.append)
    assert told == outcome.curve
    assert [epoch.epoch for epoch in told] == [1, 2]
    lines = [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()]
    assert [Epoch(**line) for line in lines] == told
    assert outcome.wall == pytest.approx(sum(epoch.seconds for epoch in told))
    assert {file.name for file in tmp_path.iterdir()} == {CHECKPOINT, LOG}


def test_accuracy_and_updates_are_those_of_the_model_in_eval_on_the_test_set(tmp_path, fabric):
    model = Network(units=5, leak=0.5, ratio_on=0.2).build(SMALL, 0)
    (epoch,) = fit(SMALL, model, replace(SHORT, epochs=1), tmp_path, fabric).curve
    model.eval()
    right, opened, steps = 0, 0, 0
    for index in range(2):
        batch = SMALL.batch(0, "test", 1, index, 8)
        right += int((model(batch).argmax(-1) == batch.y).sum())
        (gate,) = model.rnn.gates()
        is_open = gate.phase(batch.time.unsqueeze(-1)) < gate.ratio_on
        real = torch.arange(len(batch.x))[:, None] < batch.lengths
        opened += int(is_open[real].sum())
        steps += int(real.sum()) * 5
    assert epoch.test == right / 16
    assert epoch.updates == pytest.approx(opened / steps)


def test_a_regression_is_tested_by_its_mean_squared_error(tmp_path, fabric):
    task = Adding(length=(10, 14))
    model = Network(units=5).build(task, 0)
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
    fit(SMALL, Network(units=5).build(SMALL, 0), replace(SHORT, clip=1e-3), tmp_path / "small", fabric)
    assert max(norms) <= 1.001e-3
    norms.clear()
    fit(SMALL, Network(units=5).build(SMALL, 0), replace(SHORT, clip=1e6), tmp_path / "large", fabric)
    assert max(norms) > 1e-2


def test_a_price_on_openness_lowers_the_open_ratio(tmp_path, fabric):
    ratios = []
    for price in (0.0, 10.0):
        model = Network(units=5, ratio_on=0.3).build(SMALL, 0)
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
    model = Network(units=5).build(SMALL, 0)
    outcome = fit(SMALL, model, SHORT, tmp_path, make_fabric("cpu", precision="bf16-mixed"))
    assert seen == {(torch.float32, torch.float64)}
    assert outcome.curve[-1].loss > 0


def test_a_loss_that_is_no_number_ends_the_training_and_says_so(tmp_path, fabric):
    task = Exploding(points=(5, 12), duration=(5.0, 20.0))
    with pytest.raises(FloatingPointError, match=r"the loss of epoch 2 is nan. Try a smaller rate than 0.001"):
        fit(task, Network("lstm", units=4).build(task, 0), SHORT, tmp_path, fabric)
    assert len((tmp_path / LOG).read_text().splitlines()) == 1


def test_denormal_numbers_are_flushed_inside_and_only_there():
    tiny = torch.full((1,), 1e-310, dtype=torch.float64)
    assert (tiny * 1).item() > 0
    with flushed_denormals():
        assert (tiny * 1).item() == 0
    assert (tiny * 1).item() > 0


# Interruptions


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """A run nobody interrupts, of every model: its result and its weights."""
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
        time.sleep(draw.uniform(0.0, 0.06))  # an epoch, or a little more: somewhere in it, or in its checkpoint
        child.kill()
        child.join()
        assert child.exitcode == -signal.SIGKILL
        assert not run.result(tmp_path).exists()
    assert same_numbers(execute(run, tmp_path)) == unbroken[model][0]
    assert weights(run, tmp_path) == unbroken[model][1]


# What is synced, in turn: a checkpoint, its folder, a log, its folder. 1 to 4 come before the first epoch.
@pytest.mark.parametrize("write", [1, 2, 5, 9, 15])
def test_killed_while_it_writes_a_checkpoint_it_resumes_with_the_unbroken_runs_bits(tmp_path, children, unbroken, write):
    run = tiny_run(epochs=6)
    child = children.Process(target=killed_while_writing, args=(run, tmp_path, write))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert not run.result(tmp_path).exists()
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
    fit(SMALL, Network(units=5).build(SMALL, 0), SHORT, tmp_path, fabric)
    model = Network(units=5).build(SMALL, 0)
    outcome = fit(SMALL, model, SHORT, tmp_path, fabric, lambda epoch: pytest.fail("an epoch was run"))
    assert outcome.resumed == 2
    assert len(outcome.curve) == 2


@pytest.mark.parametrize(
    "other, message",
    [
        ({"settings": replace(SHORT, batch=4)}, "batch is 8 there, 4 here"),
        ({"task": Sines()}, 'task is "Sines'),
        ({"network": Network(units=5, leak=0.25)}, "model is 'Readout"),
        ({"settings": replace(SHORT, epochs=1)}, "has 2 epochs, more than the 1 asked for"),
    ],
)
def test_the_checkpoint_of_another_training_is_not_taken_over(tmp_path, fabric, other, message):
    fit(SMALL, Network(units=5).build(SMALL, 0), SHORT, tmp_path, fabric)
    given = {"task": SMALL, "network": Network(units=5), "settings": SHORT} | other
    with pytest.raises(ValueError, match=message) as caught:
        fit(given["task"], given["network"].build(given["task"], 0), given["settings"], tmp_path, fabric)
    assert "Choose another folder, or delete it to start anew." in str(caught.value)


def test_a_file_that_is_no_checkpoint_is_named(tmp_path, fabric):
    (tmp_path / CHECKPOINT).write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match=r"checkpoint\.pt' is damaged, or not a checkpoint.*Delete it to start anew"):
        fit(SMALL, Network(units=5).build(SMALL, 0), SHORT, tmp_path, fabric)


def test_fabrics_advice_to_round_products_is_not_repeated_at_every_start(caplog):
    """It advises so on each start on a GPU with tensor cores; following it would change the numbers."""
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
        fit(SMALL, Network(units=5).build(SMALL, 0), SHORT, tmp_path, fabric, lambda epoch: pytest.fail("an epoch was run"))
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_room_for_two_checkpoints_is_found_out_before_training(tmp_path, fabric):
    model = Network(units=60).build(SMALL, 0)
    one = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 * one, before[1]))  # a disk that has room for one
    try:
        with pytest.raises(OSError, match=r"cannot write to the folder '.*': File too large. Make room there, or choose another"):
            fit(SMALL, model, SHORT, tmp_path, fabric, lambda epoch: pytest.fail("an epoch was run"))
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
    state = checkpoint.load(run.folder(tmp_path) / CHECKPOINT)
    assert len(state["curve"]) == 2
    monkeypatch.undo()
    assert same_numbers(execute(run, tmp_path)) == unbroken["phased"][0]


def test_a_folder_that_cannot_be_written_to_is_found_out_before_training(tmp_path, fabric):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match=r"cannot write to the folder '.*file/run'.*Choose another"):
        fit(SMALL, Network(units=5).build(SMALL, 0), SHORT, tmp_path / "file" / "run", fabric)


# Devices and processes


def test_two_processes_train_as_one_does(tmp_path):
    """39 sequences in batches of 8: shares of unequal size, and batch norm over both."""
    runs = [tiny_run(model=model, epochs=2) for model in ("phased", "lstm", "bn-lstm")]
    runs = [replace(run, training=replace(run.training, train=39)) for run in runs]
    term = replace(runs[-1], network=replace(runs[-1].network, normalise="term"), variant="term")
    # A partial, because Fabric looks for modules inside of arguments, and cannot take frozen dataclasses apart.
    make_fabric("cpu", devices=2, strategy="ddp_spawn").launch(
        partial(train_together, runs=[*runs, term], out=tmp_path / "together")
    )
    assert sorted(file.name for file in tmp_path.glob("together/rank*")) == ["rank 0 of 2", "rank 1 of 2"]
    for run in [*runs, term]:
        alone, together = execute(run, tmp_path / "alone"), json.loads(run.result(tmp_path / "together").read_text())
        for one, two in zip(alone["curve"], together["curve"], strict=True):
            assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
            assert two["test"] == one["test"]
            assert two["updates"] == one["updates"]
        states = [checkpoint.load(run.folder(tmp_path / folder) / CHECKPOINT)["model"] for folder in ("alone", "together")]
        for name, value in states[0].items():
            torch.testing.assert_close(states[1][name], value, rtol=1e-3, atol=1e-5, msg=f"{run.name}: {name}")


def test_more_processes_than_a_batch_has_sequences_are_refused(tmp_path, fabric, monkeypatch):
    monkeypatch.setattr(type(fabric), "world_size", 3)
    with pytest.raises(ValueError, match=r"a sequence for each of the 3 processes, but one has 1. Choose train and test as"):
        fit(SMALL, Network(units=5).build(SMALL, 0), replace(SHORT, train=25), tmp_path, fabric)


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
        net = Network(model, units=5).build(SMALL, 0)
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
        Settings(**wrong)
