"""Rows of a table, looked up by index, with a gradient that is fast for many indices and the same in every run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

CHUNK = 32  # rows that are added up at once


def look_up(table: Tensor, index: Tensor) -> Tensor:
    """The rows of a table at these indices, from 0 up, as `torch.nn.functional.embedding`: (R, D), (...) -> (..., D).

    The gradient of `embedding` on a GPU is slow if a table of few rows is looked up hundreds of thousands of times, because one
    thread block adds up all that belongs to a row. On a CPU it is the faster one.
    """
    if not table.is_cuda:
        return functional.embedding(index, table)
    rows: Tensor = SortedLookUp.apply(table, index)  # type: ignore[no-untyped-call]
    return rows


class SortedLookUp(torch.autograd.Function):
    """Rows of a table, with the gradient of `sum_by_index`."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        """The rows."""
        ctx.save_for_backward(index)
        ctx.rows = len(table)
        return table[index]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """The gradient to the table."""
        (index,) = ctx.saved_tensors
        return sum_by_index(gradient.reshape(-1, gradient.shape[-1]), index.reshape(-1), ctx.rows), None


def sum_by_index(values: Tensor, index: Tensor, rows: int) -> Tensor:
    """Sums of the values (N, D) that have the same index (N,) below `rows`, (rows, D). Always added in the same order.

    Values are sorted by index and padded with zeros so that a chunk holds values of one index. All chunks are summed at once,
    then their sums in the same way, until few remain for each index.
    """
    if len(index) <= 4 * rows:
        return values.new_zeros(rows, values.shape[-1]).index_put_((index,), values, accumulate=True)
    # Short integers are sorted faster.
    sorted_index, order = torch.sort(index.to(torch.int16 if rows < 2**15 else index.dtype), stable=True)
    device = index.device
    begin = torch.searchsorted(sorted_index, torch.arange(rows + 1, device=device, dtype=sorted_index.dtype))
    sorted_index = sorted_index.long()
    ends = ((begin.diff() + CHUNK - 1) // CHUNK).cumsum(0)  # of each index's chunks
    chunk = torch.cat([ends.new_zeros(1), ends])[sorted_index]
    place = CHUNK * chunk + torch.arange(len(order), device=device) - begin[sorted_index]
    most = rows + len(index) // CHUNK  # at least as many as there are chunks, and known without reading from the device
    padded = values.new_zeros(CHUNK * most, values.shape[-1])
    padded[place] = values[order]
    sums = padded.view(most, CHUNK, -1).sum(1)
    # The chunks after the last are zero. They are spread over all indices, so that none has many.
    numbers = torch.arange(most, device=device)
    owner = torch.where(numbers < ends[-1], torch.searchsorted(ends, numbers, right=True), numbers % rows)
    return sum_by_index(sums, owner, rows)
