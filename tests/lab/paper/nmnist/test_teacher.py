"""The teacher of networks that see single events: frames of a recording's parts, and a student packed without it."""

import torch

from phased.data.recordings import NMNIST
from phased.learn.batch import Samples
from phased_lab.paper.nmnist.network import DigitNetwork
from phased_lab.paper.nmnist.pack import network
from phased_lab.paper.nmnist.task import Digits
from phased_lab.paper.nmnist.teacher import PART, PARTS, movie
from phased_lab.runs.taught import Taught


def test_a_frame_counts_the_events_of_a_part_and_a_polarity():
    pixel = 3 * NMNIST.width + 5
    address = torch.tensor([[2 * pixel, 0], [2 * pixel + 1, 2], [2 * pixel, 1]])
    time = torch.tensor([[0.0, -3.0], [PART, 1e4], [0.5 * PART, 0.0]], dtype=torch.float64)
    counted = movie(Samples(address, time, torch.tensor([3, 2])))
    assert counted.shape == (2, 2 * PARTS, NMNIST.height, NMNIST.width)
    assert counted[0].sum() == 3
    assert counted[0, 0, 3, 5] == 2  # both events of polarity 0 in the first part
    assert counted[0, 3, 3, 5] == 1  # one of polarity 1 in the second
    assert counted[1].sum() == 2  # the third is padding
    assert counted[1, 0, 0, 0] == 1  # before the recording began: in the first part
    assert counted[1, 2 * (PARTS - 1), 0, 1] == 1  # long after its end: in the last


def test_the_student_is_packed_without_its_teacher():
    made = DigitNetwork(units=6, embedding=4, mean=True, hidden=5, teacher=0.9).build(Digits(), 0)
    assert isinstance(made, Taught)
    packed = network(made.state_dict())
    expected = made.student.state_dict()
    assert packed.state_dict().keys() == expected.keys()
    for name, value in packed.state_dict().items():
        assert torch.equal(value, expected[name]), name
    assert (packed.mean, packed.hidden.out_features) == (True, 5)


def test_without_a_teacher_the_network_is_the_same():
    alone, taught = (DigitNetwork(units=6, teacher=teacher).build(Digits(), 0) for teacher in (0.0, 0.9))
    assert all(torch.equal(a, b) for a, b in zip(alone.parameters(), taught.student.parameters(), strict=True))
