"""Phased LSTM: recurrent layers whose units carry a time gate, for samples at any times."""

from typing import TYPE_CHECKING

from phased.lazy import exports

if TYPE_CHECKING:
    from phased.cost import openness_cost, updates
    from phased.fitting import fitted
    from phased.fusion import Fusion, FusionStream, Timeline
    from phased.groups import parameter_groups
    from phased.init import Constant, LogUniform, Uniform, aligned, open_at_samples
    from phased.layer import PhasedGRU, PhasedLSTM
    from phased.openings import never_open, wake
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

__getattr__, __dir__ = exports(
    __name__,
    {
        "cost": ("openness_cost", "updates"),
        "fitting": ("fitted",),
        "fusion": ("Fusion", "FusionStream", "Timeline"),
        "groups": ("parameter_groups",),
        "init": ("Constant", "LogUniform", "Uniform", "aligned", "open_at_samples"),
        "layer": ("PhasedGRU", "PhasedLSTM"),
        "openings": ("never_open", "wake"),
        "stream": ("Stream",),
    },
)
