"""A listed backward pass, prepared while its forward pass runs.

Autograd runs backward passes in a thread of its own. Where Python runs in two threads by turns, on two cores, its objects move
from one core's cache to the other's, and it takes up to twice as long. So as little of it as possible is left for that thread.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from phased.ops.contract import Known, Problem
from phased.ops.cuda.listing import allocate
from phased.ops.cuda.repeated import Batch


class Prepared:
    """A backward pass over a batch: its addresses are known, and its gradients to weights and gates are allocated.

    Other gradients may be large, and are allocated when they are computed.
    """

    def __init__(self, batch: Batch, problem: Problem, output: Tensor, final: Sequence[Tensor], saved: Sequence[Tensor]) -> None:
        self._lists, self._with_input = batch.lists, problem.input.requires_grad
        made, (schedule, tape) = [tensor.data_ptr() for tensor in (output, *final)], saved
        x, time, *others = batch.addresses
        own = others if problem.lengths is None else others[1:]
        at_schedule, at_tape = schedule.data_ptr(), tape.data_ptr()
        self._given = [*batch.addresses, at_schedule, made[0], at_tape]
        self._room = tape.shape[0]
        # In the order in which autograd keeps them: see `eager_function`.
        self._kept = [x, *own, *made, at_schedule, at_tape, time]
        if problem.lengths is not None:
            self._kept.append(others[0])
        self._schedule = 1 + len(own) + len(made)  # its number among them
        self._gradients: list[Tensor] | None = allocate(self._lists.gradients, problem.input.device)

    @staticmethod
    def of(
        batch: Batch | None, problem: Problem, output: Tensor, final: Sequence[Tensor], saved: Sequence[Tensor]
    ) -> Prepared | None:
        """The backward pass of a forward pass; None if it is not listed, or kernels read a copy of a tensor that is not kept."""
        return None if batch is None or not batch.own else Prepared(batch, problem, output, final, saved)

    def __call__(
        self, kept: Sequence[Tensor | None], known: Known, to_output: Tensor | None, to_final: Sequence[Tensor | None]
    ) -> tuple[Tensor | None, ...] | None:
        """Gradients to input, state, weights and gates; None if the pass is not as prepared, and has to be computed otherwise.

        It is not for a second pass over the same graph, if a parameter has other memory by now, or if there are more events than
        the tape has room for.
        """
        gradients, self._gradients = self._gradients, None
        if gradients is None or [tensor.data_ptr() for tensor in kept if tensor is not None] != self._kept:
            return None
        if torch.cuda.current_device() != self._lists.form.device.index or torch.cuda.is_current_stream_capturing():
            return None
        schedule = kept[self._schedule]
        assert schedule is not None
        numbers, later = known
        most, count = numbers if later is None else later(schedule)
        if not self._lists.can_go_back(count, self._room):
            return None
        results = self._lists.run_backward(self._given, self._room, most, count, to_output, to_final, self._with_input, gradients)
        return results.pop() if self._with_input else None, *results
