"""A lip reader as a folder, with its model card. `phased.model_folder` writes and reads it."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from phased.model_folder import Kind, card_of, filled, listed, trained
from phased.parameters import is_of_time
from phased_lab.lipreader.network import Config


def card(config: Config) -> str:
    """Return the model card in Markdown: network, training, scores and limits."""
    video, audio, merged = config.units
    about = config.about
    network = (
        f"A network that recognises the six words of a sentence of GRID (Cooke et al. 2006) from a clip of the speaker: three "
        f"convolutions on the face, {video} phased LSTM units at its frames, {audio} units at the rows of sound "
        f"({config.rate} a second), and {config.layers} merged layers of {merged} units above both. "
        f"Layers compute open units only. `phased lipread CLIP` uses it."
    )
    rows = [f"| {name} | {100 * score:.1f} % |" for name, score in about.scores.items()]
    clips = f"{len(about.tested):,} clips" if about.tested else "clips"
    names = "; `tested` in `config.json` has their names:" if about.tested else ":"
    told = f"On {clips} that were not used in training{names}"
    scores = ["## Scores", told, "\n".join(["| | correct |", "|---|---|", *rows])] if rows else []
    limits = listed(
        "It was trained on few speakers, and has been tested on no others.",
        "It knows GRID's 51 words in GRID's order, and answers with six of them for any clip.",
        "The face must be seen from the front.",
        "Parameters are stored in half precision; the scores are of the stored ones.",
    )
    licence = "GRID is the work of its authors. Keep this notice with the model."
    return card_of("Lip reader", filled(network), *trained(about), *scores, "## Limits", limits, licence)


SHIPPED = Path(__file__).parent / "grid"


def in_half(name: str, value: Tensor) -> torch.dtype:
    """Return the dtype of a parameter in the file. Period, shift and open ratio keep their precision."""
    return torch.float16 if value.dtype == torch.float32 and not is_of_time(name.rpartition(".")[2]) else value.dtype


KIND = Kind("phased lip reader", version=1, config=Config, card=card, stored=in_half)
