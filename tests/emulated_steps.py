"""The GPU's kernels for single steps in NumPy; see emulator.py."""

import numpy as np
import torch

from phased.ops.cuda.constants import PLACE
from raw_memory import at
from signatures import struct


class EmulatedSteps:
    """One step of all sequences, of all units or of those that are open."""

    def place_steps(
        self, to, first, steps, lengths, arrivals, output, tape, to_output, output_step, output_batch, to_products, to_others
    ):
        place = (first, steps, lengths, arrivals, output, tape, to_output, output_step, output_batch, to_products, to_others)
        at(to, PLACE, dtype=np.int64)[:] = place

    def of_step(self, place, forward, offset, batch, units, peephole):
        """The place, the step, and for each sequence that has it: its number and its events; and the peepholes."""
        found = dict(zip([name for name, _ in struct("Place")], at(place, PLACE, dtype=np.int64).tolist(), strict=True))
        j, steps = found["first"] + (offset if forward else -offset), found["steps"]
        own = at(found["lengths"], batch, dtype=np.int64).clip(0, steps) if found["lengths"] else np.full(batch, steps)
        there = [(b, slice((b * steps + j) * units, (b * steps + j + 1) * units)) for b in range(batch) if 0 <= j < own[b]]
        w = self.numbers(peephole, 3, units).T if self.peepholes else np.zeros((units, 3), self.real)
        return found, j, there, torch.tensor(w)

    def step_forward(self, place, offset, batch, units, parts, products, peephole, h, c):
        found, j, there, w = self.of_step(place, True, offset, batch, units, peephole)
        if j >= found["steps"]:
            return
        out = self.numbers(found["output"], found["steps"], batch, units)[j]
        out[:] = 0
        all_h, all_c = self.numbers(h, batch, units), self.numbers(c, batch, units) if c else np.zeros((batch, units), self.real)
        for b, events in there:
            arrivals = at(found["arrivals"], events.stop, dtype=self.arrival)[events]
            assert (arrivals["unit"] == np.arange(units)).all()
            assert (arrivals["row"] == b * found["steps"] + j).all()
            a, k = arrivals["terms"] + self.numbers(products, parts, batch, units, 4)[:, b].sum(0), torch.tensor(arrivals["k"])
            old = torch.tensor(all_h[b]), torch.tensor(all_c[b])
            new = (*self.propose(torch.tensor(a), *old, w).state, old[1])[:2]
            if found["tape"]:
                self.write_records(found["tape"], events.start, a, all_c[b], all_h[b], arrivals["k"])
            all_h[b], all_c[b] = (k * is_now + (1 - k) * was for is_now, was in zip(new, old, strict=True))
            out[b] = all_h[b]

    def step_backward(self, place, offset, batch, units, parts, through, peephole, to_h, to_c, shares):
        found, j, there, w = self.of_step(place, False, offset, batch, units, peephole)
        own_shares = self.numbers(shares, batch, units, 4)
        own_shares[:] = 0
        all_h = self.numbers(to_h, batch, units)
        all_h += self.numbers(through, parts, batch, units).sum(0)
        all_c = self.numbers(to_c, batch, units) if to_c else np.zeros((batch, units), self.real)
        for b, events in there:
            if found["to_output"]:
                strides = found["output_step"], found["output_batch"], 1
                all_h[b] += self.numbers(found["to_output"], found["steps"], batch, units, strides=strides)[j, b]
            record = self.records(found["tape"], events.start, events.stop)
            a, c, h, k = record[:, :4], record[:, 4], record[:, 6], record[:, 7]
            grads = self.adjoint((torch.tensor(all_h[b]), torch.tensor(all_c[b])), a, k, (h, c), w)
            own_shares[b], to_k, all_h[b], all_c[b], to_w = (grad.numpy() for grad in grads)
            self.numbers(found["to_products"], events.stop, 4)[events] = own_shares[b]
            self.write_others(found["to_others"], events.start, to_k, to_w)

    def open_step_forward(
        self, batch, steps, units, pitch, lengths, start, mask, arrivals, wh, peephole, initial_h, initial_c, output, final_h,
        final_c, tape, found, room, unit, exchange, least, below, largest, ring, most, step,
    ):  # fmt: skip
        assert self.grid == (units, 1, 1)
        numbers = at(found, 2, dtype=np.int64)
        if not self.is_called(found, least, below) or numbers[0] > largest:
            return
        out, weights = self.numbers(output, steps, batch, units), self.numbers(wh, units, 4, pitch)[..., :units]
        w = self.numbers(peephole, 3, units).T if self.peepholes else np.zeros((units, 3), self.real)
        given = [(final_h, final_c), (initial_h, initial_c)][step == 0]
        h, c = (self.numbers(of, batch, units).copy() if of else np.zeros((batch, units), self.real) for of in given)
        there = self.has_step(batch, steps, lengths, step)
        assert step == 0 or (out[step - 1][there] == h[there]).all()  # what other units read
        begins = at(start, batch * steps + 1, dtype=np.int64)
        for b in range(batch):
            begin, end = begins[b * steps + step : b * steps + step + 2]
            events = at(arrivals + begin * self.arrival.itemsize, end - begin, dtype=self.arrival)
            own, k = events["unit"], torch.tensor(events["k"])
            assert (events["row"] == b * steps + step).all()
            assert self.open_units(mask, batch * steps, units)[b * steps + step].nonzero()[0].tolist() == own.tolist()
            a = events["terms"] + weights[own] @ h[b]
            old = torch.tensor(h[b, own]), torch.tensor(c[b, own])
            new = (*self.propose(torch.tensor(a), *old, torch.tensor(w[own])).state, old[1])[:2]
            if tape and numbers[1] <= room:
                self.write_records(tape, begin, a, c[b, own], h[b, own], events["k"])
            h[b, own], c[b, own] = (k * is_now + (1 - k) * was for is_now, was in zip(new, old, strict=True))
        out[step] = np.where(there[:, None], h, 0)
        self.numbers(final_h, batch, units)[:] = h
        if final_c:
            self.numbers(final_c, batch, units)[:] = c

    def has_step(self, batch, steps, lengths, step):
        """Which sequences have a step, (batch,)."""
        return step < (at(lengths, batch, dtype=np.int64) if lengths else np.full(batch, steps))

    def open_step_cells(
        self, batch, steps, units, pitch, lengths, start, mask, unit, row, tape, wh, peephole, to_output, output_step,
        output_batch, to_final_h, to_final_c, to_products, to_others, to_h, to_c, found, least, below, ring, most, step, given,
        splits, shares,
    ):  # fmt: skip
        back_h = self.numbers(to_h, batch, units)
        back_c = self.numbers(to_c, batch, units) if to_c else np.zeros((batch, units), self.real)
        if given:
            back_h += self.numbers(given, splits, batch, units).sum(0)
        if step < 0:
            return
        if to_output:
            wanted = self.numbers(to_output, steps, batch, units, strides=(output_step, output_batch, 1))[step]
            back_h += np.where(self.has_step(batch, steps, lengths, step)[:, None], wanted, 0)
        w = self.numbers(peephole, 3, units).T if self.peepholes else np.zeros((units, 3), self.real)
        begins = at(start, batch * steps + 1, dtype=np.int64)
        self.numbers(shares, batch, units, 4)[:] = np.nan
        for b in range(batch):
            begin, end = begins[b * steps + step : b * steps + step + 2]
            own = at(unit, end, dtype=np.int32)[begin:]
            assert (at(row, end, dtype=np.int32)[begin:] == b * steps + step).all()
            record = self.records(tape, begin, end)
            a, c, h, k = record[:, :4], record[:, 4], record[:, 6], record[:, 7]
            to = torch.tensor(back_h[b, own]), torch.tensor(back_c[b, own])
            grads = self.adjoint(to, a, k, (h, c), torch.tensor(w[own]))
            products, to_k, back_h[b, own], back_c[b, own], to_w = (grad.numpy() for grad in grads)
            self.numbers(shares, batch, units, 4)[b, own] = self.numbers(to_products, end, 4)[begin:] = products
            self.write_others(to_others, begin, to_k, to_w)

    def open_step_sums(
        self, batch, steps, units, pitch, lengths, start, mask, unit, row, tape, wh, peephole, to_output, output_step,
        output_batch, to_final_h, to_final_c, to_products, to_others, to_h, to_c, found, least, below, ring, most, step, shares,
        given,
    ):  # fmt: skip
        columns, splits, groups = self.grid
        assert columns * 128 >= units
        assert groups * (128 // self.real.itemsize) >= batch
        weights = self.numbers(wh, units, 4, pitch)[..., :units]
        is_open = self.open_units(mask, batch * steps, units)[step::steps]
        products = np.where(is_open[..., None], self.numbers(shares, batch, units, 4), 0)
        to = self.numbers(given, splits, batch, units)
        to[:] = 0
        for split in range(splits):  # each sums some of the units
            to[split] = np.einsum("bug,ugc->bc", products[:, split::splits], weights[split::splits])
