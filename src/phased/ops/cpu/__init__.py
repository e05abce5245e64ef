"""The compiled core on CPU tensors."""

from phased.ops.contract import Backend
from phased.ops.core import missing
from phased.ops.cpu.passes import recurrence
from phased.ops.cpu.stepper import CoreStepper

BACKEND = Backend(
    "cpu",
    "the compiled core on CPU tensors: open units only at leak 0",
    recurrence,
    device="cpu",
    missing=missing,
    stepper=CoreStepper.create,
    provides="compiled core",
)
