"""The three networks of lip reading."""

from dataclasses import replace

import pytest
import torch

from phased import PhasedGRU, PhasedLSTM
from phased.learn import Training, fit, make_fabric
from phased.learn.batch import Batch, Samples
from phased_lab.paper.lipreading.network import LipNetwork, convolutions
from phased_lab.paper.lipreading.task import Sentences
from phased_lab.runs.baselines import BatchNorm, NormalisedInput

SMALL = LipNetwork(units=(12, 14, 16, 16), normalised=True)


@pytest.fixture
def task(clips) -> Sentences:
    return Sentences(clips=(21, 2), folder=str(clips), sense="both")


def test_the_network_has_the_papers_sizes(task):
    fusion = LipNetwork().build(task, 0).fusion
    assert [(layer.input_size, layer.hidden_size) for layer in fusion.sensors.values()] == [(64, 110), (39, 150)]
    assert (fusion.merged.input_size, fusion.merged.hidden_size, fusion.merged.num_layers) == (260, 250, 2)
    first, second = (gate.period.detach() for gate in fusion.merged.gates())
    assert 10 <= float(first.min()) < float(first.max()) <= 1000
    assert 500 <= float(second.min()) < float(second.max()) <= 3000
    assert convolutions(False)(torch.zeros(5, 1, 48, 48)).shape == (5, 64)


def test_gates_of_the_sensors_are_not_learned_and_those_of_the_merged_layers_are(task):
    learned = {name for name, value in SMALL.build(task, 0).named_parameters() if value.requires_grad}
    assert not any("period" in name or "shift" in name for name in learned if ".sensors." in name)
    assert {"fusion.merged.period_l0", "fusion.merged.shift_l0", "fusion.merged.period_l1", "fusion.merged.shift_l1"} <= learned


NORMALISED = replace(SMALL, layers_normalised=True, ratio_on=0.5, periods=((10.0, 500.0), (100.0, 900.0)))


def test_inputs_of_layers_are_normalised_and_the_weights_can_take_it_over(task):
    batch = task.batch(0, "test", 1, 0, 2)
    network = NORMALISED.build(task, 0)
    norms = [module for module in network.modules() if isinstance(module, BatchNorm)]
    with torch.no_grad():
        for norm in norms:
            norm.weight.uniform_(0.5, 2.0)
            norm.bias.uniform_(-1.0, 1.0)
        for index in range(4):
            network.train()(task.batch(0, "train", 1, index, 2))
        assert len(norms) == 4
        assert all((norm.running_var - 1).abs().max() > 0.1 and norm.running_mean.abs().max() > 1e-3 for norm in norms)
        network.eval()
        torch.testing.assert_close(network.folded()(batch)[batch.mask], network(batch)[batch.mask], atol=2e-5, rtol=0)
    assert network.updates(batch) == network.folded().updates(batch)  # one counts the layers' own gates, one those of the fold
    assert torch.equal(network.folded().fusion.merged.period_l1, network.fusion.merged.upper.layer.period_l0)
    assert 0 < float(network.updates(batch).made) < float(network.updates(batch).possible)


def test_a_batch_is_normalised_in_training(task):
    network = NORMALISED.build(task, 0)
    seen = {}
    layer = network.fusion.merged.upper.layer
    layer.register_forward_pre_hook(lambda _, given: seen.update(x=given[0]))
    batch = task.batch(0, "train", 1, 0, 8)
    network.train()(batch)
    valid = network.fusion.timeline(batch.streams, steps=len(batch.y)).valid
    torch.testing.assert_close(seen["x"][valid].mean(0), torch.zeros(16), atol=1e-5, rtol=0)
    torch.testing.assert_close(seen["x"][valid].std(0, correction=0), torch.ones(16), atol=1e-2, rtol=0)


@pytest.mark.parametrize("cell", [PhasedLSTM, PhasedGRU])
def test_a_folded_layer_computes_what_the_normalised_one_does(cell):
    layer = NormalisedInput(cell(3, 4, ratio_on=0.5, period=3.0))
    time = torch.rand(9, 5, dtype=torch.float64).cumsum(0)
    for _ in range(20):
        layer(2 + 3 * torch.randn(9, 5, 3), time)
    layer.eval()
    x = torch.randn(9, 5, 3)
    before = layer.layer.weight_ih_l0.clone()
    torch.testing.assert_close(layer.folded()(x, time)[0], layer(x, time)[0])
    assert torch.equal(layer.layer.weight_ih_l0, before)


def spoiled(samples: Samples, after: float) -> Samples:
    """Other samples after this time."""
    late = (samples.time > after).view(*samples.time.shape, *[1] * (samples.x.dim() - 2))
    return samples._replace(x=torch.where(late, 9.0, samples.x))


@pytest.mark.parametrize(
    "resolution, steps", [("high", 40), ("low", 11)]
)  # until 400 ms: at 0, from 20 ms on every 10 ms; every 40
@pytest.mark.parametrize("model", LipNetwork.applies)
def test_every_network_names_a_word_at_every_step_and_knows_nothing_that_comes_later(task, model, resolution, steps):
    task = replace(task, resolution=resolution)
    batch = task.batch(0, "test", 1, 0, 2)
    network = replace(SMALL, model=model).build(task, 0).eval()
    other = Batch({name: spoiled(samples, 400.0) for name, samples in batch.streams.items()}, batch.y, batch.mask)
    with torch.no_grad():
        before, after = network(batch), network(other)
    assert before.shape == (*batch.y.shape, 51)
    assert bool(before[batch.mask].isfinite().all())
    torch.testing.assert_close(before[:steps], after[:steps], atol=1e-6, rtol=0)
    assert not torch.allclose(before[steps:], after[steps:])


def test_updates_are_those_of_samples_and_open_gates(task):
    batch = task.batch(0, "test", 1, 0, 2)
    made, possible = replace(SMALL, ratio_on=1.0).build(task, 0).updates(batch)
    steps, frames, rows = 99, 25, 98
    assert int(possible) == 2 * steps * (12 + 14 + 16 + 16)
    assert int(made) == 2 * (frames * 12 + rows * 14 + steps * 32)
    assert replace(SMALL, model="lstm").build(task, 0).updates(batch) is None


@pytest.mark.parametrize("model", LipNetwork.applies)
def test_words_of_made_up_clips_are_learned(task, model, tmp_path):
    task = replace(task, resolution="low", silent=0.0, blind=0.0)
    training = Training(epochs=18, batch=2, rate=2e-2, train=8, test=2)
    network = replace(SMALL, model=model, ratio_on=0.5, periods=((10.0, 500.0), (100.0, 900.0))).build(task, 0)
    trained = fit(task, network, training, tmp_path, make_fabric("cpu"))
    assert trained.curve[-1].loss < 0.5 * trained.curve[0].loss
    assert set(trained.evaluations) == {"video", "audio", "both"}
    assert all(0 <= score.whole <= score.test <= 1 and score.loss > 0 for score in trained.evaluations.values())
