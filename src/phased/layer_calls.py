"""The last calls of a layer on a GPU: a call like one of them is replayed, without checks and without the choice of a backend.

A small training step is bound by the CPU, and checks of every argument and parameter are a part of that. Most calls are like the
one before: the same parameters, and tensors of the same shapes, dtypes and devices. One comparison finds that out.
"""

from __future__ import annotations

from collections.abc import Collection
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn

from phased import ops, tracing
from phased.ops.calls import Calls
from phased.ops.contract import Problem, Replay, autocast_dtype
from phased.parameters import GatedModule, Operands

KEPT = 16  # calls


class LayerCalls:
    """The last calls of a layer with its present parameters, without an initial state and lengths."""

    def __init__(self) -> None:
        self._parameters: list[nn.Parameter] = []
        self._calls: Calls[Replay] = Calls(KEPT)

    def replay(self, layer: GatedModule, input: Any, time: Any) -> tuple[Any, Any] | None:
        """The layer's results for this call, if it is like an earlier one."""
        if not isinstance(input, Tensor) or not isinstance(time, Tensor) or tracing.is_valueless(input):
            return None
        if input.dim() != 3 or time.dim() != 2 or input.is_nested or tracing.in_forward_mode():
            return None
        if layer._openings.active and layer.training:  # it counts the openings of units in the checked times
            return None
        parameters: Collection[Any] = layer._parameters.values()
        if not self._has(parameters):
            self._forget()  # nothing of replaced parameters is kept
            return None
        x, t = (input.transpose(0, 1), time.transpose(0, 1)) if layer.batch_first else (input, time)
        run = self._calls.find(key_of(layer, x, autocast_dtype(x.device)), (x, t, *parameters))
        found = None if run is None else run(x, t)
        if found is None:
            return None
        output, final = found
        if layer.batch_first:
            output = output.transpose(0, 1)
        return output, (final[0].unsqueeze(0), final[1].unsqueeze(0)) if len(final) > 1 else final[0].unsqueeze(0)

    def add(self, layer: GatedModule, operands: Operands, x: Tensor, t: Tensor, low: torch.dtype | None) -> None:
        """Remember a call with this input (T, B, D), times (T, B) as they were given, and dtype of autocast.

        Calls of stacks and of two directions are not remembered, nor calls that convert operands or compute them from parameters.
        """
        weights, gate = operands.weights[0], operands.gates[0]
        if layer.num_layers * layer._directions > 1 or layer.peephole or weights.ih.dtype != x.dtype:
            return
        if tracing.is_valueless(x):
            return
        parameters = layer._parameters.values()
        own = [parameter for parameter in parameters if type(parameter) is nn.Parameter]
        used = [*weights.present(), *gate.parameters()]
        if len(own) < len(parameters) or not {id(each) for each in used} <= {id(each) for each in own}:
            return
        run = ops.replay(Problem(layer.cell, gate, x, t, (), weights, None, low), layer.backend)
        if run is None:
            return
        if not self._has(own):
            self._forget()
        self._parameters = own
        self._calls.add(key_of(layer, x, low), [x, t, *own], run)

    def _has(self, parameters: Collection[Any]) -> bool:
        return len(parameters) == len(self._parameters) and all(map(is_, parameters, self._parameters))

    def _forget(self) -> None:
        self._calls.clear()
        self._parameters.clear()


def key_of(layer: GatedModule, x: Tensor, low: torch.dtype | None) -> tuple[Any, ...]:
    """The shape of the input, and the settings that the recurrence depends on."""
    return x.shape, layer.training, layer.leak, layer.gate, layer.backend, low
