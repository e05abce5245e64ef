"""Random convolutions of a model: a ridge on shares of steps and on pieces of summaries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from phased.estimator.batches import Indices, Sequences
from phased.estimator.network import Network
from phased.estimator.ridge import Features, Ridge
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
    assert data.summary is not None
    summary = data.summary

    def rows(some: Indices) -> NDArray[np.float32]:
        """Shares and pieces of sequences."""
        which = chosen[some]
        return np.concatenate([data.shares_of(which), network.pieces(summary[torch.from_numpy(which)]).numpy()], 1)

    kinds = shares.features, network.pieces.start.numel()
    ridge = Ridge.of(Features(rows, kinds), data.y.numpy()[chosen], len(target.values) if isinstance(target, Classes) else None)
    linear.weight.copy_(torch.from_numpy(ridge.weight).to(REAL))
    linear.bias.copy_(torch.from_numpy(ridge.bias).to(REAL))
    return data
