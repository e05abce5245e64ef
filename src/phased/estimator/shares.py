"""Shares: random convolutions over the inputs of a sequence, and the share of steps at which each exceeds a threshold.

A kernel has nine taps, one to three channels and a dilation. Tap j reads the input j * dilation steps ago, which is zero before
the first step. Three of the taps have weight 2, and six have weight -1. Inputs are rounded to 1 / 256. So values and counts are
integers, with sums that do not depend on the order: batches and online sequences give the same counts, in the compiled core
and in NumPy.

The kernels are taken from MiniRocket (Dempster et al. 2021), which computes shares over whole series. Here the shares are up to
date at every step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from phased.estimator.inputs import shared, width
from phased.estimator.ragged import gather, offsets, unpadded
from phased.ops.native import core

KERNELS = 1600
TAPS, HEAVY, MOST_CHANNELS = 9, 3, 3
"""Number of taps of a kernel, number of taps with weight 2, and largest number of channels of a kernel."""
DILATIONS = 1, 2, 4, 8, 16, 32
QUANTILES = 0.3, 0.5, 0.8
"""Thresholds of a kernel, as quantiles of its values on training steps."""
SEQUENCES, STEPS = 64, 4000
"""Largest numbers of training sequences and of their steps that set the thresholds."""
RING = 12 << 10
"""Largest memory for the last inputs of a sequence, in bytes."""
UNIT, LARGEST = 256.0, 30.0
"""Inputs are rounded to multiples of 1 / UNIT, and bounded to [-LARGEST, LARGEST]."""
CHUNK = 1024
"""Number of steps or sequences per block of computations in NumPy."""

Integers = NDArray[np.int32]
Indices = NDArray[np.int64]


class Shares(nn.Module):
    """Random kernels, and the shares of steps of a sequence at which the values of the kernels exceed thresholds.

    The channels are the values, the gap, and the deviations, changes and rates in a row of inputs (`Normalise`). If they do not
    fit into `RING`, a random subset is used. Call `fit` or load a state dict to set the kernels. `NormaliseStream` computes the
    same shares event by event. The computation runs on the CPU and has no gradient.

    Args:
        numbers: number of variables. Or a list: True for each numeric variable, False for each indicator of a text level.
        batch_first: whether input has the batch as its first dimension.

    Attributes:
        input_size: number of features of a step.
        features: number of shares.
        column: the column of each channel in a row of inputs, (channels,).
        dilation: dilations of the kernels, ascending, (KERNELS,).
        channel: channels of the kernels, (KERNELS, 3), padded with -1.
        tap: the taps of weight 2, (KERNELS, 3).
        threshold: thresholds of the kernels, (3, KERNELS).

    Example:
        >>> import torch
        >>> from phased.estimator import Normalise, Shares
        >>> x, time, lengths = torch.randn(50, 2, 3), torch.arange(50).unsqueeze(1).expand(50, 2), [50, 40]
        >>> rows = Normalise(3).fit(x, time, lengths)(x, time, lengths)
        >>> shares = Shares(3).fit(rows, lengths)
        >>> shares(rows, lengths).shape
        torch.Size([2, 4800])
    """

    column: Tensor
    dilation: Tensor
    channel: Tensor
    tap: Tensor
    threshold: Tensor

    def __init__(self, numbers: int | Sequence[bool], batch_first: bool = False) -> None:
        super().__init__()
        numbers = [True] * numbers if isinstance(numbers, int) else numbers
        self.input_size, self.batch_first = width(len(numbers), sum(numbers)), batch_first
        self.columns = columns_of(len(numbers), sum(numbers))
        shapes: dict[str, tuple[int, ...]] = {"column": (min(len(self.columns), RING // (2 * TAPS)),), "dilation": (KERNELS,)}
        shapes |= {"channel": (KERNELS, MOST_CHANNELS), "tap": (KERNELS, HEAVY), "threshold": (len(QUANTILES), KERNELS)}
        for name, shape in shapes.items():
            self.register_buffer(name, torch.ones(shape, dtype=torch.int32))

    @property
    def features(self) -> int:
        """Number of shares. The order is first threshold of all kernels, second threshold, third threshold."""
        return self.threshold.numel()

    @property
    def length(self) -> int:
        """Number of steps that the longest kernel spans."""
        return (TAPS - 1) * int(self.dilation[-1]) + 1

    def parts(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """Return name, type and shape of the arrays of one sequence that arrives step by step. All start as zeros."""
        return [("ring", "i2", (self.length, len(self.column))), ("counts", "i4", tuple(self.threshold.shape))]

    def fit(self, input: Tensor, lengths: Any = None, seed: int = 0) -> Shares:
        """Draw the kernels, and measure their thresholds on training sequences, given as for `forward`."""
        x, offset = self._rows(input, lengths)
        return self.fit_to(lambda some: x[gather(offset, some)[0]], np.diff(offset), seed)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(self, input: Tensor, lengths: Any = None) -> Tensor:
        """Compute the shares of sequences.

        Args:
            input: output of a `Normalise`.
            lengths: number of steps of each sequence that are data. Default: all.

        Shape:
            - input: (T, B, input_size); (B, T, input_size) with `batch_first`; (T, input_size) without a batch.
            - lengths: (B,).
            - output: (B, features); (features,) without a batch.

        Raises:
            TypeError: input is no tensor.
            ValueError: shapes do not fit, or the module has no kernels.
        """
        if not self.fits():
            raise ValueError("Shares must be fitted, got one without valid kernels. Call fit(input), or load a state_dict.")
        shares = torch.from_numpy(self.batch(*self._rows(input, lengths))).to(input)
        return shares if input.dim() == 3 else shares[0]

    def _rows(self, input: Tensor, lengths: Any) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The steps of a padded batch that are data, as `batch` takes them."""
        x, count = unpadded(input, self.input_size, lengths, self.batch_first)
        return x.float().numpy(), offsets(count)

    def fit_to(self, rows: Callable[[Indices], NDArray[np.float32]], lengths: Indices, seed: int) -> Shares:
        """Do the same with rows that are made when they are needed.

        Args:
            rows: returns the rows of inputs of some sequences, one sequence after another.
            lengths: number of steps of each sequence.
            seed: the same seed draws the same kernels.
        """
        self.draw(int(lengths.max(initial=0)), seed)
        self.measure(rows, lengths, seed)
        return self

    def draw(self, longest: int, seed: int) -> None:
        """Draw the kernels.

        Args:
            longest: number of steps of the longest training sequence. Longer kernels are not drawn.
            seed: the same seed draws the same kernels.
        """
        random = np.random.default_rng(seed)
        channels = len(self.column)
        column = np.sort(random.choice(self.columns, channels, replace=False))
        fitting = [d for d in DILATIONS if (TAPS - 1) * d < longest and 2 * channels * ((TAPS - 1) * d + 1) <= RING]
        dilation = np.sort(np.resize(fitting or DILATIONS[:1], KERNELS))
        read = random.integers(1, min(MOST_CHANNELS, channels), KERNELS, endpoint=True)
        read = read[np.lexsort((read, dilation))]  # kernels of one dilation in order of their number of channels
        channel = np.full((KERNELS, MOST_CHANNELS), -1)
        drawn = random.random((KERNELS, channels)).argsort(1)[:, :MOST_CHANNELS]
        channel[:, : drawn.shape[1]] = drawn
        channel[np.arange(MOST_CHANNELS) >= read[:, None]] = -1
        tap = random.random((KERNELS, TAPS)).argsort(1)[:, :HEAVY]
        for name, values in {"column": column, "dilation": dilation, "channel": channel, "tap": tap}.items():
            getattr(self, name).copy_(torch.from_numpy(values))

    def measure(self, rows: Callable[[Indices], NDArray[np.float32]], lengths: Indices, seed: int) -> None:
        """Set the thresholds from random steps of random training sequences. `fit_to` describes the arguments."""
        random = np.random.default_rng(seed)
        sequences = random.permutation(np.flatnonzero(lengths))[:SEQUENCES]
        ends = lengths[sequences].cumsum()
        first = np.repeat(ends - lengths[sequences], lengths[sequences])
        chosen = random.permutation(len(first))[:STEPS]
        if len(chosen):
            values = np.sort(self._values_at(rows(sequences), chosen, first[chosen]), axis=0)
            places = [int(quantile * (len(values) - 1)) for quantile in QUANTILES]
            self.threshold.copy_(torch.from_numpy(values[places]))

    def batch(self, x: NDArray[np.float32], offset: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the shares of sequences. A sequence without steps has shares of 0.

        Args:
            x: rows of inputs, and possibly more columns.
            offset: the steps of sequence i are offset[i] to offset[i + 1].

        Shape:
            - x: (steps, stride)
            - offset: (sequences + 1,)
            - output: (sequences, features)
        """
        shares = np.empty((len(offset) - 1, self.features), np.float32)
        for first in range(0, len(shares), CHUNK):
            part = offset[first : first + CHUNK + 1]
            shares[first : first + CHUNK] = self.count(x, part) / np.maximum(np.diff(part), 1)[:, None]
        return shares

    def count(self, x: NDArray[np.float32], offset: NDArray[np.int64]) -> Integers:
        """Return the number of steps above each threshold, (sequences, features). `batch` describes the arguments."""
        counts, native = np.zeros((len(offset) - 1, self.features), np.int32), self.compiled()
        if offset[-1] > len(x) or int(self.column.max()) >= x.shape[1]:
            raise IndexError(f"x must have all steps and channels, got {x.shape} for {offset[-1]} steps.")
        if native is not None:
            x, offset = np.ascontiguousarray(x, np.float32), np.ascontiguousarray(offset, np.int64)
            native.batch(len(counts), x.shape[1], offset.ctypes.data, x.ctypes.data, counts.ctypes.data)
            return counts
        owner, thresholds = np.repeat(np.arange(len(counts)), np.diff(offset)), self._array("threshold")
        for first in range(0, len(owner), CHUNK):
            own = owner[first : first + CHUNK]
            above = self._values_at(x, offset[0] + first + np.arange(len(own)), offset[own])[:, None] > thresholds
            begins = np.flatnonzero(np.diff(own, prepend=-1))
            counts[own[begins]] += np.add.reduceat(above.reshape(len(own), -1), begins, dtype=np.int32)
        return counts

    def step(self, row: NDArray[np.float32], ring: NDArray[np.int16], counts: Integers, before: int) -> None:
        """Update the last inputs and the counts of one sequence by its next step, in place.

        Args:
            row: inputs of the step, (stride,).
            ring: last inputs of the sequence, an array of `parts`.
            counts: number of steps above each threshold, an array of `parts`.
            before: number of steps before this step.
        """
        ring[before % self.length] = fixed(row[self._array("column")])
        values = np.empty(KERNELS, np.int32)
        for dilation, bank in self._banks():
            past = ring[(before - dilation * np.arange(TAPS)) % self.length]
            values[bank] = self._values(past[None].astype(np.int32), bank)[0]
        counts += values > self._array("threshold")

    def compiled(self) -> Any:
        """Return a copy of the kernels in the compiled core, or None without the core.

        The copy has the method `step(row, ring, counts, before)` too, which takes addresses.
        """
        if core is None:
            return None
        if not self.fits():
            raise ValueError("kernels must read channels and taps that exist, got others. The model is damaged.")
        arrays = [np.ascontiguousarray(self._array(name)) for name in ("column", "dilation", "channel", "tap", "threshold")]
        return core.Shares(len(self.column), KERNELS, [array.ctypes.data for array in arrays])

    def fits(self) -> bool:
        """Return whether the kernels are ordered as `draw` orders them, and read existing channels and taps."""
        column, dilation, channel, tap = (self._array(name) for name in ("column", "dilation", "channel", "tap"))
        read = channel >= 0
        exist = np.isin(column, self.columns).all() and (channel >= -1).all() and (channel < len(column)).all()
        exist &= np.isin(dilation, DILATIONS).all() and ((tap >= 0) & (tap < TAPS)).all() and np.diff(np.sort(tap)).all()
        ordered = read[:, 0].all() and (read[:, :-1] >= read[:, 1:]).all()
        return bool(exist and ordered and (np.diff(MOST_CHANNELS * dilation + read.sum(1)) >= 0).all())

    def _array(self, name: str) -> Integers:
        """Return a buffer as an array in CPU memory."""
        array: Integers = getattr(self, name).cpu().numpy()
        return array

    def _banks(self) -> list[tuple[int, slice]]:
        """Return each dilation with the range of its kernels."""
        dilations, first = np.unique(self._array("dilation"), return_index=True)
        return [(int(d), slice(a, b)) for d, a, b in zip(dilations, first, [*first[1:], KERNELS], strict=True)]

    def _values_at(self, x: NDArray[np.float32], at: NDArray[np.int64], first: NDArray[np.int64]) -> Integers:
        """Return the values of all kernels, (n, KERNELS), at steps `at` of sequences that start at steps `first`."""
        values = np.empty((len(at), KERNELS), np.int32)
        for dilation, bank in self._banks():
            steps = at[:, None] - dilation * np.arange(TAPS)
            known = (steps >= first[:, None])[..., None]
            past = np.where(known, fixed(x[np.maximum(steps, 0)[..., None], self._array("column")]), 0)
            values[:, bank] = self._values(past.astype(np.int32), bank)
        return values

    def _values(self, past: Integers, bank: slice) -> Integers:
        """Return the values of some kernels, (n, kernels), from the inputs at their taps, (n, TAPS, channels)."""
        channel, tap, nine = self._array("channel")[bank].T, self._array("tap")[bank].T, past.sum(1, dtype=np.int32)
        values = np.zeros((len(past), channel.shape[1]), np.int32)
        for own in channel:
            three = sum(past[:, each, own] for each in tap)
            values += np.where(own >= 0, 3 * three - nine[:, own], 0)
        return values


def columns_of(variables: int, numbers: int) -> NDArray[np.int64]:
    """Return the columns of the channels in a row of inputs: values, gap, deviations, changes and rates."""
    return np.concatenate([np.arange(variables), [3 * variables], shared(variables) + np.arange(3 * numbers)])


def fixed(x: NDArray[np.float32]) -> NDArray[np.int16]:
    """Return inputs in multiples of 1 / UNIT, rounded half to even. NaN becomes the largest number."""
    return np.rint(np.fmax(np.fmin(x, np.float32(LARGEST)), np.float32(-LARGEST)) * np.float32(UNIT)).astype(np.int16)
