"""A student that learns beside a teacher: the loss of both, and that a test measures the student alone."""

import torch
from torch import nn
from torch.nn import functional

from phased import PhasedLSTM
from phased.learn import Batch, Model, Readout, Training, fit, make_fabric
from phased.learn.device import OneDevice
from phased_lab.runs.run import records
from phased_lab.runs.taught import Taught, student_of

CLASSES = 4


class Fixed(Model):
    """Gives the same outputs for every batch."""

    def __init__(self, outputs):
        super().__init__()
        self.outputs = nn.Parameter(outputs)

    def forward(self, batch):
        return self.outputs


def a_batch(size=5):
    """One batch for each size; the class shows in the samples."""
    random = torch.Generator().manual_seed(size)
    y = torch.randint(CLASSES, (size,), generator=random)
    x = torch.randn(6, size, 3, generator=random) + y.view(-1, 1).eq(torch.arange(3)) * 2.0
    time = torch.arange(6, dtype=torch.float64).unsqueeze(-1).expand(6, size)
    return Batch.of(x, time, torch.full((size,), 6), y)


class Repeated:
    """A task with one batch of each size."""

    def batch(self, seed, split, epoch, index, size):
        return a_batch(size)

    def __repr__(self):
        return "Repeated()"


def a_pair(share, size=5):
    return Taught(Fixed(torch.randn(size, CLASSES)), Fixed(torch.randn(size, CLASSES)), share)


def test_the_loss_is_that_of_labels_and_of_the_teachers_probabilities():
    batch, pair = a_batch(), a_pair(0.7)
    student, teacher = pair.student.outputs, pair.teacher.outputs
    from_teacher = -(teacher.softmax(-1) * student.log_softmax(-1)).sum()
    labels = [functional.cross_entropy(each, batch.y, reduction="sum") for each in (student, teacher)]
    expected = 0.3 * labels[0] + 0.7 * from_teacher + labels[1]
    torch.testing.assert_close(pair.objective.loss(pair(batch), batch), expected)


def test_the_teacher_learns_from_the_labels_alone():
    batch, pair = a_batch(), a_pair(1.0)
    pair.objective.loss(pair(batch), batch).backward()
    alone = pair.teacher.outputs.detach().clone().requires_grad_()
    functional.cross_entropy(alone, batch.y, reduction="sum").backward()
    torch.testing.assert_close(pair.teacher.outputs.grad, alone.grad)
    student = pair.student.outputs
    torch.testing.assert_close(student.grad, (student.softmax(-1) - pair.teacher.outputs.softmax(-1)).detach())


def test_in_eval_there_is_the_student_alone():
    batch, pair = a_batch(), a_pair(0.7).eval()
    answer = pair(batch)
    assert answer is pair.student.outputs
    torch.testing.assert_close(pair.objective.loss(answer, batch), functional.cross_entropy(answer, batch.y, reduction="sum"))
    assert pair.objective.score(answer, batch) == (answer.argmax(-1) == batch.y).sum()


def test_gates_are_those_of_the_student():
    student = Readout(PhasedLSTM(3, 6), CLASSES)
    pair, batch = Taught(student, Fixed(torch.zeros(5, CLASSES)), 0.5), a_batch()
    assert pair.updates(batch).made == student.updates(batch).made
    assert pair.penalty() == student.penalty()
    assert not records(pair, OneDevice(torch.device("cuda")))


def test_a_checkpoint_tells_shares_apart():
    assert repr(a_pair(0.5)) != repr(a_pair(0.6))
    assert repr(a_pair(0.5).objective) == "TaughtObjective(share=0.5)"


def test_a_student_learns_from_its_teacher_without_labels(tmp_path):
    torch.manual_seed(0)
    student = Readout(PhasedLSTM(3, 12, period=3.0, ratio_on=0.8), CLASSES)
    pair = Taught(student, Readout(PhasedLSTM(3, 12, ratio_on=1.0), CLASSES), 1.0)
    training = Training(epochs=6, train=320, test=64, batch=32, rate=2e-2)
    trained = fit(Repeated(), pair, training, tmp_path, make_fabric("cpu"), objective=pair.objective)
    assert trained.curve[-1].test > 0.6 > 2 * 0.25


def test_the_student_is_taken_from_a_state_dict():
    student = Readout(PhasedLSTM(3, 6, gate="square"), CLASSES)
    state = Taught(student, Readout(PhasedLSTM(3, 4), CLASSES), 0.5).state_dict()
    found = student_of(state)
    assert found.keys() == student.state_dict().keys()
    assert found._metadata["rnn"] == state._metadata["student.rnn"], "with the shape of its gates"
    Readout(PhasedLSTM(3, 6, gate="square"), CLASSES).load_state_dict(found)
    alone = student.state_dict()
    assert student_of(alone) is alone
