"""Defaults of the estimators; docs/estimator.md says how they were chosen."""

from __future__ import annotations

UNITS = 32
CELL = "phased_lstm"
RATE = 2e-3
DECAY = 1e-2
DROPOUT = 0.5
DROPOUT_OF_NUMBERS = 0.1
"""Of a regression, whose answer is the sum of what is not zeroed."""
BATCH = 64
EPOCHS = 40
PATIENCE = 5
VALIDATION = 0.1
