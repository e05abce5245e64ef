"""Model: the interface of a network that can be trained; and Readout, a model around one recurrent layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from phased import check, ops
from phased.cost import openness_cost, updates
from phased.encoding import encoded
from phased.layer import PhasedRNN
from phased.schedule import valid_steps

if TYPE_CHECKING:
    from phased.learn.batch import Batch


class Updates(NamedTuple):
    """The number of updates of units, and the number with every unit open at every step; both are scalars."""

    made: Tensor
    possible: Tensor


class Model(nn.Module):
    """A network that can be trained by `phased.learn.fit`: a torch module with three methods.

    `forward` is required. `updates` and `penalty` are for networks with time gates; the defaults return None. A module with these
    three methods can be trained without being a subclass. A checkpoint identifies its model by `repr(model)`, so settings that no
    submodule prints belong in `extra_repr`.

    Attributes:
        divisible: the network draws its random numbers for whole batches (`Batch.place`), and computes a part without sequences.
            So several processes have the same losses as one process, and a batch may have fewer sequences than processes.
    """

    divisible = False

    def forward(self, batch: Batch) -> Tensor:
        """The output for a batch.

        Args:
            batch: the sequences; a model may not use their labels.

        Returns:
            (B, classes), or (B,) to predict a number. With one label per step, (T, B, classes) or (T, B).
        """
        raise NotImplementedError

    def updates(self, batch: Batch) -> Updates | None:
        """The number of updates that this batch takes in eval; None for a network without time gates."""
        return None

    def penalty(self) -> Tensor | None:
        """Return the term that is added to the loss times `Training.openness_cost`, or None for a network without time gates."""
        return None

    def prior(self) -> Tensor | None:
        """Return a term that is added to the loss unscaled, such as a penalty of weights, or None to add no term."""
        return None


@runtime_checkable
class TimedLayer(Protocol):
    """Another recurrent layer than those of `phased`, called as they are, for comparisons."""

    @property
    def hidden_size(self) -> int:
        """The size of the outputs."""

    @property
    def recordable(self) -> bool:
        """Whether a training step reads no values from the device."""

    def __call__(self, x: Tensor, time: Tensor, lengths: Tensor) -> Any:
        """The outputs (T, B, H), and the final state h (1, B, H) or (h, c)."""


class Readout(Model):
    """A model that classifies sequences of one stream, or predicts a number for each.

    Args:
        rnn: a PhasedLSTM or a PhasedGRU, unidirectional, with batch_first=False; or a TimedLayer.
        classes: the number of classes; None to predict a number.
        encoder: a module from samples (N, ...) to the layer's features (N, D), applied to all samples and not to padding: for
            example an `nn.Embedding` of indices, or a convolutional network. None passes the samples to the layer unchanged.
        every_step: give an output at every step, instead of one at each sequence's last valid step.
        encode_padding: apply the encoder to padding too, whose features are ignored. This avoids a synchronisation with a GPU. It
            is for encoders that treat every sample alone, and for which the padding is valid input.
        dropout: probability that an input of the linear layer, or of each of the two, is zeroed in training.
        mean: the linear layer also reads the mean of the layer's outputs over the sequence; with `every_step`, up to each step.
        hidden: the number of ReLUs in a layer between what is read and the linear layer; 0 for none.

    Shape:
        The output is (B, classes), or (B,) to predict a number; with `every_step` (T, B, classes) or (T, B).

    Raises:
        TypeError: rnn is another kind of layer.
        ValueError: rnn is bidirectional or has batch_first=True, or hidden is negative.

    Example:
        >>> import torch
        >>> from phased import PhasedLSTM
        >>> from phased.learn import Batch, Readout
        >>> model = Readout(PhasedLSTM(3, 16), classes=10, encoder=torch.nn.Embedding(100, 3))
        >>> pixels, time = torch.randint(100, (20, 4)), torch.rand(20, 4, dtype=torch.float64).cumsum(0)
        >>> batch = Batch.of(pixels, time, lengths=torch.tensor([20, 7, 12, 20]), y=torch.tensor([0, 9, 3, 3]))
        >>> model(batch).shape
        torch.Size([4, 10])
    """

    def __init__(
        self,
        rnn: PhasedRNN | TimedLayer,
        classes: int | None,
        encoder: nn.Module | None = None,
        every_step: bool = False,
        encode_padding: bool = False,
        dropout: float = 0.0,
        mean: bool = False,
        hidden: int = 0,
    ) -> None:
        super().__init__()
        if not isinstance(rnn, (PhasedRNN, TimedLayer)):
            raise TypeError(f"rnn must be a PhasedLSTM, a PhasedGRU or a TimedLayer, got {check.kind(rnn)}.")
        if isinstance(rnn, PhasedRNN) and (rnn.bidirectional or rnn.batch_first):
            raise ValueError(
                "rnn must be one-directional with the steps first, as a Batch is. Use bidirectional=False, batch_first=False."
            )
        if hidden != 0:
            check.positive_int("hidden", hidden)
        self.encoder = encoder
        self.rnn = rnn
        self.dropout = nn.Dropout(dropout) if dropout else None
        read = (1 + mean) * rnn.hidden_size
        self.hidden = nn.Linear(read, hidden) if hidden else None
        self.linear = nn.Linear(hidden or read, 1 if classes is None else classes)
        self.classes, self.every_step, self.encode_padding, self.mean = classes, every_step, encode_padding, mean

    def forward(self, batch: Batch) -> Tensor:
        """The output at each sequence's last valid step, or at every step."""
        samples = batch.samples
        x, encoder = samples.x, self.encoder
        if encoder is not None:
            x = encoded(encoder, x, samples.lengths, self.encode_padding)
        output, final = self.rnn(x, samples.time, lengths=samples.lengths)
        h = final[0] if isinstance(final, tuple) else final
        # h[-1] is the top layer's state at the last valid step: padding does not change it.
        read = output if self.every_step else h[-1]
        if self.mean:
            read = torch.cat([read, self.mean_output(output, samples.lengths)], -1)
        if self.hidden is not None:
            read = self.hidden(self.dropped(read)).relu()
        y: Tensor = self.linear(self.dropped(read))
        return y.squeeze(-1) if self.classes is None else y

    def dropped(self, read: Tensor) -> Tensor:
        """With the dropout, if there is one."""
        return read if self.dropout is None else self.dropout(read)

    @property
    def recordable(self) -> bool:
        """Whether training steps can be replayed as CUDA graphs, see `recorded` of `phased.learn.fit`.

        Steps that read values of tensors cannot be replayed. Encoders that skip padding and layers in plain PyTorch read values.
        """
        computes = ops.has_graphs(self.rnn.backend) if isinstance(self.rnn, PhasedRNN) else self.rnn.recordable
        return computes and (self.encoder is None or self.encode_padding)

    def mean_output(self, output: Tensor, lengths: Tensor) -> Tensor:
        """The mean of the layer's outputs (T, B, H) over each sequence, (B, H), or up to each step, (T, B, H)."""
        if self.every_step:
            return output.cumsum(0) / torch.arange(1, len(output) + 1, device=output.device).view(-1, 1, 1)
        if not isinstance(self.rnn, PhasedRNN):  # whose output in padding is not 0
            output = torch.where(valid_steps(len(output), lengths).unsqueeze(-1), output, 0.0)
        return output.sum(0) / lengths.clamp(min=1).unsqueeze(-1)

    def updates(self, batch: Batch) -> Updates | None:
        """The number of updates of the layer's units."""
        rnn, samples = self.rnn, batch.samples
        if not isinstance(rnn, PhasedRNN):
            return None
        made = updates(rnn, samples.time, samples.lengths).sum()
        return Updates(made, samples.lengths.sum() * rnn.num_layers * rnn.hidden_size)

    def penalty(self) -> Tensor | None:
        """`phased.openness_cost` of the layer; None for another layer."""
        return openness_cost(self.rnn) if isinstance(self.rnn, PhasedRNN) else None
