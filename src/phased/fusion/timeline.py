"""Timeline: the times of all sensors in one order, and which sample of each sensor is the latest at each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from phased import check, tracing
from phased.fusion.arguments import Clock, clock
from phased.lookup import look_up
from phased.schedule import valid_steps

Times = Tensor | tuple[Tensor, Any]
"""Times (T_s, B), or a pair of times and the number of those of each sequence that are data, (B,)."""


class Timeline(NamedTuple):
    """The times at which any sensor has a sample, in order, and the latest sample of each sensor at each of them.

    Each sequence has its own timeline. Samples of one time make one step, whichever sensors they come from. `Timeline.of` makes
    one from the times of sensors.

    Args:
        time: Time of each step; 0 in padding.
        lengths: Number of steps of each sequence; later ones are padding.
        latest: For each sensor the index of its latest sample; -1 before its first, and in padding.

    Shape:
        With T steps and B sequences:

        - time, and each entry of latest: (T, B).
        - lengths: (B,).

    Example:
        >>> import torch
        >>> from phased import Timeline
        >>> slow, fast = torch.tensor([[0], [40]]), torch.tensor([[10], [25], [40]])
        >>> timeline = Timeline.of({"slow": slow, "fast": fast})
        >>> timeline.time.flatten().tolist()
        [0, 10, 25, 40]
        >>> timeline.latest["slow"].flatten().tolist(), timeline.latest["fast"].flatten().tolist()
        ([0, 0, 0, 1], [-1, 0, 1, 2])
    """

    time: Tensor
    lengths: Tensor
    latest: dict[str, Tensor]

    @staticmethod
    def of(sensors: Mapping[str, Times | None], extra: Times | None = None, steps: int | None = None) -> Timeline:
        """Merge the times of several sensors.

        Times stay exact: int64 if all are integers, the common dtype if all have the same one, float64 otherwise.

        Args:
            sensors: For each sensor its times, or a pair of times and lengths; None for a sensor without samples.
            extra: Times of further steps, at which no sensor needs to have a sample; given as those of a sensor.
            steps: Steps of the timeline, padding included. Default: those of the longest sequence, which have to be read from a
                GPU. A number avoids this synchronisation. One that is too small is an error on a CPU; a GPU drops the last steps.

        Shape:
            - times of a sensor: (T_s, B).
            - lengths of a sensor: (B,).

        Returns:
            The timeline, on the device of the times.

        Raises:
            TypeError: Times are no tensor of real numbers, or lengths are no whole numbers.
            ValueError: There are no times, the sizes of the batches or the devices differ, or steps are too few; or, on a CPU,
                times are not finite or go backwards.

        Example:
            >>> import torch
            >>> from phased import Timeline
            >>> clicks = torch.tensor([[0.5, 0.25], [1.7, 0.0]]), torch.tensor([2, 1])
            >>> grid = torch.arange(3.0).unsqueeze(1).expand(3, 2)
            >>> timeline = Timeline.of({"clicks": clicks}, extra=grid)
            >>> timeline.lengths
            tensor([5, 4])
            >>> timeline.time[:, 0]
            tensor([0.0000, 0.5000, 1.0000, 1.7000, 2.0000])
        """
        clocks = {name: clock(f"sensor {name!r}", times) for name, times in sensors.items() if times is not None}
        return merge(list(sensors), clocks, extra, steps)

    @property
    def valid(self) -> Tensor:
        """Which steps are data and not padding, (T, B) bool."""
        return valid_steps(len(self.time), self.lengths)


@torch.no_grad()
def merge(names: Sequence[str], clocks: Mapping[str, Clock], extra: Times | None, steps: int | None) -> Timeline:
    """The timeline of sensors that have been checked. A sensor without samples has a name and no clock."""
    everything = [*clocks.items(), *([] if extra is None else [("extra", clock("extra", extra))])]
    if not everything:
        raise ValueError("a timeline must have times, got no sensor with samples. Pass extra times, or leave the batch out.")
    one_batch(everything)
    dtype = common_dtype([own.time.dtype for _, own in everything])
    ordered = [own.ordered(dtype) for _, own in everything]
    time, lengths = resized(*union(ordered, torch.stack([own.lengths for _, own in everything]).sum(0)), steps)

    inside = valid_steps(time.shape[1], lengths)
    latest = dict.fromkeys(names, torch.full_like(inside, -1, dtype=torch.int64))
    for (name, (_, samples)), times in zip(clocks.items(), ordered, strict=False):  # further times come last
        found = torch.searchsorted(times, time, right=True)
        latest[name] = torch.where(inside, torch.minimum(found, samples.unsqueeze(1)).T - 1, -1)
    return Timeline(time.T, lengths, latest)


def union(ordered: Sequence[Tensor], samples: Tensor) -> tuple[Tensor, Tensor]:
    """The different times of each sequence in order, (B, S), and how many they are, (B,); 0 after them.

    Each sensor's times are (B, T_s), with padding after all times; a sequence has as many `samples`, (B,), of all sensors.
    """
    together = torch.cat(list(ordered), 1).sort(1).values
    batch, size = together.shape
    new = torch.arange(size, device=together.device) < samples.unsqueeze(1)
    new[:, 1:] &= together[:, 1:] != together[:, :-1]
    place = torch.where(new, new.cumsum(1) - 1, size)  # times that are not new go to one more column, which is dropped
    return together.new_zeros(batch, size + 1).scatter_(1, place, together)[:, :size], new.sum(1)


def resized(time: Tensor, lengths: Tensor, steps: int | None) -> tuple[Tensor, Tensor]:
    """Times (B, S) cut to the steps of the longest sequence, or cut or padded to `steps`; and the lengths, (B,)."""
    if steps is not None:
        check.positive_int("steps", steps)
    readable = tracing.readable(lengths) and (lengths.is_cpu or steps is None)
    longest = int(lengths.max()) if readable and lengths.numel() else 0
    if steps is None:
        steps = longest if readable else time.shape[1]
    elif longest > steps:
        raise ValueError(f"steps must be at least {longest}, those of the longest sequence, got {steps}. Leave steps out.")
    if steps > time.shape[1]:
        time = torch.nn.functional.pad(time, (0, steps - time.shape[1]))
    return time[:, :steps].contiguous(), lengths.clamp(max=steps)


def hold(output: Tensor, latest: Tensor, initial: Tensor | None = None) -> Tensor:
    """The latest output of a sensor's layer at every step of a timeline.

    Args:
        output: Outputs of the layer at its own samples.
        latest: Index of the latest sample at each step, -1 before the first.
        initial: What is held before the first sample. Default: zeros.

    Shape:
        - output: (T_s, B, H).
        - latest: (T, B).
        - initial: (B, H).
        - returned: (T, B, H).

    Returns:
        What is held at each step.

    Raises:
        ValueError: initial has another shape.
    """
    batch, units = output.shape[1:]
    if initial is not None and initial.shape != (batch, units):
        raise ValueError(f"initial must have shape {(batch, units)}, got {check.shape(initial)}. Pass the state of this batch.")
    start = output.new_zeros(batch, units) if initial is None else initial.to(output.dtype)
    rows = torch.cat([start, output.reshape(-1, units)])
    return look_up(rows, (latest + 1) * batch + torch.arange(batch, device=latest.device))


def one_batch(clocks: Sequence[tuple[str, Clock]]) -> None:
    """All sensors have the same sequences, on one device."""
    first, (time, _) = clocks[0]
    for name, (other, _) in clocks[1:]:
        if other.shape[1] != time.shape[1]:
            raise ValueError(
                f"all sensors must have the same sequences, got {time.shape[1]} of {first!r} and {other.shape[1]} of {name!r}. "
                f"Give a sensor without samples in a sequence the length 0 there."
            )
        if other.device != time.device:
            raise ValueError(
                f"all sensors must be on one device, got {time.device} of {first!r} and {other.device} of {name!r}. "
                f"Call .to({str(time.device)!r})."
            )


def common_dtype(dtypes: Sequence[torch.dtype]) -> torch.dtype:
    """A dtype that holds all of these times exactly, except integers beyond 2**53 beside floats."""
    if len(set(dtypes)) == 1:
        return dtypes[0]
    return torch.float64 if any(dtype.is_floating_point for dtype in dtypes) else torch.int64
