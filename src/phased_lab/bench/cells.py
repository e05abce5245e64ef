"""Estimators with a phased layer and with torch's layers in its place."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import typer

from phased.estimator import PhasedClassifier, PhasedRegressor

CELLS = {"phased LSTM": "phased_lstm", "nn.LSTM": "lstm", "nn.GRU": "gru"}
Seeds = Annotated[int, typer.Option("--seeds", metavar="N", min=1, help="Seeds 0 to N - 1.")]
"""The option of a benchmark."""


def fitted(
    cell: str, x: Any, y: Any, kind: type[PhasedClassifier] | type[PhasedRegressor] = PhasedClassifier, **settings: Any
) -> Any:
    """An estimator of a cell of CELLS, trained on the CPU. Warnings, such as of units that never open, are of no use here."""
    model = kind(cell=CELLS[cell], device="cpu", **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(x, y)
