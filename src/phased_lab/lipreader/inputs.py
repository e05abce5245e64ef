"""What a network of lip reading receives: standardised pictures and MFCCs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from phased.learn.batch import Samples
from phased_lab.clips import Clip, Clips
from phased_lab.clips.decoding import SENSES, Sense

__all__ = ["SENSES", "Scaling", "Sense", "samples_of", "standardised"]

MIDDLE, SPAN = 110.0, 60.0  # gray levels: about the mean and the standard deviation of faces


def standardised(frames: Tensor) -> Tensor:
    """Pictures of mean 0 and deviation 1, about, from gray levels."""
    return (frames.float() - MIDDLE) / SPAN


@dataclass(frozen=True, eq=False)
class Scaling:
    """Mean and standard deviation of each MFCC and difference, (39,) float32."""

    mean: Tensor
    deviation: Tensor

    @classmethod
    def of(cls, clips: Clips, rows: Tensor) -> Scaling:
        """Measured on some clips; a coefficient that never varies is not divided."""
        audio = clips.sound.rows(rows).arrays["x"].double()
        deviation = audio.std(0)
        return cls(audio.mean(0).float(), torch.where(deviation > 0, deviation, 1.0).float())

    def __call__(self, audio: Tensor) -> Tensor:
        """Standardised rows (..., 39)."""
        return (audio - self.mean.to(audio.device)) / self.deviation.to(audio.device)


def samples_of(clip: Clip, rate: int, scaling: Scaling, sense: Sense = "both") -> dict[str, Samples]:
    """The samples of a clip, a batch of one sequence; what is not sensed is zero.

    Pictures are (F, 1, 1, 48, 48), rows of sound (M, 1, 39), times (F, 1) and (M, 1) in ms.
    """
    sound, heard = map(torch.from_numpy, clip.sound(rate))
    pictures = standardised(torch.from_numpy(clip.frames)).view(len(clip.frames), 1, 1, *clip.frames.shape[1:])
    rows = scaling(sound).unsqueeze(1)
    video = Samples(pictures, torch.from_numpy(clip.time).unsqueeze(1), torch.tensor([len(pictures)]))
    audio = Samples(rows, heard.unsqueeze(1), torch.tensor([len(rows)]))
    if sense == "video":
        audio = audio._replace(x=torch.zeros_like(rows))
    if sense == "audio":
        video = video._replace(x=torch.zeros_like(pictures))
    return {"video": video, "audio": audio}
