"""The times of many sequences in one flat tensor: from lists of arrays or a padded batch, checked, with their gaps and spans."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from phased import check, check_events


class Clocks(NamedTuple):
    """The times of all sequences, one sequence after another."""

    time: Tensor  # (N,), int64 or float, on the CPU
    lengths: Tensor  # (B,) int64, the steps of each sequence; their sum is N

    def starts(self) -> Tensor:
        """The index of each sequence's first step, (B,)."""
        return self.lengths.cumsum(0) - self.lengths

    def inner(self) -> Tensor:
        """Which steps have one before them in their sequence, (N,) bool."""
        inner = torch.ones(len(self.time), dtype=torch.bool, device="cpu")
        inner[self.starts()[self.lengths > 0]] = False
        return inner

    def gaps(self) -> Tensor:
        """Time from each step to the next in the same sequence, in the order of the steps, float64."""
        return (self.time[1:] - self.time[:-1])[self.inner()[1:]].to(torch.float64)

    def spans(self) -> Tensor:
        """Time from the first to the last step of each sequence, (B,) float64; 0 where there is no step."""
        spans = torch.zeros(len(self.lengths), dtype=torch.float64, device="cpu")
        some = self.lengths > 0
        first = self.starts()[some]
        spans[some] = (self.time[first + self.lengths[some] - 1] - self.time[first]).to(torch.float64)
        return spans

    def sequence(self, index: int) -> Tensor:
        """The times of one sequence."""
        end = int(self.lengths[: index + 1].sum())
        return self.time[end - int(self.lengths[index]) : end]


def read(time: Any, lengths: Any = None, batch_first: bool = False) -> Clocks:
    """The clocks of a list of sequences, of one sequence, or of a padded batch; they are finite and never decrease."""
    if isinstance(time, (list, tuple)) and any(hasattr(entry, "__len__") and getattr(entry, "ndim", 1) for entry in time):
        if lengths is not None:
            raise ValueError("lengths must be None for a list of sequences, each of which has its own.")
        clocks = _of_list(time)
    else:
        clocks = _of_batch(check_events.numbers("time", time).cpu(), lengths, batch_first)
    _check(clocks)
    return clocks


def _of_list(sequences: list[Any] | tuple[Any, ...]) -> Clocks:
    flat = []
    for number, entry in enumerate(sequences):
        given = check_events.numbers(f"time of sequence {number}", entry).cpu()
        if given.dim() != 1:
            raise ValueError(
                f"time of sequence {number} must have shape (steps,), got {check.shape(given)}. "
                f"Pass a list with one array of times for each sequence, or a padded batch with `lengths`."
            )
        flat.append(check.signed(given))
    return Clocks(torch.cat(flat), torch.tensor([len(entry) for entry in flat], device="cpu"))


def _of_batch(time: Tensor, lengths: Any, batch_first: bool) -> Clocks:
    if time.dim() not in (1, 2):
        batched = "(batch, steps)" if batch_first else "(steps, batch)"
        raise ValueError(f"time must be a list of arrays, or have shape {batched} or (steps,), got {check.shape(time)}.")
    if time.dim() == 1 and lengths is not None:
        raise ValueError("lengths must be None for unbatched time: it has one sequence. Pass time[:length] instead.")
    rows = time.unsqueeze(0) if time.dim() == 1 else time if batch_first else time.t()
    batch, steps = rows.shape
    if lengths is None:
        return Clocks(check.signed(rows).flatten(), torch.full((batch,), steps, device="cpu"))
    length = check.lengths(lengths, batch, steps, torch.device("cpu"))
    valid = torch.arange(steps, device="cpu") < length.unsqueeze(1)
    return Clocks(check.signed(rows, valid)[valid], length)


def _check(clocks: Clocks) -> None:
    time, inner = clocks.time, clocks.inner()
    if time.is_floating_point() and not bool(torch.isfinite(time).all()):
        bad = check.first(~torch.isfinite(time))
        raise ValueError(f"time must be finite, got {time[bad].item()} {_place(clocks, bad)}. Leave out steps without a time.")
    back = (time[1:] < time[:-1]) & inner[1:]
    if bool(back.any()):
        bad = check.first(back) + 1
        before, after = time[bad - 1 : bad + 1].tolist()
        raise ValueError(
            f"time must not go backwards, got {after} after {before} {_place(clocks, bad)}. Sort the steps by time; "
            f"if a row is padded, pass `lengths`; if the batch is the first dimension, pass batch_first=True."
        )
    # Whatever the open time: gaps that come from rounding fit no law.
    check.resolution(time.unsqueeze(1), inner.unsqueeze(1), lambda: 0.0)


def _place(clocks: Clocks, index: int) -> str:
    """Step and sequence of an index into the flat times."""
    ends = clocks.lengths.cumsum(0)
    sequence = int(torch.searchsorted(ends, index, right=True))
    return f"at step {index - int(ends[sequence] - clocks.lengths[sequence])} of sequence {sequence}"
