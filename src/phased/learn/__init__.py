"""Training, for experiments and users alike: batches of irregular sequences, models, and the training loop."""

from phased.learn.batch import Batch, Samples, Split, Task
from phased.learn.device import make_fabric
from phased.learn.loop import Trained, Training, fit
from phased.learn.model import Model, Updates
from phased.learn.readout import Readout
from phased.learn.store import Epoch

__all__ = [
    "Batch",
    "Epoch",
    "Model",
    "Readout",
    "Samples",
    "Split",
    "Task",
    "Trained",
    "Training",
    "Updates",
    "fit",
    "make_fabric",
]
