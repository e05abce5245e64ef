"""MFCCs are librosa's, at their own times, and differences look back only."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phased_lab.clips.cepstrum import COARSE, FINE, RATE, differences, mfcc
from phased_lab.clips.decoding import decode, resampled


@pytest.fixture(scope="module")
def librosa():
    with warnings.catch_warnings():  # of modules that it imports
        warnings.simplefilter("ignore")
        module = pytest.importorskip("librosa")
        module.feature.mfcc  # noqa: B018, imported when it is first used
    return module


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    return (0.1 * np.random.default_rng(seed).standard_normal(round(RATE * seconds))).astype(np.float32)


def expected(librosa, audio: np.ndarray, resolution) -> np.ndarray:
    """What librosa computes for windows from the first sample on."""
    size, hop = resolution.window * RATE // 1000, resolution.hop * RATE // 1000
    power = librosa.feature.melspectrogram(y=audio, sr=RATE, n_fft=size, hop_length=hop, center=False, n_mels=40, fmax=RATE / 2)
    return librosa.feature.mfcc(S=librosa.power_to_db(power, top_db=None), n_mfcc=13).T


@pytest.mark.parametrize("resolution", [FINE, COARSE])
def test_coefficients_of_noise_are_those_of_librosa(librosa, resolution):
    audio = noise(1.0)
    audio[4000:8000] = 0  # silence: the floor of the logarithm
    values, first = mfcc(audio, 0.0, resolution)
    begin = (first * resolution.hop - resolution.window) * RATE // 1000
    np.testing.assert_allclose(values, expected(librosa, audio[begin:], resolution), rtol=1e-4, atol=2e-3)


def test_coefficients_of_a_real_clip_are_those_of_librosa(librosa, grid):
    clip = decode(next((grid / "s1").glob("*.mpg"), None) or next((grid / "s1").iterdir()))
    audio = resampled(clip.audio, clip.rate)
    values, first = mfcc(audio, clip.start)
    begin = round((first * FINE.hop - FINE.window - clip.start) * RATE / 1000)
    np.testing.assert_allclose(values, expected(librosa, audio[begin:], FINE), rtol=1e-4, atol=2e-3)
    assert np.abs(values).max() < 60000, "float16 holds them"


@pytest.mark.parametrize("resolution", [FINE, COARSE])
@pytest.mark.parametrize("start", [0.0, -7.0, 3.5])
def test_a_row_depends_on_its_window_and_on_no_later_sound(resolution, start):
    audio = noise(1.0)
    values, first = mfcc(audio, start, resolution)
    time = (first + 5) * resolution.hop
    end = round((time - start) * RATE / 1000)
    later = audio.copy()
    later[end:] = 0
    assert (mfcc(later, start, resolution).values[:6] == values[:6]).all()
    earlier = audio.copy()
    earlier[: end - resolution.window * RATE // 1000] = 0
    assert (mfcc(earlier, start, resolution).values[5] == values[5]).all()


@given(samples=st.integers(0, 4000), start=st.integers(-60, 60), resolution=st.sampled_from([FINE, COARSE]))
def test_there_is_a_row_for_each_whole_window(samples, start, resolution):
    values, first = mfcc(noise(samples / RATE), float(start), resolution)
    end = start + samples * 1000 / RATE
    times = range(-2000, 2000, resolution.hop)
    whole = [time for time in times if time - resolution.window >= start and time <= end]
    assert len(values) == len(whole)
    assert not whole or whole[0] == first * resolution.hop


@given(width=st.integers(2, 7), rows=st.integers(0, 12), slope=st.floats(-5, 5, width=32))
def test_differences_of_a_line_are_its_slope_and_zero(width, rows, slope):
    values = (np.arange(rows, dtype=np.float32) * np.float32(slope))[:, None] * np.ones((1, 3), np.float32)
    full = differences(values, width)
    assert full.shape == (rows, 9)
    assert (full[:, :3] == values).all()
    np.testing.assert_allclose(full[width - 1 :, 3:6], slope, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(full[2 * width - 2 :, 6:], 0, atol=1e-2)


@pytest.mark.parametrize("width", [3, 5])
def test_first_differences_are_those_of_librosa_half_a_width_earlier(librosa, width):
    values = noise(0.1).reshape(-1, 8)
    centred = librosa.feature.delta(values.T, width=width, order=1, mode="nearest").T
    half = width // 2
    np.testing.assert_allclose(differences(values, width)[width - 1 :, 8:16], centred[half:-half], rtol=1e-3, atol=1e-5)


def test_resampling_keeps_a_tone_and_removes_what_the_rate_cannot_have():
    time = np.arange(44100) / 44100
    for hertz, kept in ((440, True), (12000, False)):
        tone = np.sin(2 * np.pi * hertz * time).astype(np.float32)
        made = resampled(tone, 44100)
        assert abs(len(made) - RATE) <= 32
        middle = made[4000:12000]
        wanted = np.sin(2 * np.pi * hertz * np.arange(4000, 12000) / RATE) if kept else np.zeros(8000)
        np.testing.assert_allclose(middle, wanted, atol=0.02)
    assert resampled(tone, RATE) is tone
