"""The event camera in software: what its recordings have in common with real ones, whatever it looks at."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from phased.data import NMNIST, Recordings, open_recordings, read_mnist
from phased.data.camera import Camera, simulate
from phased.data.saccades import END, displacement
from wrong import Wrong, table

STILL = Camera(noise=0.0, mismatch=0.0, gain=0.0, place=0.0, jitter=(0.0, 0.0, 0.0))


def digits(count: int = 4, white: int = 255) -> torch.Tensor:
    """Images of a ring each, of different sizes."""
    y, x = np.mgrid[:28, :28]
    rings = [np.abs(np.hypot(x - 13.5, y - 13.5) - 4 - size % 6) < 1.5 for size in range(count)]
    return torch.from_numpy(np.stack(rings).astype(np.uint8) * white)


def events(recordings: Recordings) -> float:
    """The mean number of events."""
    return len(recordings.address) / len(recordings)


def intervals(recordings: Recordings) -> np.ndarray:
    """Times in ms between consecutive events of a pixel of the first recording."""
    recording = recordings[0]
    pixel = recording.y.astype(np.int64) * NMNIST.width + recording.x
    order = np.lexsort((recording.time, pixel))
    return np.diff(recording.time[order])[np.diff(pixel[order]) == 0] / 1000


def test_the_same_seed_gives_the_same_recordings_and_another_seed_others():
    one, other = (simulate(digits(), seed=seed) for seed in (3, 4))
    torch.set_default_dtype(torch.float64)  # which changes no recording
    try:
        same = simulate(digits(), seed=3)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(one.address, same.address)
    assert torch.equal(one.time, same.time)
    assert len(one.address) != len(other.address) or not torch.equal(one.time, other.time)


def test_times_are_sorted_and_addresses_are_on_the_sensor():
    recordings = simulate(digits(), torch.tensor([7, 1, 2, 9]))
    assert recordings.address.dtype == torch.int16
    assert recordings.time.dtype == torch.int32
    assert recordings.label.tolist() == [7, 1, 2, 9]
    assert recordings.number.tolist() == [1, 2, 3, 4]
    assert int(recordings.offset[-1]) == len(recordings.address) == len(recordings.time)
    assert 0 <= int(recordings.address.min()) <= int(recordings.address.max()) < NMNIST.addresses
    for recording in recordings:
        assert np.all(np.diff(recording.time) >= 0)
        assert recording.time[0] >= 0
        assert recording.time[-1] < 1000 * (END + 20)


def test_the_number_of_recordings_at_once_changes_nothing_but_the_noise(monkeypatch):
    whole = events(simulate(digits(12)))
    done = []
    monkeypatch.setitem(simulate.__globals__["AT_ONCE"], "cpu", 5)
    in_parts = simulate(digits(12), progress=done.append)
    assert done == [5, 10, 12]
    assert len(in_parts) == 12
    assert events(in_parts) == pytest.approx(whole, rel=0.03)


def test_no_images_give_no_recordings_and_a_black_image_gives_noise_only():
    assert simulate(digits()[:0]).offset.tolist() == [0]
    black = torch.zeros(8, 28, 28, dtype=torch.uint8)
    camera = Camera()
    expected = camera.noise * NMNIST.width * NMNIST.height * camera.end[0]
    recordings = simulate(black, camera=camera)
    assert events(recordings) == pytest.approx(expected, rel=0.15)
    assert bool((recordings.address & 1).all())
    assert len(simulate(black, camera=STILL).address) == 0


def test_a_lower_threshold_or_a_brighter_digit_gives_more_events():
    by_threshold = [events(simulate(digits(), camera=replace(STILL, rise=limit, fall=limit))) for limit in (0.3, 0.2, 0.1)]
    assert by_threshold == sorted(by_threshold)
    assert by_threshold[0] < 0.7 * by_threshold[2]
    by_contrast = [events(simulate(digits(white=white), camera=STILL)) for white in (60, 120, 180, 255)]
    assert by_contrast == sorted(by_contrast)
    assert by_contrast[0] < 0.2 * by_contrast[-1]


def test_bit_1_comes_first_where_a_white_bar_leaves_and_bit_0_where_it_arrives():
    bar = torch.zeros(1, 28, 28, dtype=torch.uint8)
    bar[0, 12:16, 4:24] = 255
    recording = simulate(bar, camera=STILL)[0]
    # In the first saccade the digit moves down, from row 34/2 - 1.7 to 34/2 + 3.5.
    start, end = displacement(np.array([0.0, 100.0]))[:, 1]
    first = (recording.time < 100_000) & (recording.x > 10) & (recording.x < 24)
    above, below = (first & (np.abs(recording.y - row) < 0.8) for row in (16.5 - 1.5 + start, 16.5 + 1.5 + end))
    assert above.sum() > 20
    assert recording.polarity[above].all()
    assert below.sum() > 20
    assert not recording.polarity[below].any()


@pytest.mark.parametrize("refractory", [0.0, 1.5, 4.0])
def test_a_pixel_is_silent_during_its_refractory_time(refractory):
    found = intervals(simulate(digits(1), camera=replace(STILL, refractory=refractory, spread=0.0, end=(315.0, 0.0))))
    assert len(found) > 1000 / (1 + refractory)
    assert found.min() >= refractory - 0.002  # times are whole microseconds
    spread = intervals(simulate(digits(1), camera=replace(STILL, refractory=refractory, spread=0.15)))
    assert spread.min() >= refractory * (1 - 5 * 0.15) - 0.002


def test_a_recording_ends_when_the_camera_says():
    for recording in simulate(digits(), camera=Camera(end=(200.0, 0.0))):
        assert 195_000 < recording.time[-1] < 200_000


def test_delayed_saccades_change_times_and_not_the_number_of_events():
    steady, late = (simulate(digits(), seed=1, camera=replace(STILL, jitter=jitter)) for jitter in ((0.0,) * 3, (0.0, 8.0, 8.0)))
    assert events(late) == pytest.approx(events(steady), rel=0.01)
    middles = [[np.mean(one.time[(one.time > 105_000) & (one.time < 210_000)]) for one in each] for each in (steady, late)]
    assert np.std(np.subtract(*middles)) > 1000


def blank(*shape: int, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


@table(
    [
        Wrong("a list", lambda: simulate([[0]]), TypeError, "images must be a torch.Tensor", "got list"),
        Wrong("another size", lambda: simulate(blank(2, 32, 32)), ValueError, r"\(N, 28, 28\) uint8", r"got \(2, 32, 32\)"),
        Wrong("one image", lambda: simulate(blank(28, 28)), ValueError, r"\(N, 28, 28\) uint8", r"got \(28, 28\)"),
        Wrong(
            "few labels", lambda: simulate(blank(2, 28, 28), blank(1)), ValueError, r"label must have shape \(2,\)", r"got \(1,\)"
        ),
        Wrong("no light", lambda: Camera(dark=0.0), ValueError, "dark must be in", "got 0", None),
        Wrong("wide blur", lambda: Camera(blur=5.0), ValueError, "blur must be in", "got 5", None),
        Wrong("two times", lambda: Camera(jitter=(1.0, 2.0)), ValueError, "jitter must be a tuple of 3", r"got \(1.0, 2.0\)"),
        Wrong("a number as end", lambda: Camera(end=308.0), ValueError, "end must be a tuple of 2", "got 308"),
        Wrong("a late end", lambda: Camera(end=(9e9, 1.0)), ValueError, "end must be in", "got 9e", None),
    ]
)
def test_what_the_camera_cannot_record_is_a_clear_error(wrong):
    wrong.assert_says_so()


def test_simulated_recordings_are_like_the_real_ones_of_the_same_digits(nmnist, mnist):
    real = open_recordings(nmnist, "train").recordings
    real = real.subset(torch.linspace(0, len(real) - 1, 40).long())
    images = torch.from_numpy(read_mnist(mnist, "train").images)[real.number - 1]
    simulated = simulate(images, real.label)
    counts = [np.diff(each.offset.numpy()) for each in (real, simulated)]
    assert counts[1].mean() == pytest.approx(counts[0].mean(), rel=0.05)
    assert np.corrcoef(counts)[0, 1] > 0.95
    maps = [recording_maps(each) for each in (real, simulated)]
    assert np.corrcoef(maps[0].ravel(), maps[1].ravel())[0, 1] > 0.9
    falls = [(each.address & 1).double().mean().item() for each in (real, simulated)]
    assert falls[1] == pytest.approx(falls[0], abs=0.02)
    last = [each.time[each.offset[1:] - 1].double().mean().item() / 1000 for each in (real, simulated)]
    assert last[1] == pytest.approx(last[0], abs=2.0)


def recording_maps(recordings: Recordings) -> np.ndarray:
    """Events at each address, in each 105 ms, (R, 3 * addresses)."""
    who = torch.arange(len(recordings)).repeat_interleave(recordings.offset.diff())
    place = (who * 3 + (recordings.time.long() // 105_000).clamp(max=2)) * NMNIST.addresses + recordings.address
    return torch.bincount(place, minlength=len(recordings) * 3 * NMNIST.addresses).view(len(recordings), -1).double().numpy()


@pytest.mark.gpu
def test_a_gpu_and_a_cpu_agree_except_for_their_noise():
    here, there = (simulate(digits(60).to(device)).to("cpu") for device in ("cpu", "cuda"))
    assert events(there) == pytest.approx(events(here), rel=0.02)
    maps = [recording_maps(each) for each in (here, there)]
    again = recording_maps(simulate(digits(60), seed=1))
    between, ceiling = (np.corrcoef(maps[0].ravel(), other.ravel())[0, 1] for other in (maps[1], again))
    assert between == pytest.approx(ceiling, abs=0.01)
    assert (there.address & 1).double().mean() == pytest.approx((here.address & 1).double().mean().item(), abs=0.01)
