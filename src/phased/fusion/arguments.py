"""Checks of what users pass to a fusion; every message names the sensor."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from phased import check, tracing
from phased import clock as clocks
from phased.schedule import valid_steps


class Clock(NamedTuple):
    """The times of one sensor, (T_s, B), of which the first `lengths`, (B,), of each sequence are data."""

    time: Tensor
    lengths: Tensor

    def ordered(self, dtype: torch.dtype) -> Tensor:
        """The times as rows (B, T_s) in which padding comes after all times."""
        latest = torch.inf if dtype.is_floating_point else torch.iinfo(dtype).max
        return torch.where(valid_steps(len(self.time), self.lengths), self.time.to(dtype), latest).T.contiguous()


class Samples(NamedTuple):
    """The samples of one sensor, (T_s, B, ...), and their times."""

    x: Tensor
    clock: Clock


@contextmanager
def about(what: str) -> Iterator[None]:
    """Put what an error is about before its message."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{what}: {error}") from error


def network(sensors: Mapping[str, Any], merged: Any, encoders: Mapping[str, Any]) -> None:
    """Layers and encoders of a fusion that fit each other."""
    for given in (sensors, encoders):
        known(given, sensors)
    if not sensors:
        raise ValueError("sensors must have at least one layer, got none. Pass the layer of each sensor by name.")
    for name, module in sensors.items():
        with about(f"sensor {name!r}"):
            layer(module)
    with about("merged"):
        layer(merged)
    units, takes = sum(module.hidden_size for module in sensors.values()), getattr(merged, "input_size", None)
    if takes is not None and takes != units:
        raise ValueError(
            f"merged must have input_size {units}, the sum of the sensors' hidden sizes, got {takes}. Build it with {units}."
        )


def layer(module: Any) -> None:
    """A layer whose output can be held: one direction, steps first."""
    if not isinstance(module, nn.Module) or not isinstance(getattr(module, "hidden_size", None), int):
        raise TypeError(
            f"the layer must be a PhasedLSTM, a PhasedGRU or a module like them with a hidden_size, got {check.kind(module)}."
        )
    if getattr(module, "bidirectional", False) or getattr(module, "batch_first", False):
        raise ValueError(
            "the layer must be one-directional with the steps first: what is held must not depend on later samples. "
            "Use bidirectional=False, batch_first=False."
        )


def known(given: Mapping[str, Any], names: Collection[str]) -> None:
    """A mapping from names of sensors."""
    if not isinstance(given, Mapping):
        raise TypeError(f"sensors must be given by name, as a dict, got {check.kind(given)}.")
    for name in given:
        if name not in names:
            raise ValueError(f"unknown sensor {name!r}, expected {listed(names)}. Correct its name.")


def complete(what: str, given: Mapping[str, Any], names: Collection[str], without: str) -> None:
    """A mapping from all names of sensors, which has None for one `without` a value."""
    known(given, names)
    missing = [name for name in names if name not in given]
    if missing:
        raise ValueError(f"{what} of {listed(missing)} are missing. Pass None for {without}.")


def streams(given: Mapping[str, Any], names: Collection[str]) -> dict[str, Samples]:
    """The samples of every sensor that has some. A sensor without samples must be named as None."""
    complete("samples", given, names, "a sensor that has no samples")
    return {name: samples(name, given[name]) for name in names if given[name] is not None}


def samples(name: str, given: Any) -> Samples:
    """The samples of one sensor: (x, time), or (x, time, lengths)."""
    if not isinstance(given, (tuple, list)) or len(given) not in (2, 3):
        raise TypeError(f"sensor {name!r}: samples must be (x, time) or (x, time, lengths), got {check.kind(given)}.")
    x, *times = given
    own = clock(f"sensor {name!r}", tuple(times) if len(times) > 1 else times[0])
    with about(f"sensor {name!r}"):
        check.tensor("x", x)
        if x.shape[:2] != own.time.shape:
            raise ValueError(
                f"x must begin with the shape of its times, {check.shape(own.time)}, got {check.shape(x)}. "
                f"Dimensions are steps, sequences, features."
            )
        if x.device != own.time.device:
            raise ValueError(f"time must be on the device of x, {x.device}, got {own.time.device}. Call time.to(x.device).")
    return Samples(x, own)


def clock(what: str, given: Any) -> Clock:
    """Times (T_s, B), or a pair of times and lengths; checked where their values can be read at once."""
    time, lengths = given if isinstance(given, (tuple, list)) and len(given) == 2 else (given, None)
    with about(what):
        check.tensor("time", time)
        if time.dim() != 2:
            cure = " Call time.unsqueeze(1) for one sequence." if time.dim() == 1 else ""
            raise ValueError(f"time must have shape (steps, sequences), got {check.shape(time)}.{cure}")
        check.times(time, time.shape, time.device)
        if time.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(
                f"{what}: a gradient to time needs a layer alone, without a fusion, got a time that requires grad. "
                f"Pass time.detach()."
            )
        steps, batch = time.shape
        if lengths is None:
            lengths = torch.full((batch,), steps, device=time.device)
        ends = check.lengths(lengths, batch, steps, time.device).clamp(0, steps)  # not checked on a GPU
        if time.is_cpu and tracing.readable(time):
            clocks.flat(time, ends).check()
    return Clock(clocks.signed(time).detach(), ends)


def listed(names: Collection[str]) -> str:
    """Names in a message."""
    return ", ".join(map(repr, names))
