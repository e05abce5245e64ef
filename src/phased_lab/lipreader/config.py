"""The configuration of a lip reader, `config.json`: sizes, scaling of the sound, times of words, and how it was trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from phased.fields import FLAT, Between, Malformed, OneOf
from phased.model_folder import MOST
from phased_lab.clips import WORDS
from phased_lab.clips.cepstrum import RESOLUTIONS
from phased_lab.lipreader.grammar import PLACES, Timing
from phased_lab.lipreader.network import SOUND, Scaling, Words, phased_network

Size = Annotated[int, Between(1, MOST)]


@dataclass(frozen=True)
class About:
    """How a lip reader was trained and tested; nothing here changes its answers.

    Args:
        command: the command that trained it.
        data: the clips it was trained on.
        scores: its accuracies on other clips, by what was tested.
        versions: of the packages that trained it.
        date: when it was trained.
        tested: the clips that were not trained on and that the scores are of, such as "s1/bbaf2n".
    """

    command: str = ""
    data: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    date: str = ""
    tested: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Config:
    """What `config.json` holds, except for the digest.

    Args:
        units: of the video layer, the audio layer and each merged layer.
        layers: merged layers.
        normalised: whether the convolutions have batch normalisation.
        rate: rows of MFCCs a second.
        scaling: of the MFCCs.
        timing: when words are spoken.
        about: how it was trained.
    """

    units: tuple[Size, Size, Size]
    layers: Size
    normalised: bool
    rate: Annotated[int, OneOf(RESOLUTIONS)]
    time_unit: Literal["ms"] = field(default="ms", kw_only=True)
    scaling: Annotated[Scaling, FLAT]
    timing: Annotated[Timing, FLAT]
    about: Annotated[About, FLAT] = About()

    def __post_init__(self) -> None:
        if (
            len(self.scaling.mean) != SOUND
            or len(self.scaling.deviation) != SOUND
            or not bool((self.scaling.deviation > 0).all())
        ):
            raise Malformed(f"its 'mean' and 'deviation' must be {SOUND} numbers, and deviations positive")
        if len(self.timing.durations) != len(PLACES):
            raise Malformed(f"its 'durations' must be of {len(PLACES)} words, got {len(self.timing.durations)}")
        for each in (self.timing.begin, *self.timing.durations):
            if each.deviation <= 0:
                raise Malformed(f"a standard deviation must be positive, got {each.deviation}")

    def build(self) -> Words:
        """A network of this configuration."""
        return phased_network(self.units, self.layers, len(WORDS), self.normalised)
