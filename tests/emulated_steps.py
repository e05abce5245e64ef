"""The GPU's kernels for single steps in NumPy; see emulator.py."""

from types import SimpleNamespace

import numpy as np

from phased.ops.cuda.constants import PLACE
from raw_memory import at
from signatures import struct


class EmulatedSteps:
    """One step of all sequences, of all units or of those that are open."""

    def place_steps(self, p):
        at(p.to, PLACE, dtype=np.int64)[:] = [getattr(p, name) for name, _ in struct("Place")]

    def of_step(self, p, direction):
        """The place, the step, and for each sequence that has it: its number, and where its events begin and end."""
        place = dict(zip([name for name, _ in struct("Place")], at(p.place, PLACE, dtype=np.int64).tolist(), strict=True))
        place = SimpleNamespace(**place, batch=p.batch)
        j = place.first + direction * p.offset
        own, first = self.lengths(place), [(b * place.steps + j) * p.units for b in range(p.batch)]
        return place, j, [(b, first[b], first[b] + p.units) for b in range(p.batch) if 0 <= j < own[b]]

    def step_forward(self, p):
        (place, j, there), batch, units = self.of_step(p, 1), p.batch, p.units
        if j >= place.steps:
            return
        w, out = self.peepholes_of(p), self.numbers(place.output, place.steps, batch, units)[j]
        out[:] = 0
        h, c = self.numbers(p.h, batch, units), self.given(p.c, batch, units)
        for b, begin, end in there:
            arrivals = at(place.arrivals, end, dtype=self.arrival)[begin:]
            assert (arrivals["unit"] == np.arange(units)).all()
            assert (arrivals["row"] == b * place.steps + j).all()
            a = arrivals["terms"] + self.numbers(p.products, p.parts, batch, units, 4)[:, b].sum(0)
            if place.tape:
                self.write_records(place.tape, begin, a, c[b], h[b], arrivals["k"])
            self.accept(a, arrivals["k"], h[b], c[b], w, slice(None))
            out[b] = h[b]

    def step_backward(self, p):
        (place, j, there), batch, units = self.of_step(p, -1), p.batch, p.units
        w, shares = self.peepholes_of(p), self.numbers(p.shares, batch, units, 4)
        shares[:] = 0
        to_h, to_c = self.numbers(p.to_h, batch, units), self.given(p.to_c, batch, units)
        to_h += self.numbers(p.through, p.parts, batch, units).sum(0)
        for b, begin, end in there:
            if place.to_output:
                strides = place.output_step, place.output_batch, 1
                to_h[b] += self.numbers(place.to_output, place.steps, batch, units, strides=strides)[j, b]
            shares[b] = self.go_back(place, begin, end, to_h[b], to_c[b], w, slice(None))

    def open_step_forward(self, p):
        batch, steps, units, step = p.batch, p.steps, p.units, p.step
        assert self.grid == (units, 1, 1)
        most, count = at(p.found, 2, dtype=np.int64)
        if most > p.largest:
            return
        out, weights, w = self.numbers(p.output, steps, batch, units), self.weights_on_h(p), self.peepholes_of(p)
        before = (p.final_h, p.final_c) if step else (p.initial_h, p.initial_c)
        h, c = (self.given(of, batch, units).copy() for of in before)
        there = step < self.lengths(p)
        assert step == 0 or (out[step - 1][there] == h[there]).all()  # what other units read
        begins = at(p.start, batch * steps + 1, dtype=np.int64)
        is_open = self.open_units(p.mask, batch * steps, units)
        for row in range(step, batch * steps, steps):
            units_of = at(p.arrivals, begins[row + 1], dtype=self.arrival)["unit"][begins[row] :]
            assert is_open[row].nonzero()[0].tolist() == units_of.tolist()
            own = row // steps
            self.take_events(p, row, begins[row], begins[row + 1], h[own], c[own], weights, w, keep=count <= p.room)
        out[step] = np.where(there[:, None], h, 0)
        self.numbers(p.final_h, batch, units)[:] = h
        self.given(p.final_c, batch, units)[:] = c

    def open_step_cells(self, p):
        batch, steps, units, step = p.batch, p.steps, p.units, p.step
        to_h, to_c = self.numbers(p.to_h, batch, units), self.given(p.to_c, batch, units)
        if p.given:
            to_h += self.numbers(p.given, p.splits, batch, units).sum(0)
        if step < 0:
            return
        if p.to_output:
            wanted = self.numbers(p.to_output, steps, batch, units, strides=(p.output_step, p.output_batch, 1))[step]
            to_h += np.where((step < self.lengths(p))[:, None], wanted, 0)
        w, shares = self.peepholes_of(p), self.numbers(p.shares, batch, units, 4)
        shares[:] = np.nan
        begins = at(p.start, batch * steps + 1, dtype=np.int64)
        for b, row in enumerate(range(step, batch * steps, steps)):
            begin, end = begins[row], begins[row + 1]
            own = at(p.unit, end, dtype=np.int32)[begin:]
            assert (at(p.row, end, dtype=np.int32)[begin:] == row).all()
            shares[b, own] = self.go_back(p, begin, end, to_h[b], to_c[b], w, own)

    def open_step_sums(self, p):
        batch, units = p.batch, p.units
        columns, splits, groups = self.grid
        assert columns * 128 >= units
        assert groups * (128 // self.real.itemsize) >= batch
        weights = self.weights_on_h(p)
        is_open = self.open_units(p.mask, batch * p.steps, units)[p.step :: p.steps]
        products = np.where(is_open[..., None], self.numbers(p.shares, batch, units, 4), 0)
        to = self.numbers(p.given, splits, batch, units)
        to[:] = 0
        for split in range(splits):  # each sums some of the units
            to[split] = np.einsum("bug,ugc->bc", products[:, split::splits], weights[split::splits])
