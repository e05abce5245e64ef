"""Readout: a recurrent layer, its output at each sequence's last real step, and a linear layer."""

from __future__ import annotations

from torch import Tensor, nn

from phased import check
from phased.data.sequences import Batch
from phased.layer import PhasedRNN
from phased.models.baselines import Baseline


class Readout(nn.Module):
    """`model(batch)`: (B, classes) for a number of classes, (B,) for None, which is a regression."""

    def __init__(self, rnn: PhasedRNN | Baseline, classes: int | None) -> None:
        super().__init__()
        if not isinstance(rnn, (PhasedRNN, Baseline)):
            raise TypeError(f"rnn must be a PhasedLSTM, a PhasedGRU or a Baseline, got {check.kind(rnn)}.")
        if isinstance(rnn, PhasedRNN) and (rnn.bidirectional or rnn.batch_first):
            raise ValueError(
                "rnn must be one-directional with the steps first, as a Batch is. Use bidirectional=False, batch_first=False."
            )
        self.rnn = rnn
        self.linear = nn.Linear(rnn.hidden_size, 1 if classes is None else classes)
        self.classes = classes

    def forward(self, batch: Batch) -> Tensor:
        """What the network says of each sequence at its end."""
        if isinstance(self.rnn, PhasedRNN):
            _, final = self.rnn(batch.x, batch.time, lengths=batch.lengths)
            h = final[0] if isinstance(final, tuple) else final
            last = h[-1]  # of the top layer: padding has kept it
        else:
            last = self.rnn(batch)
        y: Tensor = self.linear(last)
        return y.squeeze(-1) if self.classes is None else y
