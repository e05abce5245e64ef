"""Digits seen by an event camera: which events a batch has, what is tested, and what a record says about it."""

import json
import shlex
import shutil
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from digits import IMAGES, REAL, few_recordings, stand_in
from phased.cli.app import app
from phased.cli.train import train
from phased.data import BadRecording
from phased.data.camera import Camera, identity
from phased.experiments.folder import read
from phased.experiments.sweep import runs_of
from phased.layer import PhasedLSTM
from phased.learn.baselines import Baseline
from phased.learn.batch import Batch, Samples
from phased.learn.loader import sizes
from phased.learn.loop import Training
from phased.paper.nmnist import data, runs
from phased.paper.nmnist.gather import Changes, gather
from phased.paper.nmnist.network import DigitNetwork, FrameNetwork, frames
from phased.paper.nmnist.task import Digits, Placed, TestRecordings

CPU = torch.device("cpu")
TRAIN, TEST = IMAGES["train"], IMAGES["t10k"]
TINY = Digits(images=(TRAIN, TEST))
WHOLE = Changes(1.0)


def gathered(rows: list[int], changes: Changes = WHOLE, seed: int = 0) -> Samples:
    data = few_recordings()
    random = torch.Generator().manual_seed(seed)
    return gather(data, torch.tensor(rows), data.offset.diff(), changes, random)


def column(samples: Samples, b: int) -> list[tuple[int, float]]:
    """The events of one sequence."""
    length = int(samples.lengths[b])
    return list(zip(samples.x[:length, b].tolist(), samples.time[:length, b].tolist(), strict=True))


def events(row: int) -> list[tuple[int, float]]:
    """The events of one recording."""
    recording = few_recordings()[row]
    return list(zip(recording.address.tolist(), (recording.time / 1000).tolist(), strict=True))


def epoch_of(task: Placed | Digits, total: int, batch: int, seed: int = 0, split="train", epoch: int = 1) -> list[Batch]:
    return [task.batch(seed, split, epoch, index, size) for index, size in enumerate(sizes(total, batch))]


# Gathering


def test_a_batch_has_every_event_of_its_recordings_in_order_and_in_ms():
    rows = [3, 0, 1, 0]
    samples = gathered(rows)
    assert samples.x.shape == samples.time.shape == (42, 4)
    assert (samples.x.dtype, samples.time.dtype, samples.lengths.dtype) == (torch.int64, torch.float64, torch.int64)
    for b, row in enumerate(rows):
        assert column(samples, b) == events(row)
        assert not samples.x[int(samples.lengths[b]) :, b].any(), "padding is zero"


@pytest.mark.parametrize("keep", [0.5, torch.tensor([0.2, 0.9, 0.5])])
def test_thinning_leaves_events_out_and_changes_none(keep):
    samples = gathered([0, 2, 3], Changes(keep))
    for b, row in enumerate([0, 2, 3]):
        kept = column(samples, b)
        left = iter(events(row))
        assert all(event in left for event in kept), "a part of the events, in their order"
        assert 0 < len(kept) < len(events(row))
    assert len(samples.x) == samples.lengths.max()


def test_the_share_of_kept_events_is_the_probability():
    lengths = [gathered([2], Changes(0.75), seed).lengths.item() / 50 for seed in range(200)]
    assert np.mean(lengths) == pytest.approx(0.75, abs=0.02)
    assert np.std(lengths) == pytest.approx((0.75 * 0.25 / 50) ** 0.5, rel=0.2)


@pytest.mark.parametrize("dx, dy", [(0, 0), (5, 0), (0, -7), (-34, 0), (33, 33)])
def test_a_shifted_recording_loses_the_events_that_leave_the_sensor_and_no_polarity(dx, dy):
    samples = gathered([2], Changes(pixels=torch.tensor([[dx, dy]])))
    recording = few_recordings()[2]
    x, y = recording.x + dx, recording.y + dy
    inside = (x >= 0) & (x < 34) & (y >= 0) & (y < 34)
    wanted = (y * 34 + x) * 2 + recording.polarity
    assert column(samples, 0) == list(zip(wanted[inside].tolist(), (recording.time / 1000)[inside].tolist(), strict=True))


def test_a_quarter_turn_moves_every_event_to_its_place():
    quarter = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]])  # x to the right becomes y down
    made = [gathered([2], Changes(turn=quarter), seed) for seed in range(3)]
    recording = few_recordings()[2]
    wanted = (recording.x * 34 + (33 - recording.y)) * 2 + recording.polarity
    for samples in made:  # whole pixels: there is nothing to round
        assert column(samples, 0) == list(zip(wanted.tolist(), (recording.time / 1000).tolist(), strict=True))


