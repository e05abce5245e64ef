"""Digits seen by an event camera: which events a batch has, and how they are changed for training."""

import numpy as np
import pytest
import torch

from digits import column, few_recordings
from phased.learn.batch import Samples
from phased_lab.paper.nmnist.task import Changes, gather

WHOLE = Changes(1.0)


def gathered(rows: list[int], changes: Changes = WHOLE, seed: int = 0) -> Samples:
    data = few_recordings()
    random = torch.Generator().manual_seed(seed)
    return gather(data, torch.tensor(rows), data.offset.diff(), changes, random)


def events(row: int) -> list[tuple[int, float]]:
    """The events of one recording."""
    recording = few_recordings()[row]
    return list(zip(recording.address.tolist(), (recording.time / 1000).tolist(), strict=True))


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


QUARTER = torch.tensor([[[0.0, -1.0], [1.0, 0.0]]] * 2)  # x to the right becomes y down
FIELD = torch.randint(-3, 4, (2, 34, 34), generator=torch.Generator().manual_seed(0)).float()
MOVED = [(5, 0), (0, -7), (-34, 0), (33, 33)]


@pytest.mark.parametrize(
    "changes, place",  # whole pixels: there is nothing to round
    [
        *((Changes(pixels=torch.tensor([to, to])), lambda x, y, to=to: (x + to[0], y + to[1])) for to in MOVED),
        (Changes(turn=QUARTER), lambda x, y: (33 - y, x)),
        (Changes(bend=torch.stack([FIELD] * 2)), lambda x, y: (x + FIELD[0, y, x].numpy(), y + FIELD[1, y, x].numpy())),
        (Changes(delay=torch.tensor([-2.5, -2.5], dtype=torch.float64)), lambda x, y: (x, y)),
    ],
    ids=["right", "up", "out", "corner", "turned", "bent", "late"],
)
def test_changed_recordings_have_every_event_at_its_new_place_and_lose_those_that_leave_the_sensor(changes, place):
    samples = gathered([2, 0], changes)
    assert len(samples.x) == max(1, samples.lengths.max()), "a recording that loses every event is an empty sequence"
    for b, row in enumerate([2, 0]):
        recording = few_recordings()[row]
        x, y = place(recording.x, recording.y)
        inside = (x >= 0) & (x < 34) & (y >= 0) & (y < 34)
        wanted = (y * 34 + x).astype(int) * 2 + recording.polarity
        time = recording.time / 1000 + (0 if changes.delay is None else -2.5)
        assert column(samples, b) == list(zip(wanted[inside].tolist(), time[inside].tolist(), strict=True))


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


@pytest.mark.gpu
def test_a_gpu_gathers_what_the_cpu_does():
    data = few_recordings()
    changes = Changes(pixels=torch.tensor([[1, 3], [-2, 0], [0, 1]]))
    on_gpu = Changes(pixels=changes.pixels.cuda())
    rows = torch.tensor([4, 2, 0])
    made = gather(data.to("cuda"), rows, data.offset.diff(), on_gpu, torch.Generator("cuda"))
    for one, other in zip(made, gather(data, rows, data.offset.diff(), changes, torch.Generator()), strict=True):
        torch.testing.assert_close(one.cpu(), other)
