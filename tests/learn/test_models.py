"""Which models, streams and labels the training loop trains, and which it refuses."""

import math
from dataclasses import dataclass

import pytest
import torch

from phased import PhasedLSTM
from phased.learn.batch import Batch
from phased.learn.device import make_fabric
from phased.learn.model import Readout
from phased_lab.paper.adding import Adding
from phased_lab.paper.waves import Sines
from phased_lab.runs.network import NetworkConfig
from training import SMALL, STEPS, EveryStep, Signs, TwoClocks, TwoSensors, assert_same_weights, numbers

SIGNS = Signs()
WAVES = Sines(periods="authors", points=(20, 30), duration=(20.0, 30.0))
WAKEFUL = NetworkConfig(units=32, leak=0.0, ratio_on=0.3, period=(1.0, 2.0))


@dataclass(frozen=True)
class Words:
    """Is the index, constant along a sequence, below five? Padding has an index that is out of range."""

    def batch(self, seed, split, epoch, index, size):
        batch = SIGNS.batch(seed, split, epoch, index, size)
        first = (5 + 5 * batch.samples.x[0, :, 0].tanh()).long().clamp(0, 9)
        indices = torch.where(batch.samples.time > 0, first, 10**6)
        return Batch.of(indices, batch.samples.time, batch.samples.lengths, (first < 5).long())


def embedded() -> Readout:
    return Readout(PhasedLSTM(3, 8, period=2.0, ratio_on=0.9), 2, encoder=torch.nn.Embedding(10, 3))


@pytest.mark.parametrize(
    "task, network, options, precision, falls_to, test",
    [
        (WAVES, lambda: WAKEFUL, {"epochs": 12, "train": 640, "batch": 32, "rate": 1e-2}, "32-true", 0.85, 0.6),
        (SIGNS, lambda: EveryStep(units=12), {"epochs": 6}, "32-true", 0.7, 0.85),
        (TwoSensors(), TwoClocks, {"epochs": 8, "openness_cost": 0.01}, "32-true", 0.7, 0.85),
        (Words(), embedded, {"epochs": 4}, "bf16-mixed", 0.8, 0.0),
    ],
    ids=["waves", "labels per step", "two streams with their own clocks", "encoder in bfloat16"],
)
def test_it_learns(train, task, network, options, precision, falls_to, test):
    torch.manual_seed(0)
    fabric = make_fabric("cpu", precision=precision)
    trained, model = train(task=task, network=network(), settings=STEPS, fabric=fabric, **options)
    assert trained.curve[-1].loss < falls_to * trained.curve[0].loss
    assert trained.curve[-1].test > test
    if network is embedded:
        torch.manual_seed(0)
        assert not torch.equal(model.encoder.weight, embedded().encoder.weight)


def test_what_the_mask_leaves_out_changes_nothing(train):
    network = EveryStep(units=12)
    (one, first), (other, second) = (train(f"{poison}", Signs(poison=poison), network, STEPS) for poison in (0, 10**9))
    assert numbers(one.curve) == numbers(other.curve)
    assert_same_weights(first, second)


@pytest.mark.parametrize(
    "model, got",
    [
        (torch.nn.Linear(1, 2), "got Linear without updates, penalty."),
        (PhasedLSTM(1, 2), "got PhasedLSTM without updates, penalty."),
        (lambda batch: batch.y, "got function."),
        (None, "got NoneType."),
    ],
    ids=["Linear", "PhasedLSTM", "function", "None"],
)
def test_what_is_no_model_is_refused_before_anything_is_written(tmp_path, train, model, got):
    with pytest.raises(TypeError) as caught:
        train("new", network=model)
    wanted = "model must be a torch module with forward(batch), updates(batch) and penalty(), "
    assert str(caught.value) == f"{wanted}{got} Make it a subclass of phased.learn.Model."
    assert not (tmp_path / "new").exists()


class Answering(torch.nn.Module):
    """Returns zeros of a shape. It has the methods of Model and is none."""

    def __init__(self, *shape):
        super().__init__()
        self.shape, self.weight = shape, torch.nn.Parameter(torch.zeros(()))

    def forward(self, batch):
        return self.weight * torch.zeros(self.shape)

    def updates(self, batch):
        return None

    def penalty(self):
        return None


def test_any_module_with_the_three_methods_is_trained(train):
    (epoch,) = train(network=Answering(8, 2), epochs=1)[0].curve
    assert (epoch.updates, epoch.loss) == (None, pytest.approx(math.log(2)))


@pytest.mark.parametrize(
    "task, shape, wanted",
    [
        (SMALL, (7, 2), "(8, classes), because y holds classes"),
        (SMALL, (12, 8, 2), "(8, classes), because y holds classes"),
        (SMALL, (), "(8, classes), because y holds classes"),
        (Adding(length=(10, 12)), (8, 1), "(8), because y holds numbers"),
        (SIGNS, (8, 2), "(9, 8, classes), because y holds classes"),
        (SIGNS, (9, 8), "(9, 8, classes), because y holds classes"),
    ],
)
def test_an_answer_of_another_shape_is_named(train, task, shape, wanted):
    with pytest.raises(ValueError) as caught:
        train(task=task, network=Answering(*shape))
    assert f"the model's output must have shape {wanted}" in str(caught.value)
    assert f"got {shape}" in str(caught.value)


def test_an_epoch_without_any_label_is_an_error(train):
    with pytest.raises(ValueError, match="at least one label must count in an epoch, got none"):
        train(task=Signs(share=0.0), network=EveryStep())
