"""Defaults of the estimators; docs/estimator.md says how they were chosen."""

from __future__ import annotations

UNITS = 32
CELL = "phased_lstm"
RATE = 2e-3
DECAY = 1e-2
DROPOUT = 0.5
DROPOUT_OF_NUMBERS = 0.1
"""Of a regression, whose answer is the sum of what is not zeroed."""
MOST_IN_BATCH, LEAST_IN_BATCH, BATCHES = 64, 8, 40
"""Sequences in a batch, and batches in an epoch: small data sets have smaller batches, so that an epoch has enough steps."""
EPOCHS = 100
PATIENCE = 5
VALIDATION = 0.1


def batch_size(given: int | None, sequences: int) -> int:
    """The batch size of a training with so many sequences."""
    return given or max(LEAST_IN_BATCH, min(MOST_IN_BATCH, sequences // BATCHES))
