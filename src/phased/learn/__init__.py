"""Training, for experiments and users alike: batches of irregular sequences, models, and the training loop."""

from typing import TYPE_CHECKING

from phased.lazy import exports

if TYPE_CHECKING:
    from phased.learn.batch import Batch, Evaluation, Samples, Split, Task
    from phased.learn.device import make_fabric
    from phased.learn.loop import OpenFirst, Trained, Training, fit
    from phased.learn.model import Model, Readout, Updates
    from phased.learn.store import Epoch, Score

__all__ = [
    "Batch",
    "Epoch",
    "Evaluation",
    "Model",
    "OpenFirst",
    "Readout",
    "Samples",
    "Score",
    "Split",
    "Task",
    "Trained",
    "Training",
    "Updates",
    "fit",
    "make_fabric",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "batch": ("Batch", "Evaluation", "Samples", "Split", "Task"),
        "device": ("make_fabric",),
        "loop": ("OpenFirst", "Trained", "Training", "fit"),
        "model": ("Model", "Readout", "Updates"),
        "store": ("Epoch", "Score"),
    },
)
