"""LSTM and BN-LSTM: time is a feature, padding is ignored."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from phased.learn.batch import Batch
from phased.learn.model import Readout
from phased_lab.paper.waves import Sines
from phased_lab.runs.baselines import Baseline, BatchNorm

NORMALISE = [None, "input", "term"]
BATCH = Sines().batch(0, "train", 1, 0, 8)
OTHER = Sines().batch(0, "train", 1, 1, 8)


def last(model: Baseline, batch: Batch) -> torch.Tensor:
    """The output at each sequence's last valid step, (B, H)."""
    return model(*batch.samples)[1].squeeze(0)


def padded_with(batch: Batch, steps: int, rubbish: float) -> Batch:
    """The same sequences with more padding, filled with other numbers."""
    x, time, lengths = batch.samples
    padding = torch.arange(len(x) + steps)[:, None] >= lengths
    time = functional.pad(time, (0, 0, 0, steps)).masked_fill(padding, rubbish)
    x = functional.pad(x, (0, 0, 0, 0, 0, steps)).masked_fill(padding.unsqueeze(-1), rubbish)
    return Batch.of(x, time, lengths, batch.y)


def with_time(batch: Batch) -> torch.Tensor:
    """Features and times, (T, B, 2)."""
    return torch.cat([batch.samples.x, batch.samples.time.float().unsqueeze(-1)], -1)


def real_steps(batch: Batch) -> torch.Tensor:
    """Features and times of all valid steps, (steps, 2), sequence after sequence."""
    return torch.cat([with_time(batch)[:length, b] for b, length in enumerate(batch.samples.lengths)])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("normalise", NORMALISE)
def test_padding_changes_nothing_whatever_is_in_it(normalise, training):
    results = []
    for batch in (BATCH, padded_with(BATCH, 5, 1e3)):
        torch.manual_seed(0)
        model = Readout(Baseline(1, 7, normalise), 2)
        model(OTHER)  # averages that are not those of the start
        model.train(training)
        answer = model(batch)
        answer.sum().backward()
        gradients = [p.grad for p in model.parameters() if p.requires_grad]
        results.append([answer, *gradients, *model.buffers()])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_without_normalisation_it_is_nn_lstm_over_features_and_time():
    model = Baseline(1, 5)
    for b, length in enumerate(BATCH.samples.lengths.tolist()):
        x = torch.stack([BATCH.samples.x[:length, b, 0], BATCH.samples.time[:length, b].float()], -1)
        output, _ = model.lstm(x)
        torch.testing.assert_close(model(*BATCH.samples)[0][:length, b], output)
        torch.testing.assert_close(last(model, BATCH)[b], output[-1])


def test_the_time_feature_can_be_in_another_unit():
    model, other = Baseline(1, 5, time_unit=100.0), Baseline(1, 5)
    other.load_state_dict(model.state_dict())
    x, time, lengths = BATCH.samples
    torch.testing.assert_close(model(x, time, lengths), other(x, time / 100, lengths), rtol=0, atol=0)


def test_normalising_the_input_is_torchs_batch_norm_over_the_real_steps():
    ours, torchs = BatchNorm(2), nn.BatchNorm1d(2)
    for batch, training in ((BATCH, True), (OTHER, True), (BATCH, False)):
        scale, offset = ours.train(training)(with_time(batch), batch.samples.lengths)
        wanted = torchs.train(training)(real_steps(batch))
        torch.testing.assert_close(real_steps(batch) * scale + offset, wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.running_mean, torchs.running_mean)
    torch.testing.assert_close(ours.running_var, torchs.running_var)


@pytest.mark.parametrize("training", [True, False])
def test_normalising_the_term_is_torchs_batch_norm_of_the_products(training):
    """Equal to a loop over steps with nn.BatchNorm1d on the input-to-hidden products of all valid steps."""
    units = 4
    model, norm = Baseline(1, units, "term"), nn.BatchNorm1d(4 * units)
    with torch.no_grad():
        for values in (model.norm.weight, model.norm.bias):
            values.uniform_(0.5, 1.5)
    norm.weight, norm.bias = model.norm.weight, model.norm.bias
    model.train(training)
    norm.train(training)
    w_ih, w_hh, b_hh = (model.lstm.get_parameter(f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_hh"))
    terms = norm(real_steps(BATCH) @ w_ih.T).split(BATCH.samples.lengths.tolist())
    answer = last(model, BATCH)
    for b, term in enumerate(terms):
        h = c = torch.zeros(units)
        for z in term:
            i, f, g, o = (z + h @ w_hh.T + b_hh).chunk(4)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        torch.testing.assert_close(answer[b], h, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(model.norm.running_var, norm.running_var, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.norm.running_mean, norm.running_mean, rtol=1e-4, atol=1e-5)


def test_normalising_the_term_trains_every_weight_it_should():
    model = Readout(Baseline(1, 4, "term"), 2)
    model(BATCH).square().sum().backward()
    for name, p in model.named_parameters():
        assert (p.grad is not None) == p.requires_grad, name
        assert name == "rnn.lstm.bias_ih_l0" or p.grad.abs().sum() > 0, name
    assert not model.rnn.lstm.get_parameter("bias_ih_l0").requires_grad


def test_a_sequence_without_samples_is_answered_from_the_initial_state_whatever_its_padding_is():
    rnn = Baseline(2, 3)
    x, time = torch.randn(4, 2, 2), torch.rand(4, 2, dtype=torch.float64)
    _, last = rnn(x, time, torch.tensor([0, 3]))
    assert (last[0, 0] == 0).all()
    assert (last[0, 1] != 0).any()
