"""Batches of one stream or of several: checks of shapes, shares for several processes, other devices."""

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import torch

from phased.learn.batch import Batch, Samples, padded
from phased_lab.paper.waves import Sines


def stream(steps: int, size: int = 7, *features: int) -> Samples:
    return Samples(torch.randn(steps, size, *features), torch.rand(steps, size), torch.randint(1, steps + 1, (size,)))


def two_streams(size: int = 7) -> Batch:
    """Two sensors, each with its own times, and a label per step of one of them."""
    y = torch.randint(5, (9, size))
    return Batch({"ears": stream(9, size, 3), "eyes": stream(4, size, 1, 2, 2)}, y, torch.rand(9, size) < 0.5)


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_shares_together_have_every_sequence_once(world):
    batch = Sines().batch(0, "train", 1, 0, 7)
    shares = [batch.share(rank, world) for rank in range(world)]
    assert sum(share.size for share in shares) == 7
    for rank, share in enumerate(shares):
        for n, b in enumerate(range(rank, 7, world)):
            assert torch.equal(share.samples.x[:, n], batch.samples.x[:, b])
            assert torch.equal(share.samples.time[:, n], batch.samples.time[:, b])
            assert share.samples.lengths[n] == batch.samples.lengths[b]
            assert share.y[n] == batch.y[b]


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_shares_of_several_streams_and_labels_a_step_have_every_sequence_once(world):
    batch = two_streams()
    shares = [batch.share(rank, world) for rank in range(world)]
    assert sum(share.size for share in shares) == 7
    assert sum(share.labels for share in shares) == batch.labels
    for rank, share in enumerate(shares):
        assert list(share.streams) == ["ears", "eyes"]
        for n, b in enumerate(range(rank, 7, world)):
            for name, (x, time, lengths) in share.streams.items():
                whole = batch.streams[name]
                assert torch.equal(x[:, n], whole.x[:, b])
                assert torch.equal(time[:, n], whole.time[:, b])
                assert lengths[n] == whole.lengths[b]
            assert torch.equal(share.y[:, n], batch.y[:, b])
            assert torch.equal(share.mask[:, n], batch.mask[:, b])


def test_to_moves_everything():
    batch = Sines().batch(0, "train", 1, 0, 2).to("meta")
    assert {tensor.device.type for tensor in (*batch.samples, batch.y)} == {"meta"}
    assert batch.mask is None


def test_to_moves_everything_of_several_streams_and_of_labels_a_step():
    batch = two_streams()
    there = batch.to("meta")
    tensors = [tensor for samples in there.streams.values() for tensor in samples]
    assert {tensor.device.type for tensor in (*tensors, there.y, there.mask)} == {"meta"}
    for name, samples in batch.streams.items():
        assert [tensor.shape for tensor in there.streams[name]] == [tensor.shape for tensor in samples]
    assert batch.y.device.type == "cpu"


def test_one_stream_is_had_without_a_name_and_of_several_none_is_picked():
    one = stream(3)
    batch = Batch.of(*one, torch.zeros(7))
    assert all(a is b for a, b in zip(batch.samples, one, strict=True))
    assert (batch.size, batch.labels) == (7, 7)
    with pytest.raises(ValueError, match=r"the batch must have one stream here, got 'ears', 'eyes'. Use batch\.streams\."):
        _ = two_streams().samples


def test_labels_are_counted_where_the_mask_has_them():
    y, mask = torch.zeros(3, 7), torch.zeros(3, 7, dtype=torch.bool)
    mask[0, :2] = mask[0, 6] = True
    assert Batch.of(*stream(3), y, mask).labels == 3
    assert Batch.of(*stream(3), y, torch.zeros_like(mask)).labels == 0


def test_the_answers_steps_may_be_other_than_the_streams():
    """A label belongs to a step of the model's output, which may have times of its own."""
    batch = Batch.of(*stream(3), torch.zeros(5, 7), torch.ones(5, 7, dtype=torch.bool))
    assert batch.labels == 35


