"""Layers and batches on a GPU, for the tests that need one."""

import torch

from phased import PhasedLSTM
from phased.init import LogUniform


def layer(units=33, leak=0.0, cls=PhasedLSTM, **options):
    torch.manual_seed(0)
    options = {"period": LogUniform(2, 30), "ratio_on": 0.2, "learn_ratio_on": True, "backend": "cuda"} | options
    return cls(3, units, leak=leak, device="cuda", **options)


def batch(steps=60, size=9):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(steps, size, 3, generator=generator)
    return x.cuda(), torch.rand(steps, size, dtype=torch.float64, generator=generator).cumsum(0).cuda()


def gradients(rnn, x, time, **options):
    rnn.zero_grad()
    x = x.detach().requires_grad_()
    output, _ = rnn(x, time, **options)
    output.square().sum().backward()
    return [output.detach(), x.grad, *(p.grad for p in rnn.parameters())]
