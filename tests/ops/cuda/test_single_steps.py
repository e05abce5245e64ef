"""Layers with many units: steps that are launched one by one, of all units or of those that are open."""

import copy

import pytest
import torch

from contract import Case, assert_contract
from emulator import Emulator
from launched import Replayed, Stream
from phased import PhasedGRU
from phased.init import LogUniform
from phased.ops.cuda import counting, launch, layout, steps
from strategies import poisoned

pytestmark = pytest.mark.usefixtures("an_emulated_gpu")


@pytest.fixture(params=[False, True], ids=["first run", "recorded"])
def by_steps(request, monkeypatch):
    monkeypatch.setattr(launch, "MANY_UNITS", 1)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: not request.param)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream)
    monkeypatch.setattr(steps, "CHUNK", 4)  # so that the last chunk has fewer steps
    monkeypatch.setattr(steps, "record", Replayed)
    monkeypatch.setattr(steps, "GRAPHS", EverythingRecorded())


class EverythingRecorded(steps.Graphs):
    """From the first run on."""

    def of(self, *given):
        return super().of(*given) or super().of(*given)


KINDS = [
    ("lstm", "triangle", {"peephole": True}, torch.float32),
    ("lstm", "square", {"bias": False}, torch.float64),
    ("gru", "square", {}, torch.float32),
]
each_kind = pytest.mark.parametrize("cell, shape, extras, dtype", KINDS)


@each_kind
@pytest.mark.parametrize("inputs", [3, counting.WIDE])
def test_a_layer_with_many_units_is_computed_step_by_step(by_steps, cell, shape, extras, inputs, dtype):
    case = Case(cell, inputs=inputs, leak=0.01, shape=shape, dtype=dtype, lengths=[11, 0, 4], **extras)
    assert_contract(case.poison_padding(), "cuda")


@pytest.mark.parametrize("cell, hidden, parts", [("gru", 16, 2), ("lstm", 20, 1), ("lstm", 64, 8)])
def test_products_are_computed_in_parts(by_steps, cell, hidden, parts):
    assert steps.parts_of(3, hidden, forward=True) == parts
    assert_contract(Case(cell, hidden=hidden, leak=0.01, lengths=[11, 0, 4]), "cuda")


@pytest.mark.parametrize("steps", [4, 8])  # whole chunks: nothing after the last step adds what it has given
def test_a_last_step_at_the_end_of_a_recorded_chunk(by_steps, steps):
    case = Case("lstm", hidden=16, steps=steps, leak=0.01)
    for _ in range(2):  # the second run begins with what the first one has left
        assert_contract(case, "cuda")


@pytest.mark.parametrize(
    "batch, units, forward, backward",
    [
        *[(1, 256, 8, 8), (64, 256, 8, 8), (65, 256, 4, 8), (256, 1024, 4, 8), (257, 1024, 2, 8), (1, 129, 1, 1)],
        *[(1, 130, 1, 1), (1, 132, 1, 2), (1, 144, 2, 8), (32, 2047, 1, 1), (32, 2048, 1, 1), (32, 4096, 1, 1)],
    ],
)
def test_parts_of_a_product(batch, units, forward, backward):
    assert steps.parts_of(batch, units, forward=True) == forward
    assert steps.parts_of(batch, units, forward=False) == backward


def test_steps_recorded_in_inference_mode_serve_training(by_steps):
    case = Case("lstm", leak=0.01, lengths=[11, 0, 4])
    with torch.inference_mode():
        case.run("cuda")
    assert_contract(case, "cuda")


@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("batch", [0, 1, 4])
def test_empty_and_tiny_batches_step_by_step(by_steps, steps, batch):
    assert_contract(Case(steps=steps, batch=batch, leak=0.01), "cuda")


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("lengths", [[11, 11, 11], [11, 0, 4]])
def test_a_layer_too_large_for_the_kernels_of_open_units_is_computed_step_by_step(by_steps, monkeypatch, cell, lengths):
    monkeypatch.setattr(launch, "too_large", lambda *given: True)
    assert_contract(Case(cell, leak=0.0, lengths=lengths, ratio=(0.1, 0.4)).poison_padding(), "cuda")


@pytest.mark.parametrize(
    "units, peephole, large",
    [
        (1800, False, False),
        (4096, False, False),
        (9600, False, False),
        (9700, False, True),
        (4800, True, False),
        (4900, True, True),
    ],
)
def test_which_layers_are_too_large(units, peephole, large):
    assert layout.too_large(units, peephole, None) == large


@pytest.mark.parametrize(
    "units, batch, stepped",
    [
        (1024, 1, False),
        (1099, 8, False),
        (1100, 8, True),
        (1100, 9, False),
        (1499, 32, False),
        (1500, 32, True),
        (1880, 33, False),
        (1900, 33, True),
        (1900, 512, True),
    ],
)
def test_which_layers_have_launches_for_every_step(units, batch, stepped):
    assert (layout.step_plan(units, batch, 4, 0) is not None) == stepped


