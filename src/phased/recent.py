"""What a layer remembers of its last calls on a GPU: a call like one of them needs no check, and no choice of a backend.

Checks of every argument and parameter, in Python, take as long as the kernels of a small batch. Most calls are like the one
before: the same parameters, and tensors of the same shapes, dtypes and devices. One comparison finds that out.
"""

from __future__ import annotations

from collections.abc import Collection
from operator import is_
from typing import Any, NamedTuple

from torch import Tensor, nn

from phased.cell import State
from phased.ops.alike import Alike, alike
from phased.ops.contract import Again, Problem

KEPT = 16  # calls

Parameters = Collection[nn.Parameter | None]
Settings = tuple[Any, ...]


class Call(NamedTuple):
    """A call that was checked: what its tensors are compared with, and how to run one like it."""

    alike: Alike
    run: Again


class Recent:
    """The last calls of a layer with its present parameters, by the shape of their input and the layer's settings."""

    def __init__(self) -> None:
        self._parameters: list[nn.Parameter] = []
        self._calls: dict[tuple[Any, ...], Call] = {}

    def run(self, parameters: Parameters, settings: Settings, input: Tensor, time: Tensor) -> tuple[Tensor, State] | None:
        """The output and the final state, if the call is like an earlier one."""
        if not self._are_mine(parameters):
            self._calls.clear()  # nothing of replaced parameters is kept
            self._parameters.clear()
            return None
        call = self._calls.get((input.shape, settings))
        return None if call is None or not call.alike(input, time, *parameters) else call.run(input, time)

    def add(self, parameters: Parameters, settings: Settings, problem: Problem, run: Again) -> None:
        """Remember a call, unless the problem has tensors that are computed from parameters: they are others in every call."""
        own = [parameter for parameter in parameters if type(parameter) is nn.Parameter]
        used = [*problem.weights.present(), *problem.gate.parameters()]
        if len(own) < len(parameters) or not {id(each) for each in used} <= {id(each) for each in own}:
            return
        if not self._are_mine(own):
            self._calls.clear()
        self._parameters, key = own, (problem.input.shape, settings)
        if key not in self._calls and len(self._calls) >= KEPT:
            del self._calls[next(iter(self._calls))]  # the oldest
        self._calls[key] = Call(alike([problem.input, problem.time, *own]), run)

    def _are_mine(self, parameters: Parameters) -> bool:
        return len(parameters) == len(self._parameters) and all(map(is_, parameters, self._parameters))
