"""Kernels for GPUs that run on a CPU, from the same source: what they compute, and the order of their barriers."""

import shutil
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
import torch

from phased.ops.cuda import layout
from phased.ops.cuda.compiler import FOLDERS
from phased.ops.cuda.constants import ROUNDS, macros, struct_bytes

HOST = Path(__file__).parent / "host"
SIZES = ["1 3 5 2", "10 5 7 1", "13 7 6 4", "64 3 5 3", "65 5 5 2", "110 5 4 4", "128 2 3 1"]  # units, sequences, steps, together

pytestmark = pytest.mark.skipif(sys.platform != "linux" or shutil.which("g++") is None, reason="needs g++ and contexts of POSIX")

# Units, sequences, steps, features, where times begin: near and far from zero.
SCHEDULES = ["1 3 5 1 0", "10 5 30 2 0", "33 4 50 5 1e9", "65 7 20 0 1e3", "110 4 97 9 3e5", "64 3 33 41 1e16", "130 3 70 1 1e13"]
# Units, sequences, steps, features, splits of the rows, warps.
SUMS = ["1 3 5 1 1 1", "5 1 1 3 3 2", "33 4 50 5 3 4", "64 3 33 32 1 16", "65 40 3 0 5 5", "110 4 97 41 4 14", "130 3 70 1 2 8"]


KINDS = [("Lstm", 0, None), ("Lstm", 1, torch.bfloat16), ("Gru", 0, torch.float16)]  # cell, peepholes, numbers on the tape
# Units, warps of a sequence, sequences of a block, and how many units have their weights in shared memory.
GROUPS = {
    "forward": [
        *[(110, 2, 3, 110), (110, 4, 2, 110), (128, 4, 2, 100), (119, 8, 1, 60), (33, 8, 1, 33), (10, 2, 4, 10)],
        *[(128, 2, 4, 97), (64, 2, 5, 64), (1, 4, 2, 1)],
    ],
    "backward": [
        *[(110, 2, 3, 110), (110, 4, 2, 110), (128, 4, 2, 100), (119, 2, 2, 90), (33, 4, 1, 33), (10, 2, 4, 10)],
        *[(128, 4, 2, 104), (120, 4, 1, 119), (10, 1, 4, 10)],  # the first two with weights in registers
        *[(110, 4, 3, 110), (121, 4, 2, 104), (125, 4, 1, 109), (1, 1, 2, 1)],
    ],
}


def built(program, folder, defined):
    """A program of host/, compiled with macros."""
    flags = [f"-DPHASED_{name.upper()}={value}" for name, value in defined.items()]
    folders, made = [f"-I{each}" for each in (HOST, *FOLDERS)], folder / program
    command = ["g++", "-O1", "-U_FORTIFY_SOURCE", "-std=c++17", *flags, *folders, str(HOST / f"{program}.cpp"), "-o", str(made)]
    subprocess.run(command, check=True, timeout=120)
    return made


def built_sequences(kind, way, number, folder, plan, blocks=1):
    """The program for a layout's kernel: of small layers (kind 1) or of streamed weights (kind 2)."""
    cell, peephole, half = KINDS[number % 3]
    defined = macros(cell, "float", half, peephole, blocks, plan.warps, plan.helpers, plan.block)
    return built("sequences", folder, defined | {"way": int(way == "backward"), "kind": kind})


