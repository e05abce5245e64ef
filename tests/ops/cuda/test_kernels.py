"""The GPU's kernels compile, as text for the oldest GPU they know: NVRTC needs no GPU for that."""

import pytest
import torch

from phased.ops.cuda import kernels
from phased.ops.cuda.constants import Build, struct_bytes
from phased.ops.cuda.kernels import OLDEST
from phased.ops.cuda.layout import SPREAD_WARPS
from phased.ops.cuda.steps import OPEN_WARPS

core, _, absent = kernels.cuda_core()
try:
    from cuda.bindings import nvrtc

    nvrtc.nvrtcVersion()
except Exception as error:  # whatever cuda-bindings raises where a library is not found
    absent = absent or str(error)
pytestmark = pytest.mark.skipif(absent is not None, reason=f"no NVRTC: {absent}; pip install cuda-core nvidia-cuda-nvrtc")

ARCHITECTURE = "sm_{}{}".format(*OLDEST)
# Warps, helpers and threads as layout.py chooses them for one sequence a block, compiled for an LSTM, and for several, for a GRU.
SOURCES = {
    "held_forward.cu": [(14, 4, 640), (4, 1, 640)],
    "held_backward.cu": [(2, 4, 256), (2, 2, 512)],
    "grouped_forward.cu": [(2, 1, 384), (8, 1, 288)],
    "grouped_backward.cu": [(1, 1, 256), (4, 1, 640)],
    "streamed_forward.cu": [(8, 4, 384)],
    "streamed_backward.cu": [(8, 4, 384)],
    "dense.cu": [(8, 4, 384)],
    "small.cu": [(16, 0, 512), (8, 0, 256)],
    "stepwise.cu": [(1, 1, 256)],
}
# Numbers, numbers on the tape, and peepholes; each source has one of them for an LSTM, and the next one for a GRU.
KINDS = [("float", None, 0), ("double", None, 1), ("float", torch.bfloat16, 1), ("float", torch.float16, 0)]


def assert_compiled(source, cell, number, *sizes):
    """The source compiles for a cell and one of the kinds."""
    real, half, peephole = KINDS[number % len(KINDS)]
    code = kernels.compiled(ARCHITECTURE, (source,), Build(cell, real, half, peephole * (cell == "Lstm"), *sizes).macros())
    assert code.startswith(b"\x7fELF")
    return code


@pytest.mark.parametrize("cell", ["Lstm", "Gru"])
@pytest.mark.parametrize("number, source", [*enumerate(SOURCES)])
def test_a_recurrence_compiles(number, source, cell):
    warps, helpers, threads = SOURCES[source][-1 if cell == "Gru" else 0]
    code = assert_compiled(source, cell, number + (cell == "Gru"), 1, warps, helpers, threads)
    for way in ("forward", "backward"):
        assert (way.encode() in code) == (way in source or source in ("dense.cu", "small.cu", "stepwise.cu"))


@pytest.mark.parametrize("cell, real", [("Lstm", "float"), ("Gru", "double")])
def test_the_kernels_around_it_compile(cell, real):
    code = kernels.compiled(ARCHITECTURE, kernels.AROUND, Build(cell, real).macros())
    sums = ("event_sums", "wide_event_sums", "sorted_sums", "wide_sorted_sums", "gate_sums", "dense_gate_sums", "input_gradient")
    for kernel in ("pack", "find_open", "add_up", "fill", *sums, "unpack"):
        assert f"\0.text.{kernel}\0".encode() in code


@pytest.mark.parametrize("source", ["grouped_forward.cu", "grouped_backward.cu"])
@pytest.mark.parametrize("sixteens, beyond", [(4, 1), (7, 24), (8, 32)])
def test_grouped_sequences_compile_for_layers_of_any_size(source, sixteens, beyond):
    assert_compiled(source, "Lstm", 0, sixteens, 4, 1, 320, beyond)


@pytest.mark.parametrize("source", ["spread_forward.cu", "spread_backward.cu"])
@pytest.mark.parametrize("cell, number, sequences", [("Lstm", 2, 1), ("Gru", 3, 16), ("Lstm", 0, SPREAD_WARPS)])
def test_units_that_are_spread_over_multiprocessors_compile(source, cell, number, sequences):
    assert_compiled(source, cell, number, 1, 1, 0, 32 * sequences)


@pytest.mark.parametrize("cell, number", [("Lstm", 1), ("Gru", 2)])
@pytest.mark.parametrize("source, warps", [("forward", OPEN_WARPS), ("backward", 8), ("backward", 2)])
def test_single_steps_of_open_units_compile(source, warps, cell, number):
    assert_compiled(f"open_step_{source}.cu", cell, number, 1, warps, 0, 32 * warps)


@pytest.mark.parametrize("source, blocks", [("streamed_forward.cu", 2), ("streamed_backward.cu", 4), ("dense.cu", 8)])
def test_rows_of_any_length_compile(source, blocks):
    assert_compiled(source, "Lstm", 0, blocks, 12, 4, 512)


def test_what_does_not_compile_shows_the_compilers_words():
    with pytest.raises(RuntimeError, match=r"did not compile for sm_80.*(?s:.*)\"quaternion\" is undefined(?s:.*)eager"):
        kernels.compiled(ARCHITECTURE, kernels.AROUND, Build("Lstm", "float").macros() | {"real": "quaternion"})


SIZES = [*[(name, "float", 4) for name in struct_bytes(4)], *[(name, "double", 8) for name in ("four", "arrival", "record")]]


@pytest.mark.parametrize("name, real, size", SIZES)
def test_a_struct_of_another_size_than_python_allocates_does_not_compile(name, real, size):
    """The host side allocates memory by these sizes."""
    sources: tuple[str, ...] = (*kernels.AROUND, "held_forward.cu", "held_backward.cu", "streamed_backward.cu")
    given = Build("Lstm", real, None, 0, 1, 4, 4, 256).macros()
    if name.startswith("grouped"):
        sources, given = (f"{name}.cu",), Build("Lstm", real, None, 0, 1, 4, 1, 256).macros()
    if name.startswith("spread"):
        sources, given = ("spread_forward.cu",), Build("Lstm", real, None, 0, 1, 1, 0, 32 * SPREAD_WARPS).macros()
    if name == "open_sums":
        sources, given = ("open_step_backward.cu",), Build("Lstm", real, None, 0, 1, 8, 0, 256).macros()
    wrong = given | {f"{name}_bytes": struct_bytes(size)[name] + 4}
    with pytest.raises(RuntimeError, match="static assertion failed"):
        kernels.compiled(ARCHITECTURE, sources, wrong)


def test_every_number_that_python_shares_reaches_a_kernel():
    text = "".join(path.read_text(encoding="utf-8") for folder in kernels.FOLDERS for path in folder.iterdir())
    assert [name for name in Build("Lstm", "float").macros() if f"PHASED_{name.upper()}" not in text] == []
