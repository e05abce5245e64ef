"""The GPU's kernels in NumPy, on the CPU's memory: slow and plain, to the same contract.

Each method has a kernel's name and parameters. So the arguments that Python passes to the kernels (addresses, sizes, strides, in
which order) and its use of their results are tested without a GPU; the kernels themselves are not.
"""

import inspect
import re

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


def report(to, mark, most, count):
    if to:
        at(to, 2, dtype=np.int64)[:] = mark | int(most), mark | int(count)


class Emulator(EmulatedSteps, EmulatedSums):
    """The kernels for a cell and a number type."""

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
        self.name, self.together = name, together
        name = self.plain(name)
        kinds = "".join("d" if isinstance(value, float) else "q" for value in arguments)
        assert kinds == "".join(kind for _, kind in parameters(name)), f"{name} was given {kinds}"
        self.grid = (grid, 1, 1) if isinstance(grid, int) else grid
        getattr(self, name)(*arguments)

    def is_called(self, found, least, below):
        """Whether a batch is not another kernel's."""
        return not found or least <= at(found, 2, dtype=np.int64)[1] < below

    def numbers(self, address, *shape, strides=None):
        return at(address, *shape, dtype=self.real, strides=strides)

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

    def write_others(self, to_others, begin, to_k, to_w):
        """Gradients to the openness and the peepholes of events, from number `begin` on."""
        others = self.numbers(to_others, begin + len(to_k), 4 if self.peepholes else 1)[begin:]
        others[:, 0] = to_k
        if self.peepholes:
            others[:, 1:] = to_w

    def gate(self, gates, units, leak=0.0, shape=0):
        period, shift, ratio_on = (torch.tensor(row) for row in at(gates, GATE, units, dtype=np.float64)[:3])
        (name,) = (name for name, number in SHAPES.items() if number == shape)
        return TimeGate(period, shift, ratio_on, leak, name)

    def gate_rows(self, units, g):
        """The rows of torch's weights for product g, through x and through h; None where there are none."""
        rows = g if g < self.cell.gates else None, self.rows_of_h[g]
        return [None if row is None else slice(row * units, (row + 1) * units) for row in rows]

    def pack(
        self, ih, hh, bias_ih, bias_hh, period, shift, ratio_on, shortest, longest, smallest, units, features, pitch,
        wh, wx, bias, zeros, gates,
    ):  # fmt: skip
        stacked = self.cell.gates * units
        to_h, to_x = self.numbers(wh, units, 4, pitch), self.numbers(wx, units, features, 4)
        to_bias = self.numbers(bias, units, 4)
        to_h[:], to_x[:], to_bias[:] = 0, 0, 0
        for g in range(4):
            from_x, from_h = self.gate_rows(units, g)
            if from_x is not None:
                to_x[..., g] = self.numbers(ih, stacked, features)[from_x]
                to_bias[:, g] += self.numbers(bias_ih, stacked)[from_x] if bias_ih else 0
            if from_h is not None:
                to_h[:, g, :units] = self.numbers(hh, stacked, units)[from_h]
                to_bias[:, g] += self.numbers(bias_hh, stacked)[from_h] if bias_hh else 0
        tau = at(period, units, dtype=np.float64).clip(shortest, longest)
        s, r_on = at(shift, units, dtype=np.float64), at(ratio_on, units, dtype=np.float64).clip(smallest, 1)
        at(gates, GATE, units, dtype=np.float64)[:] = tau, s, r_on, s % tau, 1 / tau, s % tau / tau
        self.numbers(zeros, units)[:] = 0

    def find_open(
        self, ih, hh, bias_ih, bias_hh, period, shift, ratio_on, shortest, longest, smallest, units, features, pitch,
        wh, wx, bias, zeros, gates, time, time_batch, time_step, lengths, batch, steps, mask, start, found,
    ):  # fmt: skip
        weights = (ih, hh, bias_ih, bias_hh, period, shift, ratio_on, shortest, longest, smallest, units, features, pitch)
        self.pack(*weights, wh, wx, bias, zeros, gates)
        rows, words = batch * steps, -(-units // 32)
        assert self.grid[0] * STRETCH >= rows
        moments = at(time, batch, steps, dtype=np.float64, strides=(time_batch, time_step))
        gate = self.gate(gates, units)
        is_open = gate.is_open(gate.phase(torch.tensor(moments).unsqueeze(-1))).numpy()
        if lengths:
            is_open &= (np.arange(steps) < at(lengths, batch, 1, dtype=np.int64))[..., None]
        bits = np.zeros((rows, words * 32), np.uint64)
        bits[:, :units] = is_open.reshape(rows, units)
        place = np.uint64(1) << np.arange(32, dtype=np.uint64)
        at(mask, rows, words, dtype=np.uint32)[:] = (bits.reshape(rows, words, 32) * place).sum(-1)
        begins = at(start, rows + 1, dtype=np.int64)
        begins[0] = 0
        counts = bits.sum(-1).astype(np.int64)
        own = at(found + FOUND_BYTES, -(-rows // STRETCH), 2, dtype=np.int32)
        for block in range(len(own)):
            of = slice(block * STRETCH, min(rows, (block + 1) * STRETCH))
            begins[of.start + 1 : of.stop + 1] = counts[of].cumsum()
            own[block] = counts[of].sum(), counts[of].max()

    def add_up(self, found, blocks, to, mark):
        own = at(found + FOUND_BYTES, blocks, 2, dtype=np.int32).copy()
        all_and_most = at(found, 2, dtype=np.int64)
        all_and_most[:] = own[:, 1].max(initial=0), own[:, 0].sum()
        at(found + FOUND_BYTES, blocks, dtype=np.int64)[:] = own[:, 0].cumsum() - own[:, 0]
        report(to, mark, *all_and_most)

    def fill(
        self, time, time_batch, time_step, all_gates, batch, steps, units, leak, square, mask, start, found, x, x_step, x_batch,
        features, wx, bias, products, lanes, unit_of, row_of, room, arrivals, capacity, added_up, to, mark,
    ):  # fmt: skip
        assert lanes in (1, 4, 8)
        assert (lanes == 1) == (features < 2)
        rows, blocks = batch * steps, -(-batch * steps // STRETCH)
        is_open = np.ones((rows, units), bool)
        if found:
            is_open = self.open_units(mask, rows, units)
            before = at(found + FOUND_BYTES, blocks, dtype=np.int64)
            if not added_up:
                own = at(found + FOUND_BYTES, blocks, 2, dtype=np.int32)
                before = own[:, 0].cumsum() - own[:, 0]
                numbers = at(found, 2, dtype=np.int64)
                numbers[:] = own[:, 1].max(), own[:, 0].sum()
                report(to, mark, *numbers)
            if at(found, 2, dtype=np.int64)[1] > capacity:
                return
            at(start, rows + 1, dtype=np.int64)[1:] += before.repeat(STRETCH)[:rows]
        row, unit = is_open.nonzero()
        b, j = row // steps, row % steps
        events = at(arrivals, len(row), dtype=self.arrival)
        events["unit"], events["row"] = unit, row
        moment = at(time, batch, steps, dtype=np.float64, strides=(time_batch, time_step))[b, j]
        gate = self.gate(all_gates, units, leak, square).of(torch.tensor(unit))
        events["k"] = gate.openness(gate.phase(torch.tensor(moment))).numpy()
        if products:
            from_input = self.numbers(products, steps, batch, units, 4)[j, b, unit]
        else:
            seen = self.numbers(x, steps, batch, features, strides=(x_step, x_batch, 1))[j, b]
            from_input = np.einsum("edg,ed->eg", self.numbers(wx, units, features, 4)[unit], seen)
        events["terms"] = self.numbers(bias, units, 4)[unit] + from_input
        if unit_of and len(row) <= room:
            at(unit_of, len(row), dtype=np.int32)[:], at(row_of, len(row), dtype=np.int32)[:] = unit, row

    def open_units(self, mask, rows, units):
        words = at(mask, rows, -(-units // 32), dtype=np.uint32)
        return (words[..., None] >> np.arange(32, dtype=np.uint32) & 1).reshape(rows, 32 * words.shape[1])[:, :units].astype(bool)

    def propose(self, a, h, c, w):
        """What events would become, from their products (events, 4), their states and their peepholes (events, 3)."""
        from_x, from_h = a.T[: self.cell.gates], torch.zeros(self.cell.gates, len(h), dtype=h.dtype)
        for g in range(self.cell.gates, 4):  # products of h alone
            from_h[self.rows_of_h[g]] = a[:, g]
        return self.cell.propose(from_x, from_h, (h, c)[: self.cell.states], w.T if self.peepholes else None)

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

    def steps_of(self, batch, steps, units, lengths, start, mask):
        """Of each sequence its number and its steps: their number, and where their events begin and end."""
        own = at(lengths, batch, dtype=np.int64).clip(0, steps) if lengths else np.full(batch, steps)
        begins = at(start, batch * steps + 1, dtype=np.int64) if mask else units * np.arange(batch * steps + 1)
        return [(b, [(j, begins[b * steps + j], begins[b * steps + j + 1]) for j in range(own[b])]) for b in range(batch)]

    def forward(
        self, batch, steps, units, pitch, lengths, start, mask, arrivals, wh, peephole, initial_h, initial_c, output, final_h,
        final_c, tape, found, room, unit, exchange, least, below, largest, ring, most,
    ):  # fmt: skip
        if not self.is_called(found, least, below) or (found and at(found, 2, dtype=np.int64)[0] > largest):
            return
        out, weights = self.numbers(output, steps, batch, units), self.numbers(wh, units, 4, pitch)[..., :units]
        out[:] = 0
        keeps = tape and (not found or at(found, 2, dtype=np.int64)[1] <= room)
        assert not found or at(found, 2, dtype=np.int64)[0] <= most
        if self.together:  # blocks exchange h of events, whose units are listed
            count = at(found, 2, dtype=np.int64)[1]
            assert (at(exchange, count, dtype=np.uint32) == UNWRITTEN).all()
            assert (at(unit, count, dtype=np.int32) == at(arrivals, count, dtype=self.arrival)["unit"]).all()
        if keeps and self.name.startswith("small"):  # zeros in padding; before other kernels the host writes them
            of_event = struct_bytes(self.real.itemsize, self.tape_dtype)["record"]
            at(tape, batch * steps * units * of_event, dtype=np.uint8)[:] = 0
        w = self.numbers(peephole, 3, units).T if self.peepholes else np.zeros((units, 3), self.real)
        for b, own_steps in self.steps_of(batch, steps, units, lengths, start, mask):
            h, c = (
                self.numbers(of, batch, units)[b].copy() if of else np.zeros(units, self.real) for of in (initial_h, initial_c)
            )
            for j, begin, end in own_steps:
                events = at(arrivals + begin * self.arrival.itemsize, end - begin, dtype=self.arrival)
                unit, k = events["unit"], torch.tensor(events["k"])
                assert (events["row"] == b * steps + j).all()
                a = events["terms"] + weights[unit] @ h
                old = torch.tensor(h[unit]), torch.tensor(c[unit])
                new = (*self.propose(torch.tensor(a), *old, torch.tensor(w[unit])).state, old[1])[:2]
                if keeps:
                    self.write_records(tape, begin, a, c[unit], h[unit], events["k"])
                h = h.copy()
                h[unit], c[unit] = (k * is_now + (1 - k) * was for is_now, was in zip(new, old, strict=True))
                out[j, b] = h
            self.numbers(final_h, batch, units)[b] = h
            if final_c:
                self.numbers(final_c, batch, units)[b] = c

    dense_forward = forward

    def backward(
        self, batch, steps, units, pitch, lengths, start, mask, unit, row, tape, wh, peephole, to_output, output_step,
        output_batch, to_final_h, to_final_c, to_products, to_others, to_h, to_c, found, least, below, ring, most,
    ):  # fmt: skip
        if not self.is_called(found, least, below):
            return
        weights = self.numbers(wh, units, 4, pitch)[..., :units]
        w = self.numbers(peephole, 3, units).T if self.peepholes else np.zeros((units, 3), self.real)
        if self.together:  # blocks exchange the gradients to products
            count = at(start, batch * steps + 1, dtype=np.int64)[-1]
            assert (at(to_products, 4 * count, dtype=np.uint32) == UNWRITTEN).all()
        for b, own_steps in self.steps_of(batch, steps, units, lengths, start, mask):
            back_h, back_c = (
                self.numbers(of, batch, units)[b].copy() if of else np.zeros(units, self.real) for of in (to_final_h, to_final_c)
            )
            for j, begin, end in reversed(own_steps):
                if to_output:
                    back_h = back_h + self.numbers(to_output, steps, batch, units, strides=(output_step, output_batch, 1))[j, b]
                own = at(unit, end, dtype=np.int32)[begin:] if mask else np.arange(units)
                assert not mask or (at(row, end, dtype=np.int32)[begin:] == b * steps + j).all()
                record = self.records(tape, begin, end)
                a, c, h, k = record[:, :4], record[:, 4], record[:, 6], record[:, 7]
                to = torch.tensor(back_h[own]), torch.tensor(back_c[own])
                grads = self.adjoint(to, a, k, (h, c), torch.tensor(w[own]))
                shares, to_k, before_h, before_c, to_w = (grad.numpy() for grad in grads)
                self.numbers(to_products, end, 4)[begin:] = shares
                self.write_others(to_others, begin, to_k, to_w)
                back_h = back_h.copy()
                back_h[own], back_c[own] = before_h, before_c
                back_h += weighted_sum(weights[own], shares)
            for to_state, back in ((to_h, back_h), (to_c, back_c)):
                if to_state:
                    self.numbers(to_state, batch, units)[b] = back

    dense_backward = backward


AROUND = (
    *("pack", "find_open", "add_up", "fill", "event_sums", "sorted_sums", "unit_sums", "gate_sums"),
    *("dense_gate_sums", "unpack", "dense_rows", "input_gradient"),
)
KERNELS = (
    *(*AROUND, "forward", "dense_forward", "backward", "dense_backward"),
    *("place_steps", "step_forward", "step_backward", "open_step_forward", "open_step_cells", "open_step_sums"),
)


def emulated(name):
    """The parameters of its double; a name that the kernel has twice has "again" behind it."""
    return [parameter.removesuffix("_again") for parameter in list(inspect.signature(getattr(Emulator, name)).parameters)[1:]]
