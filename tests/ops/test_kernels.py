"""The GPU's kernels compile, as text for the oldest GPU they know: NVRTC needs no GPU for that."""

import pytest

from phased.ops import compiler

core, _, absent = compiler.cuda_core()
try:
    from cuda.bindings import nvrtc

    nvrtc.nvrtcVersion()
except Exception as error:  # whatever cuda-bindings raises where a library is not found
    absent = absent or str(error)
pytestmark = pytest.mark.skipif(absent is not None, reason=f"no NVRTC: {absent}; pip install cuda-core nvidia-cuda-nvrtc")

ARCHITECTURE = "sm_{}{}".format(*compiler.OLDEST)
# Warps, helpers and threads as layout.py chooses them for one sequence a block, and for several.
SOURCES = {
    "held_forward.cu": [(14, 4, 640), (4, 1, 640)],
    "held_backward.cu": [(2, 4, 256), (2, 2, 512)],
    "streamed_forward.cu": [(8, 4, 384)],
    "streamed_backward.cu": [(8, 4, 384)],
    "dense.cu": [(8, 4, 384)],
}
CELLS = [("Lstm", 0), ("Lstm", 1), ("Gru", 0)]


@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("cell, peephole", CELLS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_recurrence_compiles(source, cell, peephole, real):
    for warps, helpers, threads in SOURCES[source]:
        sizes = {"peephole": peephole, "blocks": 1, "warps": warps, "helpers": helpers, "threads": threads}
        code = compiler.compiled(ARCHITECTURE, (source,), {"cell": f"phased::{cell}", "real": real, **sizes})
        assert code.startswith(b"\x7fELF")
        for way in ("forward", "backward"):
            assert (way.encode() in code) == (way in source or source == "dense.cu")


@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("cell", ["Lstm", "Gru"])
def test_the_kernels_around_it_compile(cell, real):
    sizes = {"peephole": 0, "blocks": 1, "warps": 1, "helpers": 1, "threads": 32}
    code = compiler.compiled(ARCHITECTURE, compiler.AROUND, {"cell": f"phased::{cell}", "real": real, **sizes})
    for kernel in ("pack", "find_open", "add_up", "fill", "event_sums", "dense_gate_sums", "input_gradient", "unpack"):
        assert f"\0.text.{kernel}\0".encode() in code


@pytest.mark.parametrize("blocks", [1, 2, 4, 8])
def test_rows_of_any_length_compile(blocks):
    sizes = {"peephole": 0, "blocks": blocks, "warps": 12, "helpers": 4, "threads": 512}
    for source in ("streamed_forward.cu", "streamed_backward.cu", "dense.cu"):
        assert compiler.compiled(ARCHITECTURE, (source,), {"cell": "phased::Lstm", "real": "float", **sizes})


def test_what_does_not_compile_shows_the_compilers_words():
    sizes = {"peephole": 0, "blocks": 1, "warps": 1, "helpers": 1, "threads": 32}
    with pytest.raises(RuntimeError, match=r"did not compile for sm_80.*(?s:.*)\"quaternion\" is undefined(?s:.*)adjoint"):
        compiler.compiled(ARCHITECTURE, compiler.AROUND, {"cell": "phased::Lstm", "real": "quaternion", **sizes})
