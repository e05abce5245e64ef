"""LipReader: the words of a clip."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from phased import check
from phased.model_folder import restored
from phased_lab.clips import Clip
from phased_lab.clips.clip import DAMAGED
from phased_lab.clips.decoding import SENSES, Sense
from phased_lab.lipreader.folder import KIND, SHIPPED
from phased_lab.lipreader.grammar import Array, Spoken, at_found_times, at_known_times
from phased_lab.lipreader.network import Config, Words, samples_of

SHORTEST_WORD = 40.0  # ms: that of GRID's alignments on which the model that comes with the package was trained


class Followed(NamedTuple):
    """What a network says at each step of a clip: log-probabilities (T, 51), and the times of the steps (T,) in ms."""

    outputs: Array
    time: Array


class LipReader:
    """Recognises the six words of a sentence of GRID, from a prepared clip.

    Args:
        config: sizes, scaling and times.
        network: the trained network.
    """

    def __init__(self, config: Config, network: Words) -> None:
        self.config, self.network = config, network.eval()

    @classmethod
    def load(cls, folder: Path | str | None = None) -> LipReader:
        """Read a lip reader from its folder.

        Args:
            folder: what `save` or `phased pack` wrote. Default: the model that comes with the package, for two speakers of GRID.

        Returns:
            The lip reader.

        Raises:
            BadModel: a file is missing, damaged or of another version.
        """
        return cls(*KIND.read(SHIPPED if folder is None else folder, Config.build))

    @classmethod
    def of(cls, config: Config, state: dict[str, Tensor]) -> LipReader:
        """A lip reader with parameters rounded as they are stored."""
        return cls(config, restored(config.build, KIND.rounded(state)))

    def save(self, folder: Path | str) -> None:
        """Write the lip reader to a folder: parameters, configuration and model card.

        Args:
            folder: created if it does not exist.

        Raises:
            OSError: it cannot be written.
        """
        KIND.write(folder, self.config, self.network)

    def read(self, clip: Clip, sense: Sense = "both") -> Spoken:
        """Recognise the words of a clip.

        With an alignment the times of the words are known. Without one they are found together with the words, from the outputs
        of the network, the order of the grammar, and the usual durations.

        Args:
            clip: what `phased_lab.clips.prepare_clip` returns.
            sense: "video", "audio" or "both". What is not used is masked to zero.

        Returns:
            Words, their times and the confidence in each.

        Raises:
            ValueError: an unknown sense, or fewer steps than words.
        """
        outputs, time = self.follow(clip, sense)
        if clip.sentence is not None:
            return at_known_times(outputs, time, clip.sentence.spans.astype(np.float64))
        return at_found_times(outputs, time, self.config.timing)

    def doubt(self, clip: Clip, sense: Sense = "both", spoken: Spoken | None = None) -> str | None:
        """Why the words of a clip may be wrong: damaged pictures, or a clip that is cut off or too short for six words.

        Args:
            clip: what `phased_lab.clips.prepare_clip` returns.
            sense: what is used of it.
            spoken: what `read` returned for it. In a clip that is cut off, the last words found are too short to be words.

        Returns:
            One sentence with the cure, or None. With an alignment, `prepare_clip` has compared the clip's length with it.
        """
        if sense != "audio" and clip.jump > DAMAGED:
            return (
                f"two frames in a row differ by {clip.jump:.0f} gray levels on average: pictures are damaged, and words may be "
                f"wrong. Copy the clip again, or use its sound alone."
            )
        if clip.sentence is not None:
            return None
        shortest, (_, ends) = self.config.timing.shortest, clip.sound(self.config.rate)
        seen, heard = float(2 * clip.time[-1] - clip.time[-2]), ends[-1] if len(ends) else 0
        for used, kind, end in (("video", "frames", seen), ("audio", "sound", heard)):
            if sense in (used, "both") and end < shortest:
                return (
                    f"six words last at least {shortest:.0f} ms, got {end:.0f} ms of {kind}: words may be missing. Copy or "
                    f"record the whole sentence."
                )
        if spoken is not None and (least := float(np.diff(spoken.spans).min())) < SHORTEST_WORD:
            return (
                f"words last at least {SHORTEST_WORD:.0f} ms, got one of {least:.0f} ms: the sentence may be cut off, and words "
                f"may be wrong. Copy or record the whole sentence."
            )
        return None

    @torch.no_grad()
    def follow(self, clip: Clip, sense: Sense = "both") -> Followed:
        """Return the outputs of the network at each step of the timeline."""
        check.choice("sense", sense, SENSES)
        fused = self.network.fusion(samples_of(clip, self.config.rate, self.config.scaling, sense))
        words = self.network.linear(fused.output[:, 0]).log_softmax(-1)
        return Followed(words.double().numpy(), fused.timeline.time[:, 0].double().numpy())
