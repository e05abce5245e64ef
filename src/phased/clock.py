"""Checks of the times of sequences, and their gaps and spans."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from phased import check

UNSIGNED = frozenset((torch.uint8, torch.uint16, torch.uint32, torch.uint64))
EXACT_FLOAT32 = 2.0**24
"""Below this float32 has every whole number."""
EXACT_FLOAT64 = 2**53
"""Up to this float64 has every whole number. It is an int, so that integers are compared with it exactly."""

SORT = "Sort the steps by time."
SHORTEN = "Leave out steps without a time, or shorten the sequence by `lengths`."
LAYER = "Sort the steps by time, or set layer.check_time = False if this is meant."
FORM = "Sort the steps by time; if a row is padded, pass `lengths`; if the batch is the first dimension, pass batch_first=True."


class Clocks(NamedTuple):
    """The times of all sequences, one sequence after another."""

    time: Tensor  # (N,), int64 or float, on the CPU
    lengths: Tensor  # (B,) int64, the steps of each sequence, N in total

    def starts(self) -> Tensor:
        """The index of each sequence's first step, (B,)."""
        return self.lengths.cumsum(0) - self.lengths

    def inner(self) -> Tensor:
        """Whether a step and the next are in the same sequence, (N - 1,) bool."""
        sequence = torch.repeat_interleave(self.lengths)
        return sequence[1:] == sequence[:-1]

    def gaps(self) -> Tensor:
        """Time from each step to the next in the same sequence, in the order of the steps, float64."""
        return (self.time[1:] - self.time[:-1])[self.inner()].to(torch.float64)

    def spans(self) -> Tensor:
        """Time from the first to the last step of each sequence, (B,) float64. It is 0 for a sequence without steps."""
        spans = torch.zeros(len(self.lengths), dtype=torch.float64, device="cpu")
        some = self.lengths > 0
        first = self.starts()[some]
        spans[some] = (self.time[first + self.lengths[some] - 1] - self.time[first]).to(torch.float64)
        return spans

    def sequence(self, index: int) -> Tensor:
        """The times of one sequence."""
        return self.time.narrow(0, int(self.starts()[index]), int(self.lengths[index]))

    def place(self, index: int) -> str:
        """Step and sequence of an index into the flat times."""
        sequence = int(torch.repeat_interleave(self.lengths)[index])
        return f"at step {index - int(self.starts()[sequence])} of sequence {sequence}"

    def check(
        self,
        open_time: Callable[[], float] | None = None,
        cure: str = SORT,
        place: Callable[[int], str] | None = None,
        missing: str = SHORTEN,
    ) -> None:
        """Raise a ValueError if a time is not finite, before the step before it in its sequence, or made equal to it by rounding.

        Args:
            open_time: the shortest open time of the units, for `check_rounding`. None skips that check.
            cure: how to put times in order, for the message.
            place: the words for the place of an index into the flat times. Default: its step and its sequence.
            missing: what to do about steps without a time, for the message.
        """
        time, place = self.time, place or self.place
        if time.is_floating_point() and not bool(torch.isfinite(time).all()):
            bad = check.first_index(~torch.isfinite(time))
            raise ValueError(f"time must be finite, got {time[bad].item()} {place(bad)}. {missing}")
        back = time[1:] < time[:-1]
        if bool(back.any()) and bool((back := back & self.inner()).any()):
            bad = check.first_index(back) + 1
            before, after = time[bad - 1 : bad + 1].tolist()
            raise ValueError(f"time must not go backwards, got {after} after {before} {place(bad)}. {cure}")
        if open_time is not None:
            self.check_rounding(open_time)

    def check_rounding(self, open_time: Callable[[], float]) -> None:
        """Raise a ValueError if rounding to a dtype below float64 has made neighbouring steps equal.

        Equal times are allowed, because several events may share a time. Equal times that come from rounding are an error.
        Rounding is taken as certain if neighbouring steps meet all three conditions:

        - The times lie beyond the whole numbers that the dtype holds exactly: 2**24 for float32, 2**11 for float16, 2**8 for
          bfloat16.
        - Adjacent numbers of the dtype lie further apart there than half of `open_time()`. In that time the gate of the fastest
          unit rises or falls.
        - Some steps are equal, and the smallest other gap is between two adjacent numbers of the dtype. A larger smallest gap
          proves a coarser grid: midnights in UNIX seconds are 675 such numbers apart, and pass.

        float32 UNIX seconds lie 128 s apart, milliseconds 131 s, microseconds 134 s.
        """
        time = self.time
        if not time.is_floating_point() or time.dtype == torch.float64 or not time.numel():
            return
        size, eps = time.abs(), torch.finfo(time.dtype).eps
        if float(size.max()) < 2 / eps:
            return
        spacing = eps * torch.exp2(torch.frexp(size.double()).exponent - 1.0)
        coarse = (size >= 2 / eps) & (2 * spacing > open_time())
        gaps = (time[1:].double() - time[:-1].double()) / torch.minimum(spacing[1:], spacing[:-1])
        gaps = gaps[coarse[1:] & coarse[:-1] & self.inner()]
        apart = gaps[gaps > 0]
        if len(apart) < len(gaps) and bool((apart <= 1).any() if len(apart) else True):
            raise ValueError(
                f"time must tell its steps apart, got {len(gaps) - len(apart)} of {len(gaps)} equal to the step before: numbers "
                f"of {time.dtype} near {float(size.max()):.3g} lie {float(spacing.max()):g} apart. Pass time as torch.float64 or "
                f"torch.int64 from its source on, or subtract the start of the recording before time becomes {time.dtype}."
            )