@pytest.mark.parametrize("name", ["forward", "backward"])
def test_layers_whose_steps_one_launch_computes_have_room_for_all_of_their_units_at_once(name):
    for units in range(1000, 2600, 7):
        if layout.step_plan(units, 33, 4, 0) is None:
            layout.plan(name, units, 33, units, -(-units // 8) * 8, 4, 0)
            layout.plan(name, units, 33, units // 20, -(-units // 8) * 8, 4, 0)


def test_under_autocast_single_steps_round_what_they_keep(by_steps):
    case = Case("lstm", leak=0.01, dtype=torch.float32, autocast=torch.bfloat16, lengths=[11, 0, 4])
    assert_contract(case.poison_padding(), "cuda")


@pytest.fixture
def launched(monkeypatch):
    """Every layer computes its open units step by step. The names of the kernels that ran."""
    monkeypatch.setattr(layout, "SORTED_FROM", 1)
    monkeypatch.setattr(
        launch, "step_plan", lambda *given: layout.StepPlan(4, (-(-given[0] // 128), 2, -(-given[1] // 16)), 65536)
    )
    return Emulator.ran


@each_kind
def test_open_units_are_computed_step_by_step(launched, cell, shape, extras, dtype):
    case = Case(cell, shape=shape, dtype=dtype, lengths=[11, 0, 4], ratio=(0.1, 0.5), **extras).poison_padding()
    for _ in range(2):  # the second time the number of events is guessed
        assert_contract(case, "cuda")
    assert {"open_step_forward", "open_step_cells", "open_step_sums", "unit_sums"} <= set(launched)


@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("batch", [0, 1, 4])
def test_empty_and_tiny_batches_of_open_units_step_by_step(launched, capturing, steps, batch):
    assert_contract(Case(steps=steps, batch=batch), "cuda")


@pytest.mark.parametrize("expected, likely", [(1, (10**9, 9)), (10**9, (1, 9)), (10**9, (10**9, 9))])
def test_open_units_step_by_step_whatever_is_guessed(launched, monkeypatch, expected, likely):
    monkeypatch.setattr(counting, "fits_all_open", lambda call: False)
    monkeypatch.setattr(counting.Count, "expected", expected)
    monkeypatch.setattr(counting.Count, "likely", likely)
    with poisoned():
        assert_contract(Case(steps=9, lengths=[9, 0, 4], ratio=(0.1, 0.5)), "cuda")


def test_under_autocast_open_units_step_by_step_round_what_they_keep(launched):
    case = Case("gru", dtype=torch.float32, autocast=torch.float16, lengths=[11, 0, 4])
    assert_contract(case.poison_padding(), "cuda")


@pytest.mark.parametrize("units", [1024, 1100, 1881, 4096, 9000])
@pytest.mark.parametrize("batch", [0, 1, 32, 33, 512])
@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("limit", [101_376, 232_448])
def test_a_step_fits_the_gpu_and_has_a_place_for_every_column_and_sequence(monkeypatch, units, batch, size, limit):
    monkeypatch.setattr(layout.kernels, "shared_memory", lambda device: limit)
    plan = layout.step_plan.__wrapped__(units, batch, size, 0)
    if plan is None:
        assert layout.streamable(units, size, 0)
        return
    columns, splits, groups = plan.grid
    assert plan.warps in (2, 4, 8)
    assert plan.shared == plan.warps * 128 * 128 <= limit
    assert columns * 128 >= units
    assert groups * (128 // size) >= batch
    assert 1 <= splits <= max(1, units // (32 * plan.warps) + 1)
    assert columns * splits * groups <= max(132, columns * groups)


@pytest.mark.parametrize("steps, batch", [(3, 0), (0, 2), (0, 0)])
def test_empty_batches_of_a_layer_with_launches_for_every_step(steps, batch):
    assert layout.step_plan(1100, batch, 4, 0) is not None
    assert_contract(Case(steps=steps, batch=batch, hidden=1100, ratio=(0.01, 0.05), dtype=torch.float32), "cuda")


def test_open_units_step_by_step_without_an_initial_state(launched):
    """The gradients to the state are then in memory of their own, which nothing else may use before the last launch."""
    torch.manual_seed(0)
    x, time = torch.randn(9, 5, 3), torch.rand(9, 5, dtype=torch.float64).cumsum(0)
    ours = PhasedGRU(3, 140, leak=0.0, period=LogUniform(1, 4), ratio_on=0.3, backend="cuda")
    theirs = copy.deepcopy(ours)
    theirs.backend = "reference"
    found = []
    for rnn in (ours, theirs):
        rnn._openings.active = False
        output, _ = rnn(x, time)
        output.square().sum().backward()
        found.append([output.detach(), *(p.grad for p in rnn.parameters())])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    assert "open_step_sums" in launched
