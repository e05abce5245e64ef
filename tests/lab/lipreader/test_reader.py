"""The lip reader: the words of a clip, and doubts about them."""

import numpy as np
import pytest

from phased_lab.clips import SLOTS, WORDS, prepare_clip
from phased_lab.clips.decoding import Sense
from phased_lab.lipreader import LipReader, Spoken
from phased_lab.lipreader.grammar import at_found_times, at_known_times
from speaking import made_up, shortened, untrained

TESTED = (
    "s1/bbaz6p s1/bgbu4p s1/briz7s s1/bwis8n s1/lgaz9a s1/lray7a s1/lriq6n s1/lwiy6n s1/pbii3a s1/pgby6p s1/prac9a "
    "s1/prwk1a s1/pwix1s s1/sbba9s s1/sbwu4n s1/srbb4n s1/sria9a s1/swbi5s s1/swwv9a s3/bbwm4p s3/brwg6p s3/bwwh3a "
    "s3/lbid1s s3/lgbs6p s3/lrbr4p s3/lwal2p s3/lwwf6p s3/pgad9a s3/pgwlzp s3/prbdzp s3/prwj7s s3/sbaa2n s3/sgib6n "
    "s3/srit8p s3/swbi2n s3/swwi8p "
)
"""Clips of GRID that the shipped model was not trained on."""


@pytest.fixture
def reader() -> LipReader:
    return untrained()


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("sense", ["video", "audio", "both"])
def test_six_words_in_the_order_of_the_grammar_with_their_times(reader, sense, aligned):
    clip = made_up(6)
    spoken = reader.read(clip if aligned else clip._replace(sentence=None), sense)
    assert all(WORDS[word] in slot for word, slot in zip(spoken.words, SLOTS, strict=True))
    assert spoken.spans.shape == (6, 2)
    assert np.all(spoken.spans[:, 0] < spoken.spans[:, 1])
    assert all(0 < each <= 1 for each in spoken.confidence)
    if aligned:
        assert np.array_equal(spoken.spans, clip.sentence.spans)


def test_what_is_not_sensed_changes_nothing(reader):
    one, other = made_up(7), made_up(8)
    mixed = one._replace(mfcc=other.mfcc)
    assert np.array_equal(reader.follow(one, "video").outputs, reader.follow(mixed, "video").outputs)
    assert not np.array_equal(reader.follow(one).outputs, reader.follow(mixed).outputs)
    with pytest.raises(ValueError, match="sense must be"):
        reader.follow(one, "smell")


def test_a_clip_too_short_for_six_words_is_doubted_in_the_senses_that_are_used(reader):
    clip = made_up(9)._replace(sentence=None)
    silent = clip._replace(mfcc=shortened(clip, 8).mfcc)
    assert reader.doubt(clip) is None
    assert reader.doubt(silent, "video") is None
    assert "got 320 ms of sound" in reader.doubt(silent)
    assert "got 320 ms of sound" in reader.doubt(silent, "audio")
    assert "got 320 ms of frames" in reader.doubt(shortened(clip, 8), "video")
    assert reader.doubt(silent._replace(mfcc={100: clip.mfcc[100]._replace(values=clip.mfcc[100].values[:0])}), "audio")


@pytest.mark.parametrize("begin, doubt", [(1310, "words last at least 40 ms, got one of 10 ms: the sentence"), (1340, None)])
def test_words_too_short_to_be_words_are_doubted_unless_their_times_are_known(reader, begin, doubt):
    clip, times = made_up(9), np.array([500.0, 700, 900, 1100, 1300, begin, 1700])
    spoken = Spoken((0,) * 6, np.stack([times[:-1], times[1:]], 1), (0.9,) * 6)
    found = reader.doubt(clip._replace(sentence=None), "both", spoken)
    assert found is None if doubt is None else doubt in found
    assert reader.doubt(clip, "both", spoken) is None


@pytest.fixture(scope="module")
def clips(grid):
    """Some of the test clips, with the times of their words."""
    files = [next(grid.glob(f"{name}.*")) for name in TESTED.split()]
    return [prepare_clip(file, grid / "align" / file.parent.name / f"{file.stem}.align") for file in files]


@pytest.mark.parametrize("sense, least", [("video", 0.88), ("audio", 0.97), ("both", 0.97)])
def test_words_are_recognised_whether_their_times_are_known_or_found(clips, sense: Sense, least):
    reader, truth = LipReader.load(), [clip.sentence.words for clip in clips]
    followed = [reader.follow(clip, sense) for clip in clips]
    known = [at_known_times(*each, clip.sentence.spans).words for each, clip in zip(followed, clips, strict=True)]
    found = [at_found_times(*each, reader.config.timing).words for each in followed]
    assert np.mean(np.array(known) == truth) >= least
    assert np.mean(np.array(found) == truth) >= least
