"""Encoders: modules from single samples to the features that a layer reads."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from phased import check
from phased.schedule import valid_steps


def check_features(features: Any, rows: int) -> Tensor:
    """The output of an encoder: one vector of features for each sample, (rows, D)."""
    if not isinstance(features, Tensor) or features.dim() != 2 or len(features) != rows:
        got = check.shape(features) if isinstance(features, Tensor) else check.kind(features)
        raise ValueError(f"the encoder must return shape ({rows}, D) for {rows} samples, got {got}.")
    return features


def encoded(encoder: nn.Module, x: Tensor, lengths: Tensor, padding: bool) -> Tensor:
    """The features (T, B, D) of samples (T, B, ...), encoded all at once. Features of padding are 0 unless `padding` is True."""
    real = valid_steps(len(x), lengths)
    rows = x.flatten(0, 1) if padding else x[real]
    features = check_features(encoder(rows), len(rows))
    if padding:
        return features.view(*real.shape, -1)
    return features.new_zeros(*real.shape, features.shape[1]).masked_scatter(real.unsqueeze(-1), features)
