"""Batches of one stream or of several: checks of shapes, shares for several processes, other devices."""

import numpy as np
import pytest
import torch

from phased.learn.batch import Batch, Samples, padded
from phased_lab.paper.waves import Sines


def stream(steps: int, size: int = 7, *features: int) -> Samples:
    return Samples(torch.randn(steps, size, *features), torch.rand(steps, size), torch.randint(1, steps + 1, (size,)))


def two_streams(size: int = 7) -> Batch:
    """Two sensors, each with its own times, and a label and a segment per step of one of them."""
    y, segment = torch.randint(5, (2, 9, size))
    return Batch({"ears": stream(9, size, 3), "eyes": stream(4, size, 1, 2, 2)}, y, torch.rand(9, size) < 0.5, segment)


each_batch = pytest.mark.parametrize(
    "batch", [Sines().batch(0, "train", 1, 0, 7), two_streams()], ids=["one stream", "two streams"]
)


@each_batch
@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_shares_together_have_every_sequence_once(batch, world):
    shares = [batch.share(rank, world) for rank in range(world)]
    assert sum(share.size for share in shares) == 7
    assert sum(share.labels for share in shares) == batch.labels
    for rank, share in enumerate(shares):
        mine = range(rank, 7, world)
        assert list(share.streams) == list(batch.streams)
        for name, samples in share.streams.items():
            x, time, lengths = batch.streams[name]
            torch.testing.assert_close(tuple(samples), (x[:, mine], time[:, mine], lengths[mine]), rtol=0, atol=0)
        assert torch.equal(share.y, batch.y[..., mine])
        for part, whole in ((share.mask, batch.mask), (share.segment, batch.segment)):
            assert part is whole is None or torch.equal(part, whole[:, mine])


@each_batch
def test_to_moves_everything(batch):
    there = batch.to("meta")
    tensors = [tensor for samples in there.streams.values() for tensor in samples]
    tensors += [there.y] if batch.mask is None else [there.y, there.mask, there.segment]
    assert {tensor.device.type for tensor in tensors} == {"meta"}
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


def test_labels_are_counted_where_the_mask_has_them_and_belong_to_steps_of_the_output_which_may_have_times_of_its_own():
    for steps, counted in ((3, 3), (3, 0), (5, 35)):
        mask = torch.arange(7 * steps).view(steps, 7) < counted
        assert Batch.of(*stream(3), torch.zeros(steps, 7), mask).labels == counted


def shaped(x=(3, 7), time=(3, 7), lengths=(7,), y=(7,), mask=None) -> Batch:
    """A batch of tensors with these shapes."""
    counts = None if mask is None else torch.ones(mask, dtype=torch.bool)
    return Batch.of(torch.zeros(x), torch.zeros(time), torch.full(lengths, 3), torch.zeros(y), counts)


X, T, L = torch.zeros(3, 7, 2), torch.zeros(3, 7), torch.full((7,), 3)
PER_SEQUENCE = "y must have shape (7,), one label per sequence, got {}. Pass a mask, (steps, 7) bool, if every step has a label."
WRONG = {
    "no stream": (lambda: Batch({}, torch.zeros(7)), "a batch must have at least one stream, got none."),
    "lengths of another stream": (
        lambda: Batch({"a": stream(3), "b": stream(3, 6)}, torch.zeros(7)),
        "lengths of stream 'b' must have shape (7,), got (6,).",
    ),
    "lengths": (lambda: shaped(lengths=(7, 1)), "lengths of stream 'input' must have shape (sequences,), got (7, 1)."),
    "one time": (lambda: shaped(time=(3,)), "time of stream 'input' must have shape (steps, 7), got (3,)."),
    "other times": (lambda: shaped(time=(3, 6)), "time of stream 'input' must have shape (steps, 7), got (3, 6)."),
    "sequences first": (
        lambda: shaped(x=(7, 3, 2)),
        "x of stream 'input' must begin with the shape of its time, (3, 7), got (7, 3, 2).",
    ),
    "no steps": (lambda: shaped(x=(7,)), "x of stream 'input' must begin with the shape of its time, (3, 7), got (7,)."),
    "labels of other sequences": (lambda: shaped(y=(6,)), PER_SEQUENCE.format("(6,)")),
    "labels a step without a mask": (lambda: shaped(y=(3, 7)), PER_SEQUENCE.format("(3, 7)")),
    "another mask": (
        lambda: shaped(y=(3, 7), mask=(2, 7)),
        "y and mask must both have shape (steps, 7), got (3, 7) and (2, 7).",
    ),
    "a mask of labels a sequence": (
        lambda: shaped(mask=(7,)),
        "y and mask must both have shape (steps, 7), got (7,) and (7,).",
    ),
    "a mask of other sequences": (
        lambda: shaped(y=(3, 6), mask=(3, 6)),
        "y and mask must both have shape (steps, 7), got (3, 6) and (3, 6).",
    ),
    "a mask of numbers": (
        lambda: Batch.of(X, T, L, T, torch.ones(3, 7)),
        "mask must be bool, True where a label counts, got torch.float32.",
    ),
    "segments of sequences": (lambda: Batch.of(X, T, L, L, segment=L), "segment is for classes per step"),
    "other segments": (
        lambda: Batch.of(X, T, L, T.long(), T.bool(), T[1:].long()),
        "segment must be int64 with the shape of y, (3, 7), got torch.int64, (2, 7).",
    ),
    "labels of padding": (
        lambda: Batch.of(X, T, torch.tensor([3, 3, 3, 2, 3, 3, 3]), T, torch.ones(3, 7, dtype=torch.bool)),
        "mask must be False after the end of a sequence",
    ),
} | {
    f"{dtype} classes": (
        lambda dtype=dtype: Batch.of(X, T, L, torch.zeros(7, dtype=dtype)),
        f"y must be int64 for classes, or floating point for numbers, got {dtype}. Use y.long",
    )
    for dtype in (torch.int32, torch.bool, torch.uint8)
}


@pytest.mark.parametrize("make, message", WRONG.values(), ids=WRONG.keys())
def test_what_does_not_fit_is_named(make, message):
    with pytest.raises(ValueError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_lists_are_no_tensors():
    with pytest.raises(TypeError, match=r"lengths of stream 'input' must be a torch\.Tensor, got list"):
        Batch.of(X, T, [3] * 7, torch.zeros(7))


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