def assert_right(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "0 wrong\n", f"{arguments}: {done.stdout}{done.stderr}"


@pytest.mark.parametrize("cell, real", [("Lstm", "float"), ("Gru", "double")])
@pytest.mark.parametrize("program, sizes", [("schedule", SCHEDULES), ("sums", SUMS)])
def test_kernels_around_the_recurrence(program, sizes, cell, real, tmp_path):
    made = built(program, tmp_path, macros(cell, real, None, 0, 1, 1, 1, 32))
    for size in sizes:
        assert_right(made, *size.split())


@pytest.mark.parametrize("cell, peephole, half", KINDS)
def test_small_layers(cell, peephole, half, tmp_path):
    program = built("small", tmp_path, macros(cell, "float", half, peephole, 1, 16, 1, 512))
    for size in SIZES:
        assert_right(program, *size.split())


# Units, sequences, steps, groups of blocks. With 230 units a step has more events than a warp reads at once.
SPREAD = ["5 3 4 1", "24 13 3 1", "70 5 5 2", "40 2 80 2", "230 3 4 1"]


@pytest.mark.parametrize("way", ["forward", "backward"])
@pytest.mark.parametrize("warps", [1, 5])  # of a block: a sequence each, and then the next ones
@pytest.mark.parametrize("cell, peephole, half", KINDS)
def test_units_that_are_spread_over_blocks(way, warps, cell, peephole, half, tmp_path):
    defined = macros(cell, "float", half, peephole, 1, 1, 0, 32 * warps) | {"way": int(way == "backward"), "single": 0}
    program = built("large", tmp_path, defined)
    for size in SPREAD:
        for null in (0, 1):  # whether initial states, the tape and gradients are missing
            assert_right(program, *size.split(), null)


# Units, sequences, steps, splits of the units.
SINGLE = ["5 3 4 1", "24 45 3 1", "70 5 3 2", "530 2 1 2"]


@pytest.mark.parametrize("way", ["forward", "backward"])
@pytest.mark.parametrize("number", range(4))
def test_single_steps_of_open_units(way, number, tmp_path):
    cell, peephole, half = [*KINDS, ("Lstm", 1, None)][number]
    warps = 4 if number % 2 else 2
    defined = macros(cell, "float", half, peephole, 1, warps, 0, 32 * warps) | {"way": int(way == "backward"), "single": 1}
    program = built("large", tmp_path, defined)
    for size in SINGLE:
        for null in (0, 1):
            assert_right(program, *size.split(), null)


@pytest.mark.parametrize("way, number", [(way, number) for way in GROUPS for number in range(len(GROUPS[way]))])
def test_grouped_sequences(way, number, tmp_path):
    units, warps, teams, rows = GROUPS[way][number]
    cell, peephole, half = KINDS[number % 3]
    defined = macros(cell, "float", half, peephole, -(-units // 16), warps, 1, 32 * teams * (warps + 1), units - rows)
    program = built("sequences", tmp_path, defined | {"way": int(way == "backward"), "kind": 0})
    steps = 70 if units < 64 else 9  # counts of events are looked up for 32 steps at a time
    for null in (0, 1):  # whether initial states, the tape and gradients are missing
        assert_right(program, units, 4, steps, teams, rows, null, units)


# Units and sequences of a block.
HELD_SIZES = [(110, 1), (33, 2), (1, 3), (20, 1), (110, 1), (20, 4)]


@pytest.mark.parametrize("way", ["forward", "backward"])
@pytest.mark.parametrize("number", range(len(HELD_SIZES)))
def test_sequences_with_all_weights_in_shared_memory(way, number, tmp_path):
    units, teams = HELD_SIZES[number]
    most, structs = -(-units // 8) * 8, struct_bytes(4, KINDS[number % 3][2])
    plans = (layout._held(way, units, 4, min(units, 5), most, 4, structs, teams, limit) for limit in count(step=64))
    plan = next(plan for plan in plans if plan)  # with as little shared memory, and as short rings, as possible
    program = built_sequences(1, way, number, tmp_path, plan)
    steps = 140 if units < 64 else 12  # the ends of 128 steps are in a ring
    for null in (0, 1):
        assert_right(program, units, 4, steps, teams, plan.ring, null, plan.most)


# Units and sequences of a block: rows of weights that are whole blocks of columns or not, and longer than a lane's registers.
STREAMED = [(33, 2), (128, 2), (130, 1), (1024, 1), (1101, 1)]


@pytest.mark.parametrize("way", ["forward", "backward"])
@pytest.mark.parametrize("number", range(len(STREAMED)))
def test_sequences_with_streamed_weights(way, number, tmp_path):
    units, teams = STREAMED[number]
    most, structs = -(-units // 8) * 8, struct_bytes(4, KINDS[number % 3][2])
    plan = layout._by_units(way, units, 4, 4, most, 4, structs, teams, 2**18)
    ring = max(-(-(2 * most + plan.warps) // 14) * 16, ROUNDS * plan.warps)  # as short as it may be
    program = built_sequences(2, way, number, tmp_path, plan, layout.blocks(units))
    steps = 34 if units < 64 else 7 if units < 300 else 5  # where events end is looked up for 32 steps at a time
    for null in (0, 1) if units < 300 else (0,):
        assert_right(program, units, 3, steps, teams, ring, null, units)
