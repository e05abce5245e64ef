"""Prefetched batches: the same numbers with any number of workers."""

import pytest
import torch

from phased.learn.batch import Batch
from phased.learn.feed import Places, prefetched, sizes
from phased_lab.paper.waves import Sines


def same(one: Batch, other: Batch) -> bool:
    """Whether two batches have the same numbers."""
    pairs = zip((*one.samples, one.y), (*other.samples, other.y), strict=True)
    return one.streams.keys() == other.streams.keys() and all(torch.equal(a, b) for a, b in pairs)


AT = Places([1, 2], train=20, test=9, batch=8)


def test_an_epoch_is_its_training_then_its_test_and_every_sequence_counts():
    assert list(AT)[:5] == [("train", 1, 0, 8), ("train", 1, 1, 8), ("train", 1, 2, 4), ("test", 1, 0, 8), ("test", 1, 1, 1)]
    assert [place[1] for place in AT] == [1] * 5 + [2] * 5
    many = Places(range(1, 3 * 10**9), train=20, test=9, batch=8)  # listed one by one they would not fit
    assert many[len(many) - 1] == ("test", 3 * 10**9 - 1, 1, 1)
    assert sizes(16, 8) == [8, 8]
    assert sizes(3, 8) == [3]


# Python 3.12 warns whenever a process with threads forks; torch's loader does, and its children do nothing but numpy.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_any_number_of_workers_gives_the_same_batches_in_the_same_order(workers):
    task = Sines()
    made = list(prefetched(task, 5, AT, workers))
    assert len(made) == len(AT)
    for batch, place in zip(made, AT, strict=True):
        assert same(batch, task.batch(5, *place))


def test_the_global_random_numbers_are_left_alone():
    before = torch.get_rng_state()
    list(prefetched(Sines(), 0, AT))
    assert torch.equal(before, torch.get_rng_state())
