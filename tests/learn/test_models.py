"""Which models, streams and labels the training loop trains, and which it refuses."""

from dataclasses import dataclass, replace

import pytest
import torch

from phased import PhasedLSTM
from phased.learn.batch import Batch, Split
from phased.learn.device import make_fabric
from phased.learn.loop import fit
from phased.learn.model import Model
from phased.learn.readout import Readout
from phased_lab.paper.adding import Adding
from phased_lab.runs.network import NetworkConfig
from training import (
    SHORT,
    SMALL,
    STEPS,
    EveryStep,
    Signs,
    TwoClocks,
    TwoSensors,
)

SIGNS = Signs()


@dataclass(frozen=True)
class Numbers(Signs):
    """The labels are the samples themselves; labels that do not count are nan."""

    classes: int | None = None

    def batch(self, seed, split, epoch, index, size):
        batch = super().batch(seed, split, epoch, index, size)
        y = torch.where(batch.mask, batch.samples.x[..., 0], float("nan"))
        return Batch.of(*batch.samples, y, batch.mask)


@dataclass(frozen=True)
class Words:
    """Is the index, constant along a sequence, below five? Padding has an index that is out of range."""

    def batch(self, seed, split, epoch, index, size):
        batch = SIGNS.batch(seed, split, epoch, index, size)
        first = (5 + 5 * batch.samples.x[0, :, 0].tanh()).long().clamp(0, 9)
        indices = torch.where(batch.samples.time > 0, first, 10**6)
        return Batch.of(indices, batch.samples.time, batch.samples.lengths, (first < 5).long())


def every_step(folder, fabric, task=SIGNS, **training):
    """The curve and the network of a training with labels per step."""
    model = EveryStep(units=12).build(task, 0)
    return fit(task, model, replace(STEPS, **training), folder, fabric).curve, model


def numbers(curve):
    """The parts of a curve that do not depend on the time it took."""
    return [(point.epoch, point.loss, point.test, point.updates) for point in curve]


def test_labels_a_step_are_learned(tmp_path, fabric):
    curve, _ = every_step(tmp_path, fabric, epochs=6)
    assert curve[-1].loss < 0.7 * curve[0].loss
    assert curve[-1].test > 0.85


def test_what_the_mask_leaves_out_changes_nothing(tmp_path, fabric):
    one, other = (every_step(tmp_path / f"{poison}", fabric, Signs(poison=poison)) for poison in (0, 10**9))
    assert numbers(one[0]) == numbers(other[0])
    for name, value in one[1].state_dict().items():
        assert torch.equal(value, other[1].state_dict()[name]), name


