"""The GPU's kernels that sum gradients over events in NumPy; see emulator.py."""

from typing import ClassVar

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

    summed_by: ClassVar[list[str]] = []  # the kernels that have summed gradients to weights

    def put(self, units, features, sums, ih, hh, bias_ih, bias_hh):
        """Sums (units, 4, columns) as gradients to torch's weights."""
        stacked = self.cell.gates * units
        for g in range(4):
            from_x, from_h = self.gate_rows(units, g)
            if from_x is not None:
                self.numbers(ih, stacked, features)[from_x] = sums[:, g, units:-1]
                if bias_ih:
                    self.numbers(bias_ih, stacked)[from_x] = sums[:, g, -1]
            if from_h is not None:
                self.numbers(hh, stacked, units)[from_h] = sums[:, g, :units]
                if bias_hh:
                    self.numbers(bias_hh, stacked)[from_h] = sums[:, g, -1]

    def gate_gradients(self, to_others, unit, moment, gate, units, peephole):
        """To period, shift, ratio_on and the peepholes: (GATE_SUMS, units), from events in any order."""
        others = self.numbers(to_others, len(unit), 4 if peephole else 1)
        total = np.zeros((GATE_SUMS, units))
        to_gate = gate.of(torch.tensor(unit)).gradients(torch.tensor(moment), torch.tensor(others[:, 0]))
        for i, grad in enumerate(to_gate):
            np.add.at(total[i], unit, grad.numpy())
        for i in range(3 if peephole else 0):
            np.add.at(total[3 + i], unit, others[:, 1 + i])
        return total

    def put_gates(self, units, total, period, shift, ratio_on, peephole):
        for to, values in zip((period, shift, ratio_on), total[:3], strict=True):
            at(to, units, dtype=np.float64)[:] = values
        if peephole:
            self.numbers(peephole, 3, units)[:] = total[3:]

    def event_sums(
        self, to_products, unit, row, mask, start, output, initial_h, initial_batch, x, x_step, x_batch, features, batch, steps,
        units, ring, sums, found, least, below,
    ):  # fmt: skip
        assert 1 <= ring < 1 << 16 if "sorted" in self.name else ring in (2, 3)
        if not self.is_called(found, least, below):
            return
        self.summed_by.append(self.name)
        units_of, rows_of = unit, row
        columns, splits, rows = units + features + 1, self.grid[2], batch * steps
        row, unit = self.open_units(mask, rows, units).nonzero()
        assert at(start, rows + 1, dtype=np.int64)[-1] == len(row)
        assert (at(units_of, len(row), dtype=np.int32) == unit).all()
        assert (at(rows_of, len(row), dtype=np.int32) == row).all()
        b, j = row // steps, row % steps
        out = self.numbers(output, steps, batch, units)
        first = self.numbers(initial_h, batch, units, strides=(initial_batch, 1))
        h = np.where(j[:, None] > 0, out[j - 1, b], first[b]) if len(row) else np.empty((0, units), self.real)
        seen = self.numbers(x, steps, batch, features, strides=(x_step, x_batch, 1))[j, b]
        z = np.concatenate([h, seen, np.ones((len(row), 1), self.real)], 1)
        total = self.numbers(sums, splits, units, 4, columns)
        total[:] = 0
        split = np.arange(len(row)) % splits  # each sums some of the events
        np.add.at(total, (split, unit), np.einsum("eg,ec->egc", self.numbers(to_products, len(row), 4), z))

    def sorted_sums(
        self, to_products, unit, row, mask, start, output, initial_h, initial_batch, x, x_step, x_batch, features, batch, steps,
        units, ring, sums, found, least, below, to_others, time, time_batch, time_step, gates, square, peephole, partial,
    ):  # fmt: skip
        rows = (to_products, unit, row, mask, start, output, initial_h, initial_batch, x, x_step, x_batch, features, batch, steps)
        of = found, least, below
        self.event_sums(*rows, units, ring, sums, *of)
        gating = (to_others, time, time_batch, time_step, gates, square, peephole, partial)
        self.gate_sums(*gating, start, unit, row, batch, steps, units, *of)

    def unit_sums(
        self, to_products, unit, row, mask, start, output, initial_h, initial_batch, x, x_step, x_batch, features, batch, steps,
        units, ring, sums, found, least, below, sorted, first,
    ):  # fmt: skip
        count = at(start, batch * steps + 1, dtype=np.int64)[-1]
        of = at(unit, count, dtype=np.int32)
        assert (at(sorted, count, dtype=np.int64) == of.argsort(kind="stable")).all()
        assert (at(first, units + 1, dtype=np.int64) == np.searchsorted(np.sort(of), np.arange(units + 1))).all()
        rows = (to_products, unit, row, mask, start, output, initial_h, initial_batch, x, x_step, x_batch, features, batch, steps)
        self.event_sums(*rows, units, 2, sums, found, least, below)

    def gate_sums(
        self, to_others, time, time_batch, time_step, gates, square, peephole, partial, start, unit_of, row_of, batch, steps,
        units, found, least, below,
    ):  # fmt: skip
        if not self.is_called(found, least, below):
            return
        count = at(start, batch * steps + 1, dtype=np.int64)[-1]
        unit, row = at(unit_of, count, dtype=np.int32).astype(np.int64), at(row_of, count, dtype=np.int32)
        moment = at(time, batch, steps, dtype=np.float64, strides=(time_batch, time_step)).reshape(-1)[row]
        gate = self.gate(gates, units, 0.0, square)
        left = at(partial, self.grid[0] * self.grid[2], GATE_SUMS, units, dtype=np.float64)  # of blocks or splits
        left[:, :] = np.nan
        kinds = GATE_SUMS if peephole else 3
        left[:, :kinds] = 0
        left[-1, :kinds] = self.gate_gradients(to_others, unit, moment, gate, units, peephole)[:kinds]

    def dense_gate_sums(
        self, to_others, time, time_batch, time_step, lengths, all_gates, batch, steps, units, leak, square, peephole, partial
    ):
        width = 4 if peephole else 1
        own = at(lengths, batch, 1, dtype=np.int64) if lengths else np.full((batch, 1), steps)
        row, unit = np.repeat((np.arange(steps) < own).reshape(-1, 1), units, 1).nonzero()
        others = np.ascontiguousarray(self.numbers(to_others, batch * steps, units, width)[row, unit])
        moment = at(time, batch, steps, dtype=np.float64, strides=(time_batch, time_step)).reshape(-1)[row]
        gate = self.gate(all_gates, units, leak, square)
        left = at(partial, self.grid[0], GATE_SUMS, units, dtype=np.float64)
        left[:] = 0
        left[0] = self.gate_gradients(others.ctypes.data, unit, moment, gate, units, peephole)

    def unpack(
        self, sums, splits, gate_sums, stretches, units, features, ih, hh, bias_ih, bias_hh, gates, period, shift, ratio_on,
        peephole, found, least, below,
    ):  # fmt: skip
        if not self.is_called(found, least, below):
            return
        all_sums = self.numbers(sums, splits, units, 4, units + features + 1)
        self.put(units, features, all_sums.sum(0), ih, hh, bias_ih, bias_hh)
        total = at(gate_sums, stretches, GATE_SUMS, units, dtype=np.float64).sum(0)
        self.put_gates(units, total, period, shift, ratio_on, peephole)

    def dense_rows(
        self, output, initial_h, x, x_step, x_batch, features, lengths, batch, steps, units, rows, to_products
    ):  # fmt: skip
        to, shares = self.numbers(rows, batch, steps, units + features + 1), self.numbers(to_products, batch, steps, 4 * units)
        own = at(lengths, batch, dtype=np.int64).clip(0, steps) if lengths else np.full(batch, steps)
        for b in range(batch):
            to[b, own[b] :], shares[b, own[b] :] = 0, 0
            to[b, : own[b], units:-1] = self.numbers(x, steps, batch, features, strides=(x_step, x_batch, 1))[: own[b], b]
            to[b, : own[b], -1] = 1
            before = self.numbers(initial_h, batch, units)[b] if initial_h else 0
            to[b, : min(1, own[b]), :units] = before
            to[b, 1 : own[b], :units] = self.numbers(output, steps, batch, units)[: max(0, own[b] - 1), b]

    def input_gradient(self, to_products, start, unit_of, wx, batch, steps, units, features, to_input):
        begins = at(start, batch * steps + 1, dtype=np.int64) if start else units * np.arange(batch * steps + 1)
        unit = at(unit_of, begins[-1], dtype=np.int32) if start else np.tile(np.arange(units), batch * steps)
        shares = self.numbers(to_products, begins[-1], 4)
        to_x, through = self.numbers(to_input, steps, batch, features), self.numbers(wx, unit.max(initial=0) + 1, features, 4)
        for row in range(batch * steps):
            own = slice(begins[row], begins[row + 1])
            to_x[row % steps, row // steps] = weighted_sum(through[unit[own]].swapaxes(1, 2), shares[own])
