"""The command `phased classify`: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from phased.cli.errors import need
from phased.cli.options import Lines, SkipBad, named, path

Events = Annotated[
    list[Path],
    typer.Argument(metavar="RECORDING...", help="Event files, or folders with event files.", show_default=False, parser=named),
]
Model = Annotated[
    Path | None, path("--model", metavar="FOLDER", help="The model. Default: the one for N-MNIST that comes with phased.")
]
Picture = Annotated[
    Path | None,
    path("--picture", metavar="FILE", help="Draw the events and the confidence of one recording: .png, .svg or .pdf."),
]
Corner = Annotated[
    str | None,
    typer.Option("--crop", metavar="X,Y", help="Classify the window of the model's size with its upper left corner at X,Y."),
]
SensorSize = Annotated[
    str | None, typer.Option("--sensor", metavar="W,H", help="Size of the camera in pixels, for files that do not contain it.")
]
Replay = Annotated[bool, typer.Option("--replay", help="Take the events at the pace at which they were recorded.")]


def classify(
    recordings: Events,
    model: Model = None,
    json: Lines = False,
    skip_bad: SkipBad = False,
    picture: Picture = None,
    crop: Corner = None,
    sensor: SensorSize = None,
    replay: Replay = False,
) -> None:
    """Classify recordings of an event camera, event by event, on one core."""
    if picture is not None:
        need("matplotlib", "figures")
    from phased.classifier import Classifier
    from phased.classifier.folder import SHIPPED
    from phased.cli.answers import run
    from phased.cli.classify import Recordings

    options: dict[str, Any] = {"json": json, "skip_bad": skip_bad, "replay": replay}
    options |= {"sensor": pair("--sensor", sensor), "corner": pair("--crop", crop)}
    run(Recordings, lambda: Classifier.load(model), recordings, picture, [model or SHIPPED], **options)


def pair(option: str, value: str | None) -> tuple[int, int] | None:
    """Two whole numbers from an option such as "10,20"."""
    if value is None:
        return None
    first, comma, second = value.partition(",")
    if not (comma and first.strip().isdecimal() and second.strip().isdecimal()):
        raise typer.BadParameter(f"it must be two whole numbers, such as 10,20, got '{value}'.", param_hint=option)
    return int(first), int(second)
