"""The core on ARM: cross-compiled and run by qemu, where both are installed, and held to the reference."""

import shutil

import pytest
import torch

from contract import Case, each_cell
from without_python import assert_equals_reference, compiled

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"

pytestmark = pytest.mark.skipif(
    not (shutil.which(COMPILER) and shutil.which(EMULATOR)), reason=f"{COMPILER} and {EMULATOR} are not installed"
)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("arm") / "core", COMPILER, "-O3", "-static")


@each_cell
@pytest.mark.parametrize("leak", [0.0, 0.01])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("hidden, shape, start", [(7, "triangle", 0.0), (33, "square", -1e6), (110, "triangle", 1.7e9)])
def test_the_core_on_arm_equals_the_reference(program, cell, leak, dtype, hidden, shape, start):
    case = Case(cell, steps=40, hidden=hidden, leak=leak, shape=shape, dtype=dtype, start=start, lengths=[40, 0, 17])
    assert_equals_reference([EMULATOR, program], case)
