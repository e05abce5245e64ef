"""Sequences in memory, their split, and batches of similar length for training and for the test on held-out sequences."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phased import check
from phased.estimator.checks import Columns, as_events, check_range, matched
from phased.estimator.events import Events
from phased.estimator.inputs import Inputs, Measured
from phased.estimator.network import SHARES, STATIC, STEPS, SUMMARY
from phased.estimator.ragged import gather
from phased.estimator.shares import Shares
from phased.estimator.summary import REAL
from phased.estimator.targets import Targets
from phased.learn.batch import Batch, Samples, Split

POOL = 16
"""Batches whose sequences are sorted by length together: batches differ in every epoch, with little padding."""

AT_ONCE, MOST_INPUTS = 256, 1 << 25
"""Sequences that are summarised, counted, measured or answered together, and the largest number of their inputs."""

MOST_IN_BATCH, LEAST_IN_BATCH, BATCHES = 64, 8, 40
"""Sequences in a batch, and batches in an epoch: small data sets have smaller batches, so that an epoch has enough steps."""

Indices = NDArray[np.int64]


def batch_size(given: int | None, sequences: int) -> int:
    """Return the batch size of a training with so many sequences."""
    return given or max(LEAST_IN_BATCH, min(MOST_IN_BATCH, sequences // BATCHES))


class Places(NamedTuple):
    """Which steps of padded sequences (B, T) are real, where they come from, and how many each sequence has."""

    real: Tensor
    at: Tensor
    lengths: Tensor

    def padded(self, values: Tensor) -> Tensor:
        """The values (steps,) of these steps, (T, B), with zeros after the end of a sequence."""
        if not len(values):
            return values.new_zeros(self.at.t().shape)
        return values[self.at].masked_fill_(~self.real, 0).t()


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences with the measured values from which the inputs of a batch are made, and a target for each sequence or each step.

    Args:
        inputs: makes the inputs.
        measured: measured values of n sequences of S steps in all.
        static: inputs of the static variables, (n, static).
        y: targets, (n,) or (S,). Unknown targets are 0.
        counts: whether the target of each step is known, (S,) bool, or None with one target per sequence.
        summary: summaries of the inputs of each sequence, (n, columns), or None if the network computes them per batch.
        shares: random kernels that add shares to every batch, or None if the network reads no shares.
        step_first: whether all sequences of a step are contiguous in the memory of a batch, as torch's layers expect. A phased
            layer reads one sequence after another.
    """

    inputs: Inputs
    measured: Measured
    static: Tensor
    y: Tensor
    counts: Tensor | None = None
    summary: Tensor | None = None
    shares: Shares | None = None
    step_first: bool = False

    def __len__(self) -> int:
        return len(self.offset) - 1

    @property
    def offset(self) -> Indices:
        """The steps of sequence i are offset[i] to offset[i + 1], (n + 1,)."""
        return self.measured.offset

    @property
    def time(self) -> Tensor:
        """Time of each step since the first of its sequence, in median gaps, (S,) float64."""
        return torch.from_numpy(self.measured.time)

    @cached_property
    def lengths(self) -> Indices:
        """Steps of each sequence, (n,)."""
        return np.diff(self.offset)

    @property
    def width(self) -> int:
        """Inputs of a step, with static variables."""
        return self.inputs.width + self.static.shape[1]

    @torch.no_grad()
    def summarised(self, summaries: Callable[[Batch], Tensor]) -> Self:
        """A copy with the summaries of all sequences, which training then does not compute again in every epoch."""
        found = None
        for some in in_batches(self, np.arange(len(self))):
            made = summaries(self.batch(some))
            found = made.new_zeros(len(self), made.shape[1]) if found is None else found
            found[torch.from_numpy(some)] = made
        return replace(self, summary=found)

    def batch(self, chosen: Indices) -> Batch:
        """These sequences, padded."""
        which, places = torch.from_numpy(chosen), self._places(chosen)
        streams = {
            STEPS: Samples(self._inputs(chosen, places.real), places.padded(self.time), places.lengths),
            STATIC: once(self.static[which]),
        }
        if self.summary is not None:
            streams[SUMMARY] = once(self.summary[which])
        if self.shares is not None:
            streams[SHARES] = once(torch.from_numpy(self.shares_of(chosen)))
        if self.counts is None:
            return Batch(streams, self.y[which])
        return Batch(streams, places.padded(self.y), places.padded(self.counts))

    def rows(self, chosen: Indices) -> NDArray[np.float32]:
        """The inputs of all steps of these sequences without static variables, one sequence after another."""
        return self.inputs.rows(self.measured, chosen)

    def shares_of(self, chosen: Indices) -> NDArray[np.float32]:
        """The shares of these sequences, (B, features)."""
        assert self.shares is not None
        return self.shares.batch(self.rows(chosen), gather(self.offset, chosen)[1])

    def _inputs(self, chosen: Indices, real: Tensor) -> Tensor:
        """The inputs of these sequences, (T, B, inputs), with zeros after the end of a sequence."""
        sequences, steps = real.shape
        x = torch.empty(*((steps, sequences) if self.step_first else (sequences, steps)), self.width, dtype=REAL)
        number, rows = np.arange(sequences), x.view(-1, self.width).numpy()
        first, apart = (number, sequences) if self.step_first else (steps * number, 1)
        rows[first, self.inputs.width :] = self.static.numpy()[chosen]
        self.inputs.fill(self.measured, chosen, rows, first, apart, steps)
        return x if self.step_first else x.transpose(0, 1)

    def targets(self, chosen: Indices) -> tuple[NDArray[Any], NDArray[np.bool_] | slice]:
        """The known targets of these sequences, and which of all their targets are known."""
        if self.counts is None:
            return self.y.numpy()[chosen], slice(None)
        steps = gather(self.offset, chosen)[0]
        known = self.counts.numpy()[steps]
        return self.y.numpy()[steps][known], known

    def clock(self, chosen: Indices) -> tuple[Tensor, Tensor]:
        """The times of these sequences, padded with zeros, (T, B), and their lengths."""
        places = self._places(chosen)
        return places.padded(self.time), places.lengths

    def _places(self, chosen: Indices) -> Places:
        """Where the steps of these sequences are."""
        lengths, begin = (torch.from_numpy(part[chosen]) for part in (self.lengths, self.offset[:-1]))
        step = torch.arange(max(1, int(self.lengths[chosen].max(initial=1))))
        real = step < lengths.unsqueeze(-1)
        return Places(real, torch.where(real, begin.unsqueeze(-1) + step, 0), lengths)

    @cached_property
    def digest(self) -> str:
        """A digest of all of it, by which a checkpoint recognises its data."""
        found = hashlib.sha256()
        for part in (*self.measured, *(each.numpy() for each in (self.static, self.y, self.counts) if each is not None)):
            found.update(np.ascontiguousarray(part).data)
        return found.hexdigest()[:16]