def test_a_stretched_recording_is_larger_in_the_mean_and_loses_what_leaves_the_sensor():
    data = few_recordings()
    recording = data[2]
    shares, places = [], []
    for seed in range(100):
        samples = gathered([2], Changes(turn=torch.tensor([[[1.5, 0.0], [0.0, 1.0]]])), seed)
        shares.append(samples.lengths.item() / 50)
        places += [(address >> 1) % 34 for address, _ in column(samples, 0)]
    stretched = (recording.x - 16.5) * 1.5 + 16.5
    inside = (stretched >= 0) & (stretched <= 33)
    assert np.mean(shares) == pytest.approx(inside.mean(), abs=0.03)
    assert np.mean(places) == pytest.approx(stretched[inside].mean(), abs=0.3)


def test_a_bent_recording_has_every_event_where_the_field_at_its_pixel_moves_it():
    random = torch.Generator().manual_seed(0)
    field = torch.randint(-3, 4, (2, 2, 34, 34), generator=random).float()  # whole pixels: there is nothing to round
    samples = gathered([2, 0], Changes(bend=field))
    for b, row in enumerate([2, 0]):
        recording = few_recordings()[row]
        x, y = (at + field[b, part, recording.y, recording.x].numpy() for part, at in enumerate((recording.x, recording.y)))
        inside = (x >= 0) & (x < 34) & (y >= 0) & (y < 34)
        wanted = (y * 34 + x).astype(int) * 2 + recording.polarity
        assert column(samples, b) == list(zip(wanted[inside].tolist(), (recording.time / 1000)[inside].tolist(), strict=True))


@pytest.mark.usefixtures("data_folder")
def test_a_smooth_field_has_about_the_deviation_that_is_set_and_changes_little_from_pixel_to_pixel():
    placed = TINY.to(CPU, 4)
    placed.random.manual_seed(0)
    field = placed.smooth_field(200)
    assert field.shape == (200, 2, 34, 34)
    assert 0.6 < float(field.std()) < 1.1
    assert float(field.diff(dim=-1).abs().mean()) < 0.25 * float(field.abs().mean())


def test_a_delay_moves_whole_recordings():
    samples = gathered([0, 2], Changes(delay=torch.tensor([-2.5, 4.0], dtype=torch.float64)))
    assert column(samples, 0) == [(address, time - 2.5) for address, time in events(0)]
    assert column(samples, 1) == [(address, time + 4.0) for address, time in events(2)]


def test_recordings_that_lose_every_event_are_empty_sequences():
    samples = gathered([0, 1], Changes(pixels=torch.full((2, 2), 40)))
    assert samples.lengths.tolist() == [0, 0]
    assert samples.x.shape == (1, 2)


@pytest.mark.gpu
def test_a_gpu_gathers_what_the_cpu_does():
    data = few_recordings()
    changes = Changes(pixels=torch.tensor([[1, 3], [-2, 0], [0, 1]]))
    on_gpu = Changes(pixels=changes.pixels.cuda())
    rows = torch.tensor([4, 2, 0])
    made = gather(data.to("cuda"), rows, data.offset.diff(), on_gpu, torch.Generator("cuda"))
    for one, other in zip(made, gather(data, rows, data.offset.diff(), changes, torch.Generator()), strict=True):
        torch.testing.assert_close(one.cpu(), other)


# Epochs


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize("batch", [24, 10, 7, 1])
def test_an_epoch_visits_every_recording_once_in_an_order_of_its_own(batch):
    task = replace(TINY, keep=1.0).to(CPU, batch)
    of_data = {tuple(events.tolist()) for events in (recording.address for recording in task.training.data)}
    orders = []
    for seed, epoch in ((0, 1), (0, 2), (1, 1)):
        found = [
            tuple(column[0] for column in column_list) for column_list in columns(epoch_of(task, TRAIN, batch, seed, epoch=epoch))
        ]
        assert len(found) == TRAIN
        assert set(found) == of_data
        orders.append(found)
    assert orders[0] != orders[1]
    assert orders[0] != orders[2]


def columns(batches: list[Batch]) -> list[list[tuple[int, float]]]:
    """The events of every sequence of some batches."""
    return [column(batch.samples, b) for batch in batches for b in range(batch.size)]


