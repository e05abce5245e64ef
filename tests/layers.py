"""Test material for the layers: both of them, states of either kind, and gates read back from parameters."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from phased import LogUniform, PhasedGRU, PhasedLSTM
from phased.gate import TimeGate

Layer = PhasedLSTM | PhasedGRU
each_layer = pytest.mark.parametrize("make", [PhasedLSTM, PhasedGRU])
each_direction = pytest.mark.parametrize("bidirectional", [False, True])
OPEN: dict[str, Any] = {"ratio_on": 1.0, "gate": "square"}
EXACT: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-11}


def lstm(**settings: Any) -> PhasedLSTM:
    return PhasedLSTM(3, 5, **({"period": LogUniform(2, 40), "ratio_on": 0.5} | settings)).eval()


def states(value: Any) -> tuple[Tensor, ...]:
    """(h, c) or (h,), however the layer returns it."""
    return (value,) if isinstance(value, Tensor) else tuple(value)


def flat(result: tuple[Any, Any]) -> list[Tensor]:
    """Output and final states of a layer."""
    return [result[0], *states(result[1])]


def assert_equal(got: Any, want: Any) -> None:
    """The same output and final states, bit for bit."""
    assert all(torch.equal(a, b) for a, b in zip(flat(got), flat(want), strict=True))


def assert_close(got: Any, want: Any, **tolerance: float) -> None:
    """The same output and final states, up to rounding."""
    for a, b in zip(flat(got), flat(want), strict=True):
        torch.testing.assert_close(a, b, **tolerance)


class Doubled(nn.Module):
    """A parametrisation: the value is twice what is stored."""

    def forward(self, stored: Tensor) -> Tensor:
        return 2 * stored

    def right_inverse(self, value: Tensor) -> Tensor:
        return value / 2


def as_hx(values: tuple[Tensor, ...]) -> Any:
    return values[0] if len(values) == 1 else values


def some_state(make: type, *shape: int, dtype: torch.dtype = torch.float64) -> Any:
    return as_hx(tuple(torch.randn(*shape, dtype=dtype) for _ in range(2 if make is PhasedLSTM else 1)))


def gates_of(rnn: Layer, suffix: str = "l0") -> TimeGate:
    return TimeGate(*(rnn.get_parameter(f"{name}_{suffix}").detach() for name in ("period", "shift", "ratio_on")))
