"""Random convolutions of a model: a ridge on shares of steps and on pieces of summaries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from phased.estimator.batches import Indices, Sequences, in_batches
from phased.estimator.network import SHARES, Network
from phased.estimator.ridge import Ridge
from phased.estimator.summary import REAL
from phased.estimator.targets import Classes, Target

MOST = 20_000
"""Largest number of sequences that a ridge is fitted to. Time and memory of the fit grow with this number."""


@torch.no_grad()
def convolve(network: Network, data: Sequences, chosen: Indices, target: Target, seed: int) -> Sequences:
    """Fit the shares and the linear layer of a network to at most `MOST` of the chosen sequences.

    Call `network.measure` first, which sets the pieces of the summaries.

    Returns:
        The data with shares in every batch.
    """
    shares, linear = network.shares, network.linear
    assert shares is not None
    assert linear is not None
    chosen = np.random.default_rng(seed).permutation(chosen)[:MOST]
    shares.fit_to(lambda some: data.rows(chosen[some]), data.lengths[chosen], seed)
    data = replace(data, shares=shares)
    rows: dict[int, Any] = {}
    for some in in_batches(data, chosen):
        batch = data.batch(some)
        found = network.pieces(network.summaries(batch)).numpy()
        rows |= dict(zip(some.tolist(), zip(batch.streams[SHARES].x[0].numpy(), found, strict=True), strict=True))
    first, second = (np.stack(part) for part in zip(*(rows[which] for which in chosen.tolist()), strict=True))
    ridge = Ridge.of(first, data.y.numpy()[chosen], len(target.values) if isinstance(target, Classes) else None, second)
    linear.weight.copy_(torch.from_numpy(ridge.weight).to(REAL))
    linear.bias.copy_(torch.from_numpy(ridge.bias).to(REAL))
    return data
