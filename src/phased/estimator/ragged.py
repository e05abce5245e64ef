"""Lists of arrays as flat arrays, and the checks of flat arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from phased import check
from phased.clock import EXACT_FLOAT64, Clocks
from phased.estimator.settings import Settings, check_lists, repeated
from phased.estimator.units import in_unit, ticks_of
from phased.schedule import valid_steps

if TYPE_CHECKING:
    from phased.estimator.events import Events

INEXACT = "dates must be whole microseconds in the years 1 to 9999"
AT_ONCE = 2**20  # steps or values that are checked together
ROUND = "Round them, or pass the time since the first event as a number."


def flatten(
    times: Sequence[ArrayLike],
    values: Sequence[ArrayLike],
    ids: ArrayLike | None,
    variables: Sequence[str] | None,
    static: ArrayLike | None,
    statics: Sequence[str] | None,
    unit: str,
) -> dict[str, Any]:
    """The fields of Events from one array of times and one of values per sequence."""
    check_lists(variables=variables, statics=statics)
    if len(times) != len(values):
        raise ValueError(f"times and values must have one array per sequence, got {len(times)} and {len(values)}.")
    names = np.arange(len(times)) if ids is None else np.asarray(ids)
    if names.shape != (len(times),):
        raise ValueError(f"ids must have the shape ({len(times)},), one per sequence, got {names.shape}.")
    if names.dtype.kind == "f" and not (names == np.round(names)).all():
        wrong = names[names != np.round(names)][0]
        raise ValueError(f"ids must be integers or text, got {wrong}. Convert them to text.")
    for twice in repeated(names.tolist()):
        raise ValueError(f"each id must occur once, got {twice!r} twice.")
    clocks, origin, unit = _clocks(times, names.tolist(), unit)
    widths = {count for count in map(_columns, values) if count is not None}
    width = len(variables) if variables is not None else widths.pop() if len(widths) == 1 else 1
    variables = tuple(f"x{index}" for index in range(width)) if variables is None else tuple(variables)
    rows = [_rows(each, clock, variables, name) for each, clock, name in zip(values, clocks, names.tolist(), strict=True)]
    dense = np.concatenate([np.empty((0, width)), *rows])
    measured = ~np.isnan(dense)
    try:
        known = np.empty((len(times), 0)) if static is None else _plain(static).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"static must be numbers, a row per sequence and a column per name, got: {error}") from error
    count = known.shape[1] if known.ndim == 2 else 0
    time = np.concatenate([np.empty(0), *clocks])
    statics = tuple(f"s{index}" for index in range(count)) if statics is None else tuple(statics)
    return {
        "ids": names,
        "variables": variables,
        "statics": statics,
        "unit": unit,
        "offset": offsets([len(clock) for clock in clocks]),
        "time": time,
        "entry": offsets(measured.sum(1)),
        "variable": np.nonzero(measured)[1].astype(np.int32),
        "value": dense[measured],
        "static": known,
        "origin": origin,
        "settings": Settings(unit, "number" if origin is None else "date", variables, statics),
    }


def offsets(lengths: ArrayLike) -> NDArray[np.int64]:
    """Where each part begins, and the length of all."""
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))]).astype(np.int64)


def gather(offset: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places of the elements of these rows of a ragged array, one row after another, and their new offsets."""
    length = offset[rows + 1] - offset[rows]
    new = np.concatenate([[0], np.cumsum(length)])
    return np.arange(new[-1]) + np.repeat(offset[rows] - new[:-1], length), new


def unpadded(input: Tensor, features: int, lengths: Any, batch_first: bool) -> tuple[Tensor, Tensor]:
    """The steps (N, D) of padded sequences, or of one sequence (T, D), that are data, on the CPU, and the lengths of all."""
    check.sequences(input, features, batch_first)
    if input.is_complex():
        raise TypeError(f"input must be real numbers, got {input.dtype}. Pass its real and imaginary parts as features.")
    if input.dim() == 2 and lengths is not None:
        raise ValueError("lengths must be None for unbatched input: it has one sequence. Pass input[:length] instead.")
    x = input.unsqueeze(0) if input.dim() == 2 else input if batch_first else input.transpose(0, 1)
    batch, steps, _ = x.shape
    count = check.lengths([steps] * batch if lengths is None else lengths, batch, steps, torch.device("cpu"))
    return x.detach().cpu()[valid_steps(steps, count).t()], count


