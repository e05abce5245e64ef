"""Fusion: sensors of any rate in one network, each layer at the samples of its own sensor."""

from phased.fusion.gates import open_at_samples
from phased.fusion.module import Fused, Fusion
from phased.fusion.parts import Parts
from phased.fusion.stream import FusionStream
from phased.fusion.timeline import Timeline, hold

__all__ = ["Fused", "Fusion", "FusionStream", "Parts", "Timeline", "hold", "open_at_samples"]
