"""Phased LSTM: recurrent layers whose units carry a time gate, for samples at any times."""

from phased.cost import updates
from phased.layer import PhasedGRU, PhasedLSTM
from phased.stream import Stream

__all__ = ["PhasedGRU", "PhasedLSTM", "Stream", "updates"]
__version__ = "0.1.0"
