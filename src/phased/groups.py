"""Parameter groups for an optimiser: weight decay for matrices, none for time gates."""

from __future__ import annotations

from typing import Any

from torch import nn

from phased import check
from phased.parameters import GatedModule, is_of_time


def parameter_groups(module: nn.Module, weight_decay: float = 0.01, gate_lr: float | None = None) -> list[dict[str, Any]]:
    """Parameter groups in which weight decay applies to matrices alone, for any module with phased layers in it.

    Weight decay pulls a parameter towards zero. For a period, a shift or an open ratio that is another rhythm, and in the end a
    gate that no sample meets. So gates are never decayed; nor are, by convention, parameters with fewer than two dimensions:
    biases, peepholes, and the scales and offsets of normalisation layers.

    Args:
        module: A layer, or a model that contains some. Parameters that modules share are in one group, once.
        weight_decay: Weight decay of matrices, of weights with more dimensions, and of embeddings, from 0 up.
        gate_lr: Learning rate of the gates, from 0 up. Default: the optimiser's own.

    Returns:
        A list of groups, as optimisers of `torch.optim` take it: decayed parameters, others, gates. Empty groups are left out.
        Every parameter of the module is in a group, also those that are not learned.

    Raises:
        TypeError: module is no `torch.nn.Module`, or a number is none.
        ValueError: weight_decay or gate_lr is below 0 or not finite.

    Example:
        >>> import torch
        >>> from phased import PhasedLSTM, parameter_groups
        >>> model = torch.nn.ModuleDict({"rnn": PhasedLSTM(3, 8), "head": torch.nn.Linear(8, 2)})
        >>> optimizer = torch.optim.AdamW(parameter_groups(model, weight_decay=0.1, gate_lr=1e-2), lr=1e-3)
        >>> [(len(group["params"]), group["weight_decay"], group["lr"]) for group in optimizer.param_groups]
        [(3, 0.1, 0.001), (3, 0.0, 0.001), (3, 0.0, 0.01)]
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, got {check.kind(module)}. Pass the model, not its parameters.")
    check.number("weight_decay", weight_decay, low=0.0)
    if gate_lr is not None:
        check.number("gate_lr", gate_lr, low=0.0)
    layers = [layer for layer in module.modules() if isinstance(layer, GatedModule)]
    gates = {id(value) for layer in layers for name, value in layer.named_parameters() if is_of_time(name)}
    others = [value for value in module.parameters() if id(value) not in gates]
    groups: list[dict[str, Any]] = [
        {"params": [value for value in others if value.dim() > 1], "weight_decay": float(weight_decay)},
        {"params": [value for value in others if value.dim() <= 1], "weight_decay": 0.0},
        {"params": [value for value in module.parameters() if id(value) in gates], "weight_decay": 0.0},
    ]
    if gate_lr is not None:
        groups[-1]["lr"] = float(gate_lr)
    return [group for group in groups if group["params"]]
