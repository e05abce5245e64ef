"""Digits seen by an event camera: epochs, further tests, and the networks."""

from dataclasses import replace

import pytest
import torch

from digits import IMAGES, REAL, column
from phased.data.recordings import NMNIST
from phased.layer import PhasedLSTM
from phased.learn.batch import Batch, Samples
from phased.learn.feed import sizes
from phased_lab.paper.nmnist.network import PART, PARTS, DigitNetwork, FrameNetwork, frame, movie
from phased_lab.paper.nmnist.pack import network
from phased_lab.paper.nmnist.task import Digits, RecordingsOnDevice
from phased_lab.runs.baselines import Baseline
from phased_lab.runs.taught import Taught

pytestmark = pytest.mark.usefixtures("data_folder")
CPU = torch.device("cpu")
TRAIN, TEST = IMAGES["train"], IMAGES["t10k"]
TINY = Digits(images=(TRAIN, TEST))


def epoch_of(
    task: RecordingsOnDevice | Digits, total: int, batch: int, seed: int = 0, split="train", epoch: int = 1
) -> list[Batch]:
    return [task.batch(seed, split, epoch, index, size) for index, size in enumerate(sizes(total, batch))]


# Epochs


@pytest.mark.parametrize("batch", [24, 10, 7, 1])
def test_an_epoch_visits_every_recording_once_in_an_order_of_its_own(batch):
    task = replace(TINY, keep=1.0).to(CPU, batch)
    of_data = {tuple(events.tolist()) for events in (recording.address for recording in task.held["train"].recordings)}
    orders = []
    for seed, epoch in ((0, 1), (0, 2), (1, 1)):
        found = [tuple(event[0] for event in events) for events in columns(epoch_of(task, TRAIN, batch, seed, epoch=epoch))]
        assert len(found) == TRAIN
        assert set(found) == of_data
        orders.append(found)
    assert orders[0] != orders[1]
    assert orders[0] != orders[2]


def columns(batches: list[Batch]) -> list[list[tuple[int, float]]]:
    """The events of every sequence of some batches."""
    return [column(batch.samples, b) for batch in batches for b in range(batch.size)]


def test_a_batch_depends_on_its_arguments_alone():
    task = replace(TINY, spread=0.2, shift=2, jitter=4.0)
    placed = task.to(CPU, 5)
    forwards = columns(epoch_of(placed, TRAIN, 5))
    placed.batch(3, "train", 9, 1, 5)
    again = task.to(CPU, 5)
    backwards = [again.batch(0, "train", 1, index, 5 if index < 4 else 4) for index in reversed(range(5))]
    assert columns(backwards[::-1]) == forwards
    assert columns([task.batch(0, "train", 1, 2, 5)]) == forwards[10:15], "also without a device"


def test_training_changes_recordings_and_the_test_is_always_the_same():
    task = replace(TINY, keep=1.0)
    changed = replace(task, spread=0.4, shift=3, jitter=5.0)
    plain, moved = (columns(epoch_of(each.to(CPU, 8), TRAIN, 8)) for each in (task, changed))
    assert all(a != b for a, b in zip(plain, moved, strict=True))
    tests = [epoch_of(TINY.to(CPU, 5), TEST, 5, seed, "test", epoch) for seed, epoch in ((0, 1), (7, 3))]
    tests.append(epoch_of(replace(TINY, spread=0.25, shift=3, jitter=5.0).to(CPU, 5), TEST, 5, split="test"))
    assert columns(tests[0]) == columns(tests[1]) == columns(tests[2])
    assert torch.cat([batch.y for batch in tests[0]]).tolist() == [number % 10 for number in range(TEST)]


def test_each_recording_has_its_own_probability_if_it_is_spread():
    keep = replace(TINY, keep=0.7, spread=0.3).to(CPU, 8).changes(torch.full((1000,), 4000)).keep
    assert 0.39 < keep.min() < keep.max() <= 1.0
    assert keep.mean() == pytest.approx(0.7, abs=0.02)


def test_a_smooth_field_has_about_the_deviation_that_is_set_and_changes_little_from_pixel_to_pixel():
    placed = TINY.to(CPU, 4)
    placed.random.manual_seed(0)
    field = placed.smooth_field(200)
    assert field.shape == (200, 2, 34, 34)
    assert 0.6 < float(field.std()) < 1.1
    assert float(field.diff(dim=-1).abs().mean()) < 0.25 * float(field.abs().mean())


@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_long_recordings_are_thinned_to_the_most_events(spread):
    placed = replace(TINY, keep=0.7, spread=spread, most=3000).to(CPU, 8)
    keep = placed.changes(torch.tensor([2000, 3000, 6000, 30_000])).keep
    assert (keep * torch.tensor([2000, 3000, 6000, 30_000]) <= 3001).all()
    assert keep[2] <= 0.5
    torch.testing.assert_close(keep[3], torch.tensor(0.1))
    assert keep[:2].min() >= 0.7 - spread, "short ones keep their probability"
    assert "most=3000" in repr(placed.task)


