"""The model card of a lip reader."""

from __future__ import annotations

from textwrap import fill

from phased_lab.lipreader.config import Config


def card(config: Config) -> str:
    """Markdown that says what the model is, how it was trained, how good it is, and what it cannot do."""
    video, audio, merged = config.units
    about = config.about
    network = (
        f"A network that recognises the six words of a sentence of GRID (Cooke et al. 2006) from a clip of the speaker: three "
        f"convolutions on the face, {video} phased LSTM units at its frames, {audio} units at the rows of sound "
        f"({config.rate} a second), and {config.layers} merged layers of {merged} units above both. "
        f"Layers compute open units only. `phased lipread CLIP` uses it."
    )
    parts = ["# Lip reader", wrapped(network), "## Training", wrapped(about.data or "Not recorded.")]
    if about.command:
        parts.append(f"```\n{about.command}\n```")
    versions = ", ".join(f"{name} {version}" for name, version in about.versions.items())
    parts.append(wrapped(", ".join(filter(None, (about.date, versions))) + "."))
    if about.scores:
        rows = [f"| {name} | {100 * score:.1f} % |" for name, score in about.scores.items()]
        parts += ["## Scores", on_what(len(about.tested)), "\n".join(["| | correct |", "|---|---|", *rows])]
    limits = (
        "- It was trained on few speakers, and has been tested on no others.",
        "- It knows GRID's 51 words in GRID's order, and answers with six of them for any clip.",
        "- The face must be seen from the front.",
        "- Parameters are stored in half precision; the scores are of the stored ones.",
    )
    parts += ["## Limits", "\n".join(limits), wrapped("GRID is the work of its authors. Keep this notice with the model.")]
    return "\n\n".join(parts) + "\n"


def on_what(clips: int) -> str:
    """What the scores are of."""
    if not clips:
        return "On clips that were not used in training:"
    return f"On {clips:,} clips that were not used in training; `tested` in `config.json` has their names:"


def wrapped(text: str) -> str:
    """Text in lines of 140 columns."""
    return fill(text, 140, break_long_words=False, break_on_hyphens=False)
