"""Own irregular data: from a table of measurements to a trained model."""

from phased.estimator.events import Events

__all__ = ["Events"]