@pytest.mark.parametrize("share", [0.5, 0.02])
def test_the_metric_of_labels_a_step_counts_labels(tmp_path, fabric, share):
    task = Signs(share=share)
    (epoch,), model = every_step(tmp_path, fabric, task, epochs=1)
    batches = [task.batch(0, "test", 1, index, 8) for index in range(STEPS.test // 8)]
    model.eval()
    right = sum(int((model(batch).argmax(-1) == batch.y)[batch.mask].sum()) for batch in batches)
    assert epoch.test == right / sum(int(batch.mask.sum()) for batch in batches)
    if share < 0.1:
        assert min(int(batch.mask.sum()) for batch in batches) == 0, "a batch without a label is no hindrance"


def test_the_loss_of_labels_a_step_is_the_mean_over_labels(tmp_path, fabric):
    (epoch,), _ = every_step(tmp_path, fabric, epochs=1, train=8)
    batch, model = SIGNS.batch(0, "train", 1, 0, 8), EveryStep(units=12).build(SIGNS, 0)
    wanted = torch.nn.functional.cross_entropy(model.train()(batch)[batch.mask], batch.y[batch.mask])
    assert epoch.loss == pytest.approx(wanted.item(), rel=1e-5)


def test_a_number_a_step_is_learned_by_its_squared_error(tmp_path, fabric):
    task = Numbers()
    model = EveryStep(units=4).build(task, 0)
    (epoch,) = fit(task, model, replace(STEPS, epochs=1, test=8), tmp_path, fabric).curve
    batch = task.batch(0, "test", 1, 0, 8)
    wanted = (model.eval()(batch) - batch.y)[batch.mask].square().mean()
    assert epoch.test == pytest.approx(wanted.item(), rel=1e-5)


def test_a_model_of_two_streams_with_their_own_clocks_is_trained(tmp_path, fabric):
    torch.manual_seed(0)
    model = TwoClocks()
    curve = fit(TwoSensors(), model, replace(STEPS, epochs=8, openness_cost=0.01), tmp_path, fabric).curve
    assert curve[-1].loss < 0.7 * curve[0].loss
    assert curve[-1].test > 0.85
    batches = [TwoSensors().batch(0, "test", 8, index, 8) for index in range(STEPS.test // 8)]
    counts = [model.updates(batch) for batch in batches]
    assert curve[-1].updates == pytest.approx(float(sum(c.made for c in counts) / sum(c.possible for c in counts)))
    assert 0 < curve[-1].updates < 1


def test_a_model_of_two_streams_resumes_with_the_unbroken_trainings_bits(tmp_path, fabric):
    def trained(folder, *epochs):
        for count in epochs:
            torch.manual_seed(0)
            model = TwoClocks()
            outcome = fit(TwoSensors(), model, replace(STEPS, epochs=count), tmp_path / folder, fabric)
        return outcome, model.state_dict()

    (unbroken, one), (resumed, other) = trained("unbroken", 4), trained("broken", 1, 3, 4)
    assert (unbroken.resumed, resumed.resumed) == (0, 3)
    assert numbers(unbroken.curve) == numbers(resumed.curve)
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


def test_a_model_without_a_penalty_has_no_price(tmp_path, fabric):
    curves = []
    for price in (0.0, 10.0):
        model = NetworkConfig("lstm", units=5).build(SMALL, 0)
        assert model.penalty() is None
        curves.append(numbers(fit(SMALL, model, replace(SHORT, openness_cost=price), tmp_path / f"{price}", fabric).curve))
    assert curves[0] == curves[1]


def test_any_module_with_the_three_methods_is_trained(tmp_path, fabric):
    class Mine(torch.nn.Module):
        """Not a subclass of Model."""

        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(1, 2)

        def forward(self, batch):
            return self.linear(batch.samples.x[0])

        def updates(self, batch):
            return None

        def penalty(self):
            return None

    (epoch,) = fit(SMALL, Mine(), replace(SHORT, epochs=1), tmp_path, fabric).curve
    assert epoch.updates is None
    assert epoch.loss > 0


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
def test_what_is_no_model_is_refused_before_anything_is_written(tmp_path, fabric, model, got):
    with pytest.raises(TypeError) as caught:
        fit(SMALL, model, SHORT, tmp_path / "new", fabric)
    wanted = "model must be a torch module with forward(batch), updates(batch) and penalty(), "
    assert str(caught.value) == f"{wanted}{got} Make it a subclass of phased.learn.Model."
    assert not (tmp_path / "new").exists()


class Answering(Model):
    """Returns zeros of a shape."""

    def __init__(self, *shape):
        super().__init__()
        self.shape, self.weight = shape, torch.nn.Parameter(torch.zeros(()))

    def forward(self, batch):
        return self.weight * torch.zeros(self.shape)


@pytest.mark.parametrize(
    "task, shape, wanted",
    [
        (SMALL, (7, 2), "(8, classes), because y holds classes"),
        (SMALL, (8, 2, 1), "(8, classes), because y holds classes"),
        (SMALL, (12, 8, 2), "(8, classes), because y holds classes"),
        (SMALL, (), "(8, classes), because y holds classes"),
        (SMALL, (8,), "(8, classes), because y holds classes"),
        (Adding(length=(10, 12)), (8, 1), "(8), because y holds numbers"),
        (SIGNS, (8, 2), "(9, 8, classes), because y holds classes"),
        (SIGNS, (9, 8), "(9, 8, classes), because y holds classes"),
    ],
)
def test_an_answer_of_another_shape_is_named(tmp_path, fabric, task, shape, wanted):
    with pytest.raises(ValueError) as caught:
        fit(task, Answering(*shape), SHORT, tmp_path, fabric)
    got = str(shape).replace("'", "")
    assert f"the model's output must have shape {wanted}" in str(caught.value)
    assert f"got {got}" in str(caught.value)


@dataclass(frozen=True)
class Unlabelled(Signs):
    """No label counts."""

    def batch(self, seed: int, split: Split, epoch: int, index: int, size: int) -> Batch:
        batch = super().batch(seed, split, epoch, index, size)
        return replace(batch, mask=torch.zeros_like(batch.mask))


def test_an_epoch_without_any_label_is_an_error(tmp_path, fabric):
    model = Readout(PhasedLSTM(1, 4, period=2.0, ratio_on=0.9), 2, every_step=True)
    with pytest.raises(ValueError, match="at least one label must count in an epoch, got none"):
        fit(Unlabelled(), model, STEPS, tmp_path, fabric)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_an_encoder_is_trained_with_its_layer(tmp_path, precision):
    task = Words()
    model = Readout(PhasedLSTM(3, 8, period=2.0, ratio_on=0.9), 2, encoder=torch.nn.Embedding(10, 3))
    before = model.encoder.weight.detach().clone()
    curve = fit(task, model, replace(STEPS, epochs=4), tmp_path, make_fabric("cpu", precision=precision)).curve
    assert curve[-1].loss < 0.8 * curve[0].loss
    assert not torch.equal(model.encoder.weight, before)
