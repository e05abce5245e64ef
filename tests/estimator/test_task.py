"""Batches of sequences in memory."""

from dataclasses import replace

import numpy as np
import torch

from phased.estimator.batches import Sequences


def test_batches_have_the_same_numbers_whichever_lie_together_in_memory():
    offset = np.array([0, 3, 3, 8, 9])
    x, time, static = torch.randn(9, 4), torch.rand(9, dtype=torch.float64), torch.randn(4, 2)
    data = Sequences(x, time, static, offset, torch.arange(9.0), torch.rand(9) < 0.5)
    chosen = np.array([2, 0, 1])
    one, other = data.batch(chosen), replace(data, step_first=True).batch(chosen)
    assert not one.streams["steps"].x.is_contiguous()
    assert other.streams["steps"].x.is_contiguous()
    for name, samples in one.streams.items():
        valid = torch.arange(len(samples.x)).unsqueeze(-1) < samples.lengths
        assert torch.equal(samples.x[valid], other.streams[name].x[valid])
        assert torch.equal(samples.time, other.streams[name].time)
        assert torch.equal(samples.lengths, other.streams[name].lengths)
    assert torch.equal(one.y, other.y)
    assert torch.equal(one.mask, other.mask)
    for column, sequence in enumerate(chosen):
        own = slice(offset[sequence], offset[sequence + 1])
        length = offset[sequence + 1] - offset[sequence]
        assert torch.equal(one.streams["steps"].x[:length, column], x[own])
        assert torch.equal(one.streams["steps"].time[:length, column], time[own])
        assert not one.streams["steps"].time[length:, column].any()