def flat(time: Tensor, lengths: Tensor | None = None) -> Clocks:
    """The clocks of a padded batch on the CPU, times (T, B) and lengths (B,)."""
    rows = signed(time).t()
    batch, steps = rows.shape
    if lengths is None:
        return Clocks(rows.reshape(-1), torch.full((batch,), steps, device="cpu"))
    return Clocks(rows[torch.arange(steps, device="cpu") < lengths.unsqueeze(1)], lengths)


def read(time: Any, lengths: Any = None, batch_first: bool = False) -> Clocks:
    """The checked clocks of a list of sequences, of one sequence, or of a padded batch."""
    if isinstance(time, (list, tuple)) and any(hasattr(entry, "__len__") and getattr(entry, "ndim", 1) for entry in time):
        if lengths is not None:
            raise ValueError("lengths must be None for a list of sequences, each of which has its own.")
        clocks = _of_list(time)
    else:
        given = check.numbers("time", time).cpu()
        if given.dim() not in (1, 2):
            batched = "(batch, steps)" if batch_first else "(steps, batch)"
            raise ValueError(f"time must be a list of arrays, or have shape {batched} or (steps,), got {check.shape(given)}.")
        if given.dim() == 1 and lengths is not None:
            raise ValueError("lengths must be None for unbatched time: it has one sequence. Pass time[:length] instead.")
        steps = given.unsqueeze(1) if given.dim() == 1 else given.t() if batch_first else given
        clocks = flat(steps, None if lengths is None else check.lengths(lengths, steps.shape[1], len(steps), steps.device))
    clocks.check(lambda: 0.0, FORM)  # whatever the open time: gaps that come from rounding fit no law
    return clocks


def _of_list(sequences: list[Any] | tuple[Any, ...]) -> Clocks:
    times = []
    for number, entry in enumerate(sequences):
        given = check.numbers(f"time of sequence {number}", entry).cpu()
        if given.dim() != 1:
            raise ValueError(
                f"time of sequence {number} must have shape (steps,), got {check.shape(given)}. "
                f"Pass a list with one array of times for each sequence, or a padded batch with `lengths`."
            )
        times.append(signed(given))
    return Clocks(torch.cat(times), torch.tensor([len(entry) for entry in times], device="cpu"))


def signed(time: Tensor) -> Tensor:
    """Timestamps that torch can compare and subtract: unsigned ones become int64."""
    return time.to(torch.int64) if time.dtype in UNSIGNED else time


def moment(value: Any, last: float | None, open_time: float) -> Tensor:
    """The time of one event, a float64 scalar, not before the last event. Rounding has not made it equal to that event's time."""
    given = check.numbers("time", value)
    if given.dim():
        raise TypeError(f"time must be one number, got shape {check.shape(given)}. For many events, call run().")
    time = given.to("cpu", torch.float64)
    if given.is_floating_point() and given.dtype != torch.float64 and float(time) == last:
        flat(given.cpu().expand(2, 1)).check_rounding(lambda: open_time)
    after(float(time), last)
    return time


def events(time: Tensor, x: Tensor, last: float | None, open_time: float) -> None:
    """The times of the events `x` of a stream, which begin at or after the last event."""
    check.times(time.to(x.device), x.shape[:1], x.device)
    clocks = flat(time.unsqueeze(1))
    clocks.check(lambda: open_time, LAYER)
    if len(time):
        after(float(clocks.time[0]), last)


def after(time: float, last: float | None) -> None:
    """A finite time, not before the last."""
    if not math.isfinite(time):
        raise ValueError(f"time must be finite, got {time}. Leave out events without a time.")
    if last is not None and time < last:
        raise ValueError(f"time must not go backwards, got {time} after {last}. Sort the events, or reset() for a new stream.")
