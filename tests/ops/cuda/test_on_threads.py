"""Kernels for GPUs that run on a CPU, from the same source: what they compute, and the order of their barriers."""

import shutil
import subprocess
import sys
from functools import cache
from itertools import count
from pathlib import Path

import pytest
import torch

from phased.ops.cuda import layout
from phased.ops.cuda.constants import ROUNDS, Build, struct_bytes
from phased.ops.cuda.kernels import FOLDERS

pytestmark = pytest.mark.skipif(sys.platform != "linux" or shutil.which("g++") is None, reason="needs g++ and contexts of POSIX")

HOST = Path(__file__).parent / "host"
# Units, sequences, steps, features, where times begin: near and far from zero.
SCHEDULES = ["1 3 5 1 0", "10 5 30 2 0", "33 4 50 5 1e9", "65 7 20 0 1e3", "110 4 97 9 3e5", "64 3 33 41 1e16", "130 3 70 1 1e13"]
# Units, sequences, steps, features, splits of the rows, warps.
SUMS = ["1 3 5 1 1 1", "5 1 1 3 3 2", "33 4 50 5 3 4", "64 3 33 32 1 16", "65 40 3 0 5 5", "110 4 50 41 2 14", "130 3 70 1 2 8"]
# Units, sequences, steps; and sequences of a block, groups of blocks, splits of the units.
SMALL_SIZES = [(1, 3, 5, 2), (10, 5, 7, 1), (13, 7, 6, 4), (64, 3, 5, 3), (65, 5, 5, 2), (110, 5, 4, 4), (128, 2, 3, 1)]
SPREAD_SIZES = [(5, 3, 4, 1), (24, 13, 3, 1), (70, 5, 5, 2), (40, 2, 80, 2)]
SPREAD_SIZES += [(230, 4, 4, 1)]  # a step has more events than a warp reads at once
SINGLE_SIZES = [(5, 3, 4, 1), (24, 45, 3, 1), (70, 5, 3, 2), (530, 2, 1, 2)]

LSTM, PEEPHOLES, GRU = ("Lstm", 0, None), ("Lstm", 1, torch.bfloat16), ("Gru", 0, torch.float16)  # and numbers on the tape
BOTH = [("Lstm", 1, None), ("Gru", 0, torch.bfloat16)]
# A program for each row: warps of a sequence, sequences of a block, units whose weights are not in shared memory; and units.
GROUPS = [
    ("forward", LSTM, 2, 3, 0, (110, 97)),
    ("forward", PEEPHOLES, 8, 1, 59, (119,)),
    ("forward", GRU, 4, 2, 28, (128, 121)),
    ("forward", PEEPHOLES, 2, 4, 0, (10, 1)),
    ("backward", LSTM, 2, 3, 0, (110, 97)),
    ("backward", PEEPHOLES, 4, 2, 24, (128, 121)),  # with weights in registers
    ("backward", GRU, 4, 2, 28, (128,)),
    ("backward", PEEPHOLES, 4, 1, 16, (125, 120)),
    ("backward", GRU, 1, 4, 0, (10, 1)),
]
HELD = [(LSTM, 1, (110, 20)), (PEEPHOLES, 2, (33,)), (GRU, 4, (20, 1))]  # sequences of a block, and units
# Rows of weights that are whole blocks of columns or not, and longer than a lane's registers.
STREAMED = [(LSTM, 2, (33, 128)), (GRU, 1, (130,)), (PEEPHOLES, 1, (1024, 1101))]


each_way = pytest.mark.parametrize("way", ["forward", "backward"])


