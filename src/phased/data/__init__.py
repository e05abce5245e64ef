"""The paper's synthetic tasks: frozen dataclasses whose `batch` is a pure function of a seed and a place in the training."""
