"""The compiled core on CPU tensors."""

from phased.lazy import Functions
from phased.ops.contract import Backend
from phased.ops.cpu.passes import count, is_clock, recurrence
from phased.ops.native import core, missing

BACKEND = Backend(
    "cpu",
    "the compiled core on CPU tensors: open units only at leak 0",
    recurrence,
    device="cpu",
    cells=() if core is None else frozenset(core.CELLS),
    shapes=() if core is None else frozenset(core.SHAPES),
    missing=missing,
    stepper=Functions("phased.ops.cpu.stepper").CoreStepper,
    count=count,
    is_clock=is_clock,
    provides="compiled core",
)
