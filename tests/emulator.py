"""The GPU's kernels in NumPy, on the CPU's memory: slow and plain, to the same contract.

Each method has a kernel's name, and reads its arguments by the names that the kernel's source has for its parameters. So the
arguments that Python passes to the kernels (addresses, sizes, strides, in which order) and its use of their results are tested
without a GPU; the kernels themselves are not.
"""

import re
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import torch

from emulated_steps import EmulatedSteps
from emulated_sums import EmulatedSums, weighted_sum
from phased.cell import CELLS
from phased.gate import TimeGate
from phased.ops.cuda import SHAPES
from phased.ops.cuda.constants import FOUND_BYTES, GATE, RECORD, STRETCH, struct_bytes
from raw_memory import at
from signatures import parameters

ROWS_OF_H = {"lstm": [0, 1, 2, 3], "gru": [0, 1, None, 2]}
"""By product the row of torch's weights that it reads h through. Through x the products read the rows in order."""

UNWRITTEN = 0xFFFFFFFF  # all bits of a number that one block will write and others wait for


def report(p, most, count):
    if p.to:
        at(p.to, 2, dtype=np.int64)[:] = p.mark | int(most), p.mark | int(count)


class Emulator(EmulatedSteps, EmulatedSums):
    """The kernels for a cell and a number type."""

    ran: ClassVar[list[str]] = []  # the kernels that were launched for batches that are theirs

    def __init__(self, cell, real, peephole=0, tape_dtype=None):
        self.cell, self.peepholes, self.tape_dtype = CELLS[cell.lower()], peephole, tape_dtype
        self.rows_of_h = ROWS_OF_H[self.cell.name]
        self.real = {"float": np.dtype(np.float32), "double": np.dtype(np.float64)}[real]
        size = self.real.itemsize
        fields = [("unit", np.int32), ("row", np.int32), ("k", self.real), ("terms", self.real, 4)]
        names, formats = [f[0] for f in fields], [np.dtype((f[1], f[2:])) if f[2:] else f[1] for f in fields]
        layout = {"names": names, "formats": formats, "offsets": [0, 4, 8, 16], "itemsize": struct_bytes(size)["arrival"]}
        self.arrival = np.dtype(layout)

    @staticmethod
    def plain(name):
        """A kernel's name without the way in which it keeps its weights."""
        return re.sub(r"^(held|grouped|streamed|spread|small|wide)_", "", name)

    def launch(self, name, device, grid, block, arguments, shared=0, together=False):
        assert together == name.startswith("spread")
        self.name, self.together, plain = name, together, self.plain(name)
        names, wanted = zip(*parameters(plain), strict=True)
        kinds = "".join("d" if isinstance(value, float) else "q" for value in arguments)
        assert kinds == "".join(wanted), f"{name} was given {kinds}"
        self.grid = (grid, 1, 1) if isinstance(grid, int) else grid
        p = SimpleNamespace(**dict(zip(names, arguments, strict=True)))
        if "below" in names and p.found and not p.least <= at(p.found, 2, dtype=np.int64)[1] < p.below:
            return  # the batch is another kernel's
        self.ran.append(name)
        getattr(self, plain)(p)

    def numbers(self, address, *shape, strides=None):
        return at(address, *shape, dtype=self.real, strides=strides)

    def given(self, address, *shape):
        """Numbers; zeros in memory of their own if there are none."""
        return self.numbers(address, *shape) if address else np.zeros(shape, self.real)

    def peepholes_of(self, p):
        return self.given(p.peephole if self.peepholes else 0, 3, p.units).T

    def records(self, tape, begin, end):
        """What `write_records` has written, as a tensor (events, RECORD)."""
        if self.tape_dtype is None:
            return torch.tensor(self.numbers(tape, end, RECORD)[begin:])
        bits = at(tape, end, RECORD, dtype=np.int16)[begin:].copy()
        return torch.from_numpy(bits).view(self.tape_dtype).to(torch.float32)

    def write_records(self, tape, begin, a, c, h, k):
        """Products, state and openness of events, from number `begin` on."""
        record = np.concatenate([a, c[:, None], np.zeros_like(c)[:, None], h[:, None], k[:, None]], 1)
        if self.tape_dtype is None:
            self.numbers(tape, begin + len(record), RECORD)[begin:] = record
        else:
            bits = torch.from_numpy(record).to(self.tape_dtype).view(torch.int16).numpy()
            at(tape, begin + len(record), RECORD, dtype=np.int16)[begin:] = bits

    def gate(self, gates, units, leak=0.0, shape=0):
        period, shift, ratio_on = (torch.tensor(row) for row in at(gates, GATE, units, dtype=np.float64)[:3])
        (name,) = (name for name, number in SHAPES.items() if number == shape)
        return TimeGate(period, shift, ratio_on, leak, name)

    def gate_rows(self, units, g):
        """The rows of torch's weights for product g, through x and through h; None where there are none."""
        rows = g if g < self.cell.gates else None, self.rows_of_h[g]
        return [None if row is None else slice(row * units, (row + 1) * units) for row in rows]

    def pack(self, p):
        units, stacked = p.units, self.cell.gates * p.units
        to_h, to_x = self.numbers(p.wh, units, 4, p.pitch), self.numbers(p.wx, units, p.features, 4)
        to_bias = self.numbers(p.bias, units, 4)
        to_h[:], to_x[:], to_bias[:] = 0, 0, 0
        for g in range(4):
            from_x, from_h = self.gate_rows(units, g)
            if from_x is not None:
                to_x[..., g] = self.numbers(p.ih, stacked, p.features)[from_x]
                to_bias[:, g] += self.given(p.bias_ih, stacked)[from_x]
            if from_h is not None:
                to_h[:, g, :units] = self.numbers(p.hh, stacked, units)[from_h]
                to_bias[:, g] += self.given(p.bias_hh, stacked)[from_h]
        tau = at(p.period, units, dtype=np.float64).clip(p.shortest, p.longest)
        s, r_on = at(p.shift, units, dtype=np.float64), at(p.ratio_on, units, dtype=np.float64).clip(p.smallest, 1)
        at(p.gates, GATE, units, dtype=np.float64)[:] = tau, s, r_on, s % tau, 1 / tau, s % tau / tau
        self.numbers(p.zeros, units)[:] = 0

    def find_open(self, p):
        self.pack(p)
        rows, words = p.batch * p.steps, -(-p.units // 32)
        assert self.grid[0] * STRETCH >= rows
        moments = at(p.time, p.batch, p.steps, dtype=np.float64, strides=(p.time_batch, p.time_step))
        gate = self.gate(p.gates, p.units)
        is_open = gate.is_open(gate.phase(torch.tensor(moments).unsqueeze(-1))).numpy()
        if p.lengths:
            is_open &= (np.arange(p.steps) < at(p.lengths, p.batch, 1, dtype=np.int64))[..., None]
        bits = np.zeros((rows, words * 32), np.uint64)
        bits[:, : p.units] = is_open.reshape(rows, p.units)
        place = np.uint64(1) << np.arange(32, dtype=np.uint64)
        at(p.mask, rows, words, dtype=np.uint32)[:] = (bits.reshape(rows, words, 32) * place).sum(-1)
        begins = at(p.start, rows + 1, dtype=np.int64)
        begins[0] = 0
        counts = bits.sum(-1).astype(np.int64)
        own = at(p.found + FOUND_BYTES, -(-rows // STRETCH), 2, dtype=np.int32)
        for block in range(len(own)):
            of = slice(block * STRETCH, min(rows, (block + 1) * STRETCH))
            begins[of.start + 1 : of.stop + 1] = counts[of].cumsum()
            own[block] = counts[of].sum(), counts[of].max()

    def add_up(self, p):
        own = at(p.found + FOUND_BYTES, p.blocks, 2, dtype=np.int32).copy()
        all_and_most = at(p.found, 2, dtype=np.int64)
        all_and_most[:] = own[:, 1].max(initial=0), own[:, 0].sum()
        at(p.found + FOUND_BYTES, p.blocks, dtype=np.int64)[:] = own[:, 0].cumsum() - own[:, 0]
        report(p, *all_and_most)

    def fill(self, p):
        batch, steps, units, features = p.batch, p.steps, p.units, p.features
        assert p.lanes in (1, 4, 8)
        assert (p.lanes == 1) == (features < 2)
        rows, blocks = batch * steps, -(-batch * steps // STRETCH)
        is_open = np.ones((rows, units), bool)
        if p.found:
            is_open = self.open_units(p.mask, rows, units)
            before = at(p.found + FOUND_BYTES, blocks, dtype=np.int64)
            if not p.added_up:
                own = at(p.found + FOUND_BYTES, blocks, 2, dtype=np.int32)
                before = own[:, 0].cumsum() - own[:, 0]
                numbers = at(p.found, 2, dtype=np.int64)
                numbers[:] = own[:, 1].max(), own[:, 0].sum()
                report(p, *numbers)
            if at(p.found, 2, dtype=np.int64)[1] > p.capacity:
                return
            at(p.start, rows + 1, dtype=np.int64)[1:] += before.repeat(STRETCH)[:rows]
        row, unit = is_open.nonzero()
        b, j = row // steps, row % steps
        events = at(p.arrivals, len(row), dtype=self.arrival)
        events["unit"], events["row"] = unit, row
        moment = at(p.time, batch, steps, dtype=np.float64, strides=(p.time_batch, p.time_step))[b, j]
        gate = self.gate(p.all_gates, units, p.leak, p.square).of(torch.tensor(unit))
        events["k"] = gate.openness(gate.phase(torch.tensor(moment))).numpy()
        if p.products:
            from_input = self.numbers(p.products, steps, batch, units, 4)[j, b, unit]
        else:
            seen = self.numbers(p.x, steps, batch, features, strides=(p.x_step, p.x_batch, 1))[j, b]
            from_input = np.einsum("edg,ed->eg", self.numbers(p.wx, units, features, 4)[unit], seen)
        events["terms"] = self.numbers(p.bias, units, 4)[unit] + from_input
        if p.unit_of and len(row) <= p.room:
            at(p.unit_of, len(row), dtype=np.int32)[:], at(p.row_of, len(row), dtype=np.int32)[:] = unit, row

    def open_units(self, mask, rows, units):
        words = at(mask, rows, -(-units // 32), dtype=np.uint32)
        return (words[..., None] >> np.arange(32, dtype=np.uint32) & 1).reshape(rows, 32 * words.shape[1])[:, :units].astype(bool)

    def propose(self, a, h, c, w):
        """What events would become, from their products (events, 4), their states and their peepholes (events, 3)."""
        from_x, from_h = a.T[: self.cell.gates], torch.zeros(self.cell.gates, len(h), dtype=h.dtype)
        for g in range(self.cell.gates, 4):  # products of h alone
            from_h[self.rows_of_h[g]] = a[:, g]
        return self.cell.propose(from_x, from_h, (h, c)[: self.cell.states], w.T if self.peepholes else None)

    def accept(self, a, k, h, c, w, own):
        """Events of units `own` with these products and this openness change h and c (units,)."""
        k, old = torch.tensor(k), (torch.tensor(h[own]), torch.tensor(c[own]))
        new = (*self.propose(torch.tensor(a), *old, torch.tensor(w[own])).state, old[1])[:2]
        h[own], c[own] = (k * is_now + (1 - k) * was for is_now, was in zip(new, old, strict=True))

    def adjoint(self, to, a, k, previous, w):
        """From gradients to h and c: those to the products, to k, to h and c before, and to the peepholes."""
        proposal, previous = self.propose(a, *previous, w), previous[: self.cell.states]
        to, rest = to[: self.cell.states], to[self.cell.states :]
        grad = self.cell.adjoint(tuple(k * d for d in to), proposal, previous, w.T if self.peepholes else None)
        to_k = sum(d * (new - old) for d, new, old in zip(to, proposal.state, previous, strict=True))
        before = [(1 - k) * d + through for d, through in zip(to, grad.previous, strict=True)]
        shares = torch.stack((*grad.from_x, *(grad.from_h[self.rows_of_h[g]] for g in range(self.cell.gates, 4))))
        to_w = torch.zeros_like(w) if grad.peephole is None else grad.peephole.T
        return shares.T, to_k, *before, *rest, to_w

    def go_back(self, p, begin, end, to_h, to_c, w, own):
        """Events of units `own` change the gradients to h and c (units,), and write those to products, openness and peepholes.

        Returns the gradients to the products.
        """
        record = self.records(p.tape, begin, end)
        a, c, h, k = record[:, :4], record[:, 4], record[:, 6], record[:, 7]
        to = torch.tensor(to_h[own]), torch.tensor(to_c[own])
        grads = self.adjoint(to, a, k, (h, c), torch.tensor(w[own]))
        shares, to_k, to_h[own], to_c[own], to_w = (grad.numpy() for grad in grads)
        self.numbers(p.to_products, end, 4)[begin:] = shares
        others = self.numbers(p.to_others, end, 4 if self.peepholes else 1)[begin:]
        others[:, 0] = to_k
        if self.peepholes:
            others[:, 1:] = to_w
        return shares

    def lengths(self, p):
        """The number of steps of each sequence, (batch,)."""
        return at(p.lengths, p.batch, dtype=np.int64).clip(0, p.steps) if p.lengths else np.full(p.batch, p.steps)

    def steps_of(self, p):
        """Of each sequence its number and its steps: their number, and where their events begin and end."""
        rows = p.batch * p.steps
        begins = at(p.start, rows + 1, dtype=np.int64) if p.mask else p.units * np.arange(rows + 1)
        every = zip(range(p.batch), self.lengths(p), strict=True)
        return [(b, [(j, begins[b * p.steps + j], begins[b * p.steps + j + 1]) for j in range(own)]) for b, own in every]

    def forward(self, p):
        batch, steps, units = p.batch, p.steps, p.units
        most, count = at(p.found, 2, dtype=np.int64) if p.found else (0, 0)
        if most > p.largest:
            return
        out, weights, w = self.numbers(p.output, steps, batch, units), self.weights_on_h(p), self.peepholes_of(p)
        out[:] = 0
        assert most <= p.most
        if self.together:  # blocks exchange h of events, whose units are listed
            assert (at(p.exchange, count, dtype=np.uint32) == UNWRITTEN).all()
            assert (at(p.unit, count, dtype=np.int32) == at(p.arrivals, count, dtype=self.arrival)["unit"]).all()
        if p.tape and count <= p.room and self.name.startswith("small"):  # zeros in padding; before other kernels the host does
            of_event = struct_bytes(self.real.itemsize, self.tape_dtype)["record"]
            at(p.tape, batch * steps * units * of_event, dtype=np.uint8)[:] = 0
        for b, own_steps in self.steps_of(p):
            h, c = (self.given(of, batch, units)[b].copy() for of in (p.initial_h, p.initial_c))
            for j, begin, end in own_steps:
                self.take_events(p, b * steps + j, begin, end, h, c, weights, w, keep=count <= p.room)
                out[j, b] = h
            self.numbers(p.final_h, batch, units)[b] = h
            self.given(p.final_c, batch, units)[b] = c

    dense_forward = forward

    def weights_on_h(self, p):
        return self.numbers(p.wh, p.units, 4, p.pitch)[..., : p.units]

    def take_events(self, p, row, begin, end, h, c, weights, w, keep):
        """The events of a row change h and c (units,); to `keep` them, they are written to the tape if there is one."""
        events = at(p.arrivals + begin * self.arrival.itemsize, end - begin, dtype=self.arrival)
        own = events["unit"]
        assert (events["row"] == row).all()
        a = events["terms"] + weights[own] @ h
        if p.tape and keep:
            self.write_records(p.tape, begin, a, c[own], h[own], events["k"])
        self.accept(a, events["k"], h, c, w, own)

    def backward(self, p):
        batch, steps, units = p.batch, p.steps, p.units
        weights, w = self.weights_on_h(p), self.peepholes_of(p)
        if self.together:  # blocks exchange the gradients to products
            count = at(p.start, batch * steps + 1, dtype=np.int64)[-1]
            assert (at(p.to_products, 4 * count, dtype=np.uint32) == UNWRITTEN).all()
        for b, own_steps in self.steps_of(p):
            to_h, to_c = (self.given(of, batch, units)[b].copy() for of in (p.to_final_h, p.to_final_c))
            for j, begin, end in reversed(own_steps):
                if p.to_output:
                    to_h += self.numbers(p.to_output, steps, batch, units, strides=(p.output_step, p.output_batch, 1))[j, b]
                own = at(p.unit, end, dtype=np.int32)[begin:] if p.mask else np.arange(units)
                assert not p.mask or (at(p.row, end, dtype=np.int32)[begin:] == b * steps + j).all()
                shares = self.go_back(p, begin, end, to_h, to_c, w, own)
                to_h += weighted_sum(weights[own], shares)
            for to_state, back in ((p.to_h, to_h), (p.to_c, to_c)):
                self.given(to_state, batch, units)[b] = back

    dense_backward = backward
