"""Checks of a stream's events, table and values, before its state changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phased import check


def table(value: Any, input_size: int) -> None:
    """A table of inputs, one row for each index."""
    check.tensor("table", value)
    if value.dim() != 2 or value.shape[1] != input_size:
        raise ValueError(f"table must have shape (entries, {input_size}), got {check.shape(value)}.")
    if not len(value):
        raise ValueError("table must have at least one row, got none. Pass one row for each index of an event.")
    check.floating("table", value.dtype)


def event(x: Tensor, time: float, input_size: int, entries: int | None, last: float | None) -> None:
    """One event of a stream: a feature vector or an index, and a time that is finite and not before the last."""
    if entries is not None:
        indices(x, entries, ())
    elif x.shape != (input_size,):
        raise ValueError(
            f"x must have shape ({input_size},), the layer's input_size, got {check.shape(x)}. For many events, call run()."
        )
    else:
        finite_features(x)
    after(time, last)


def events(
    x: Tensor,
    time: Tensor,
    input_size: int,
    entries: int | None,
    last: float | None,
    open_time: Callable[[], float],
) -> None:
    """Many events of a stream, in order of time, which is in a dtype that tells them apart: see `resolution`."""
    if entries is not None:
        indices(x, entries, (len(x),) if x.dim() else (1,))
    elif x.dim() != 2 or x.shape[1] != input_size:
        raise ValueError(f"x must have shape (events, {input_size}), got {check.shape(x)}. For one event, call push().")
    else:
        finite_features(x)
    check.times(time.to(x.device), x.shape[:1], x.device)
    time = check.signed(time)
    check.clock(time.unsqueeze(1), None)
    check.resolution(time.unsqueeze(1), None, open_time)
    if len(time):
        after(float(time[0]), last)


def finite_features(x: Tensor) -> None:
    """Features of events, (..., D), without NaN and infinity, which would stay in a stream's state."""
    if math.isfinite(float(x.sum())):  # one pass decides for nearly all input; a sum of finite numbers may still overflow
        return
    bad = ~torch.isfinite(x)
    if bool(bad.any()):
        where = bad.nonzero()[0].tolist()
        of_event = f" of event {where[0]}" if len(where) > 1 else ""
        raise ValueError(
            f"x must be finite, got {x[tuple(where)].item()} for feature {where[-1]}{of_event}. "
            f"Leave such events out, or fill the gap: a stream would keep it in its state."
        )


def finite_values(name: str, value: Tensor) -> None:
    """Parameters or a state with values, all of them finite."""
    if value.is_meta:
        raise ValueError(f"{name} must have values, got tensors on the meta device. Load a state_dict or call to_empty() first.")
    if not bool(torch.isfinite(value).all()):
        raise ValueError(f"{name} must be finite, got NaN or infinity. Look at where its values come from.")


def indices(x: Tensor, entries: int, expected: tuple[int, ...]) -> None:
    """Rows of a stream's table."""
    if x.dtype != torch.int64:
        raise TypeError(f"x must be int64, an index into the stream's table, got {x.dtype}.")
    if x.shape != expected:
        raise ValueError(f"x must have shape {expected}, one index for each event, got {check.shape(x)}.")
    if x.numel() and (int(x.min()) < 0 or int(x.max()) >= entries):
        bad = int(x.min()) if int(x.min()) < 0 else int(x.max())
        raise ValueError(f"x must be in [0, {entries}), the rows of the stream's table, got {bad}.")


def numbers(name: str, value: Any) -> Tensor:
    """Real numbers in any container that numpy reads, as a tensor with numpy's precision: a list of floats is float64."""
    if isinstance(value, Tensor):
        given = value.detach().resolve_neg()
    else:
        if isinstance(value, np.ma.MaskedArray):
            raise TypeError(
                f"{name} must be an array without a mask, got a masked array. Leave out masked events, or call filled()."
            )
        try:
            array = np.asarray(value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{name} must be an array of numbers, got {check.kind(value)} ({error}). Make all rows equally long."
            ) from error
        if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
            raise TypeError(
                f"{name} must be real numbers, got {check.kind(value)} of {array.dtype}. Convert it to a numpy array of floats."
            )
        if not _torch_takes(array):
            array = np.array(array, array.dtype.newbyteorder("="), order="C")
        given = torch.as_tensor(array, device="cpu")  # torch's default device may be another
    if given.is_complex() or given.dtype == torch.bool:
        raise TypeError(f"{name} must be real numbers, got {given.dtype}. Convert it with .to(torch.float32).")
    return given


def _torch_takes(array: NDArray[Any]) -> bool:
    """Whether torch can share an array's memory: not that of a memory map, of another byte order, or of a reversed view."""
    size = array.dtype.itemsize
    return array.flags.writeable and array.dtype.isnative and all(s >= 0 and s % size == 0 for s in array.strides)


def moment(value: Any, last: float | None, open_time: float) -> Tensor:
    """One time, as a float64 scalar; rounding has not made it equal to the last."""
    given = numbers("time", value)
    if given.dim():
        raise TypeError(f"time must be one number, got shape {check.shape(given)}. For many events, call run().")
    time = given.to("cpu", torch.float64)
    if given.is_floating_point() and given.dtype != torch.float64 and float(time) == last:
        check.resolution(given.cpu().expand(2, 1), None, lambda: open_time)
    return time


def after(time: float, last: float | None) -> None:
    """A finite time, not before the last."""
    if not math.isfinite(time):
        raise ValueError(f"time must be finite, got {time}. Leave out events without a time.")
    if last is not None and time < last:
        raise ValueError(f"time must not go backwards, got {time} after {last}. Sort the events, or reset() for a new stream.")
