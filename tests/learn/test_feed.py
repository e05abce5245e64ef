"""Batches made ahead, by workers or on a second stream, are those that would be made when they are needed."""

import pytest
import torch

from phased.learn.batch import Batch
from phased.learn.feed import numbered_epochs, on_second_stream, prefetched, sizes
from phased.schedule import valid_steps
from phased_lab.paper.waves import Sines


def same(one: Batch, other: Batch) -> bool:
    """Whether two batches have the same numbers."""
    pairs = zip((*one.samples, one.y), (*other.samples, other.y), strict=True)
    return one.streams.keys() == other.streams.keys() and all(torch.equal(a, b) for a, b in pairs)


AT = list(numbered_epochs([1, 2], train=20, test=9, batch=8))


def test_an_epoch_is_its_training_then_its_test_and_every_sequence_counts():
    assert AT[:5] == [("train", 1, 0, 8), ("train", 1, 1, 8), ("train", 1, 2, 4), ("test", 1, 0, 8), ("test", 1, 1, 1)]
    assert [place[1] for place in AT] == [1] * 5 + [2] * 5
    assert [sizes(16, 8), sizes(3, 8)] == [[8, 8], [3]]


# Python 3.12 warns whenever a process with threads forks; torch's loader does, and its children do nothing but numpy.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_any_number_of_workers_gives_the_same_batches_in_the_same_order_and_draws_no_random_numbers(workers):
    task, before = Sines(), torch.get_rng_state()
    made = list(prefetched(task, 5, AT, workers))
    assert torch.equal(before, torch.get_rng_state())
    assert len(made) == len(AT)
    for batch, place in zip(made, AT, strict=True):
        assert same(batch, task.batch(5, *place))


def batches(device: str, count: int, sequences: int = 64):
    """Batches whose sizes are read from the device, as those of recordings are."""
    random = torch.Generator(device)
    for n in range(count):
        random.manual_seed(n)
        lengths = torch.randint(1, 500, (sequences,), generator=random, device=device)
        steps = int(lengths.max())
        x = torch.rand(steps, sequences, 8, generator=random, device=device)
        time = torch.rand(steps, sequences, generator=random, device=device, dtype=torch.float64).cumsum(0)
        classes = torch.full((steps, sequences), n, device=device)
        yield Batch.of(x, time, lengths, classes, valid_steps(steps, lengths), classes.clone())


@pytest.mark.gpu
def test_on_a_gpu_they_are_the_same_bits_in_the_same_order_whatever_the_gpu_does_meanwhile():
    device = torch.device("cuda")
    wanted = [(batch.samples.x.cpu(), batch.segment.cpu()) for batch in batches("cuda", 40)]
    busy = torch.rand(2000, 2000, device=device)
    found = []
    for batch in on_second_stream(batches("cuda", 40), device):
        for _ in range(5):
            busy = busy @ busy / 500
        # Read only after that work: memory that was reused too early would hold another batch.
        found.append((batch.samples.x * 1, batch.segment * 1))
        del batch
    assert len(found) == len(wanted)
    assert all(
        torch.equal(one.cpu(), other) for pair in zip(found, wanted, strict=True) for one, other in zip(*pair, strict=True)
    )