def compiled(folder, *arguments):
    """Run the compiler. What has been compiled before is in `folder`."""
    folders = [f"-I{each}" for each in (folder, HOST, *FOLDERS)]
    subprocess.run(["g++", "-O1", "-U_FORTIFY_SOURCE", "-std=c++17", *folders, *map(str, arguments)], check=True, timeout=120)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A function that compiles a program of host/; one with the same macros is compiled once."""
    folder = tmp_path_factory.mktemp("host")
    compiled(folder, "-x", "c++-header", HOST / "grid.h", "-o", folder / "grid.h.gch")

    @cache
    def make(name, defined):
        made = folder / f"{name}{len(list(folder.iterdir()))}"
        macros = [f"-DPHASED_{macro.upper()}={value}" for macro, value in defined]
        compiled(folder, "-include", "grid.h", *macros, HOST / f"{name}.cpp", "-o", made)
        return made

    return lambda name, *given, **more: make(name, tuple((Build(*given).macros() | more).items()))


@pytest.fixture
def recurrence(program):
    """A function that compiles the program for a kernel of the recurrence."""

    def make(kernel, kind, of, *sizes, source=None):
        cell, peephole, half = of
        given = {"source": f"{source or kernel}.cu", "kernel": kernel, "kind": kind, "way": int("backward" in kernel)}
        return program("recurrence", cell, "float", half, peephole, *sizes, **given)

    return make


TEAMS, SPREAD, SINGLE, DENSE = range(4)  # how kernels are launched: see recurrence.cpp


def assert_recurrence_right(program, units, batch, steps, together, ring, most, nulls=(0, 1)):
    """With initial states, a tape and gradients, and without them (null: 1)."""
    for null in nulls:
        assert_right(program, units, batch, steps, together, ring, null, most)


def assert_right(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "0 wrong\n", f"{arguments}: {done.stdout}{done.stderr}"


@pytest.mark.parametrize("cell, real", [("Lstm", "float"), ("Gru", "double")])
@pytest.mark.parametrize("name, sizes", [("schedule", SCHEDULES), ("sums", SUMS)])
def test_kernels_around_the_recurrence(name, sizes, cell, real, program):
    made = program(name, cell, real)
    for size in sizes:
        assert_right(made, *size.split())


@each_way
@pytest.mark.parametrize("of", BOTH)
def test_small_layers(way, of, recurrence):
    made = recurrence(f"small_dense_{way}", DENSE, of, 1, 16, 1, 512, source="small")
    for units, batch, steps, together in SMALL_SIZES:
        assert_recurrence_right(made, units, batch, steps, together, together, units)


@each_way
@pytest.mark.parametrize("of, warps", [*zip(BOTH, (1, 5), strict=True)])  # a warp has a sequence, and then the next ones
def test_units_that_are_spread_over_blocks(way, of, warps, recurrence):
    made = recurrence(f"spread_{way}", SPREAD, of, 1, 1, 0, 32 * warps)
    for units, batch, steps, groups in SPREAD_SIZES:
        assert_recurrence_right(made, units, batch, steps, groups, -(-units // 8), units)


@each_way
@pytest.mark.parametrize("of, warps", [*zip(BOTH, (2, 4), strict=True)])
def test_single_steps_of_open_units(way, of, warps, recurrence):
    made = recurrence(f"open_step_{way}", SINGLE, of, 1, warps, 0, 32 * warps)
    for units, batch, steps, splits in SINGLE_SIZES:
        assert_recurrence_right(made, units, batch, steps, splits, units, units)


@pytest.mark.parametrize("way, of, warps, teams, beyond, sizes", GROUPS)
def test_grouped_sequences(way, of, warps, teams, beyond, sizes, recurrence):
    made = recurrence(f"grouped_{way}", TEAMS, of, -(-sizes[0] // 16), warps, 1, 32 * teams * (warps + 1), beyond)
    for units in sizes:
        steps = 70 if units < 64 else 9  # counts of events are looked up for 32 steps at a time
        assert_recurrence_right(made, units, 4, steps, teams, units - beyond, units)


@each_way
@pytest.mark.parametrize("of, teams, sizes", HELD)
def test_sequences_with_all_weights_in_shared_memory(way, of, teams, sizes, recurrence):
    structs = struct_bytes(4, of[2])
    for units in sizes:
        most = -(-units // 8) * 8
        plans = (layout._held(way, units, 4, 5, most, 4, structs, teams, limit) for limit in count(step=64))
        plan = next(plan for plan in plans if plan)  # with as little shared memory, and as short rings, as possible
        made = recurrence(f"held_{way}", TEAMS, of, 1, plan.warps, plan.helpers, plan.block)
        steps = 140 if units < 64 else 12  # the ends of 128 steps are in a ring
        assert_recurrence_right(made, units, 4, steps, teams, plan.ring, plan.most)


@each_way
@pytest.mark.parametrize("of, teams, sizes", STREAMED)
def test_sequences_with_streamed_weights(way, of, teams, sizes, recurrence):
    structs = struct_bytes(4, of[2])
    for units in sizes:
        most = -(-units // 8) * 8
        plan = layout._by_units(way, units, 4, 4, most, 4, structs, teams, 2**18)
        ring = max(-(-(2 * most + plan.warps) // 14) * 16, ROUNDS * plan.warps)  # as short as it may be
        made = recurrence(f"streamed_{way}", TEAMS, of, layout.blocks(units), plan.warps, plan.helpers, plan.block)
        steps = 34 if units < 64 else 7 if units < 300 else 5  # where events end is looked up for 32 steps at a time
        assert_recurrence_right(made, units, 3, steps, teams, ring, units, (0, 1) if units < 300 else (0,))