@pytest.mark.usefixtures("data_folder")
def test_a_batch_depends_on_its_arguments_alone():
    task = replace(TINY, spread=0.2, shift=2, jitter=4.0)
    placed = task.to(CPU, 5)
    forwards = columns(epoch_of(placed, TRAIN, 5))
    placed.batch(3, "train", 9, 1, 5)
    again = task.to(CPU, 5)
    backwards = [again.batch(0, "train", 1, index, 5 if index < 4 else 4) for index in reversed(range(5))]
    assert columns(backwards[::-1]) == forwards
    assert columns([task.batch(0, "train", 1, 2, 5)]) == forwards[10:15], "also without a device"


@pytest.mark.usefixtures("data_folder")
def test_the_test_is_always_the_same():
    task = TINY.to(CPU, 5)
    wanted = columns(epoch_of(task, TEST, 5, split="test"))
    assert columns(epoch_of(task, TEST, 5, seed=7, split="test", epoch=3)) == wanted
    labels = torch.cat([batch.y for batch in epoch_of(task, TEST, 5, split="test")])
    assert labels.tolist() == [number % 10 for number in range(TEST)]


@pytest.mark.usefixtures("data_folder")
def test_training_changes_recordings_and_the_test_does_not():
    task = replace(TINY, keep=1.0)
    changed = replace(task, spread=0.4, shift=3, jitter=5.0)
    plain, moved = (columns(epoch_of(each.to(CPU, 8), TRAIN, 8)) for each in (task, changed))
    assert all(a != b for a, b in zip(plain, moved, strict=True))
    plain, moved = (columns(epoch_of(each.to(CPU, 8), TEST, 8, split="test")) for each in (task, changed))
    assert plain == moved


@pytest.mark.usefixtures("data_folder")
def test_each_recording_has_its_own_probability_if_it_is_spread():
    placed = replace(TINY, keep=0.7, spread=0.3).to(CPU, 8)
    keep = placed.changes(1000).keep
    assert keep.shape == (1000,)
    assert keep.min() > 0.39
    assert keep.max() <= 1.0
    assert keep.mean() == pytest.approx(0.7, abs=0.02)


@pytest.mark.usefixtures("data_folder")
def test_both_kinds_are_mixed_and_real_recordings_are_visited_repeatedly():
    task = replace(TINY, recordings="both", share=0.55, keep=1.0)
    assert task.repeat == 3  # 3 x 10 recordings are 55 % of 24 + 3 x 10, as closely as whole numbers allow
    assert task.visits == TRAIN + 3 * REAL["Train"]
    found = columns(epoch_of(task.to(CPU, 16), task.visits, 16))
    times = {tuple(events): found.count(events) for events in found}
    assert sorted(times.values()) == [1] * TRAIN + [3] * REAL["Train"]


def test_another_camera_is_another_setting():
    assert identity(Camera()) == Digits().camera
    assert identity(Camera(blur=0.5)) != identity(Camera())
    assert "camera=" in repr(Digits())


@pytest.mark.usefixtures("data_folder")
def test_more_sequences_than_there_are_recordings_are_refused():
    with pytest.raises(ValueError, match=f"an epoch must have at most {TRAIN} sequences"):
        TINY.to(CPU, 16).batch(0, "train", 1, 2, 16)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"recordings": "some"}, "recordings must be one of 'simulated', 'real', 'both'"),
        ({"keep": 0.0}, "keep must be in"),
        ({"keep": 0.3, "spread": 0.4}, "spread must be in"),
        ({"shift": -1}, "shift must be a number of pixels"),
        ({"jitter": -1.0}, "jitter must be in"),
        ({"share": 1.0}, "share must be in"),
    ],
)
def test_settings_without_meaning_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        Digits(**wrong)


# Further tests


@pytest.mark.usefixtures("data_folder")
def test_the_trained_network_is_tested_with_fewer_and_more_events_and_on_real_recordings():
    counts = {name: test.sequences for name, test in TINY.evaluations().items()}
    real = REAL["Test"]
    assert counts == {
        "rho 0.4": TEST,
        "rho 0.75": TEST,
        "rho 1": TEST,
        "real, rho 0.4": real,
        "real, rho 0.75": real,
        "real, rho 1": real,
        "all real, rho 1": sum(REAL.values()),
    }
    assert "all real, rho 1" not in replace(TINY, recordings="both").evaluations(), "they were trained on"
    assert set(replace(TINY, recordings="real").evaluations()) == {"rho 0.4", "rho 0.75", "rho 1"}


