"""The recurrence of a layer with many units over its open events: a launch forwards, or two backwards, for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from phased.ops.cuda import kernels
from phased.ops.cuda.constants import LANES, OPEN_WARPS, PRODUCTS
from phased.ops.cuda.layout import StepPlan
from phased.ops.native import address

if TYPE_CHECKING:
    from phased.ops.cuda.launch import Call

MOST_ROWS = 65535  # of a grid's second dimension


class OpenSteps:
    """All steps of a call, one after another."""

    def __init__(self, call: Call, plan: StepPlan) -> None:
        self.call, self.plan = call, plan
        self.sizes = (call.batch, call.steps, call.units, call.pitch, address(call.lengths))

    def forward(self, given: Sequence[float]) -> None:
        """All steps; `given` is the kernels' struct Forward after its sizes, up to `ring`."""
        compiled, block = self._compiled("open_step_forward.cu", OPEN_WARPS), OPEN_WARPS * LANES
        for step in range(self.call.steps):
            arguments = (*self.sizes, *given, 0, self.call.units, step)
            compiled.launch("open_step_forward", self.call.device, self.call.units, block, arguments)

    def backward(self, given: Sequence[float], whole: bool) -> None:
        """All steps in reverse; `given` is struct Backward likewise, whose gradients to the state are those to the final one.

        With `whole` they are those to the initial state afterwards; else they are not used any more.
        """
        call, plan = self.call, self.plan
        compiled, block = self._compiled("open_step_backward.cu", plan.warps), plan.warps * LANES
        arguments = (*self.sizes, *given, 0, call.units)
        shares = call.empty(call.batch, call.units, PRODUCTS)
        given_by_step = call.empty(plan.grid[1], call.batch, call.units)
        cells = (-(-call.units // block), min(call.batch, MOST_ROWS), 1)
        before = 0  # what the step that was computed before gives; none for the first
        for step in range(call.steps - 1, -2 if whole else -1, -1):
            of_cells = (*arguments, step, before, plan.grid[1], address(shares))
            compiled.launch("open_step_cells", call.device, cells, block, of_cells)
            before = address(given_by_step)
            if step > 0 or (whole and step == 0):
                of_sums = (*arguments, step, address(shares), before)
                compiled.launch("open_step_sums", call.device, plan.grid, block, of_sums, plan.shared)

    def _compiled(self, source: str, warps: int) -> kernels.Kernels:
        call = self.call
        return kernels.recurrence(*call.kind, call.tape_dtype, source, call.peephole, 1, warps, 0, warps * LANES)
