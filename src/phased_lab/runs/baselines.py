"""Baselines: LSTM and batch-normalised LSTM with the time as an input, and phased layers with a normalised input."""

from __future__ import annotations

import copy
from typing import Any, Literal

import torch
from torch import Tensor, distributed, nn

from phased.layer import PhasedRNN
from phased.schedule import valid_steps

Normalised = Literal["input", "term"]


class Baseline(nn.Module):
    """torch.nn.LSTM over features and time, with the signature and the shapes of a PhasedLSTM.

    Args:
        features: size of the input, without the time.
        units: size of the hidden state.
        normalise: None for an LSTM. "input" normalises features and time, as the authors' code does; "term" normalises the
            input-to-hidden term, before the recurrent term is added, as in the work that the paper cites.
        time_unit: the time is divided by this.
    """

    def __init__(self, features: int, units: int, normalise: Normalised | None = None, time_unit: float = 1.0) -> None:
        super().__init__()
        self.lstm = nn.LSTM(features + 1, units)
        self.norm = None if normalise is None else BatchNorm(features + 1 if normalise == "input" else 4 * units)
        if normalise == "term":  # the normalisation removes any constant, and has a bias of its own
            self.lstm.get_parameter("bias_ih_l0").requires_grad_(False).zero_()
        self.hidden_size, self.normalise, self.time_unit = units, normalise, time_unit

    def forward(self, input: Tensor, time: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The output (T, B, H), and the output at each sequence's last valid step, (1, B, H).

        The output of padding is undefined. Padding comes after all valid steps and does not affect them.
        """
        x = torch.cat([input, (time / self.time_unit).to(input.dtype).unsqueeze(-1)], -1)
        output, _ = self._run(x, lengths)
        last = output[(lengths - 1).clamp(min=0), torch.arange(len(lengths), device=x.device)]
        # A sequence without samples keeps the initial state, as in a PhasedLSTM.
        return output, torch.where((lengths > 0).unsqueeze(-1), last, 0.0).unsqueeze(0)

    @property
    def recordable(self) -> bool:
        """Whether a training step reads no values from the device. The normalisation reads the lengths."""
        return self.norm is None

    def extra_repr(self) -> str:
        """The settings, for `repr`."""
        return f"normalise={self.normalise!r}, time_unit={self.time_unit:g}"

    def _run(self, x: Tensor, lengths: Tensor) -> Any:
        if self.norm is None:
            return self.lstm(x)
        if self.normalise == "input":
            scale, offset = self.norm(x, lengths)
            return self.lstm(x * scale + offset)
        # Normalising W x is the same as scaling the rows of W and adding a bias, so W x itself is not computed here.
        weight = self.lstm.get_parameter("weight_ih_l0")
        scale, offset = self.norm(x, lengths, weight)
        normalised = {"weight_ih_l0": weight * scale.unsqueeze(-1), "bias_ih_l0": offset}
        return torch.func.functional_call(self.lstm, normalised, (x,))


class BatchNorm(nn.Module):
    """torch.nn.BatchNorm1d over the valid steps of all sequences and of all processes; padding is ignored.

    Training uses the mean and variance of the batch, eval their running averages.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x: Tensor, lengths: Tensor, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the scale and the offset that normalise x (T, B, D), each (D,), or weight @ x for a weight (F, D), each (F,)."""
        if self.training:
            mean, variance = self._measure(x, lengths, weight)
        else:
            mean, variance = self.running_mean, self.running_var
        scale = self.weight * (variance + self.eps).rsqrt()
        return scale, self.bias - mean * scale

    def _measure(self, x: Tensor, lengths: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor]:
        """This batch's mean and variance; also updates the running averages."""
        count, mean, covariance = moments(x, lengths)
        if weight is None:
            variance = covariance.diagonal()
        else:
            w = weight.double()
            mean, variance = w @ mean, ((w @ covariance) * w).sum(-1)
        dtype = self.weight.dtype
        with torch.no_grad():
            self.running_mean.lerp_(mean.to(dtype), self.momentum)
            self.running_var.lerp_((variance * count / (count - 1).clamp(min=1)).to(dtype), self.momentum)
        return mean.to(dtype), variance.clamp(min=0).to(dtype)


def moments(x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Number of valid steps of x (T, B, D) over all processes, their mean (D,) and covariance (D, D); float64."""
    features = x.shape[-1]
    real = x[valid_steps(len(x), lengths)].double()
    sums = torch.cat([real.new_tensor([len(real)]), real.sum(0), (real.T @ real).flatten()])
    if distributed.is_available() and distributed.is_initialized():
        from torch.distributed.nn import functional as summed  # its gradient is summed over all processes too

        sums = summed.all_reduce(sums)
    count, squares = sums[:1], sums[1 + features :]
    mean = sums[1 : 1 + features] / count
    return count, mean, squares.view(features, features) / count - torch.outer(mean, mean)


class NormalisedInput(nn.Module):
    """A layer with an input that is normalised over the valid steps of all sequences, as in a BN-LSTM.

    Training uses the mean and variance of the batch, eval their running averages. In eval this is an affine map of the input,
    which the weights can take over: see `folded`.

    Args:
        layer: a PhasedLSTM or PhasedGRU of one layer and one direction, with biases, and steps first.
    """

    def __init__(self, layer: PhasedRNN) -> None:
        super().__init__()
        self.layer, self.norm = layer, BatchNorm(layer.input_size)
        self.input_size, self.hidden_size = layer.input_size, layer.hidden_size

    def forward(self, input: Tensor, time: Tensor, hx: Any = None, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """Return the output and the last state of the layer. The input is (T, B, D)."""
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
