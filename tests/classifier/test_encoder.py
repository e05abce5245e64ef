"""The embedding of events: one vector per pixel, and the polarity beside it."""

import numpy as np
import pytest
import torch

from phased import PhasedLSTM, Stream
from phased.classifier import EventEmbedding
from phased.data.recordings import NMNIST


def test_both_polarities_of_a_pixel_share_its_vector_and_differ_in_their_last_feature():
    encoder = EventEmbedding()
    off, on = encoder(torch.tensor([2 * 77, 2 * 77 + 1]))
    assert torch.equal(off[:-1], encoder.pixel.weight[77])
    assert torch.equal(off[:-1], on[:-1])
    assert (off[-1].item(), on[-1].item()) == (-1.0, 1.0)


def test_the_table_has_a_row_for_every_address():
    encoder = EventEmbedding((3, 2), size=4)
    table = encoder.table()
    assert table.shape == (12, 5)
    assert torch.equal(table, encoder(torch.arange(12)))


def test_a_stream_on_the_table_computes_what_the_layer_computes_on_the_features():
    encoder = EventEmbedding()
    rnn = PhasedLSTM(encoder.features, 7, period=20.0, ratio_on=0.3).eval()
    generator = np.random.default_rng(0)
    address, time = generator.integers(NMNIST.addresses, size=200), np.sort(generator.uniform(0, 100, 200))
    streamed = Stream(rnn, table=encoder.table()).run(address, time)
    with torch.no_grad():
        expected = rnn(encoder(torch.from_numpy(address)), torch.from_numpy(time))[0]
    torch.testing.assert_close(torch.from_numpy(streamed), expected)


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


def test_the_dtype_of_the_vectors_is_that_of_the_features():
    assert EventEmbedding().double()(torch.tensor([5])).dtype == torch.float64


@pytest.mark.parametrize("size, error", [(0, ValueError), (2.0, TypeError)])
def test_a_size_that_is_none_is_refused(size, error):
    with pytest.raises(error, match="size must be"):
        EventEmbedding(size=size)
