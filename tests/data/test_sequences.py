"""Batches: shares for several processes, and other devices."""

import pytest
import torch

from phased.data.sines import Sines


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_shares_together_have_every_sequence_once(world):
    batch = Sines().batch(0, "train", 1, 0, 7)
    shares = [batch.share(rank, world) for rank in range(world)]
    assert sum(share.size for share in shares) == 7
    for rank, share in enumerate(shares):
        for n, b in enumerate(range(rank, 7, world)):
            assert torch.equal(share.x[:, n], batch.x[:, b])
            assert torch.equal(share.time[:, n], batch.time[:, b])
            assert share.lengths[n] == batch.lengths[b]
            assert share.y[n] == batch.y[b]


def test_to_moves_everything():
    assert {tensor.device.type for tensor in Sines().batch(0, "train", 1, 0, 2).to("meta")} == {"meta"}
