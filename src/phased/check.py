"""Checks of what users pass to layers. Every message says what was expected, what came and the cure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from phased import tracing

INTEGERS, NUMBERS, FLAGS = (int, np.integer), (int, float, np.integer, np.floating), (bool, np.bool_)


def number(
    name: str, value: Any, low: float = -math.inf, high: float = math.inf, *, low_open: bool = False, high_open: bool = False
) -> None:
    """A finite real number in an interval."""
    if isinstance(value, FLAGS) or not isinstance(value, NUMBERS):
        raise TypeError(
            f"{name} must be a number, got {kind(value)}. Convert it with float(), or torch.as_tensor() for one value per unit."
        )
    given = as_float(value)
    inside = (given > low if low_open else given >= low) and (given < high if high_open else given <= high)
    if not (math.isfinite(given) and inside):
        left = "(" if low_open or low == -math.inf else "["
        right = ")" if high_open or high == math.inf else "]"
        raise ValueError(f"{name} must be in {left}{low:g}, {high:g}{right}, got {given:g}.")


def as_float(value: Any) -> float:
    """Convert a number to float. Numbers beyond the range of float64 become infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def positive_int(name: str, value: Any) -> None:
    """A whole number from 1 up."""
    if isinstance(value, FLAGS) or not isinstance(value, INTEGERS):
        raise TypeError(f"{name} must be an int, got {kind(value)}.")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}.")


def flag(name: str, value: Any) -> None:
    """True or False."""
    if not isinstance(value, FLAGS):
        raise TypeError(f"{name} must be True or False, got {kind(value)}.")


def choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """One of a few words."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")


def interval(name: str, low: Any, high: Any, *, positive: bool = False) -> None:
    """Two ends in order."""
    number(f"{name}'s low end", low, low=0.0 if positive else -math.inf, low_open=positive)
    number(f"{name}'s high end", high)
    if high < low:
        raise ValueError(f"{name} needs low <= high, got low={low:g} and high={high:g}. Swap the two.")


def per_layer(name: str, value: Any, layers: int) -> list[Any]:
    """A setting for every layer: a list or tuple has one entry for each; any other value applies to all."""
    if not isinstance(value, (list, tuple)):
        return [value] * layers
    if len(value) != layers:
        raise ValueError(
            f"{name} as a list must have one entry for each of the {layers} layers, got {len(value)}. "
            f"Pass a tensor to give each unit its own value."
        )
    return list(value)


def one_per_unit(values: Any, units: int, name: str) -> Tensor:
    """A tensor with one finite value for each unit."""
    if not isinstance(values, Tensor):
        raise TypeError(
            f"{name} must be a number, a law or a tensor of {units} values; the law returned {kind(values)}. "
            f"Let it return torch.as_tensor(...)."
        )
    if values.shape != (units,):
        raise ValueError(
            f"{name} must have one value for each unit, shape ({units},), got {shape(values)}. Pass a number to share it."
        )
    if values.dtype == torch.bool or values.is_complex():
        raise TypeError(f"{name} must be a tensor of real numbers, got {values.dtype}. Call {name}.to(torch.float64).")
    finite(name, values)
    return values


def finite(name: str, values: Tensor) -> None:
    """Every value is finite."""
    _units(name, values, torch.isfinite(values), "be finite", "Look at where its values come from.")


def periods(values: Tensor) -> None:
    """Every period is positive."""
    _units("period", values, values > 0, "be positive", "It is the length of a cycle in units of time.")


def ratios(values: Tensor) -> None:
    """Every open ratio is in (0, 1]."""
    _units("ratio_on", values, (values > 0) & (values <= 1), "be in (0, 1]", "It is the open part of a cycle.")


def _units(name: str, values: Tensor, good: Tensor, must: str, about: str) -> None:
    if tracing.readable(values) and not bool(good.all()):
        unit = first_index(~good.flatten())
        raise ValueError(f"{name} must {must}, got {values.flatten()[unit]:g} for unit {unit}. {about}")


def parameter(name: str, value: Tensor, expected: tuple[int, ...], like: Tensor, *, of_time: bool = False) -> None:
    """A parameter of its own shape, on the device and, unless it is of time, of the dtype of weight_ih_l0."""
    if value.shape != expected:
        raise ValueError(f"{name} must have shape {expected}, got {shape(value)}. Load or assign a tensor of that shape.")
    if value.is_meta != like.is_meta:
        empty = name if value.is_meta else "weight_ih_l0"
        raise ValueError(
            f"All parameters must have values, got {empty} on meta. Load it with load_state_dict(..., assign=True), "
            f"or call layer.to_empty(device=...) and layer.reset_parameters()."
        )
    if value.device != like.device:
        raise ValueError(
            f"{name} must be on the device of weight_ih_l0, {like.device}, got {value.device}. Call layer.to(device)."
        )
    if value.dtype != like.dtype and not of_time:
        raise TypeError(
            f"{name} must have the dtype of weight_ih_l0, {like.dtype}, got {value.dtype}. Call layer.to({like.dtype})."
        )


def tensor(name: str, value: Any) -> None:
    """A tensor, not a list or an array."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {kind(value)}. Wrap it: torch.as_tensor({name}).")


