"""The embedding of events: one vector per pixel, and the polarity beside it."""

import pytest
import torch

from phased.classifier import EventEmbedding


def test_the_table_has_a_row_for_every_address_whose_polarities_share_the_vector_of_their_pixel():
    encoder = EventEmbedding((3, 2), size=4)
    table = encoder.table()
    assert torch.equal(table, encoder(torch.arange(12)))
    assert torch.equal(table[:, :-1], encoder.pixel.weight.repeat_interleave(2, 0))
    assert table[:, -1].tolist() == [-1.0, 1.0] * 6
    assert encoder.double()(torch.tensor([5])).dtype == torch.float64


def test_pixels_start_from_a_normal_law_of_deviation_03():
    weight = EventEmbedding().pixel.weight
    assert weight.shape == (34 * 34, 40)
    assert weight.std().item() == pytest.approx(0.3, abs=0.01)


def test_smooth_vectors_of_neighbours_are_similar_and_those_of_distant_pixels_are_not():
    torch.manual_seed(0)
    weight = EventEmbedding((34, 30), smooth=2.0).pixel.weight.detach()
    assert weight.square().mean().sqrt().item() == pytest.approx(0.3)
    images = weight.T.reshape(40, 30, 34)  # as addresses are: y * width + x
    beside = torch.cosine_similarity(images[:, 10:20, 10:20], images[:, 10:20, 11:21], 0)
    below = torch.cosine_similarity(images[:, 10:20, 10:20], images[:, 11:21, 10:20], 0)
    distant = torch.cosine_similarity(images[:, :10, :10], images[:, 20:, 24:], 0)
    assert min(beside.min(), below.min()) > 0.8
    assert distant.abs().mean() < 0.3
    assert images[:, 0, 0].square().mean().sqrt() > 0.2  # also in a corner
    for odd in (EventEmbedding((1, 1), 1, smooth=1.0), EventEmbedding(smooth=1e-30), EventEmbedding(smooth=1e9)):
        assert torch.isfinite(odd.pixel.weight).all()
    with pytest.raises(ValueError, match="smooth must be"):
        EventEmbedding(smooth=-1.0)


@pytest.mark.parametrize("size, error", [(0, ValueError), (2.0, TypeError)])
def test_a_size_that_is_none_is_refused(size, error):
    with pytest.raises(error, match="size must be"):
        EventEmbedding(size=size)
