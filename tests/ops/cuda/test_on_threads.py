"""Kernels for GPUs that run on a CPU's threads, from the same source: what they compute, and the order of their barriers."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from phased.ops.cuda.compiler import FOLDERS
from phased.ops.cuda.constants import macros

HOST = Path(__file__).parent / "host"
SIZES = ["1 3 5 2", "10 5 7 1", "13 7 6 4", "64 3 5 3", "65 5 5 2", "110 5 4 4", "128 2 3 1"]  # units, sequences, steps, together

pytestmark = pytest.mark.skipif(sys.platform != "linux" or shutil.which("g++") is None, reason="needs g++ and POSIX barriers")


KINDS = [("Lstm", 0, None), ("Lstm", 1, torch.bfloat16), ("Gru", 0, torch.float16)]
# Units, warps of a sequence, sequences of a block, and how many units have their weights in shared memory.
GROUPS = {
    "forward": [(110, 1, 3, 110), (110, 2, 3, 110), (128, 4, 2, 100), (119, 8, 1, 60), (33, 2, 3, 33), (10, 1, 4, 10)],
    "backward": [(110, 1, 3, 110), (110, 2, 3, 110), (128, 4, 2, 100), (119, 2, 2, 60), (33, 4, 1, 33), (10, 1, 4, 10)],
}


def built(folder, source, defined):
    """A program that runs kernels on threads."""
    folders, program = [f"-I{each}" for each in (HOST, *FOLDERS)], folder / "program"
    flags = [f"-DPHASED_{name.upper()}={value}" for name, value in defined.items()]
    command = ["g++", "-O1", "-std=c++17", "-pthread", *flags, *folders, str(HOST / source), "-o", str(program)]
    subprocess.run(command, check=True, timeout=120)
    return program


def assert_right(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "0 wrong\n", f"{arguments}: {done.stdout}{done.stderr}"


@pytest.mark.parametrize("cell, peephole, half", KINDS)
def test_small_layers(cell, peephole, half, tmp_path):
    program = built(tmp_path, "small.cpp", macros(cell, "float", half, peephole, 1, 16, 1, 512))
    for size in SIZES:
        assert_right(program, *size.split())


@pytest.mark.parametrize("way", GROUPS)
@pytest.mark.parametrize("number", range(6))
def test_grouped_sequences(way, number, tmp_path):
    units, warps, teams, rows = GROUPS[way][number]
    cell, peephole, half = KINDS[number % 3]
    defined = macros(cell, "float", half, peephole, -(-units // 16), warps, 0, 512, int(rows < units))
    program = built(tmp_path, "grouped.cpp", defined | {"way": int(way == "backward")})
    for null in (0, 1):  # whether initial states, the tape and gradients are missing
        assert_right(program, units, 4, 9, teams, rows, null)
