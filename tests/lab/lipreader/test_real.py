"""The shipped model on real clips of GRID that it was not trained on, where they are present."""

import pytest

from phased_lab.clips import prepare_clip
from phased_lab.clips.decoding import Sense
from phased_lab.lipreader import LipReader

TESTED = (
    "s1/bbaz6p s1/bgbu4p s1/briz7s s1/bwis8n s1/lgaz9a s1/lray7a s1/lriq6n s1/lwiy6n s1/pbii3a s1/pgby6p s1/prac9a "
    "s1/prwk1a s1/pwix1s s1/sbba9s s1/sbwu4n s1/srbb4n s1/sria9a s1/swbi5s s1/swwv9a s3/bbwm4p s3/brwg6p s3/bwwh3a "
    "s3/lbid1s s3/lgbs6p s3/lrbr4p s3/lwal2p s3/lwwf6p s3/pgad9a s3/pgwlzp s3/prbdzp s3/prwj7s s3/sbaa2n s3/sgib6n "
    "s3/srit8p s3/swbi2n s3/swwi8p "
)


@pytest.fixture(scope="module")
def clips(grid):
    """Some of the test clips, with the times of their words."""
    files = [next(grid.glob(f"{name}.*")) for name in TESTED.split()]
    return [prepare_clip(file, grid / "align" / file.parent.name / f"{file.stem}.align") for file in files]


@pytest.mark.parametrize("known", [True, False], ids=["times known", "times found"])
@pytest.mark.parametrize("sense, least", [("video", 0.88), ("audio", 0.97), ("both", 0.97)])
def test_words_are_recognised(clips, sense: Sense, least, known):
    reader, right = LipReader.load(), 0
    for clip in clips:
        spoken = reader.read(clip if known else clip._replace(sentence=None), sense)
        right += sum(word == truth for word, truth in zip(spoken.words, clip.sentence.words, strict=True))
    assert right / (6 * len(clips)) >= least
