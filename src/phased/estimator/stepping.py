"""One step of a layer from a state that the caller keeps: many sequences share one stepper, and each needs its state only."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from phased import ops
from phased.gate import TimeGate
from phased.layer import PhasedRNN
from phased.ops.cpu.stepper import CoreStepper
from phased.ops.native import address

State = NDArray[np.float32]


class Steps:
    """A layer's weights, ready for single steps. Threads may share it; one step is taken at a time."""

    def __init__(self, rnn: PhasedRNN) -> None:
        weights = [each.map(own, own) for each in rnn.weights()]
        gates = [TimeGate(own(gate.period), own(gate.shift), own(gate.ratio_on), 0.0, gate.shape) for gate in rnn.gates()]
        self.features, self.units, self.states = rnn.input_size, rnn.hidden_size, rnn.cell.states
        self._stepper = ops.stepper(rnn.cell, weights, gates, None, rnn.backend)
        self.core: Any = self._stepper.core if isinstance(self._stepper, CoreStepper) else None
        self._lock = threading.Lock()

    def __call__(self, x: NDArray[np.float32], time: float, memory: Memory, last: float) -> State:
        """The output (H,) after an event with inputs x (D,); the state in `memory`, of time `last`, becomes the new one."""
        core = self.core
        with self._lock:
            if core is None:
                self._stepper.restore(memory.tensors, last)
                moment = torch.tensor([time], dtype=torch.float64)
                outputs = self._stepper.run(torch.from_numpy(x).unsqueeze(0), moment)
                for kept, new in zip(memory.tensors, self._stepper.state(), strict=True):
                    kept.copy_(new)
                return outputs[0].numpy()
            core.set(memory.h, memory.c, last)
            h: State = core.push(x, self.features, time)
            core.get(memory.h, memory.c)
        return h


class Memory:
    """The state of one sequence, in memory (states, H): one tensor (1, H) for each of h and c, and their addresses."""

    __slots__ = ("c", "h", "tensors")

    def __init__(self, memory: NDArray[np.float32]) -> None:
        self.tensors = tuple(torch.from_numpy(row) for row in memory[:, None])
        self.h, self.c = address(self.tensors[0]), address(self.tensors[-1])

    def arrays(self) -> NDArray[np.float32]:
        """A copy of all states, (states, H)."""
        return torch.cat(self.tensors).numpy()

    def restore(self, values: NDArray[np.float32]) -> None:
        """Set all states."""
        for tensor, value in zip(self.tensors, values, strict=True):
            tensor.copy_(torch.from_numpy(value))


def own(value: torch.Tensor) -> torch.Tensor:
    """A copy on the CPU."""
    return value.detach().to("cpu", copy=True)
