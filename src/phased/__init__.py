"""Phased LSTM: recurrent layers whose units carry a time gate, for samples at any times."""

from phased import starting as starting  # isort: skip  # before torch is imported
from phased.closed import never_open, wake
from phased.cost import openness_cost, updates
from phased.fitting import fitted
from phased.fusion import Fusion, FusionStream, Timeline, open_at_samples
from phased.groups import parameter_groups
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
    "fitted",
    "never_open",
    "open_at_samples",
    "openness_cost",
    "parameter_groups",
    "updates",
    "wake",
]
__version__ = "0.1.0"
