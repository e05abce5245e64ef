"""Training, for experiments and users alike: batches of irregular sequences, models, and the training loop."""

from phased.learn.batch import Batch, Evaluation, Samples, Split, Task
from phased.learn.device import make_fabric
from phased.learn.loop import Trained, Training, fit
from phased.learn.model import Model, Readout, Updates
from phased.learn.store import Epoch, Score

__all__ = [
    "Batch",
    "Epoch",
    "Evaluation",
    "Model",
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
