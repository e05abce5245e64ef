"""Batches made on a second stream are those that would be made on the first."""

import pytest
import torch

from phased.learn.batch import Batch
from phased.learn.feed import on_second_stream
from phased.schedule import valid_steps


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


def test_on_a_cpu_batches_are_passed_on():
    made = list(on_second_stream(batches("cpu", 3), torch.device("cpu")))
    assert [int(batch.y[0, 0]) for batch in made] == [0, 1, 2]


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


def test_an_error_in_a_batch_is_raised_where_it_is_asked_for():
    def broken():
        yield from batches("cpu", 1)
        raise ValueError("no recording")

    made = on_second_stream(broken(), torch.device("cpu"))
    next(made)
    with pytest.raises(ValueError, match="no recording"):
        next(made)