LENGTHS = torch.ones(7, dtype=torch.int64)
WRONG = {
    "no stream": (lambda: Batch({}, torch.zeros(7)), "a batch must have at least one stream, got none."),
    "lengths of two dimensions": (
        lambda: Batch.of(torch.zeros(3, 7), torch.zeros(3, 7), LENGTHS[:, None], torch.zeros(7)),
        "lengths of stream 'input' must have shape (sequences,), got (7, 1).",
    ),
    "lengths of another stream": (
        lambda: Batch({"a": stream(3), "b": stream(3, 6)}, torch.zeros(7)),
        "lengths of stream 'b' must have shape (7,), got (6,).",
    ),
    "times of one sequence": (
        lambda: Batch.of(torch.zeros(3, 7), torch.zeros(3), LENGTHS, torch.zeros(7)),
        "time of stream 'input' must have shape (steps, 7), got (3,).",
    ),
    "times of other sequences": (
        lambda: Batch.of(torch.zeros(3, 7), torch.zeros(3, 6), LENGTHS, torch.zeros(7)),
        "time of stream 'input' must have shape (steps, 7), got (3, 6).",
    ),
    "sequences first": (
        lambda: Batch.of(torch.zeros(7, 3, 2), torch.zeros(3, 7), LENGTHS, torch.zeros(7)),
        "x of stream 'input' must begin with the shape of its time, (3, 7), got (7, 3, 2).",
    ),
    "x without steps": (
        lambda: Batch.of(torch.zeros(7), torch.zeros(3, 7), LENGTHS, torch.zeros(7)),
        "x of stream 'input' must begin with the shape of its time, (3, 7), got (7,).",
    ),
    "labels of other sequences": (
        lambda: Batch.of(*stream(3), torch.zeros(6)),
        "y must have shape (7,), one label per sequence, got (6,). Pass a mask, (steps, 7) bool, if every step has a label.",
    ),
    "labels a step without a mask": (
        lambda: Batch.of(*stream(3), torch.zeros(3, 7)),
        "y must have shape (7,), one label per sequence, got (3, 7). Pass a mask, (steps, 7) bool, if every step has a label.",
    ),
    "a mask of another shape": (
        lambda: Batch.of(*stream(3), torch.zeros(3, 7), torch.ones(2, 7, dtype=torch.bool)),
        "y and mask must both have shape (steps, 7), got (3, 7) and (2, 7).",
    ),
    "a mask of labels a sequence": (
        lambda: Batch.of(*stream(3), torch.zeros(7), torch.ones(7, dtype=torch.bool)),
        "y and mask must both have shape (steps, 7), got (7,) and (7,).",
    ),
    "a mask of other sequences": (
        lambda: Batch.of(*stream(3), torch.zeros(3, 6), torch.ones(3, 6, dtype=torch.bool)),
        "y and mask must both have shape (steps, 7), got (3, 6) and (3, 6).",
    ),
    "a mask of numbers": (
        lambda: Batch.of(*stream(3), torch.zeros(3, 7), torch.ones(3, 7)),
        "mask must be bool, True where a label counts, got torch.float32.",
    ),
}


@pytest.mark.parametrize("make, message", WRONG.values(), ids=WRONG.keys())
def test_shapes_that_do_not_fit_are_named(make, message):
    with pytest.raises(ValueError) as caught:
        make()
    assert str(caught.value) == message


def test_a_batch_stays_as_it_is_and_travels_between_processes():
    batch = two_streams()
    with pytest.raises(FrozenInstanceError):
        batch.y = torch.zeros(7)
    again = pickle.loads(pickle.dumps(batch))
    assert torch.equal(again.y, batch.y)
    assert torch.equal(again.streams["eyes"].x, batch.streams["eyes"].x)


def test_a_padded_batch_has_zeros_wherever_a_sequence_is_over():
    lengths = np.array([2, 3])
    batch = padded(np.full((3, 2, 4), 7.0), np.full((3, 2), 5.0), lengths, np.array([0.5, 1.5]))
    over = torch.arange(3)[:, None] >= batch.samples.lengths
    assert batch.samples.x.dtype == torch.float32
    assert batch.samples.time.dtype == torch.float64
    assert (batch.samples.x[over] == 0).all()
    assert (batch.samples.time[over] == 0).all()
    assert (batch.samples.x[~over] == 7).all()
    assert (batch.samples.time[~over] == 5).all()


def test_labels_of_padding_must_not_count():
    x, time, _ = stream(3)
    mask = torch.ones(3, 7, dtype=torch.bool)
    with pytest.raises(ValueError, match="mask must be False after the end of a sequence"):
        Batch.of(x, time, torch.tensor([3, 3, 3, 2, 3, 3, 3]), torch.zeros(3, 7), mask)


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.uint8])
def test_classes_are_int64(dtype):
    with pytest.raises(ValueError, match=r"y must be int64 for classes, or floating point for numbers, got .*Use y\.long"):
        Batch.of(*stream(3), torch.zeros(7, dtype=dtype))


def test_lists_are_no_tensors():
    x, time, _ = stream(3)
    with pytest.raises(TypeError, match=r"lengths of stream 'input' must be a torch\.Tensor, got list"):
        Batch.of(x, time, [3] * 7, torch.zeros(7))
