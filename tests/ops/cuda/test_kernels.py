"""The GPU's kernels compile, as text for the oldest GPU they know: NVRTC needs no GPU for that."""

import pytest
import torch

from phased.ops.cuda import compiler
from phased.ops.cuda.constants import OPEN_WARPS, SPREAD_WARPS, macros, struct_bytes
from phased.ops.cuda.kernels import OLDEST

core, _, absent = compiler.cuda_core()
try:
    from cuda.bindings import nvrtc

    nvrtc.nvrtcVersion()
except Exception as error:  # whatever cuda-bindings raises where a library is not found
    absent = absent or str(error)
pytestmark = pytest.mark.skipif(absent is not None, reason=f"no NVRTC: {absent}; pip install cuda-core nvidia-cuda-nvrtc")

ARCHITECTURE = "sm_{}{}".format(*OLDEST)
# Warps, helpers and threads as layout.py chooses them for one sequence a block, and for several.
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
SMALLEST = (None, 0, 1, 1, 1, 32)  # the tape in float32 or float64; peephole, blocks, warps, helpers, threads
CELLS = [("Lstm", 0), ("Lstm", 1), ("Gru", 0)]


@pytest.mark.parametrize("real, half", [("float", None), ("double", None), ("float", torch.bfloat16), ("float", torch.float16)])
@pytest.mark.parametrize("cell, peephole", CELLS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_recurrence_compiles(source, cell, peephole, real, half):
    for warps, helpers, threads in SOURCES[source]:
        code = compiler.compiled(ARCHITECTURE, (source,), macros(cell, real, half, peephole, 1, warps, helpers, threads))
        assert code.startswith(b"\x7fELF")
        for way in ("forward", "backward"):
            assert (way.encode() in code) == (way in source or source in ("dense.cu", "small.cu", "stepwise.cu"))


@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("cell", ["Lstm", "Gru"])
def test_the_kernels_around_it_compile(cell, real):
    code = compiler.compiled(ARCHITECTURE, compiler.AROUND, macros(cell, real, *SMALLEST))
    sums = ("event_sums", "wide_event_sums", "sorted_sums", "wide_sorted_sums", "gate_sums", "dense_gate_sums", "input_gradient")
    for kernel in ("pack", "find_open", "add_up", "fill", *sums, "unpack"):
        assert f"\0.text.{kernel}\0".encode() in code


@pytest.mark.parametrize("beyond", [0, 1, 24, 32])
@pytest.mark.parametrize("sixteens", [4, 7, 8])
def test_grouped_sequences_compile_for_layers_of_any_size(sixteens, beyond):
    for source in ("grouped_forward.cu", "grouped_backward.cu"):
        assert compiler.compiled(ARCHITECTURE, (source,), macros("Lstm", "float", None, 0, sixteens, 4, 1, 320, beyond))


@pytest.mark.parametrize("sequences", [1, 16, SPREAD_WARPS])
@pytest.mark.parametrize("cell, half, peephole", [("Lstm", None, 0), ("Lstm", torch.bfloat16, 1), ("Gru", torch.float16, 0)])
def test_units_that_are_spread_over_multiprocessors_compile(sequences, cell, half, peephole):
    given = macros(cell, "float", half, peephole, 1, 1, 0, 32 * sequences)
    for source in ("spread_forward.cu", "spread_backward.cu"):
        assert compiler.compiled(ARCHITECTURE, (source,), given)


@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("cell, half, peephole", [("Lstm", None, 0), ("Lstm", torch.bfloat16, 1), ("Gru", torch.float16, 0)])
def test_single_steps_of_open_units_compile(real, cell, half, peephole):
    for source, warps in (("open_step_forward.cu", OPEN_WARPS), ("open_step_backward.cu", 8), ("open_step_backward.cu", 2)):
        given = macros(cell, real, half if real == "float" else None, peephole, 1, warps, 0, 32 * warps)
        assert compiler.compiled(ARCHITECTURE, (source,), given)


@pytest.mark.parametrize("blocks", [1, 2, 4, 8])
def test_rows_of_any_length_compile(blocks):
    for source in ("streamed_forward.cu", "streamed_backward.cu", "dense.cu"):
        assert compiler.compiled(ARCHITECTURE, (source,), macros("Lstm", "float", None, 0, blocks, 12, 4, 512))


def test_what_does_not_compile_shows_the_compilers_words():
    with pytest.raises(RuntimeError, match=r"did not compile for sm_80.*(?s:.*)\"quaternion\" is undefined(?s:.*)adjoint"):
        compiler.compiled(ARCHITECTURE, compiler.AROUND, macros("Lstm", "float", *SMALLEST) | {"real": "quaternion"})


SIZES = [
    *[(name, "float", 4) for name in struct_bytes(4)],
    *[(name, "double", 8) for name in struct_bytes(8) if not name.startswith("spread")],  # in float32 only
]


@pytest.mark.parametrize("name, real, size", SIZES)
def test_a_struct_of_another_size_than_python_allocates_does_not_compile(name, real, size):
    """The host side allocates memory by these sizes."""
    sources: tuple[str, ...] = (*compiler.AROUND, "held_forward.cu", "held_backward.cu", "streamed_backward.cu")
    given = macros("Lstm", real, None, 0, 1, 4, 4, 256)
    if name.startswith("grouped"):
        sources, given = (f"{name}.cu",), macros("Lstm", real, None, 0, 1, 4, 1, 256)
    if name.startswith("spread"):
        sources, given = ("spread_forward.cu",), macros("Lstm", real, None, 0, 1, 1, 0, 32 * SPREAD_WARPS)
    if name == "open_sums":
        sources, given = ("open_step_backward.cu",), macros("Lstm", real, None, 0, 1, 8, 0, 256)
    wrong = given | {f"{name}_bytes": struct_bytes(size)[name] + 4}
    with pytest.raises(RuntimeError, match="static assertion failed"):
        compiler.compiled(ARCHITECTURE, sources, wrong)


def test_every_number_that_python_shares_reaches_a_kernel():
    text = "".join(path.read_text(encoding="utf-8") for folder in compiler.FOLDERS for path in folder.iterdir())
    assert [name for name in macros("Lstm", "float", *SMALLEST) if f"PHASED_{name.upper()}" not in text] == []
