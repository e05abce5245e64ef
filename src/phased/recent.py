"""What a layer remembers of its last calls on a GPU: a call like one of them needs no check, and no choice of a backend.

Checks of every argument and parameter, in Python, take as long as the kernels of a small batch. Most calls are like the one
before: the same parameters, and tensors of the same shapes, dtypes and devices. One comparison finds that out.
"""

from __future__ import annotations

from collections.abc import Collection
from operator import is_
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from phased.cell import State
from phased.ops.alike import Alike, alike
from phased.ops.contract import Again, Problem

KEPT = 16  # shapes of input

Settings = tuple[Any, ...]


class Call(NamedTuple):
    """A call that was checked, and how to run one like it."""

    parameters: list[nn.Parameter]
    settings: Settings
    alike: Alike  # to its input, times and parameters
    run: Again


class Recent:
    """The last calls of a layer, by the shape of their input."""

    def __init__(self) -> None:
        self._calls: dict[torch.Size, Call] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Recent, ()  # copies start without

    def run(
        self, parameters: Collection[nn.Parameter | None], settings: Settings, input: Tensor, time: Tensor
    ) -> tuple[Tensor, State] | None:
        """The output and the final state, if the call is like an earlier one with the same parameters and settings."""
        call = self._calls.get(input.shape)
        if call is None or call.settings != settings or len(parameters) != len(call.parameters):
            return None
        if not all(map(is_, parameters, call.parameters)) or not call.alike(input, time, *parameters):
            return None
        return call.run(input, time)

    def add(self, parameters: Collection[nn.Parameter | None], settings: Settings, problem: Problem, run: Again) -> None:
        """Remember a call, unless the problem has tensors that are computed from parameters: they are others in every call."""
        own = [parameter for parameter in parameters if type(parameter) is nn.Parameter]
        used = [*problem.weights.present(), *problem.gate.parameters()]
        if len(own) < len(parameters) or not {id(each) for each in used} <= {id(each) for each in own}:
            return
        if len(self._calls) >= KEPT:
            self._calls.clear()
        like = alike([problem.input, problem.time, *own])
        self._calls[problem.input.shape] = Call(own, settings, like, run)
