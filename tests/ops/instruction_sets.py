"""Run as a program: holds the core to the reference on ragged batches, and prints the instruction set it used."""

import sys

import torch

from phased import PhasedGRU, PhasedLSTM
from phased.init import LogUniform
from phased.ops import cpu


def gradients(rnn: PhasedLSTM | PhasedGRU, x: torch.Tensor, time: torch.Tensor) -> list[torch.Tensor]:
    """The output and every gradient."""
    rnn.zero_grad()
    x = x.detach().requires_grad_()
    output, _ = rnn(x, time, lengths=[40, 0, 17, 39])
    output.square().sum().backward()
    return [output.detach(), x.grad, *(p.grad for p in rnn.parameters() if p.grad is not None)]


def main(dtype: torch.dtype) -> None:
    """Both cells, sparse and dense, sizes around a vector's."""
    torch.manual_seed(0)
    for cls in (PhasedLSTM, PhasedGRU):
        for units in (1, 7, 33, 110):
            for leak in (0.0, 0.01):
                rnn = cls(3, units, period=LogUniform(2, 30), ratio_on=0.2, learn_ratio_on=True, leak=leak, dtype=dtype)
                x, time = torch.randn(40, 4, 3, dtype=dtype), torch.rand(40, 4, dtype=torch.float64).cumsum(0)
                rnn.backend = "cpu"
                ours = gradients(rnn, x, time)
                rnn.backend = "reference"
                for got, expected in zip(ours, gradients(rnn, x, time), strict=True):
                    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4 if dtype == torch.float32 else 1e-10)


if __name__ == "__main__":
    main(getattr(torch, sys.argv[1]))
    print(cpu.core.instruction_set())
