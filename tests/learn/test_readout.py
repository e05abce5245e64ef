"""Readout: the output for a sequence is that of its last valid step."""

import math

import pytest
import torch
from torch import nn

from phased import PhasedGRU, PhasedLSTM, updates
from phased.cost import openness_cost
from phased.learn.batch import Batch
from phased.learn.model import Readout
from phased_lab.paper.waves import Sines
from phased_lab.runs.baselines import Baseline

BATCH = Sines().batch(0, "train", 1, 0, 6)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: Readout(nn.LSTM(1, 2), 2), TypeError, "rnn must be a PhasedLSTM, a PhasedGRU or a TimedLayer, got LSTM"),
        (
            lambda: Readout(PhasedLSTM(1, 2, bidirectional=True), 2),
            ValueError,
            "rnn must be one-directional with the steps first",
        ),
        (lambda: Readout(PhasedLSTM(1, 2, batch_first=True), 2), ValueError, "rnn must be one-directional with the steps first"),
        (lambda: Readout(PhasedLSTM(1, 5), 3, hidden=-1), ValueError, "hidden must be"),
        (lambda: Readout(PhasedLSTM(1, 5), 3, hidden=2.5), TypeError, "hidden must be"),
        (
            lambda: Readout(PhasedLSTM(1, 5), 3)(Batch({"a": BATCH.samples, "b": BATCH.samples}, BATCH.y)),
            ValueError,
            "the batch must have one stream here, got 'a', 'b'",
        ),
    ],
)
def test_what_cannot_be_read_off_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


# Encoders


def ragged(x: torch.Tensor, poison: float) -> Batch:
    """A batch of samples x (T, B, ...), with values in the padding that no encoder may receive."""
    steps, size = x.shape[:2]
    lengths = torch.tensor([steps, 1, steps // 2, steps - 1])[:size]
    time = torch.rand(steps, size, dtype=torch.float64).cumsum(0)
    x[torch.arange(steps)[:, None] >= lengths] = poison
    return Batch.of(x, time, lengths, torch.zeros(size, dtype=torch.int64))


def images() -> tuple[Batch, nn.Module]:
    """Small pictures, with nan in their padding, and a convolutional network."""
    network = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3))
    return ragged(torch.randn(9, 4, 1, 8, 8), math.nan), network


def plain() -> tuple[Batch, None]:
    """Samples that are read as they are."""
    return ragged(torch.randn(9, 4, 3), 7.0), None


LAYERS = {
    "lstm": lambda: PhasedLSTM(3, 5, period=3.0, ratio_on=0.5),
    "gru of two layers": lambda: PhasedGRU(3, 5, num_layers=2, period=3.0, ratio_on=0.5),
    "baseline": lambda: Baseline(3, 5),
}


def alone(model: Readout, batch: Batch, b: int) -> torch.Tensor:
    """The layer's output over one sequence by itself, without any padding, (T, H)."""
    x, time, lengths = batch.samples
    length = int(lengths[b])
    features = x[:length, b] if model.encoder is None else model.encoder(x[:length, b])
    if isinstance(model.rnn, Baseline):
        return model.rnn(features.unsqueeze(1), time[:length, b : b + 1], lengths[b : b + 1])[0].squeeze(1)
    return model.rnn(features, time[:length, b])[0]


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("every_step, classes", [(False, 4), (True, 3), (True, None), (False, None)])
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS.keys())
@pytest.mark.parametrize("encoded", [plain, images])
def test_the_answer_is_the_linear_layer_on_the_output_of_the_last_real_step_or_of_each(encoded, make, every_step, classes, mean):
    """With `mean`, on the mean of the outputs so far beside it."""
    (batch, encoder), seen = encoded(), []
    model = Readout(make(), classes, encoder, every_step=every_step, mean=mean).eval()
    if encoder is not None:
        encoder.register_forward_hook(lambda _, given, made: seen.append(len(given[0])))
    answer = model(batch)
    assert encoder is None or sum(seen) == int(batch.samples.lengths.sum()), "an encoder sees every real sample once, no padding"
    assert answer.shape == (*([9] if every_step else []), 4, *([classes] if classes else []))
    for b, length in enumerate(batch.samples.lengths.tolist()):
        outputs = alone(model, batch, b)
        so_far = outputs.cumsum(0) / torch.arange(1, length + 1).unsqueeze(-1)
        wanted = model.linear(torch.cat([outputs, so_far], -1) if mean else outputs)
        wanted = wanted if classes else wanted.squeeze(-1)
        torch.testing.assert_close(answer[:length, b] if every_step else answer[b], wanted if every_step else wanted[-1])


def test_relus_are_between_what_is_read_and_the_linear_layer_and_both_have_the_dropout():
    model = Readout(PhasedLSTM(1, 5, period=3.0, ratio_on=0.5), 3, mean=True, hidden=7, dropout=0.5).eval()
    seen = []
    model.hidden.register_forward_hook(lambda _, given, made: seen.append((given[0], made)))
    answer = model(BATCH)
    read, made = seen[0]
    assert (read.shape, made.shape) == ((6, 10), (6, 7))
    assert made.min() < 0, "otherwise a ReLU would change nothing"
    torch.testing.assert_close(answer, model.linear(made.relu()))
    model.dropout.forward = torch.zeros_like  # everything is dropped
    torch.testing.assert_close(model(BATCH), model.linear.bias.expand(6, 3))
    torch.testing.assert_close(seen[1][1], model.hidden.bias.expand(6, 7))


def test_updates_are_counted_over_real_steps_of_all_layers_and_open_gates_have_a_price():
    rnn = PhasedGRU(1, 5, num_layers=2, period=3.0, ratio_on=0.5)
    model, without_gates = Readout(rnn, 3), Readout(Baseline(1, 5), 3)
    found = model.updates(BATCH)
    assert found.made == updates(rnn, BATCH.samples.time, BATCH.samples.lengths).sum()
    assert found.possible == int(BATCH.samples.lengths.sum()) * 2 * 5
    assert 0 < found.made < found.possible
    torch.testing.assert_close(model.penalty(), openness_cost(rnn))
    assert without_gates.updates(BATCH) is without_gates.penalty() is None