def sequences(value: Tensor, input_size: int, batch_first: bool) -> None:
    """Input of shape (T, B, D), (B, T, D) with batch_first, or (T, D) unbatched."""
    tensor("input", value)
    if value.dim() not in (2, 3) or value.shape[-1] != input_size:
        batched = "(batch, steps" if batch_first else "(steps, batch"
        raise ValueError(
            f"input must have shape {batched}, {input_size}) or, unbatched, (steps, {input_size}), got {shape(value)}. "
            + ("Call input.unsqueeze(-1) for one feature." if input_size == 1 else "The last dimension holds the features.")
        )


def floating(name: str, dtype: Any) -> None:
    """A real floating-point dtype, or None for torch's default."""
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise TypeError(f"{name} must be floating point, got {dtype!r}. Use torch.float32, or torch.float64 for exactness.")


def same_dtype(name: str, value: Tensor, dtype: torch.dtype) -> None:
    """A tensor of the layer's own dtype."""
    if value.dtype != dtype:
        raise TypeError(
            f"{name} must have the layer's dtype, {dtype}, got {value.dtype}. Call {name}.to({dtype}) or layer.to(...)."
        )


def same_device(name: str, value: Tensor, device: torch.device) -> None:
    """A tensor on the layer's own device."""
    if value.device == device:
        return
    if device.type == "meta":
        raise ValueError(
            f"{name} must be on the layer's device, meta, where it has no values, got {value.device}. "
            f"Call layer.to_empty(device={str(value.device)!r}), then layer.reset_parameters() or layer.load_state_dict(...)."
        )
    raise ValueError(f"{name} must be on the layer's device, {device}, got {value.device}. Call {name}.to({str(device)!r}).")


def times(time: Tensor, steps: torch.Size, device: torch.device) -> None:
    """Timestamps of input's shape without its features: integers or floats, on input's device."""
    tensor("time", time)
    if time.dtype == torch.bool or time.is_complex():
        raise TypeError(f"time must be integer or floating point, got {time.dtype}. Call time.to(torch.float64).")
    if time.shape != steps:
        wanted = tuple(steps)
        cure = "Each step of input needs one time."
        if time.shape == (*wanted, 1):
            cure = "Call time.squeeze(-1)."
        elif tuple(time.shape) == wanted[::-1]:
            cure = "Call time.T, or look at batch_first."
        elif time.dim() == 1 and len(wanted) == 2 and time.shape[0] in wanted:
            spread = "time" if time.shape[0] == wanted[1] else "time.unsqueeze(-1)"
            cure = f"Pass {spread}.expand{wanted} if all sequences share one clock."
        raise ValueError(f"time must have the shape of input without features, {wanted}, got {shape(time)}. {cure}")
    if time.device != device:
        raise ValueError(f"time must be on input's device, {device}, got {time.device}. Call time.to({str(device)!r}).")


def packed_times(time: Any, input: PackedSequence) -> None:
    """Timestamps packed as the input is."""
    if not isinstance(time, PackedSequence):
        raise TypeError(
            f"time must be a PackedSequence as input is, got {kind(time)}. "
            f"Pack it with the same lengths: pack_padded_sequence(time, lengths, ...)."
        )
    same_order = (time.sorted_indices is None) == (input.sorted_indices is None) and (
        time.sorted_indices is None or input.sorted_indices is None or torch.equal(time.sorted_indices, input.sorted_indices)
    )
    if not torch.equal(time.batch_sizes, input.batch_sizes) or not same_order:
        raise ValueError("time must be packed as input is, got other lengths or another order. Pack both with the same lengths.")


def not_finite(input: Tensor, valid: Tensor | None) -> str | None:
    """The first value of input (T, B, D) that is NaN or infinite and not in padding, and its place; None if there is none."""
    bad = ~torch.isfinite(input) if valid is None else ~torch.isfinite(input) & valid.unsqueeze(-1)
    if not bool(bad.any()):
        return None
    step, sequence, feature = bad.nonzero()[0].tolist()
    return f"{input[step, sequence, feature].item()} for feature {feature} at step {step} of sequence {sequence}"


def lengths(value: Any, batch: int, steps: int, device: torch.device) -> Tensor:
    """One whole number in [0, steps] for each sequence, as an int64 tensor on input's device."""
    cure = "Pass the number of steps of each sequence that are data, as whole numbers."
    if isinstance(value, (list, tuple)) and not value:
        value = torch.zeros(0, dtype=torch.int64, device="cpu")
    if not isinstance(value, Tensor):
        if np.asarray(value).dtype.kind not in "biufc":
            raise TypeError(f"lengths must be whole numbers, got {kind(value)} of {np.asarray(value).dtype}. {cure}")
        value = torch.as_tensor(value, device="cpu")  # torch's default device may be another
    given: Tensor = value
    if given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        raise TypeError(f"lengths must be whole numbers, got {given.dtype}. {cure}")
    if given.shape != (batch,):
        raise ValueError(f"lengths must have one entry for each sequence, shape ({batch},), got {shape(given)}. {cure}")
    # Reading values of a GPU tensor would synchronise; a compiled graph cannot branch on them.
    given = given.to(torch.int64)
    if given.is_cpu and batch and tracing.readable(given):
        low, high = int(given.min()), int(given.max())
        if low < 0 or high > steps:
            raise ValueError(f"lengths must be in [0, {steps}], the steps of input, got {low if low < 0 else high}. {cure}")
    return given.to(device)


