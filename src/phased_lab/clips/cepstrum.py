"""Mel-frequency cepstral coefficients (MFCC) with the time at which each is known, and their differences."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

RATE = 16000  # samples a second: speech has little above 8 kHz, and all clips get the same filters
COEFFICIENTS = 13
FILTERS = 40
FLOOR = 1e-10  # power at which the logarithm is cut off: -100 dB
LINEAR, LOG_FROM, LOG_STEP = 200 / 3, 1000.0, np.log(6.4) / 27  # the mel scale: linear in Hz to 1000, logarithmic above


class Resolution(NamedTuple):
    """How often coefficients are computed, of how much sound, and over how many rows differences are taken; times in ms."""

    hop: int
    window: int
    width: int


FINE = Resolution(hop=10, window=25, width=5)
COARSE = Resolution(hop=40, window=50, width=3)  # a window longer than the hop: all of the sound is heard
RESOLUTIONS = {100: FINE, 25: COARSE}
"""By rows a second: 100 is the paper's high resolution, 25 its low resolution."""


class Mfcc(NamedTuple):
    """Coefficients, (M, 13) float32; row m is known at (first + m) * hop ms."""

    values: NDArray[np.float32]
    first: int


def mfcc(audio: NDArray[np.float32], start: float = 0.0, resolution: Resolution = FINE) -> Mfcc:
    """13 coefficients for each window of sound.

    A window (Hann) ends at a multiple of the hop since time 0, and its time is its end: a network that receives the row at that
    time uses no later sound. Power spectrum, 40 mel filters of equal area (Slaney) from 0 to 8 kHz, decibels, and an orthonormal
    DCT-II; these are librosa's definitions. Windows that reach beyond the sound are left out.

    Args:
        audio: (S,) float32, 16,000 samples a second.
        start: the time of the first sample in ms.
        resolution: `FINE` (100 rows a second, windows of 25 ms) or `COARSE` (25 rows, 50 ms).

    Returns:
        The coefficients, and the number of the first row's time; no rows if the sound is shorter than a window.

    Example:
        >>> values, first = mfcc(np.zeros(16000, np.float32))
        >>> values.shape, first * FINE.hop
        ((98, 13), 30)
    """
    per_ms = RATE / 1000
    size, hop = round(resolution.window * per_ms), round(resolution.hop * per_ms)
    first = int(np.ceil((start + resolution.window) / resolution.hop - 1e-9))
    begin = round((first * resolution.hop - resolution.window - start) * per_ms)
    if len(audio) - begin < size:
        return Mfcc(np.zeros((0, COEFFICIENTS), np.float32), first)
    windows = sliding_window_view(audio[begin:], size)[::hop]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    power = np.abs(np.fft.rfft(windows * hann)) ** 2
    decibels = 10 * np.log10(np.maximum(power @ _filters(size).T, FLOOR))
    return Mfcc((decibels @ _dct().T).astype(np.float32), first)


def differences(values: NDArray[np.float32], width: int = FINE.width) -> NDArray[np.float32]:
    """Coefficients followed by their first and second differences.

    A difference is the slope of the line through the last `width` rows (least squares); the second one is the difference of the
    first. No later row is used, so differences add no delay. Before the first row its values are repeated.

    Args:
        values: (M, C) float32.
        width: rows that a slope is computed from, at least 2.

    Returns:
        (M, 3 C) float32.

    Example:
        >>> differences(np.arange(6, dtype=np.float32)[:, None], width=2)[-1]
        array([5., 1., 0.], dtype=float32)
    """
    first = _slope(values, width)
    return np.concatenate([values, first, _slope(first, width)], axis=1)


def _slope(values: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    if not len(values):
        return values
    weights = np.arange(width, dtype=np.float32) - np.float32((width - 1) / 2)
    padded = np.concatenate([np.repeat(values[:1], width - 1, axis=0), values])
    slopes = sliding_window_view(padded, width, axis=0) @ (weights / (weights**2).sum())
    return np.asarray(slopes, np.float32)


@cache
def _filters(size: int) -> NDArray[np.float64]:
    """Triangles over the bins of a window's spectrum, (filters, bins): equally spaced in mel, each of area 1."""
    top = LOG_FROM / LINEAR + np.log(RATE / 2 / LOG_FROM) / LOG_STEP
    mel = np.linspace(0, top, FILTERS + 2)
    knee = LOG_FROM / LINEAR
    edges = np.where(mel < knee, LINEAR * mel, LOG_FROM * np.exp(LOG_STEP * (np.maximum(mel, knee) - knee)))
    bins = np.fft.rfftfreq(size, 1 / RATE)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    triangles = np.maximum(np.minimum((bins - low) / (middle - low), (high - bins) / (high - middle)), 0)
    return np.asarray(triangles * 2 / (high - low), np.float64)


@cache
def _dct() -> NDArray[np.float64]:
    """The first rows of the orthonormal DCT-II, (coefficients, filters)."""
    number, place = np.arange(COEFFICIENTS)[:, None], np.arange(FILTERS)
    basis = np.cos(np.pi * number * (2 * place + 1) / (2 * FILTERS)) * np.sqrt(2 / FILTERS)
    basis[0] /= np.sqrt(2)
    return np.asarray(basis, np.float64)