def test_both_kinds_are_mixed_and_real_recordings_are_visited_repeatedly():
    task = replace(TINY, recordings="both", share=0.55, keep=1.0)
    assert task.repeat == 3  # 3 x 10 recordings are 55 % of 24 + 3 x 10, as closely as whole numbers allow
    assert task.visits("train") == TRAIN + 3 * REAL["Train"]
    found = columns(epoch_of(task.to(CPU, 16), task.visits("train"), 16))
    times = {tuple(events): found.count(events) for events in found}
    assert sorted(times.values()) == [1] * TRAIN + [3] * REAL["Train"]


# Further tests


def test_the_trained_network_is_tested_with_fewer_and_more_events_and_on_real_recordings():
    counts = {name: test.sequences for name, test in TINY.evaluations().items()}
    simulated = {f"rho {keep}": TEST for keep in ("0.4", "0.75", "1")}
    real = {f"real, {rho}": REAL["Test"] for rho in simulated}
    assert counts == simulated | real | {"all real, rho 1": sum(REAL.values())}
    assert "all real, rho 1" not in replace(TINY, recordings="both").evaluations(), "they were trained on"
    assert set(replace(TINY, recordings="real").evaluations()) == set(simulated)


def test_real_recordings_are_tested_in_order():
    (test, count) = TINY.evaluations()["all real, rho 1"]
    batches = [test.to(CPU, 5).batch(0, "test", 0, index, size) for index, size in enumerate(sizes(count, 5))]
    lengths = torch.cat([batch.samples.lengths for batch in batches])
    assert lengths.tolist() == [20 + number for split in ("Train", "Test") for number in range(REAL[split])]


def test_without_real_recordings_they_are_not_tested_on(data_folder, monkeypatch):
    (data_folder / "nmnist" / "Train").rename(data_folder / "other")
    assert set(TINY.evaluations()) == {f"{kind}rho {keep}" for kind in ("", "real, ") for keep in ("0.4", "0.75", "1")}
    (data_folder / "nmnist").rename(data_folder / "elsewhere")
    assert set(TINY.evaluations()) == {"rho 0.4", "rho 0.75", "rho 1"}
    with pytest.raises(FileNotFoundError, match="expected N-MNIST"):
        replace(TINY, recordings="real").visits("train")
    monkeypatch.delenv("PHASED_DATA")
    with pytest.raises(FileNotFoundError, match=r"expected MNIST.*PHASED_DATA is not set"):
        TINY.batch(0, "train", 1, 0, 4)


# Networks


@pytest.mark.parametrize("model", DigitNetwork.applies)
def test_every_network_is_trained_also_on_recordings_that_start_before_zero(model):
    task = replace(TINY, jitter=50.0)
    network = DigitNetwork(model=model).build(task, seed=0)
    batch = task.batch(0, "train", 1, 0, 6)
    assert batch.samples.time.min() < 0
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


def test_a_frame_counts_the_events_of_each_pixel_of_both_polarities_or_of_a_part_and_a_polarity():
    pixel = 3 * NMNIST.width + 5
    address = torch.tensor([[2 * pixel, 0], [2 * pixel + 1, 2], [2 * pixel, 1]])
    time = torch.tensor([[0.0, -3.0], [PART, 1e4], [0.5 * PART, 0.0]], dtype=torch.float64)
    samples = Samples(address, time, torch.tensor([3, 2]))
    both = frame(samples)
    assert (both[0, 0, 3, 5], both[1, 0, 0, 0], both[1, 0, 0, 1], both.sum()) == (3, 1, 1, 5)
    counted = movie(samples)
    assert counted.shape == (2, 2 * PARTS, NMNIST.height, NMNIST.width)
    assert counted[0].sum() == 3
    assert counted[0, 0, 3, 5] == 2  # both events of polarity 0 in the first part
    assert counted[0, 3, 3, 5] == 1  # one of polarity 1 in the second
    assert counted[1].sum() == 2  # the third is padding
    assert counted[1, 0, 0, 0] == 1  # before the recording began: in the first part
    assert counted[1, 2 * (PARTS - 1), 0, 1] == 1  # long after its end: in the last


def test_a_student_is_the_network_without_a_teacher_and_is_packed_without_it():
    alone, made = (
        DigitNetwork(units=6, embedding=4, mean=True, hidden=5, teacher=teacher).build(Digits(), 0) for teacher in (0.0, 0.9)
    )
    assert isinstance(made, Taught)
    assert all(torch.equal(a, b) for a, b in zip(alone.parameters(), made.student.parameters(), strict=True))
    packed = network(made.state_dict())
    expected = made.student.state_dict()
    assert packed.state_dict().keys() == expected.keys()
    for name, value in packed.state_dict().items():
        assert torch.equal(value, expected[name]), name
    assert (packed.mean, packed.hidden.out_features) == (True, 5)
