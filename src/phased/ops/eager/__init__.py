"""The recurrence in plain PyTorch with its backward pass derived by hand: any device, no compiler.

This module describes the backend. The others are imported when it first runs.
"""

from phased.lazy import Functions
from phased.ops.contract import Backend
from phased.ops.operator import Operator

_passes, _stepper = Functions("phased.ops.eager.passes"), Functions("phased.ops.eager.stepper")

BACKEND = Backend(
    "eager",
    "plain PyTorch, backward by hand: open units only at leak 0, any device",
    Operator("eager", _passes.forward, _passes.backward, _passes.saved_like),
    stepper=_stepper.PlainStepper,
)
