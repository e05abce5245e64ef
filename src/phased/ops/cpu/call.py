"""A problem as the compiled core's arguments."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from phased.gate import LONGEST_PERIOD, SHORTEST_PERIOD, SMALLEST_RATIO
from phased.ops.contract import Problem
from phased.ops.core import KINDS, core
from phased.ops.memory import address, contiguous, contiguous_rows

BOUNDS = (SHORTEST_PERIOD, LONGEST_PERIOD, SMALLEST_RATIO)


class Call:
    """A problem as the core's arguments: addresses, and the tensors that must outlive the call. Autograd records nothing here.

    The core moves gates into their bounds.
    """

    def __init__(self, problem: Problem) -> None:
        steps, batch, features = problem.input.shape
        self.input = contiguous_rows(problem.input)
        self.time = contiguous(problem.time.to(torch.float64).t())
        lengths = problem.lengths
        self.lengths = torch.full((batch,), steps, dtype=torch.int64, device="cpu") if lengths is None else contiguous(lengths)
        self.state = [contiguous(s) for s in problem.state]
        self.weights = [None if w is None else contiguous(w) for w in problem.weights]
        self.gate = [contiguous(g) for g in problem.gate.parameters()]
        self.kind = KINDS[problem.input.dtype]
        self.leak, self.units = problem.gate.leak, problem.weights.hh.shape[1]
        self.fields = core.KEPT[problem.cell.name]  # numbers that an event keeps on the tape
        self.core = self.function("Problem")(
            core.CELLS[problem.cell.name],
            core.SHAPES[problem.gate.shape],
            self.leak,
            batch,
            steps,
            features,
            self.units,
            address(self.input),
            self.input.stride(1),
            self.input.stride(0),
            address(self.time),
            address(self.lengths),
            *self.states(self.state),
            [address(w) for w in self.weights[:4]],
            address(self.weights[4]),
            [address(g) for g in self.gate],
            BOUNDS,
            torch.get_num_threads(),
        )

    @property
    def mean_ratio_on(self) -> float:
        """The mean open ratio of the gate in force."""
        return float(self.core.ratio_on)

    def function(self, name: str) -> Any:
        """The core's function or class for this dtype."""
        return getattr(core, name + self.kind)

    def states(self, tensors: list[Tensor]) -> tuple[int, int]:
        """Addresses of h and c; the GRU has no c."""
        return address(tensors[0]), address(tensors[1]) if len(tensors) > 1 else 0
