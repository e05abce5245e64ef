"""The GPU's kernels that sum gradients over events in NumPy; see emulator.py."""

import numpy as np
import torch

from phased.ops.cuda.constants import GATE_SUMS
from raw_memory import at


def weighted_sum(weights, shares):
    """The sum over events and products, (n,), of weights (events, 4, n) with shares (events, 4); zeros without events.

    Not by np.einsum: without events its inner loop still reads one weight, from memory that nothing has written, and multiplies
    it by zero (NumPy 2.4). If that is NaN, so is the sum.
    """
    return (weights * shares[..., None]).sum((0, 1))


class EmulatedSums:
    """Gradients to weights, gates and input, from those to the products and the openness of every event."""

    def event_sums(self, p):
        batch, steps, units, splits = p.batch, p.steps, p.units, self.grid[2]
        assert 1 <= p.ring < 1 << 16 if "sorted" in self.name else "unit" in self.name or p.ring in (2, 3)
        row, unit = self.open_units(p.mask, batch * steps, units).nonzero()
        assert at(p.start, batch * steps + 1, dtype=np.int64)[-1] == len(row)
        assert (at(p.unit, len(row), dtype=np.int32) == unit).all()
        assert (at(p.row, len(row), dtype=np.int32) == row).all()
        b, j = row // steps, row % steps
        out = self.numbers(p.output, steps, batch, units)
        first = self.numbers(p.initial_h, batch, units, strides=(p.initial_batch, 1))
        h = np.where(j[:, None] > 0, out[j - 1, b], first[b]) if len(row) else np.empty((0, units), self.real)
        seen = self.numbers(p.x, steps, batch, p.features, strides=(p.x_step, p.x_batch, 1))[j, b]
        z = np.concatenate([h, seen, np.ones((len(row), 1), self.real)], 1)
        total = self.numbers(p.sums, splits, units, 4, units + p.features + 1)
        total[:] = 0
        split = np.arange(len(row)) % splits  # each sums some of the events
        np.add.at(total, (split, unit), np.einsum("eg,ec->egc", self.numbers(p.to_products, len(row), 4), z))

    def sorted_sums(self, p):
        self.event_sums(p)
        p.unit_of, p.row_of = p.unit, p.row
        self.gate_sums(p)

    def unit_sums(self, p):
        count = at(p.start, p.batch * p.steps + 1, dtype=np.int64)[-1]
        of = at(p.unit, count, dtype=np.int32)
        assert (at(p.sorted, count, dtype=np.int64) == of.argsort(kind="stable")).all()
        assert (at(p.first, p.units + 1, dtype=np.int64) == np.searchsorted(np.sort(of), np.arange(p.units + 1))).all()
        self.event_sums(p)

    def gate_gradients(self, p, others, unit, row, gate):
        """To period, shift, ratio_on and the peepholes: (GATE_SUMS, units), from events in any order."""
        moment = at(p.time, p.batch, p.steps, dtype=np.float64, strides=(p.time_batch, p.time_step)).reshape(-1)[row]
        total = np.zeros((GATE_SUMS, p.units))
        to_gate = gate.of(torch.tensor(unit)).gradients(torch.tensor(moment), torch.tensor(others[:, 0]))
        for i, values in enumerate([*(grad.numpy() for grad in to_gate), *others.T[1:]]):
            np.add.at(total[i], unit, values)
        return total

    def gate_sums(self, p):
        count = at(p.start, p.batch * p.steps + 1, dtype=np.int64)[-1]
        unit, row = at(p.unit_of, count, dtype=np.int32).astype(np.int64), at(p.row_of, count, dtype=np.int32)
        others = self.numbers(p.to_others, count, 4 if p.peephole else 1)
        left = at(p.partial, self.grid[0] * self.grid[2], GATE_SUMS, p.units, dtype=np.float64)  # of blocks or splits
        left[:, :] = np.nan
        kinds = GATE_SUMS if p.peephole else 3
        left[:, :kinds] = 0
        left[-1, :kinds] = self.gate_gradients(p, others, unit, row, self.gate(p.gates, p.units, 0.0, p.square))[:kinds]

    def dense_gate_sums(self, p):
        row, unit = np.repeat((np.arange(p.steps) < self.lengths(p)[:, None]).reshape(-1, 1), p.units, 1).nonzero()
        others = self.numbers(p.to_others, p.batch * p.steps, p.units, 4 if p.peephole else 1)[row, unit]
        left = at(p.partial, self.grid[0], GATE_SUMS, p.units, dtype=np.float64)
        left[:] = 0
        left[0] = self.gate_gradients(p, others, unit, row, self.gate(p.all_gates, p.units, p.leak, p.square))

    def unpack(self, p):
        units, features, stacked = p.units, p.features, self.cell.gates * p.units
        sums = self.numbers(p.sums, p.splits, units, 4, units + features + 1).sum(0)
        for g in range(4):
            from_x, from_h = self.gate_rows(units, g)
            if from_x is not None:
                self.numbers(p.ih, stacked, features)[from_x] = sums[:, g, units:-1]
                self.given(p.bias_ih, stacked)[from_x] = sums[:, g, -1]
            if from_h is not None:
                self.numbers(p.hh, stacked, units)[from_h] = sums[:, g, :units]
                self.given(p.bias_hh, stacked)[from_h] = sums[:, g, -1]
        total = at(p.gate_sums, p.stretches, GATE_SUMS, units, dtype=np.float64).sum(0)
        for to, values in zip((p.period, p.shift, p.ratio_on), total[:3], strict=True):
            at(to, units, dtype=np.float64)[:] = values
        self.given(p.peephole, 3, units)[:] = total[3:]

    def dense_rows(self, p):
        batch, steps, units, own = p.batch, p.steps, p.units, self.lengths(p)
        to, shares = (
            self.numbers(p.rows, batch, steps, units + p.features + 1),
            self.numbers(p.to_products, batch, steps, 4 * units),
        )
        seen = self.numbers(p.x, steps, batch, p.features, strides=(p.x_step, p.x_batch, 1))
        for b in range(batch):
            to[b, own[b] :], shares[b, own[b] :] = 0, 0
            to[b, : own[b], units:-1], to[b, : own[b], -1] = seen[: own[b], b], 1
            to[b, : min(1, own[b]), :units] = self.given(p.initial_h, batch, units)[b]
            to[b, 1 : own[b], :units] = self.numbers(p.output, steps, batch, units)[: max(0, own[b] - 1), b]

    def input_gradient(self, p):
        rows = p.batch * p.steps
        begins = at(p.start, rows + 1, dtype=np.int64) if p.start else p.units * np.arange(rows + 1)
        unit = at(p.unit_of, begins[-1], dtype=np.int32) if p.start else np.tile(np.arange(p.units), rows)
        shares = self.numbers(p.to_products, begins[-1], 4)
        to_x = self.numbers(p.to_input, p.steps, p.batch, p.features)
        through = self.numbers(p.wx, unit.max(initial=0) + 1, p.features, 4)
        for row in range(rows):
            own = slice(begins[row], begins[row + 1])
            to_x[row % p.steps, row // p.steps] = weighted_sum(through[unit[own]].swapaxes(1, 2), shares[own])
