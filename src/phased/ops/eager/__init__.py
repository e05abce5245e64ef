"""The recurrence in plain PyTorch with its backward pass derived by hand: any device, no compiler."""

from phased.ops.contract import Backend
from phased.ops.eager.passes import recurrence

BACKEND = Backend("eager", "plain PyTorch, backward by hand: open units only at leak 0, any device", recurrence)
