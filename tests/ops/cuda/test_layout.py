"""How the recurrence is laid out on a GPU: it fits, and every sequence has a team."""

from itertools import product

import pytest
import torch

from phased.ops.cuda import kernels
from phased.ops.cuda import layout as layout_of
from phased.ops.cuda.constants import ROUNDS

plan = layout_of.plan.__wrapped__


class Gpu:
    """What the layout of a GPU depends on: those of an H200."""

    multi_processor_count, shared_memory = 132, 232_448


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    found = Gpu()
    monkeypatch.setattr(kernels, "shared_memory", lambda device: found.shared_memory)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: found)
    return found


@pytest.mark.parametrize("name", ["forward", "backward", "dense_forward", "dense_backward"])
@pytest.mark.parametrize("units", [1, 7, 110, 129, 512, 2048])
@pytest.mark.parametrize("batch", [1, 32, 512])
@pytest.mark.parametrize("size", [4, 8])
def test_a_layout_fits_the_gpu_and_has_a_team_for_every_sequence(name, units, batch, size):
    for busy, most in ((0, 0), (units // 20, units // 8), (units // 20, units), (units, units)):
        given = (name, units, batch, busy, most, size, 0)
        all_open = most == units or name.startswith("dense")
        if (all_open and size * units == 16384) or (most == units and size * units == 8192 and name == "backward"):
            with pytest.raises(ValueError, match=rf"hidden_size={units} needs .* where {most} units are open.*fewer units"):
                plan(*given)
            continue
        layout = plan(*given)
        assert layout.shared <= 232_448
        assert layout.block <= 1024
        if layout.source == "small.cu":  # one team for several sequences, without a ring; see below
            continue
        if layout.together:  # see below
            continue
        assert layout.grid * layout.teams >= batch
        if layout.source.startswith("grouped"):  # see below
            continue
        assert layout.ring % 8 == 0
        if layout.source.startswith("held"):  # events of two to four steps, and one a warp, beside the part that is being fetched
            steps = 4 if most > 32 else {"forward": 3, "backward": 2}[name]
            dots = layout.warps - 3 if name == "forward" else 0
            assert layout.ring * 7 >= 8 * (steps * most + dots)
            assert layout.ring >= 32  # a lane may look at a slot that is not its own, but not beyond the ring
            assert layout.most >= most
        else:
            assert layout.ring * 7 >= 8 * (2 * most + layout.warps) or name.startswith("dense")
            assert layout.ring >= ROUNDS * layout.warps or name != "backward"  # a place is wrapped around once


@pytest.mark.parametrize("name", ["forward", "backward"])
@pytest.mark.parametrize("units", [1, 64, 110, 112, 115, 116, 119, 128])
@pytest.mark.parametrize("batch", [1, 132, 133, 256, 512, 4096])
@pytest.mark.parametrize("crowded", [False, True])
def test_many_sequences_and_crowded_steps_are_grouped(name, units, batch, crowded):
    layout = plan(name, units, batch, units // 4, units, 4, 0, crowded=crowded)
    # With more than 115 units some weights are in registers or in the L2 cache; backwards the events of full steps are larger.
    not_all_fit = name == "backward" or batch > 264 or (batch > 132 and crowded)
    grouped = not_all_fit if units > (115 if name == "forward" else 112) else batch > 132 or crowded
    assert layout.source.startswith("grouped") == grouped
    if not grouped:
        return
    assert layout.teams == min(8, -(-batch // 132)) or (units > 64 and 1 < layout.teams < 8)
    assert layout.warps in layout_of.WARPS[name]
    assert layout.block <= 1024
    assert layout.helpers == 1
    assert layout.ring + layout.beyond == units
    assert layout.beyond <= 0.25 * units
    assert layout.blocks == -(-units // 16)


@pytest.mark.parametrize("name", ["forward", "backward"])
@pytest.mark.parametrize("limit", [101_376, 166_912, 232_448])
@pytest.mark.parametrize("tape_dtype", [None, torch.bfloat16])
def test_groups_fit_every_gpu(gpu, name, limit, tape_dtype):
    gpu.shared_memory = limit
    found = 0
    for units in range(1, 129):
        for batch, crowded in product((1, 132, 133, 264, 265, 700, 5000), (False, True)):
            layout = plan(name, units, batch, units // 20, units, 4, 0, tape_dtype, crowded)
            assert layout.shared <= limit
            assert layout.block <= 1024
            assert layout.beyond <= 32
            found += layout.source.startswith("grouped")
    assert found > 100


@pytest.mark.parametrize("units, source", [(110, "held"), (118, "held"), (119, "grouped"), (128, "grouped")])
def test_few_sequences_of_a_layer_that_just_fits_are_not_grouped(units, source):
    layout = plan("backward", units, 32, units // 20, 16, 4, 0)
    assert layout.source == f"{source}_backward.cu"


@pytest.mark.parametrize("name", ["forward", "backward"])
@pytest.mark.parametrize("units, most", [(256, 0), (257, 64), (513, 64), (999, 64), (1000, 5000), (1024, 5000), (1025, 0)])
@pytest.mark.parametrize("batch", [1, 2, 32, 33, 64, 65, 5000])
def test_large_layers_are_spread_over_all_multiprocessors(name, units, most, batch):
    layout = plan(name, units, batch, units // 20, units, 4, 0)
    assert layout.together == (batch <= most)
    if not layout.together:
        return
    assert layout.source == f"spread_{name}.cu"
    assert layout.ring == -(-units // 8)
    groups, rest = divmod(layout.grid, layout.ring)
    assert rest == 0
    assert 1 <= groups <= batch
    assert layout.grid <= 132  # all run at once
    assert layout.shared <= 232_448
    assert layout.block == 32 * min(32, -(-batch // groups))  # a warp for a sequence
    assert not plan(name, units, batch, units // 20, units // 8, 8, 0).together


def test_a_gpu_with_few_multiprocessors_does_not_spread_units(gpu):
    gpu.multi_processor_count = 100
    assert not plan("forward", 1024, 32, 50, 1024, 4, 0).together
    assert plan("forward", 800, 32, 40, 800, 4, 0).together
    gpu.shared_memory = 101_376
    assert not plan("forward", 800, 32, 40, 800, 4, 0).together


@pytest.mark.parametrize("units", [1, 64, 71, 72, 73, 74, 75, 95, 96, 97, 98, 110, *range(112, 121), 128])
@pytest.mark.parametrize("batch", [1, 132, 133, 512])
@pytest.mark.parametrize("shared", [101_376, 166_912, 232_448])
def test_the_kernel_of_a_forward_pass_that_may_be_guessed_does_not_depend_on_the_events(gpu, units, batch, shared):
    gpu.shared_memory = shared
    known = [(0, 0), (units // 20, units // 8), (units // 4, units), (units, units)]
    names = [plan("forward", units, batch, busy, most, 4, 0).name for busy, most in known]
    assert len(set(names)) == 1


@pytest.mark.parametrize("name", ["dense_forward", "dense_backward"])
@pytest.mark.parametrize("units", [1, 32, 64, 65, 110, 128])
@pytest.mark.parametrize("batch, together", [(1, 1), (132, 1), (133, 2), (256, 2), (512, 4), (4096, 4)])
def test_small_layers_have_four_threads_a_unit_and_all_weights_on_the_processor(name, units, batch, together):
    layout = plan(name, units, batch, units, units, 4, 0)
    assert (layout.name, layout.source) == (f"small_{name}", "small.cu")
    assert 4 * units <= layout.block < 4 * units + 32
    assert layout.ring == together
    assert layout.grid == -(-batch // together)
    beyond = max(0, -(-units // 4) - 16)  # fours of a row that are not in registers
    assert 16 * beyond * layout.block < layout.shared <= 232_448
    assert plan(name, units, batch, units, units, 8, 0).source == "dense.cu"
    assert plan(name, 129, batch, 129, 129, 4, 0).source == "dense.cu"


def test_a_gpu_with_less_shared_memory_has_fewer_small_layers(gpu):
    gpu.shared_memory = 101_376
    assert plan("dense_backward", 128, 512, 128, 128, 4, 0).source == "dense.cu"
    assert plan("dense_backward", 64, 512, 64, 64, 4, 0).source == "small.cu"


@pytest.mark.parametrize("units", [1, 20, 64, 110, 128, 300, 1800])
@pytest.mark.parametrize("features", [0, 1, 41])
@pytest.mark.parametrize("rows", [1, 100, 512_000])
@pytest.mark.parametrize("size, limit", [(4, 232_448), (4, 101_376), (8, 232_448), (8, 101_376)])
def test_sums_fit_and_have_a_place_for_every_unit_and_column(gpu, units, features, rows, size, limit):
    gpu.shared_memory = limit
    sums = layout_of.sums_plan.__wrapped__(rows, units, features, size, 0)
    assert sums.shared <= limit
    assert sums.block <= 512
    groups, columns, splits = sums.grid
    assert groups * sums.block // 32 * (16 // size) >= units
    assert columns * 32 * (5 if sums.name.startswith("wide") else 4) > units + features
    assert groups * columns * splits <= max(groups * columns, 132 * 512 // sums.block)
    by_unit = layout_of.sorted_sums_plan.__wrapped__(rows, units, features, size, 0)
    assert by_unit.shared <= limit
    assert by_unit.block <= 768
    assert 1 <= by_unit.ring < 1 << 16
    assert by_unit.gates
    assert not sums.gates
    _, columns, splits = by_unit.grid
    # All events of a split at once, up to the share of open units for which this kernel is, if they fit.
    assert by_unit.ring >= min(65535, 0.08 * rows / splits * units) or by_unit.shared > limit - 2
    assert columns * 32 * (5 if by_unit.name.startswith("wide") else 4) > units + features
    assert columns * splits <= max(columns, 132)
    sorted_once = layout_of.unit_sums_plan(units, features)
    assert sorted_once.shared <= limit
    assert sorted_once.grid[0] * sorted_once.block // 32 >= units
    assert sorted_once.grid[1] * 32 * (5 if sorted_once.name.startswith("wide") else 4) > units + features
    assert sorted_once.grid[2] == 1
    for peephole in (0, 1):
        gates = layout_of.gate_sums_plan(rows * units // 20, units, peephole, 0)
        assert gates.shared <= limit
        assert gates.block <= 256
        assert gates.shared * 32 == gates.block * (6 if peephole else 3) * units * 8