def once(values: Tensor) -> Samples:
    """One sample for each sequence, from values (B, ...)."""
    lengths = torch.ones(len(values), dtype=torch.int64)
    return Samples(values.unsqueeze(0), torch.zeros(1, len(values), dtype=torch.float64), lengths)


@dataclass(frozen=True, eq=False)
class EventTask:
    """Batches of the sequences to train on, in another order in every epoch, and of the held-out ones."""

    data: Sequences
    train: Indices
    test: Indices
    size: int
    _order: dict[tuple[int, int], list[Indices]] = field(default_factory=dict, init=False)  # of the latest epoch

    def __repr__(self) -> str:
        return f"EventTask({self.data.digest}, {self.split_digest()}, size={self.size})"

    def split_digest(self) -> str:
        """A digest of which sequences are held out."""
        return hashlib.sha256(self.train.tobytes() + b"/" + self.test.tobytes()).hexdigest()[:16]

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        """Batch number `index` of an epoch."""
        lengths = self.data.lengths
        if split == "test":
            chosen = by_length(self.test, lengths)[index * self.size : index * self.size + size]
        else:
            chosen = self.order(seed, epoch)[index]
        return self.data.batch(chosen)

    def order(self, seed: int, epoch: int) -> list[Indices]:
        """The batches of an epoch, kept until those of another one are needed."""
        if (seed, epoch) not in self._order:
            self._order.clear()
            self._order[seed, epoch] = self._drawn(seed, epoch)
        return self._order[seed, epoch]

    def _drawn(self, seed: int, epoch: int) -> list[Indices]:
        """The batches of an epoch: shuffled, sorted by length within pools, and shuffled again; a smaller one is the last."""
        random = np.random.default_rng(np.random.SeedSequence([seed, epoch]))
        shuffled, lengths = random.permutation(self.train), self.data.lengths
        pools = range(0, len(shuffled), POOL * self.size)
        ordered = np.concatenate([by_length(shuffled[first : first + POOL * self.size], lengths) for first in pools])
        batches = [ordered[first : first + self.size] for first in range(0, len(ordered), self.size)]
        whole = len(ordered) // self.size
        return [batches[place] for place in (*random.permutation(whole), *range(whole, len(batches)))]


