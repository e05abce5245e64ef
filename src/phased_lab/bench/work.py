"""Problems for layers: size, data, and timed steps of PhasedLSTM, nn.LSTM and the reference loop, on a CPU and a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from phased import PhasedLSTM
from phased_lab.bench.measure import compare

USUAL_RATIO = 0.05
"""The open ratio of a work that does not say otherwise."""
OURS, LEAKY, PEER, REFERENCE = "leak 0", "leak 0.001", "nn.LSTM", "reference loop"
"""Models. The last has a leak too. " in bfloat16" and so on may follow: a name of TERMS, or float16."""
LEAKS = {OURS: 0.0, LEAKY: 1e-3, REFERENCE: 1e-3}


@dataclass(frozen=True)
class Work:
    """A batch of B sequences of T steps of D features through H units. Steps are 0 to 2 apart, 1 on average."""

    B: int
    T: int
    D: int
    H: int
    ratio_on: float = USUAL_RATIO

    def __str__(self) -> str:
        ratio = "" if self.ratio_on == USUAL_RATIO else f" r_on {self.ratio_on:g}"
        return f"B{self.B} T{self.T:,} D{self.D} H{self.H}{ratio}"

    def data(self, device: str = "cpu") -> tuple[Tensor, Tensor, Tensor]:
        """Input, time, and a gradient at every step."""
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(self.T, self.B, self.D, generator=generator)
        time = (2 * torch.rand(self.T, self.B, dtype=torch.float64, generator=generator)).cumsum(0)
        gradient = torch.randn(self.T, self.B, self.H, generator=generator).div_(self.T)
        return x.to(device), time.to(device), gradient.to(device)

    def layer(self, leak: float, backend: str = "cpu") -> PhasedLSTM:
        """A layer with the default periods, exp U(1, 6), without the check of the first batches for units that never open."""
        torch.manual_seed(0)
        rnn = PhasedLSTM(self.D, self.H, ratio_on=self.ratio_on, leak=leak, backend=backend)
        rnn._openings.active = False
        return rnn


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Products of this precision, "ieee" or "tf32".

    By torch's defaults nn.LSTM on a GPU rounds the factors of its products to TF32 (10 bits of a float32's 23). Matrix products
    of PhasedLSTM do not.
    """
    settings: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn.rnn)
    before = [setting.fp32_precision for setting in settings]
    for setting in settings:
        setting.fp32_precision = name
    try:
        yield
    finally:
        for setting, value in zip(settings, before, strict=True):
            setting.fp32_precision = value


TERMS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "float32": partial(precision, "ieee"),
    "TF32": partial(precision, "tf32"),
    "bfloat16": partial(torch.autocast, "cuda", torch.bfloat16),
}


@dataclass(frozen=True)
class Step:
    """A training step without the optimiser, with a gradient at every time step, or a forward pass in eval."""

    rnn: nn.Module
    inputs: tuple[Tensor, ...]
    gradient: Tensor | None
    terms: Callable[[], AbstractContextManager[Any]] = nullcontext

    def __call__(self) -> None:
        """Make the step."""
        with self.terms():
            if self.gradient is None:
                with torch.no_grad():
                    self.rnn(*self.inputs)
            else:
                self.rnn.zero_grad(set_to_none=True)
                output, _ = self.rnn(*self.inputs)
                output.backward(self.gradient)


def steps(work: Work, names: Iterable[str], device: str = "cpu", train: bool = True) -> dict[str, Step]:
    """The steps of models on the same data."""
    x, time, gradient = work.data(device)
    made = {}
    for name in names:
        model, _, number = name.partition(" in ")
        backend = "reference" if model == REFERENCE else device
        rnn = (nn.LSTM(work.D, work.H) if model == PEER else work.layer(LEAKS[model], backend)).to(device).train(train)
        tensors = [x, gradient]
        if number == "float16":
            rnn, tensors = rnn.half(), [tensor.half() for tensor in tensors]
        inputs = (tensors[0],) if model == PEER else (tensors[0], time)
        made[name] = Step(rnn, inputs, tensors[1] if train else None, TERMS.get(number, nullcontext))
    return made


def timed(
    work: Work, rounds: int, *names: str, device: str = "cpu", train: bool = True, alone: bool = False, **more: Any
) -> dict[str, Any]:
    """Time steps of models in turns. The reference loop is far slower and is timed in two rounds after the others.

    On a GPU each step is made three times before, and the GPU is synchronised between turns, with `alone` after each step.
    """
    made: dict[str, Callable[[], None]] = {**steps(work, names, device, train)}
    sync = torch.cuda.synchronize if device == "cuda" else None
    for step in 3 * [*made.values()] if sync else ():
        step()
    if alone:
        made = {name: partial(waited, step) for name, step in made.items()}
    slow = {name: made.pop(name) for name in names if name == REFERENCE}
    return {"work": asdict(work), "seconds": compare(made, rounds, sync=sync) | compare(slow, 2, sync=sync), **more}


def waited(step: Callable[[], None]) -> None:
    """Make a step and wait for the GPU."""
    step()
    torch.cuda.synchronize()