def runs(offset: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Runs of consecutive parts, from the first to before the last, of at most so many elements or of one part."""
    first, parts = 0, len(offset) - 1
    while first < parts:
        last = max(int(np.searchsorted(offset, offset[first] + most, "right")) - 1, first + 1)
        yield first, last
        first = last


def starts(*keys: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether a row is the first of a run of rows with equal keys."""
    first = np.ones(len(keys[0]), np.bool_)
    first[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return first


def check_rounding(time: NDArray[Any], sequence: NDArray[Any], where: Callable[[int], str]) -> None:
    """Raise a ValueError about a time that equals or neighbours the time before in a dtype that has no whole numbers there.

    Rounding may then have changed the gap by as much as the gap itself: float32 UNIX seconds lie 128 s apart.

    Args:
        time: not decreasing within a sequence, in the dtype in which it was passed.
        sequence: of each time.
        where: words for the place of a time.
    """
    if time.dtype.kind != "f" or time.dtype.itemsize >= 8:
        return
    size, gap = np.abs(time[1:]), np.diff(time.astype(np.float64))
    near = (size >= 2 / np.finfo(time.dtype).eps) & (gap <= np.spacing(size)) & (np.diff(sequence) == 0)
    for place in np.flatnonzero(near)[:1] + 1:
        raise ValueError(
            f"times must be exact enough for their gaps, got {time[place - 1]:.10g} and then {time[place]:.10g} {where(place)}, "
            f"two neighbouring numbers of {time.dtype}. Pass times as float64 from their source on, or subtract the start of the "
            f"recording before they become {time.dtype}."
        )


def _plain(values: ArrayLike) -> NDArray[Any]:
    """An array; NaN or NaT where a masked array has nothing."""
    if not isinstance(values, np.ma.MaskedArray) or not np.ma.is_masked(values):
        return np.asarray(values)
    made = values.filled(np.datetime64("NaT")) if values.dtype.kind == "M" else np.ma.filled(values.astype(np.float64), np.nan)
    return np.asarray(made)


def _columns(values: ArrayLike) -> int | None:
    """The number of columns of a matrix; None where it is none."""
    try:
        return np.shape(values)[1] if np.ndim(values) == 2 else None
    except ValueError:  # rows of several lengths, refused later by the sequence's name
        return None


def _clocks(
    times: Sequence[ArrayLike], names: list[Any], unit: str
) -> tuple[list[NDArray[np.float64]], NDArray[np.datetime64] | None, str]:
    """The times of each sequence as float64; for dates also the first of each, and the unit in which they count from it."""
    clocks, origin = [_plain(each) for each in times], None
    dated = [clock.dtype.kind == "M" for clock in clocks if clock.size]
    if dated and all(dated):
        dates = [_dates(clock, name) for clock, name in zip(clocks, names, strict=True)]
        origin = np.array([date.min() if len(date) else np.datetime64("NaT") for date in dates], "datetime64[us]")
        unit = unit or "h"
        clocks = [in_unit(date - start, unit) for date, start in zip(dates, origin, strict=True)]
    return [_times(clock, name) for clock, name in zip(clocks, names, strict=True)], origin, unit


def _dates(clock: NDArray[Any], name: object) -> NDArray[np.datetime64]:
    """The dates of one sequence in microseconds."""
    clock = clock if clock.size else clock.astype("datetime64[us]")
    for step in np.flatnonzero(np.isnat(clock)):
        raise ValueError(f"each time must be a date, got NaT in sequence {name!r} at step {step}. Leave this step out.")
    ticks, wrong = ticks_of(clock)
    if wrong.any():
        raise ValueError(f"{INEXACT}, got {clock[wrong][0]} in sequence {name!r}. {ROUND}")
    return ticks.astype("datetime64[us]")


def _times(clock: NDArray[Any], name: object) -> NDArray[np.float64]:
    """The times of one sequence as float64."""
    if clock.ndim != 1 or (len(clock) and clock.dtype.kind not in "iuf"):
        cure = " Pass text as dates: np.array(times, 'datetime64[us]')." if clock.dtype.kind in "UO" else ""
        cure = " Other sequences have numbers: pass one kind for all." if clock.dtype.kind == "M" else cure
        raise ValueError(
            f"times of sequence {name!r} must be numbers or datetime64 of shape (T,), got {clock.dtype} with shape {clock.shape}."
            + cure
        )
    exact = clock.astype(np.float64) if clock.dtype.kind == "f" else clock
    before = False if exact.dtype.kind == "u" else exact < -EXACT_FLOAT64
    far = np.flatnonzero(np.isfinite(exact) & ((exact > EXACT_FLOAT64) | before))
    if len(far):
        raise ValueError(
            f"times must be at most 2**53 to be exact, got {clock[far[0]]} in sequence {name!r}. Subtract the first "
            "time of the sequence, or pass them as datetime64."
        )
    check_rounding(clock, np.zeros(len(clock), np.int64), lambda place: f"in sequence {name!r}")
    return clock.astype(np.float64)


def _rows(values: ArrayLike, clock: NDArray[np.float64], variables: tuple[str, ...], name: object) -> NDArray[np.float64]:
    """The values of one sequence, (T, variables)."""
    width = len(variables)
    try:
        matrix = _plain(values).astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise _no_number(values, clock, variables, name, error) from error
    if matrix.ndim == 1 and width == 1:
        matrix = matrix[:, None]
    if not len(clock) and not matrix.size:
        return np.empty((0, width))
    if matrix.shape != (len(clock), width):
        raise ValueError(f"values of sequence {name!r} must have the shape {(len(clock), width)}, got {matrix.shape}.")
    return matrix


def _no_number(
    values: ArrayLike, clock: NDArray[np.float64], variables: tuple[str, ...], name: object, error: Exception
) -> ValueError:
    """The error about values that cannot be converted to float64: the first that is no number, or rows of several lengths."""
    shape = len(clock), len(variables)
    cells = np.asarray(values, object)
    if cells.size == shape[0] * shape[1]:
        for (step, column), cell in np.ndenumerate(cells.reshape(shape)):
            try:
                float(np.nan if cell is None else cell)
            except (TypeError, ValueError, OverflowError):
                if np.ndim(cell):
                    break
                return ValueError(
                    f"a value must be a number, got {cell!r} in sequence {name!r} at time {clock[step]}, variable "
                    f"{variables[column]!r}. Use NaN where nothing was measured, and encode text as numbers."
                )
    return ValueError(f"values of sequence {name!r} must be numbers of the shape {shape}: {error}")


def check_events(events: Events) -> None:
    """Raise a ValueError if the fields contradict each other, a time or value is not finite, or times decrease."""
    n, steps, measurements = len(events.ids), len(events.time), len(events.value)
    shapes = {
        "ids": (n,),
        "offset": (n + 1,),
        "time": (steps,),
        "entry": (steps + 1,),
        "variable": (measurements,),
        "value": (measurements,),
        "static": (n, len(events.statics)),
    }
    for name, shape in shapes.items():
        if getattr(events, name).shape != shape:
            raise ValueError(f"{name} must have the shape {shape}, got {getattr(events, name).shape}.")
    _check_names(events)
    if events.offset[-1] != steps or events.entry[-1] != measurements:
        raise ValueError(
            f"offset must end with {steps} and entry with {measurements}, got {events.offset[-1]}, {events.entry[-1]}."
        )
    for first, last in runs(events.offset, AT_ONCE):
        begin, end = events.offset[first], events.offset[last]

        def place(at: int, begin: int = begin) -> str:
            return f"in sequence {_id(events, begin + at)}"

        clocks = np.array(events.time[begin:end]), np.diff(events.offset[first : last + 1])
        Clocks(*map(torch.from_numpy, clocks)).check(None, "Sort the events by time.", place, "Leave these steps out.")
    for begin in range(0, measurements, AT_ONCE):
        for at in begin + np.flatnonzero(~np.isfinite(events.value[begin : begin + AT_ONCE]))[:1]:
            step = np.searchsorted(events.entry, at, "right") - 1
            raise ValueError(
                f"value must be finite, got {events.value[at]} in sequence {_id(events, step)} at time {events.time[step]}, "
                f"variable {events.variables[events.variable[at]]!r}. Use NaN where nothing was measured."
            )
    for row, column in np.argwhere(np.isinf(events.static))[:1]:
        raise ValueError(
            f"static must be finite or NaN, got an infinite {events.statics[column]!r} in sequence {events.ids.tolist()[row]!r}."
        )


def _check_names(events: Events) -> None:
    """Raise a ValueError if a name occurs twice."""
    names: tuple[Any, ...] = (*events.variables, *events.statics)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"names of variables and statics must be text, got {name!r} of type {type(name).__name__}.")
    for twice in repeated(names):
        raise ValueError(f"names of variables and statics must differ, got {twice!r} twice. Rename one, or leave it out.")


def _id(events: Events, step: int) -> str:
    """The id of the sequence that a step is in, as it is printed."""
    return repr(events.ids[np.searchsorted(events.offset, step, "right") - 1].item())
