"""A classifier as a folder, with its model card. `phased.model_folder` writes and reads it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from phased.classifier.network import Config, Score
from phased.model_folder import Kind, card_of, filled, listed, trained

LICENCE = (
    "MNIST and N-MNIST (Orchard et al. 2015, CC BY-SA 4.0) are the work of their authors. Keep this notice with the model and "
    "with results obtained from it."
)


def card(config: Config) -> str:
    """Return the model card in Markdown: network, training, scores and limits."""
    sizes, about = config.sizes, config.about
    width, height = sizes.sensor
    layers = "one layer" if sizes.layers == 1 else f"{sizes.layers} layers"
    units = f"{layers} of {sizes.units} phased {sizes.cell.upper()} units ({sizes.gate} gate)"
    what = (
        f"A network that classifies recordings of an event camera of {width} x {height} pixels, event by event: an embedding of "
        f"the pixel in {sizes.embedding} dimensions and the polarity, {units}, and a linear layer with {len(config.classes)} "
        f"outputs: {', '.join(config.classes)}. An event updates open units only."
    )
    return card_of(
        "Event classifier",
        filled(what),
        *trained(about),
        "## Scores",
        *scores(about.scores),
        "## Limits",
        limits(config),
        filled(LICENCE),
    )


def scores(found: Iterable[Score]) -> list[str]:
    """Scores on recordings of a camera and on simulated ones, in separate tables."""
    found = list(found)
    parts = []
    for heading, simulated in (("Recorded by a camera", False), ("Simulated from images", True)):
        rows = [f"| {s.about} | {s.recordings:,} | {s.accuracy:.2%} |" for s in found if s.simulated == simulated]
        if rows:
            parts.append("\n".join([f"| {heading} | recordings | correct |", "|---|---|---|", *rows]))
    return parts or ["None were measured."]


def limits(config: Config) -> str:
    """Return the section about limits."""
    width, height = config.sizes.sensor
    longest = config.about.longest
    lines = [
        f"It reads {width} x {height} pixels. A window of that size can be taken from a larger sensor; nothing is scaled.",
        "It answers with one of its classes for any recording, also for one that shows none of them.",
        "Times count from the beginning of a recording: the gates open by the clock, and the camera moved by it in training.",
    ]
    if longest is not None:
        lines.append(f"Its accuracy was measured on recordings of up to {longest:g} ms. Longer ones can be read.")
    return listed(*lines)


SHIPPED = Path(__file__).parent / "nmnist"
KIND = Kind("phased event classifier", version=1, config=Config, card=card)
