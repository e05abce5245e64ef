"""Hand-set gates for the layer of a sensor."""

from __future__ import annotations

from typing import Any


def open_at_samples() -> dict[str, Any]:
    """Settings for a sensor's layer whose units are fully open at every sample, at whatever time it comes, and not learned.

    The layer of a sensor runs at the samples of its sensor and at no other time, so gates that never close are open exactly
    there. This is right for every sensor, also one with irregular times. `phased.aligned` gives the paper's hand-set gates, which
    close between the samples of a regular sensor; in a `Fusion` both compute the same.

    Returns:
        Keyword arguments of `PhasedLSTM` and `PhasedGRU`.

    Example:
        >>> import torch
        >>> from phased import PhasedLSTM, open_at_samples
        >>> rnn = PhasedLSTM(3, 2, **open_at_samples())
        >>> rnn.gates()[0](torch.tensor([0.0, 0.3, 1e9 / 7])).tolist()
        [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
        >>> [name for name, value in rnn.named_parameters() if value.requires_grad]
        ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
    """
    return {
        "period": 1.0,
        "shift": 0.0,
        "ratio_on": 1.0,
        "gate": "square",
        "learn_period": False,
        "learn_shift": False,
        "learn_ratio_on": False,
    }
