"""Phased LSTM: recurrent layers whose units carry a time gate, for samples at any times."""

from phased.cost import openness_cost, updates
from phased.fusion import Fusion, FusionStream, Timeline, open_at_samples
from phased.init import Constant, LogUniform, Uniform, aligned
from phased.layer import PhasedGRU, PhasedLSTM
from phased.stream import Stream

__all__ = [
    "Constant",
    "Fusion",
    "FusionStream",
    "LogUniform",
    "PhasedGRU",
    "PhasedLSTM",
    "Stream",
    "Timeline",
    "Uniform",
    "aligned",
    "open_at_samples",
    "openness_cost",
    "updates",
]
__version__ = "0.1.0"
