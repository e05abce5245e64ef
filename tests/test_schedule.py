"""The schedule: the rows of open events are the dense mask, written shorter."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import phased.schedule
from phased.gate import SHAPES, TimeGate
from phased.schedule import Schedule, count, schedule, valid_steps
from strategies import clocks, ragged, seeds


def some_gate(units: int, seed: int, leak: float = 0.0, shape: str = "triangle") -> TimeGate:
    generator = torch.Generator().manual_seed(seed)
    period, shift, ratio = torch.rand(3, units, dtype=torch.float64, generator=generator)
    return TimeGate(1 + 20 * period, 20 * shift, 0.05 + 0.9 * ratio, leak, shape)


def dense_mask(gate: TimeGate, time: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
    """phi < r_on at every valid step, (T, B, H), by the definition."""
    steps, batch = time.shape
    mask = torch.zeros(steps, batch, len(gate.period), dtype=torch.bool)
    for b in range(batch):
        for j in range(steps if lengths is None else int(lengths[b])):
            mask[j, b] = ((time[j, b].double() - gate.shift) % gate.period) / gate.period < gate.ratio_on
            if gate.leak:
                mask[j, b] = True
    return mask


def assert_rows_are(events: Schedule, mask: torch.Tensor) -> None:
    steps, batch, units = mask.shape
    assert events.start.shape == (steps * batch + 1,)
    assert events.start.dtype == events.unit.dtype == torch.int64
    assert events.openness.dtype == torch.float64
    assert events.start[0] == 0
    assert events.start[-1] == events.unit.numel() == events.openness.numel() == mask.sum()
    for row, units_open in enumerate(mask.reshape(steps * batch, units)):
        at = slice(events.start[row], events.start[row + 1])
        assert events.unit[at].tolist() == units_open.nonzero().flatten().tolist()


@given(seeds, st.integers(0, 6), ragged, st.booleans(), st.sampled_from(sorted(SHAPES)), st.sampled_from([0.0, 0.001]))
@example(3, 6, [], True, "triangle", 0.0)
def test_rows_and_counts_are_those_of_the_dense_mask_and_padding_may_hold_any_time(seed, steps, ends, whole, shape, leak):
    torch.manual_seed(seed)
    lengths = torch.tensor(ends, dtype=torch.int64).clamp(max=steps)
    gate, time = some_gate(4, seed, leak, shape), clocks(steps, len(ends), start=-50.0)
    dirty = time if whole else time.masked_fill(~valid_steps(steps, lengths), float("nan"))
    mask = dense_mask(gate, time, None if whole else lengths)
    assert_rows_are(schedule(gate, dirty, None if whole else lengths), mask)
    assert torch.equal(count(gate, dirty, None if whole else lengths), mask.sum(0))


@given(seeds, st.sampled_from(sorted(SHAPES)), st.sampled_from([0.0, 0.01]))
def test_an_event_carries_its_openness(seed, shape, leak):
    torch.manual_seed(seed)
    gate, time = some_gate(5, seed, leak, shape), clocks(12, 3)
    events = schedule(gate, time)
    dense = gate(time).reshape(36, 5)
    assert torch.equal(dense[events.rows(), events.unit], events.openness)


@pytest.mark.parametrize("leak", [0.0, 0.01])
@pytest.mark.parametrize("chunk", [1, 7, 40, 41, 1000])
def test_the_size_of_a_chunk_changes_nothing(monkeypatch, chunk, leak):
    gate, time, lengths = some_gate(5, 3, leak), clocks(31, 4), torch.tensor([31, 0, 17, 30])
    whole, counts = schedule(gate, time, lengths), count(gate, time, lengths)
    monkeypatch.setattr(phased.schedule, "CHUNK", chunk)
    in_parts = schedule(gate, time, lengths)
    assert all(torch.equal(a, b) for a, b in zip(whole, in_parts, strict=True))
    assert torch.equal(count(gate, time, lengths), counts)


def test_times_may_be_integers_and_no_gradient_is_needed():
    gate, time = some_gate(4, 5), torch.arange(60).reshape(20, 3)
    gate.period.requires_grad_()
    events = schedule(gate, time)
    assert not events.openness.requires_grad
    assert all(torch.equal(a, b) for a, b in zip(events, schedule(gate, time.double()), strict=True))
