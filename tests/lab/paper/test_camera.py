"""The comparison of simulated recordings with real ones, its figures, and the calibration."""

import matplotlib as mpl
import numpy as np
import pytest
import torch
import typer

from digits import few_recordings
from phased.data.camera import simulate
from phased.data.recordings import Recording, Recordings
from phased.data.saccades import EVERY, X, Y
from phased_lab.paper.camera import Comparison, Statistics, calibrate, camera, data, run

mpl.use("agg")


def recorded(*events: tuple[int, int, int, int]) -> Recording:
    """A recording of events (x, y, polarity, microseconds)."""
    x, y, polarity, time = np.array(events).T
    return Recording(x, y, polarity.astype(bool), time)


@pytest.fixture
def bars() -> torch.Tensor:
    """Images of bars in several directions."""
    images = torch.zeros(6, 28, 28, dtype=torch.uint8)
    for i in range(6):
        images[i, 6:22, 4 + 3 * i : 7 + 3 * i] = 255
        images[i, 4 + 3 * i : 7 + 3 * i, 8:20] = 200
    return images


def test_statistics_of_a_few_events_are_those_counted_by_hand():
    one = recorded((3, 4, 1, 5_000), (3, 4, 0, 8_000), (9, 9, 1, 8_500), (3, 4, 1, 110_000))
    two = recorded((3, 4, 1, 12_000), (0, 0, 0, 220_000))
    found = Statistics.of(Recordings.of([one, two], label=[2, 5]))
    assert found.events.tolist() == [4, 2]
    assert found.falls.tolist() == [0.75, 0.5]
    assert found.last.tolist() == [110.0, 220.0]
    assert sorted(found.intervals.tolist()) == [3.0, 102.0]
    assert found.rate[[0, 1, 11, 22]].tolist() == [1.5, 0.5, 0.5, 0.5]
    assert found.rate.sum() == 3.0
    address = (4 * 34 + 3) * 2
    assert found.maps[0, 0, address : address + 2].tolist() == [1, 1]
    assert found.maps[0, 1, address + 1] == found.maps[1, 2, 0] == 1
    assert found.maps.sum() == 6
    assert found.per_class[[2, 5]].tolist() == [4, 2]
    assert np.isnan(found.per_class[0])


def test_statistics_do_not_mix_recordings():
    recordings = few_recordings()
    together = Statistics.of(recordings)
    alone = [Statistics.of(recordings[i : i + 1]) for i in range(len(recordings))]
    for name in ("events", "falls", "last", "maps"):
        np.testing.assert_array_equal(getattr(together, name), np.concatenate([getattr(one, name) for one in alone]))
    assert sorted(together.intervals) == sorted(np.concatenate([one.intervals for one in alone]))


def test_a_recording_agrees_with_itself_perfectly_and_with_a_second_simulation_more_than_with_other_digits(bars):
    one, again, other = (Statistics.of(simulate(images, seed=seed)) for images, seed in ((bars, 0), (bars, 1), (bars.flip(0), 2)))
    same = Comparison(one, one, one)
    assert (same.of_events, *same.of_maps, same.of_rates) == pytest.approx((1, 1, 1, 0))
    found = Comparison(other, one, again)
    assert found.of_maps[1] > 0.9 > 0.7 > found.of_maps[0]


def test_the_experiment_draws_its_figure_with_the_numbers_it_found(data_folder):
    figures, finding = camera.draw()
    assert finding.startswith("16 recordings of the same digits: ")
    found = run()
    words = " ".join(text.get_text() for text in figures["camera"].findobj(mpl.text.Text))
    assert f"correlation {found.of_events:.3f}" in words
    assert f"{found.real.last.mean():.1f} ± {found.real.last.std():.1f}" in words
    assert f"those of two simulations {found.of_maps[1]:.3f}" in finding


def test_pairs_are_recordings_with_their_own_images_and_at_most_as_many_as_asked(data_folder):
    recordings, images = data.load(1000)
    assert len(recordings) == len(images) == 16  # 10 of the training set and 6 of the test set
    few = data.load(4)
    assert few.recordings.number.tolist() == [1, 6, 1, 6]
    torch.testing.assert_close(few.images[1], images[5])
    assert len(data.load(4, ("test",), seed=0).images) == 4


def test_without_real_recordings_the_error_says_how_to_get_them(data_folder, monkeypatch):
    (data_folder / "nmnist" / "Test").rename(data_folder / "elsewhere")
    assert len(data.load(1000).images) == 10
    with pytest.raises(FileNotFoundError, match=r"expected real recordings in the test set.* got none.* Copy"):
        data.load(1000, ("test",))
    monkeypatch.setenv("PHASED_DATA", str(data_folder / "elsewhere"))
    with pytest.raises(FileNotFoundError, match=r"expected N-MNIST.* got none of them. Download"):
        camera.draw()
    with pytest.raises(typer.Exit) as ended:
        calibrate.main()
    assert ended.value.exit_code == 1, "as in the commands of `phased`"


def test_recordings_of_other_images_are_refused(data_folder):
    wrong = data_folder / "nmnist" / "Train" / "3" / "00004.bin"
    wrong.rename(wrong.with_name("00023.bin"))  # image 23 is a 2
    with pytest.raises(ValueError, match=r"must be named by the MNIST numbers.*got train recording 23 of the digit 3.*Use"):
        data.load(1000)
    wrong.with_name("00023.bin").rename(wrong.with_name("00999.bin"))
    with pytest.raises(ValueError, match="got train recording 999"):
        data.load(1000)


def test_the_first_path_of_the_fit_goes_through_the_corners():
    path = calibrate.first_path()
    assert path.shape == (64, 2)
    for corner, time in zip(calibrate.CORNERS, (0, 105, 210, 315), strict=True):
        np.testing.assert_allclose(path[round(time / EVERY)], corner, atol=0.05)


def test_counts_are_the_events_of_each_bin_polarity_and_pixel():
    found = calibrate.counts(
        Recordings.of([recorded((3, 4, 1, 5_000), (3, 4, 1, 9_999), (2, 1, 0, 314_999), (0, 0, 0, 316_000))])
    )
    assert found.shape == (1, 63, 2, 34, 34)
    assert found[0, 1, 1, 4, 3] == 2
    assert found[0, 62, 0, 1, 2] == 1
    assert found.sum() == 3


def test_a_fit_to_simulated_recordings_comes_closer_to_the_path_that_made_them(bars):
    found = calibrate.calibrate(data.Pairs(simulate(bars), bars), steps=40)
    true = np.stack([X, Y], -1)
    before, after = (np.sqrt(np.mean((path - true) ** 2)) for path in (calibrate.first_path(), found.path))
    assert after < 0.6 * before
    assert set(found.fields) >= {"gamma", "dark", "blur", "size", "rise", "fall", "noise", "gain", "place", "jitter"}
    assert f"{after:.3f} pixels" in calibrate.words(found)