@pytest.mark.usefixtures("data_folder")
def test_real_recordings_are_tested_in_order():
    (test, count) = TINY.evaluations()["all real, rho 1"]
    batches = [test.to(CPU, 5).batch(0, "test", 0, index, size) for index, size in enumerate(sizes(count, 5))]
    lengths = torch.cat([batch.samples.lengths for batch in batches])
    assert lengths.tolist() == [20 + number for split in ("Train", "Test") for number in range(REAL[split])]


def test_without_real_recordings_they_are_not_tested_on(data_folder, monkeypatch):
    (data_folder / "nmnist").rename(data_folder / "elsewhere")
    assert set(TINY.evaluations()) == {"rho 0.4", "rho 0.75", "rho 1"}
    with pytest.raises(FileNotFoundError, match="expected N-MNIST"):
        assert replace(TINY, recordings="real").visits
    monkeypatch.delenv("PHASED_DATA")
    with pytest.raises(FileNotFoundError, match=r"expected MNIST.*PHASED_DATA is not set"):
        TINY.batch(0, "train", 1, 0, 4)


# Networks


@pytest.mark.usefixtures("data_folder")
@pytest.mark.parametrize("model", ["phased", "bn-lstm", "cnn"])
def test_every_network_answers_each_recording(model):
    network = DigitNetwork(model=model).build(TINY, seed=0)
    batch = TINY.batch(0, "train", 1, 0, 6)
    answer = network(batch)
    assert answer.shape == (6, 10)
    assert answer.isfinite().all()
    answer.sum().backward()
    assert all(p.grad is not None for p in network.parameters() if p.requires_grad)
    assert (network.updates(batch) is None) == (model != "phased")


def test_sizes_and_gates_are_the_papers():
    rnn = DigitNetwork().build(TINY, seed=0).rnn
    assert isinstance(rnn, PhasedLSTM)
    assert (rnn.input_size, rnn.hidden_size, rnn.num_layers, rnn.leak) == (41, 110, 1, 0.0)
    (gate,) = rnn.gates()
    assert (gate.period == 100).all()
    assert (gate.ratio_on == 0.05).all()
    assert gate.shift.min() < 10
    assert gate.shift.max() > 90
    learned = {name for name, p in rnn.named_parameters() if p.requires_grad}
    assert {"period_l0", "shift_l0"} < learned
    assert "ratio_on_l0" not in learned
    baseline = DigitNetwork(model="bn-lstm").build(TINY, seed=0).rnn
    assert isinstance(baseline, Baseline)
    assert (baseline.lstm.input_size, baseline.hidden_size, baseline.normalise) == (42, 110, "input")
    cnn = DigitNetwork(model="cnn").build(TINY, seed=0)
    assert isinstance(cnn, FrameNetwork)
    shapes = [tuple(p.shape) for name, p in cnn.named_parameters() if name.endswith("weight")]
    assert shapes == [(8, 1, 5, 5), (8, 8, 5, 5), (8, 8, 5, 5), (256, 128), (10, 256)]


def test_a_frame_counts_the_events_of_both_polarities_at_each_pixel():
    samples = gathered([2, 0])
    found = frames(samples.x, samples.lengths)
    for b, row in enumerate([2, 0]):
        recording = few_recordings()[row]
        wanted = np.zeros((34, 34))
        np.add.at(wanted, (recording.y, recording.x), 1)
        assert (found[b, 0].numpy() == wanted).all()


# Runs and records


def test_table_1_is_three_networks_on_all_of_mnist():
    found = runs.runs("paper", [0])
    assert [run.network.model for run in found] == ["cnn", "bn-lstm", "phased"]
    for run in found:
        assert (run.training.train, run.training.test, run.training.batch) == (60_000, 10_000, 128)
        assert (run.task.recordings, run.task.images) == ("simulated", (60_000, 10_000))
        assert (run.task.keep, run.task.spread) == (0.75, 0.0)
        assert run.name == f"nmnist-simulated-{run.network.model}-seed0"


def test_settings_and_commands_have_no_paths(data_folder):
    folder = str(data_folder / "nmnist")
    for run in runs_of("nmnist", "quick", [0], options={"data": folder, "skip_bad": "yes"}):
        assert run.task.folder == folder
        assert str(data_folder) not in json.dumps(run.settings) + run.command + repr(run.task) + run.name
        assert run.command.startswith("phased run nmnist --data FOLDER --skip-bad yes --scale quick")
        assert (run.condition, run.data) == ("real", "real")
        assert (run.settings["train"], run.settings["test"]) == (REAL["Train"], REAL["Test"])
        assert "folder" not in run.settings["task"]