def by_length(chosen: Indices, lengths: Indices) -> Indices:
    """Sorted by length; sequences of equal length keep their order."""
    return chosen[np.argsort(lengths[chosen], kind="stable")]


def in_batches(data: Sequences, chosen: Indices, size: int = AT_ONCE) -> Iterator[Indices]:
    """These sequences in batches of similar length, of fewer sequences where they are long."""
    ordered = by_length(chosen, data.lengths)
    for first in range(0, len(ordered), size):
        some = ordered[first : first + size]
        parts = -(-len(some) * int(data.lengths[some[-1]]) * data.width // MOST_INPUTS)
        yield from (part for part in np.array_split(some, min(max(1, parts), len(some))))


def split(events: Events, found: Targets, share: float, random: Any, stratify: bool) -> tuple[Indices, Indices]:
    """Numbers of the sequences to train on and of those held out, in the order of their ids.

    So the order of the sequences in X changes nothing.
    """
    _, first, group = np.unique(events.ids, return_index=True, return_inverse=True)
    if len(first) < 2:
        raise ValueError(f"X must have at least 2 sequences with ids of their own, one of them to be held out, got {len(first)}.")
    strata = np.zeros(len(first), np.int64)
    if stratify and found.counts is None:
        _, classes = np.unique(found.y, return_inverse=True)
        strata = classes[first]
    elif found.counts is not None:  # sequences with a target at some step
        known = np.add.reduceat(np.append(found.counts, False), events.offset[:-1]) * (events.lengths > 0)
        strata = (np.bincount(group, known, len(first)) > 0).astype(np.int64)
    useful = np.ones(len(first), bool) if found.counts is None else strata > 0
    held = np.zeros(len(first), bool)
    for stratum in np.unique(strata):
        members = random.permutation(np.flatnonzero(strata == stratum))
        held[members[: min(round(share * len(members)), len(members) - 1)]] = True
    if not held[useful].any():
        held[random.permutation(np.flatnonzero(useful))[: max(1, round(share * int(useful.sum())))]] = True
    order = np.argsort(group, kind="stable")
    chosen = held[group][order]
    return order[~chosen], order[chosen]


def joined(X: Any, events: Events, found: Targets, validation: Any) -> tuple[Events, Targets, Indices, Indices]:
    """Training and the user's own validation sequences (X, y) as one, their targets, and which is which."""
    if not isinstance(validation, tuple) or len(validation) != 2:
        raise TypeError(f"validation must be a pair (X, y), got {check.kind(validation)}.")
    columns = Columns.of(events)
    other = matched(as_events(validation[0], columns), columns)
    check_range(other)
    others = Targets.of(other, validation[1])
    if (others.counts is None) != (found.counts is None):
        raise ValueError("y of training and of validation must both have a target for each sequence, or for each step.")
    twice = np.intersect1d(events.ids, other.ids)
    if len(twice) and isinstance(X, Events) and isinstance(validation[0], Events):  # a list has no ids
        more = f" and {len(twice) - 1} others" if len(twice) > 1 else ""
        raise ValueError(
            f"a sequence must be either in training or in validation, got {twice[0].item()!r}{more} in both. Split by ids, or "
            f"give the Events ids of their own."
        )
    counts = None if found.counts is None or others.counts is None else np.concatenate([found.counts, others.counts])
    size = len(events)
    whole = Events(
        np.concatenate([events.ids, other.ids]),
        events.variables,
        events.statics,
        events.unit,
        np.concatenate([events.offset, events.offset[-1] + other.offset[1:]]),
        np.concatenate([events.time, other.time]),
        np.concatenate([events.entry, events.entry[-1] + other.entry[1:]]),
        np.concatenate([events.variable, other.variable]),
        np.concatenate([events.value, other.value]),
        np.concatenate([events.static, other.static]),
        settings=events.settings,
    )
    return whole, Targets(np.concatenate([found.y, others.y]), counts), np.arange(size), np.arange(size, size + len(other))
