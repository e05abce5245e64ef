"""CUDA kernels for NVIDIA GPUs."""

from phased.ops.contract import Backend
from phased.ops.cuda.constants import CELLS, SHAPES
from phased.ops.cuda.passes import missing, recurrence

BACKEND = Backend(
    "cuda",
    "kernels for NVIDIA GPUs: open units only at leak 0",
    recurrence,
    device="cuda",
    cells=frozenset(CELLS),
    shapes=frozenset(SHAPES),
    missing=missing,
    replay=recurrence.replay,
    graphs=True,
    provides="kernels",
)
