"""NormalisedInput: a phased layer whose input is batch-normalised, and the same layer without, once it is trained."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from phased.layer import PhasedRNN
from phased_lab.runs.baselines import BatchNorm


class NormalisedInput(nn.Module):
    """A layer whose input is normalised over the steps of all sequences that are data, as that of a BN-LSTM.

    Training uses the mean and variance of the batch, eval their running averages. In eval this is an affine map of the input,
    which the weights can take over: see `folded`.

    Args:
        layer: a PhasedLSTM or PhasedGRU of one layer and one direction, with biases, and steps first.

    Raises:
        ValueError: the layer is not like that.
    """

    def __init__(self, layer: PhasedRNN) -> None:
        super().__init__()
        if layer.num_layers > 1 or layer.bidirectional or layer.batch_first or not layer.bias:
            raise ValueError(f"layer must have one layer and direction, biases, and steps first, got {layer}.")
        self.layer, self.norm = layer, BatchNorm(layer.input_size)
        self.input_size, self.hidden_size = layer.input_size, layer.hidden_size

    def forward(self, input: Tensor, time: Tensor, hx: Any = None, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """Output and last state of the layer; the arguments are those of the layer, with input (T, B, D)."""
        if input.dim() != 3:
            raise ValueError(
                f"input must have shape (T, B, D), got {tuple(input.shape)}. Use input.unsqueeze(1) for one sequence."
            )
        steps, sequences, _ = input.shape
        count = torch.full((sequences,), steps, device=input.device) if lengths is None else lengths
        scale, offset = self.norm(input, count)
        output: tuple[Tensor, Any] = self.layer(input * scale + offset, time, hx, lengths=lengths)
        return output

    @torch.no_grad()
    def folded(self) -> PhasedRNN:
        """A copy of the layer that computes the same from the input as it is, with the running averages in its weights."""
        layer, norm = copy.deepcopy(self.layer), self.norm
        weight, bias = layer.get_parameter("weight_ih_l0"), layer.get_parameter("bias_ih_l0")
        scale = norm.weight.double() * (norm.running_var.double() + norm.eps).rsqrt()
        offset = norm.bias.double() - norm.running_mean.double() * scale
        bias.add_((weight.double() @ offset).to(bias.dtype))
        weight.copy_(weight.double() * scale)
        return layer
