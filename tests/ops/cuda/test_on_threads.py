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

# Units, sequences, steps, features, where times begin: near and far from zero.
SCHEDULES = ["1 3 5 1 0", "10 5 30 2 0", "33 4 50 5 1e9", "65 7 20 0 1e3", "110 4 97 9 3e5", "64 3 33 41 1e16", "130 3 70 1 1e13"]
# Units, sequences, steps, features, splits of the rows, warps.
SUMS = ["1 3 5 1 1 1", "5 1 1 3 3 2", "33 4 50 5 3 4", "64 3 33 32 1 16", "65 40 3 0 5 5", "110 4 97 41 4 14", "130 3 70 1 2 8"]


def built(program, folder, cell, real, half, peephole, *sizes):
    """A program of host/, compiled with the kernels' macros."""
    defined = [f"-DPHASED_{name.upper()}={value}" for name, value in macros(cell, real, half, peephole, *sizes).items()]
    folders = [f"-I{folder}" for folder in (HOST, *FOLDERS)]
    made = folder / program
    command = ["g++", "-O1", "-std=c++17", "-pthread", *defined, *folders, str(HOST / f"{program}.cpp"), "-o", str(made)]
    subprocess.run(command, check=True, timeout=120)
    return made


@pytest.mark.parametrize("cell, real", [("Lstm", "float"), ("Gru", "double")])
@pytest.mark.parametrize("program, sizes", [("schedule", SCHEDULES), ("sums", SUMS)])
def test_kernels_around_the_recurrence(program, sizes, cell, real, tmp_path):
    run = built(program, tmp_path, cell, real, None, 0, 1, 1, 1, 32)
    for size in sizes:
        done = subprocess.run([run, *size.split()], capture_output=True, text=True, timeout=120, check=False)
        assert done.stdout == "0 wrong\n", f"{size}: {done.stdout}{done.stderr}"


@pytest.mark.parametrize("cell, peephole, half", [("Lstm", 0, None), ("Lstm", 1, torch.bfloat16), ("Gru", 0, torch.float16)])
def test_small_layers(cell, peephole, half, tmp_path):
    run = built("small", tmp_path, cell, "float", half, peephole, 1, 16, 1, 512)
    for size in SIZES:
        done = subprocess.run([run, *size.split()], capture_output=True, text=True, timeout=120, check=False)
        assert done.stdout == "0 wrong\n", f"{size}: {done.stdout}{done.stderr}"