def state(
    value: Any, names: Sequence[str], expected: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, ...]:
    """The initial state: one tensor, or a pair for the LSTM, each of the expected shape."""
    if len(names) == 1:
        given: tuple[Any, ...] = (value,)
    elif isinstance(value, (tuple, list)) and len(value) == len(names):
        given = tuple(value)
    else:
        wanted = ", ".join(names)
        raise TypeError(f"hx must be a tuple of {len(names)} tensors, ({wanted}), got {kind(value)}. Pass hx=({wanted}).")
    for name, tensor_ in zip(names, given, strict=True):
        tensor(name, tensor_)
        if tensor_.shape != expected:
            raise ValueError(
                f"{name} must have shape {expected}, (layers x directions, {'batch, ' if len(expected) == 3 else ''}"
                f"hidden_size), got {shape(tensor_)}. Leave hx out to start from zero."
            )
        same_dtype(name, tensor_, dtype)
        same_device(name, tensor_, device)
    return given


def table(value: Any, input_size: int) -> None:
    """A table of a stream's inputs, one row for each index."""
    tensor("table", value)
    if value.dim() != 2 or value.shape[1] != input_size:
        raise ValueError(f"table must have shape (entries, {input_size}), got {shape(value)}.")
    if not len(value):
        raise ValueError("table must have at least one row, got none. Pass one row for each index of an event.")
    floating("table", value.dtype)


def events(x: Tensor, input_size: int, entries: int | None, many: bool) -> None:
    """Features of one event of a stream or of many, or indices into its table: finite, since they would stay in the state."""
    count = () if not many else (len(x),) if x.dim() else (1,)
    if entries is not None:
        if x.dtype != torch.int64:
            raise TypeError(f"x must be int64, an index into the stream's table, got {x.dtype}.")
        if x.shape != count:
            raise ValueError(f"x must have shape {count}, one index for each event, got {shape(x)}.")
        bad = x[(x < 0) | (x >= entries)]
        if len(bad):
            raise ValueError(f"x must be in [0, {entries}), the rows of the stream's table, got {bad[0]}.")
    elif x.shape != (*count, input_size):
        wanted = f"(events, {input_size})" if many else f"({input_size},), the layer's input_size"
        raise ValueError(
            f"x must have shape {wanted}, got {shape(x)}. For {'one event, call push' if many else 'many events, call run'}()."
        )
    elif not math.isfinite(float(x.sum())):  # one pass decides for nearly all input; a sum of finite numbers may still overflow
        bad = ~torch.isfinite(x)
        if bool(bad.any()):
            where = bad.nonzero()[0].tolist()
            of_event = f" of event {where[0]}" if many else ""
            raise ValueError(
                f"x must be finite, got {x[tuple(where)].item()} for feature {where[-1]}{of_event}. "
                f"Leave such events out, or fill the gap: a stream would keep it in its state."
            )


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
                f"{name} must be an array of numbers, got {kind(value)} ({error}). Make all rows equally long."
            ) from error
        if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
            raise TypeError(
                f"{name} must be real numbers, got {kind(value)} of {array.dtype}. Convert it to a numpy array of floats."
            )
        if not (array.flags.carray and array.dtype.isnative):  # torch shares no memory that is reversed, read-only or not native
            array = np.array(array, array.dtype.newbyteorder("="), order="C")
        given = torch.as_tensor(array, device="cpu")  # torch's default device may be another
    if given.is_complex() or given.dtype == torch.bool:
        raise TypeError(f"{name} must be real numbers, got {given.dtype}. Convert it with .to(torch.float32).")
    return given


def finite_values(name: str, value: Tensor) -> None:
    """Parameters or a state with values, all of them finite."""
    if value.is_meta:
        raise ValueError(f"{name} must have values, got tensors on the meta device. Load a state_dict or call to_empty() first.")
    if not bool(torch.isfinite(value).all()):
        raise ValueError(f"{name} must be finite, got NaN or infinity. Look at where its values come from.")


def shape(value: Tensor) -> str:
    """A shape as users write it: (4, 128)."""
    return str(tuple(value.shape))


def kind(value: Any) -> str:
    """The type of a value, and the length of a list or tuple, for a message."""
    return f"{type(value).__name__} of length {len(value)}" if isinstance(value, (tuple, list)) else type(value).__name__


def first_index(bad: Tensor) -> int:
    """The index of the first True."""
    return int(bad.nonzero()[0].item())