def test_results_of_other_recordings_are_not_taken_for_those_of_a_run(data_folder, tmp_path):
    first, second = data_folder / "nmnist", tmp_path / "other"
    shutil.copytree(first, second)

    def listed(folder):
        return runs_of("nmnist", "quick", [0], options={"data": str(folder)})[0]

    assert listed(first).settings == listed(second).settings
    path = next((second / "Train").rglob("*.bin"))
    path.write_bytes(path.read_bytes()[:-5])  # one event less
    assert listed(first).settings != listed(second).settings
    assert listed(first).settings["task"]["real"] != listed(second).settings["task"]["real"] != ""


@pytest.mark.parametrize("study", ["nmnist", "nmnist-real"])
@pytest.mark.parametrize("recordings", [None, "simulated", "real", "both"])
@pytest.mark.parametrize("named", [False, True], ids=["", "data"])
def test_the_command_of_a_run_trains_on_the_same_recordings(data_folder, study, recordings, named):
    folder = str(data_folder / "nmnist")
    given = {"recordings": recordings} if recordings else {}
    given |= {"data": folder} if named else {}
    run = runs_of(study, "quick", [0], options=given)[0]
    words = shlex.split(run.command.replace("FOLDER", folder))
    repeated = {name: words[words.index(f"--{name}") + 1] for name in ("recordings", "data") if f"--{name}" in words}
    assert runs_of(study, "quick", [0], options=repeated)[0].task == run.task


def test_a_folder_that_has_no_recordings_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"expected N-MNIST.*'{tmp_path}'"):
        runs_of("nmnist", "quick", [0], options={"data": str(tmp_path)})


def test_damaged_files_are_an_error_or_left_out_and_counted(data_folder):
    (data_folder / "nmnist" / "Test" / "3" / "00004.bin").write_bytes(b"seven by")
    options = {"data": str(data_folder / "nmnist")}
    for run in runs_of("nmnist", "quick", [0], options=options):
        with pytest.raises(BadRecording, match=r"00004\.bin"):
            run.task.to(CPU, 4)
    with pytest.warns(UserWarning, match=r"1 damaged files were left out, the first: .*00004\.bin"):
        found = runs_of("nmnist", "quick", [0], options=options | {"skip_bad": "yes"})
    assert {run.training.test for run in found} == {REAL["Test"] - 1}


@pytest.mark.parametrize("study", ["nmnist", "nmnist-ratios", "nmnist-real", "nmnist-best"])
@pytest.mark.parametrize("archive", [False, True])
def test_a_list_of_runs_reads_no_recording(data_folder, monkeypatch, study, archive):
    if archive:
        for part in REAL:
            shutil.make_archive(str(data_folder / "nmnist" / part), "zip", data_folder / "nmnist", part)
            shutil.rmtree(data_folder / "nmnist" / part)
    for name in ("open_recordings", "simulated_recordings"):
        monkeypatch.delattr(f"phased.paper.nmnist.data.{name}")
    for recordings in ("simulated", "real", "both"):
        for scale in ("paper", "quick"):
            for run in runs_of(study, scale, [0], options={"recordings": recordings}):
                images = run.task.images[0] if recordings != "real" else 0
                real = {"simulated": 0, "real": 1, "both": run.task.repeat}[recordings] * REAL["Train"]
                assert run.training.train == images + real
                assert len(run.task.evaluations()) == {"simulated": 7, "real": 3, "both": 6}[recordings]


def test_real_recordings_for_the_test_alone_are_tested_on(data_folder):
    shutil.rmtree(data_folder / "nmnist" / "Train")
    assert set(TINY.evaluations()) == {*(f"{kind}rho {keep:g}" for kind in ("", "real, ") for keep in (0.4, 0.75, 1.0))}


