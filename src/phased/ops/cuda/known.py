"""Batches like an earlier one, which was checked and has lists: recognised by one comparison of their tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from phased.ops.alike import Alike, alike
from phased.ops.contract import Problem
from phased.ops.cuda.repeated import Batch, Form, Lists, as_read, form_of, lists_of, tensors_of
from phased.ops.native import address

# Forward passes of a form before it is listed: to list a pass takes several times as long as to run it, and lengths may never
# repeat.
LISTED_AFTER = 2
FORMS = 4096  # of which passes are counted, at most
KEYS = 256  # of batches, at most
CANDIDATES = 8  # kinds of batches with the same key, at most: they differ in strides, in types of tensors, in what is learned


class Entry(NamedTuple):
    """What is known of batches like an earlier one, which was checked, and whose form has lists."""

    alike: Alike
    lists: Lists
    own: bool  # whether kernels read no copy of their tensors

    def batch(self, tensors: list[Tensor]) -> Batch:
        """A batch of these tensors."""
        read = tensors if self.own else as_read(tensors)
        addresses = [tensor.data_ptr() for tensor in read]
        return Batch(self.lists, read, addresses if 0 not in addresses else [*map(address, read)], self.own)


_ENTRIES: dict[tuple[Any, ...], list[Entry]] = {}
_PASSES: dict[Form, int] = {}


def key_of(problem: Problem) -> tuple[Any, ...]:
    """What two problems have in common, besides being alike in their tensors, if they have the same form."""
    cell, gate, x, _, state, (_, _, bias_ih, bias_hh, peephole), lengths, autocast = problem
    present = len(state), lengths is None, bias_ih is None, bias_hh is None, peephole is None
    return cell.name, gate.shape, gate.leak, x.shape, autocast, present


def recall(problem: Problem) -> Batch | None:
    """The batch of a problem that is like an earlier one; None if nothing is known of it, or if it cannot run right now.

    The earlier one was checked, so this one needs no check.
    """
    candidates = _ENTRIES.get(key_of(problem))
    if candidates is None or not can_run(problem.input.device):
        return None
    tensors = tensors_of(problem)
    return next((entry.batch(tensors) for entry in candidates if entry.alike(*tensors)), None)


def can_run(device: torch.device) -> bool:
    """Whether listed passes can run on a GPU right now: it is the current one, and no graph is being recorded."""
    return torch.cuda.current_device() == device.index and not torch.cuda.is_current_stream_capturing()


def again(problem: Problem) -> Callable[[Tensor, Tensor], Batch | None] | None:
    """A function for batches that differ from a problem in the values of input and time alone; None if nothing is known of it.

    It returns None where `recall` does because the batch cannot run right now.
    """
    tensors, device = tensors_of(problem), problem.input.device
    entry = next((entry for entry in _ENTRIES.get(key_of(problem), ()) if entry.alike(*tensors)), None)
    if entry is None:
        return None
    batch, others = entry.batch, tensors[2:]
    return lambda input, time: batch([input, time, *others]) if can_run(device) else None


def batch_of(problem: Problem) -> Batch | None:
    """The batch of a problem that was checked; None if its passes are not listed. Batches like it are known from now on.

    They are not in large layers, while a graph is recorded, and before `LISTED_AFTER` forward passes of its form.
    """
    found = recall(problem)
    if found is not None or torch.cuda.is_current_stream_capturing():
        return found
    tensors = tensors_of(problem)
    read = as_read(tensors)
    form = form_of(problem, read)
    passes = _PASSES.get(form, 0)
    if passes < LISTED_AFTER:
        if len(_PASSES) >= FORMS:
            _PASSES.clear()
        _PASSES[form] = passes + 1
        return None
    lists = lists_of(form)
    if not lists.possible:
        return None
    entry = Entry(alike(tensors), lists, all(one is other for one, other in zip(tensors, read, strict=True)))
    key = key_of(problem)
    if key not in _ENTRIES and len(_ENTRIES) >= KEYS:
        _ENTRIES.clear()
    _ENTRIES[key] = [entry, *_ENTRIES.get(key, [])[: CANDIDATES - 1]]
    return entry.batch(tensors)
