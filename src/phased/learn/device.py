"""Where to train: one device in this process, or several processes and machines by Lightning Fabric."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from phased import check

if TYPE_CHECKING:
    from lightning.fabric import Fabric

    from phased.learn.batch import Batch
    from phased.learn.distributed import Processes

Devices: TypeAlias = "OneDevice | Processes"
Value = TypeVar("Value")

LOW = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
"""The dtype of matrix products in mixed precision."""


class OneDevice:
    """One device in this process, in full or in mixed precision."""

    world_size = 1
    global_rank = 0
    is_global_zero = True

    def __init__(self, device: torch.device, precision: str = "32-true") -> None:
        self.device, self.precision = device, precision
        self._scaler = torch.amp.GradScaler(device.type) if precision == "16-mixed" else None

    def launch(self) -> None:
        """Return at once, because this process trains alone."""

    def setup(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[Callable[[Batch], Tensor], Any]:
        """The call of the model on the device, under autocast in mixed precision, and the optimiser."""
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        model.to(self.device)
        if self.precision == "32-true":
            return model, optimizer
        region = torch.autocast(self.device.type, LOW[self.precision])

        def call(batch: Batch) -> Tensor:
            with region:
                answer: Tensor = model(batch)
            return answer.to(torch.get_default_dtype())

        return call, optimizer

    def backward(self, loss: Tensor) -> None:
        """Add the gradients of a loss, with the scale that float16 needs."""
        (loss if self._scaler is None else self._scaler.scale(loss)).backward()  # type: ignore[no-untyped-call]

    def unscale(self, optimizer: Any) -> None:
        """Undo the scale of the gradients."""
        if self._scaler is not None:
            self._scaler.unscale_(optimizer)

    def step(self, optimizer: Any) -> None:
        """Take a step of the optimiser. It is skipped if a scaled gradient is not finite."""
        if self._scaler is None:
            optimizer.step()
        else:
            self._scaler.step(optimizer)
            self._scaler.update()

    def summed(self, values: Tensor) -> Tensor:
        """The values of this process."""
        return values

    def broadcast(self, value: Any) -> Any:
        """The value."""
        return value

    def barrier(self) -> None:
        """Return at once, because this process trains alone."""


def devices_of(fabric: Fabric | OneDevice) -> Devices:
    """The devices of a Fabric, or the device itself."""
    if isinstance(fabric, OneDevice):
        return fabric
    from phased.learn.distributed import Processes

    return Processes(fabric)


def one_device(device: str = "auto", precision: str = "32-true") -> OneDevice:
    """The device of this name, "auto", "cpu", "cuda" or "cuda:1", in this process."""
    kind, index = check_device(device)
    return OneDevice(torch.device(kind, int(index or 0)) if kind == "cuda" else torch.device(kind), precision)


def together(device: str = "auto") -> OneDevice | Fabric:
    """The device of this name, or, if `torchrun` started several processes, the Fabric of these processes, launched.

    Raises:
        ModuleNotFoundError: there are several processes, and Lightning is not installed.
        ValueError: there is no such device, or several processes have a device with a number.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return one_device(device)
    kind, index = check_device(device)
    if index:
        raise ValueError(
            f"device must have no number in several processes, got {device!r}. Use {kind!r}, a GPU for each process."
        )
    from phased.learn.distributed import launched

    return launched(kind)


def is_first() -> bool:
    """Whether this process is the first, or the only one, of those that train together."""
    return not _together() or bool(torch.distributed.get_rank() == 0)


def agreed(value: Value) -> Value:
    """The value of the first of the processes that train together."""
    if not _together():
        return value
    values = [value]
    torch.distributed.broadcast_object_list(values)
    return values[0]


def _together() -> bool:
    """Whether this process trains with others."""
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def make_fabric(device: str = "auto", devices: Any = 1, **options: Any) -> OneDevice | Fabric:
    """The device or devices for `fit`: one device in this process, or a Lightning Fabric of several processes.

    A Fabric needs Lightning: `pip install 'phased[distributed]'`.

    Args:
        device: "auto" (CUDA if available, else the CPU), "cpu", "cuda" or one GPU by its number, "cuda:1".
        devices: the number of processes, as `Fabric` takes it; ignored where `device` has a number.
        options: `precision`, "32-true", "bf16-mixed" or, on a GPU, "16-mixed"; or further arguments of `Fabric`, such as
            `strategy` or `num_nodes`.

    Returns:
        The device, or the Fabric, not launched.

    Raises:
        ValueError: there is no such device.
        ModuleNotFoundError: several processes or other arguments need Lightning, which is not installed.
    """
    kind, index = check_device(device)
    precision = options.get("precision", "32-true")
    ours = {"32-true", "bf16-mixed", *(("16-mixed",) if kind == "cuda" else ())}
    if (index or devices == 1) and options.keys() <= {"precision"} and precision in ours:
        return one_device(device, precision)
    from phased.learn.distributed import make

    return make(accelerator=kind, devices=[int(index)] if index else devices, **options)


def check_device(device: str) -> tuple[str, str]:
    """The type, "cpu" or "cuda", and the number or ""; a ValueError if there is no such device."""
    if not isinstance(device, str):
        raise TypeError(f"device must be 'auto', 'cpu' or 'cuda', got {check.kind(device)}. Pass it as text.")
    kind, colon, index = device.partition(":")
    check.choice("device", kind, ("auto", "cpu", "cuda"))
    if colon and not (kind == "cuda" and index.isascii() and index.isdigit()):
        raise ValueError(f"device must be 'cuda' or 'cuda:' and a number, got {device!r}. Use 'cuda:0' for the first GPU.")
    if kind == "auto":
        kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be 'cpu' here, got 'cuda', which PyTorch does not find. Use 'auto' or 'cpu'.")
    if index and int(index) >= torch.cuda.device_count():
        raise ValueError(f"device must be at most 'cuda:{torch.cuda.device_count() - 1}' here, got {device!r}.")
    return kind, index