@pytest.fixture
def tiny_table(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick scale of a fraction of a second."""
    training = Training(epochs=2, batch=8, schedule="one-cycle", average=0.9, smoothing=0.1)
    table = replace(runs.QUICK, models=("cnn", "bn-lstm", "phased"), task=TINY, training=training)
    monkeypatch.setitem(runs.TABLES, "quick", replace(table, network=DigitNetwork(units=5), ratios=(0.1, 0.3)))


def call(*arguments: object) -> str:
    result = CliRunner(env={"COLUMNS": "300"}).invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.usefixtures("tiny_table")
def test_the_command_trains_tests_and_records(data_folder, tmp_path):
    arguments = ("--scale", "quick", "--seeds", 1, "--device", "cpu", "--out", tmp_path)
    call("run", "nmnist", *arguments)
    call("run", "nmnist-real", *arguments)
    call("run", "nmnist", "--data", data_folder / "nmnist", "--only", "*-phased-*", *arguments)
    found = {record.name: record for record in read(tmp_path).records}
    assert set(found) == {
        *(f"nmnist-simulated-{model}-seed0-quick" for model in ("cnn", "bn-lstm", "phased")),
        "nmnist-both-phased-seed0-quick",
        "nmnist-real-phased-seed0-quick",
    }
    for record in found.values():
        assert record.schema == 3
        assert str(tmp_path) not in record.line()
        assert str(data_folder) not in record.line()
        for name, score in record.evaluations.items():
            kept = float(name.split()[-1])
            assert 0 <= score.test <= 1
            assert score.steps == pytest.approx(kept * 27, rel=0.35)
            assert (score.updates is None) == (record.model != "phased")
    assert found["nmnist-both-phased-seed0-quick"].settings["train"] == TRAIN + REAL["Train"]
    simulated = found["nmnist-simulated-phased-seed0-quick"]
    assert set(simulated.evaluations) == set(TINY.evaluations())
    assert simulated.evaluations["rho 0.75"].test == simulated.curve[-1].test, "the test of every epoch"
    assert "Finished before, not run again: 3." in call("run", "nmnist", *arguments)


@pytest.mark.usefixtures("tiny_table")
def test_a_command_that_was_stopped_while_it_simulates_is_continued(data_folder, tmp_path, monkeypatch):
    """The result is that of a command that was not stopped."""
    arguments = ("run", "nmnist", "--scale", "quick", "--seeds", 1, "--device", "cpu", "--only", "*-phased-*", "--out")
    monkeypatch.setattr("phased.data.simulated.CHUNK", 5)
    call(*arguments, tmp_path / "whole")
    data._loaded.cache_clear()
    monkeypatch.setenv("PHASED_CACHE", str(tmp_path / "cache"))
    chunks: list[int] = []

    def stopped(images, *rest):
        if len(images) > 1:  # one image: the key of the cache
            chunks.append(len(images))
            if len(chunks) == 3:
                raise KeyboardInterrupt
        return stand_in(images, *rest)

    monkeypatch.setattr("phased.data.simulated.simulate", stopped)
    result = CliRunner().invoke(app, [str(each) for each in (*arguments, tmp_path / "stopped")])
    assert result.exit_code == 130
    assert "stopped. Finished runs are kept" in result.output
    before = len(list((tmp_path / "cache").rglob("parts/*.events")))
    assert before >= 2
    chunks[:] = [0] * 3  # not stopped again
    call(*arguments, tmp_path / "stopped")
    assert len(chunks) - 3 == -(-TRAIN // 5) - before + -(-TEST // 5)
    whole, again = (read(tmp_path / name).records[0] for name in ("whole", "stopped"))
    assert (again.settings, again.evaluations) == (whole.settings, whole.evaluations)
    assert [epoch.loss for epoch in again.curve] == [epoch.loss for epoch in whole.curve]


@pytest.mark.usefixtures("tiny_table")
def test_the_progress_of_simulating_and_reading_is_shown(data_folder, tmp_path):
    output = StringIO()
    console = Console(file=output, force_terminal=True, width=200)
    train(console, runs_of("nmnist-real", "quick", [0]), tmp_path, device="cpu")
    for what in ("simulating training", "simulating test", "reading training"):
        assert f"{what} recordings" in output.getvalue()


def test_a_test_on_recordings_reads_as_its_settings():
    test = TestRecordings((TINY.source("simulated", "test"),), 0.4)
    assert "0x" not in repr(test)


@pytest.mark.usefixtures("data_folder")
def test_recordings_that_start_before_zero_are_trained_on():
    task = replace(TINY, jitter=50.0)
    batch = task.batch(0, "train", 1, 0, 8)
    assert batch.samples.time.min() < 0
    loss = DigitNetwork().build(task, seed=0)(batch).sum()
    loss.backward()
    assert loss.isfinite()
