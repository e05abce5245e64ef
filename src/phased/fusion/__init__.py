"""Fusion: sensors of any rate in one network, each layer at the samples of its own sensor."""

from phased.fusion.module import Fused, Fusion, Parts
from phased.fusion.stream import FusionStream
from phased.fusion.timeline import Timeline, hold
from phased.init import open_at_samples

__all__ = ["Fused", "Fusion", "FusionStream", "Parts", "Timeline", "hold", "open_at_samples"]
